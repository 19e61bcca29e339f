""" "Is it me?": whether one node is at fault, something that several share, or our own view of them.

Silence is measured on our own clock (`ClusterState.heartbeats`): a node whose clock is wrong is not silent.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from healer.cluster import health
from healer.model.cluster import ClusterState, Node

LEAST_FOR_A_SHARE: Final = 2
"""One node is never an outage of what it shares with others."""
MISSED_SECONDS: Final = 11.0
"""A node that has not been heard of for so long has missed a renewal: kubelets renew every 10 s."""
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
SHARED: Final[Mapping[str, Callable[[Node], str]]] = {
    "zone": lambda node: node.zone,
    "pool": lambda node: node.pool,
    "kubelet version": lambda node: node.kubelet_version,
    "instance type": lambda node: node.labels.get(INSTANCE_TYPE_LABEL, ""),
}
"""What nodes may have in common, and with it a cause."""


class Fault(enum.StrEnum):
    """Where the fault lies. Only a node's own fault is mended by doing something to the node."""

    NODE = "node fault"
    ZONE = "zone fault"
    VANTAGE = "vantage fault"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Percentages of nodes, and seconds on our monotonic clock; what they mean stands in `safety.state.SafetySettings`."""

    zone_outage_percent: float = 55.0
    vantage_percent: float = 55.0
    silent_after_seconds: float = 15.0
    settle_seconds: float = 25.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Where the fault lies, in a sentence with the numbers. `again_seconds`: when an unknown one will be known."""

    fault: Fault
    detail: str
    again_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """The nodes of a zone and the bad ones among them. A zone without a name holds what carries no zone label."""

    name: str
    bad: tuple[str, ...]
    total: int

    @property
    def percent(self) -> float:
        return 100.0 * len(self.bad) / self.total if self.total else 0.0

    def is_out(self, percent: float) -> bool:
        return len(self.bad) >= LEAST_FOR_A_SHARE and self.percent >= percent


def silent_seconds(state: ClusterState, name: str, now: float) -> float:
    """For how long we have seen no sign of life; 0 where we have never looked."""
    heartbeat = state.heartbeats.get(name)
    return max(0.0, now - heartbeat) if heartbeat is not None else 0.0


def is_silent(state: ClusterState, node: Node, now: float, after_seconds: float) -> bool:
    """Nothing comes from it: by our own clock, or by the judgement of the cluster's node controller."""
    return node.condition("Ready") == "Unknown" or silent_seconds(state, node.name, now) > after_seconds


def is_bad(state: ClusterState, node: Node, now: float, after_seconds: float) -> bool:
    return not health.is_node_healthy(node) or is_silent(state, node, now, after_seconds)


def bad_nodes(state: ClusterState, now: float, after_seconds: float) -> tuple[Node, ...]:
    return tuple(node for node in state.nodes.values() if is_bad(state, node, now, after_seconds))


def zone_of(state: ClusterState, name: str, now: float, after_seconds: float) -> Zone:
    members = [node for node in state.nodes.values() if node.zone == name]
    bad = tuple(sorted(node.name for node in members if is_bad(state, node, now, after_seconds)))
    return Zone(name=name, bad=bad, total=len(members))


def vantage(state: ClusterState, now: float, limits: Thresholds) -> str:
    """Why our view, rather than the nodes, must be suspected; empty when it need not.

    Many nodes silent at once, and not just one zone of several: machines do not die like that, networks do.
    """
    nodes = tuple(state.nodes.values())
    silent = [node for node in nodes if is_silent(state, node, now, limits.silent_after_seconds)]
    if len(silent) < LEAST_FOR_A_SHARE or 100.0 * len(silent) < limits.vantage_percent * len(nodes):
        return ""
    zones = {node.zone for node in nodes}
    silent_zones = {node.zone for node in silent}
    if len(silent_zones) == 1 and len(zones) > 1 and "" not in silent_zones:
        return ""
    return (
        f"{len(silent)} of {len(nodes)} nodes in {len(silent_zones)} of {len(zones)} zones are silent at once"
        f" (the limit is {limits.vantage_percent:g}%): rather our view of them is broken than all of them"
    )


def unsettled(state: ClusterState, node: Node, now: float, limits: Thresholds) -> float:
    """Seconds until it is sure to show whether others fell silent together with `node`; 0 when it shows already.

    Kubelets renew every 10 s, each in its own phase: only `silent_after` and one renewal later are all seen.
    """
    silent = silent_seconds(state, node.name, now)
    if node.condition("Ready") == "Unknown" or silent <= MISSED_SECONDS:
        return 0.0
    return max(0.0, limits.settle_seconds - silent)


def diagnose(state: ClusterState, node: Node, now: float, limits: Thresholds) -> Diagnosis:
    """Where the fault of `node` lies. `now` is monotonic."""
    if sentence := vantage(state, now, limits):
        return Diagnosis(fault=Fault.VANTAGE, detail=sentence)
    if left := unsettled(state, node, now, limits):
        silent = silent_seconds(state, node.name, now)
        detail = (
            f"{node.name} has been silent for {silent:.0f} s; whether others fell silent with it"
            f" is certain after {limits.settle_seconds:g} s"
        )
        return Diagnosis(fault=Fault.UNKNOWN, detail=detail, again_seconds=left)
    zone = zone_of(state, node.zone, now, limits.silent_after_seconds)
    if zone.name and zone.is_out(limits.zone_outage_percent):
        detail = (
            f"{len(zone.bad)} of {zone.total} nodes of zone {zone.name} are bad"
            f" (the limit is {limits.zone_outage_percent:g}%): the zone is out, not the node"
        )
        return Diagnosis(fault=Fault.ZONE, detail=detail)
    bad = bad_nodes(state, now, limits.silent_after_seconds)
    detail = f"{len(bad)} of {len(state.nodes)} nodes are bad"
    if zone.name:
        detail += f", {len(zone.bad)} of {zone.total} in zone {zone.name}"
    return Diagnosis(fault=Fault.NODE, detail=detail)


def in_common(state: ClusterState, bad: Iterable[Node]) -> str:
    """What the bad nodes share and hardly any healthy one has, as a hint to a person; empty when nothing stands out."""
    ill = tuple(bad)
    if len(ill) < LEAST_FOR_A_SHARE:
        return ""
    hints = []
    for name, value_of in SHARED.items():
        values = {value_of(node) for node in ill}
        if len(values) != 1 or "" in values:
            continue
        value = values.pop()
        having = sum(1 for node in state.nodes.values() if value_of(node) == value)
        if having < len(state.nodes) and 2 * len(ill) > having:
            hints.append(f"{name} {value} ({len(ill)} of the {having} that have it)")
    return "they have in common: " + ", ".join(hints) if hints else ""
