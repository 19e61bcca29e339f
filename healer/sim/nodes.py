"""The node lifecycle controller: marks silent nodes Unknown, taints them zone by zone, and holds back when it may be its own fault.

It trusts no clock but its own: what counts is when *it* last saw a lease or a status change.
"""

from __future__ import annotations

import dataclasses
import enum
from datetime import datetime, timedelta
from typing import Final

from healer.sim import objects, podstatus
from healer.sim.core import Core
from healer.sim.objects import JSON

PERIOD_SECONDS: Final = 5.0
RATE: Final = 0.1
"""Nodes tainted per second in a zone that is well, or wholly gone; burst 1."""
SLOW_RATE: Final = 0.01
LARGE_ZONE: Final = 50
UNHEALTHY_SHARE: Final = 0.55
SILENT: Final = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
NEVER: Final = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
TYPES: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURE_TAINTS: Final = (
    ("MemoryPressure", objects.MEMORY_PRESSURE),
    ("DiskPressure", objects.DISK_PRESSURE),
    ("PIDPressure", objects.PID_PRESSURE),
)
_MANAGED: Final = frozenset(
    {
        (objects.NOT_READY, "NoSchedule"),
        (objects.UNREACHABLE, "NoSchedule"),
        (objects.UNSCHEDULABLE, "NoSchedule"),
        *((taint, "NoSchedule") for _, taint in _PRESSURE_TAINTS),
    }
)
_EVICTING: Final = (objects.NOT_READY, objects.UNREACHABLE)


class ZoneState(enum.StrEnum):
    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


@dataclasses.dataclass(slots=True, kw_only=True)
class _Health:
    """What it has seen of a node, and when by its own clock."""

    uid: str
    seen_at: datetime
    lease: str = ""
    heartbeat: str = ""
    posted: bool = False
    ready: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Zone:
    """The nodes of a zone that wait for their NoExecute taint, and how fast they get it."""

    state: ZoneState = ZoneState.INITIAL
    rate: float = RATE
    next_at: datetime | None = None
    queue: dict[str, None] = dataclasses.field(default_factory=dict)


class NodeLifecycle:
    """Runs every five seconds, and at once where a node's spec or conditions ask for other NoSchedule taints."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.zones: dict[str, _Zone] = {}
        self._health: dict[str, _Health] = {}
        self._dirty: dict[str, None] = {}
        self._due = core.now
        core.view.hear("nodes", self._heard)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            node = self.core.storage.get("nodes", "", name)
            if node is not None:
                self._taint_by_condition(node)
        if self.core.now >= self._due:
            self._due = self.core.now + timedelta(seconds=PERIOD_SECONDS)
            self._monitor()
        for zone in self.zones.values():
            if zone.queue:
                self._taint_next(zone)

    def _heard(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self._dirty[new["metadata"]["name"]] = None

    # Every five seconds

    def _monitor(self) -> None:
        nodes = {key[1]: node for key, node in self.core.view.nodes.items()}
        for name in [name for name in self._health if name not in nodes]:
            del self._health[name]
            for zone in self.zones.values():
                zone.queue.pop(name, None)
        tallies: dict[str, list[bool]] = {}
        for name, node in nodes.items():
            ready = self._observe(name, node)
            zone_name = _zone(node)
            tallies.setdefault(zone_name, []).append(ready == "True")
            self._queue(name, node, self.zones.setdefault(zone_name, _Zone()), ready)
        for name in [name for name in self.zones if name not in tallies]:
            del self.zones[name]
        self._judge_zones(tallies)

    def _observe(self, name: str, node: JSON) -> str:
        """The node's readiness, after it was marked Unknown if it has been silent too long."""
        uid = objects.uid_of(node)
        health = self._health.get(name)
        if health is None or health.uid != uid:
            health = self._health[name] = _Health(uid=uid, seen_at=self.core.now)
        lease = self.core.view.all["leases"].get((objects.LEASE_NAMESPACE, name))
        renewed = lease["spec"].get("renewTime", "") if lease else ""
        held = objects.condition(node, "Ready")
        heartbeat = held.get("lastHeartbeatTime", "") if held else ""
        if (renewed, heartbeat) != (health.lease, health.heartbeat):
            health.lease, health.heartbeat = renewed, heartbeat
            health.seen_at = self.core.now
            health.posted = True
        options = self.core.options
        grace = options.node_grace_seconds if health.posted else options.node_startup_grace_seconds
        ready = held["status"] if held else "Unknown"
        if (self.core.now - health.seen_at).total_seconds() > grace and (held is None or ready != "Unknown"):
            self._mark_unknown(name, posted=health.posted)
            ready = "Unknown"
        if health.ready == "True" and ready != "True":
            self._mark_pods(name)
            self.core.event(
                node, "Node", "NodeNotReady", f"Node {name} status is now: NodeNotReady", component="node-controller"
            )
            self.core.note(f"node {name} is not ready: Ready={ready}")
        elif health.ready not in ("True", "") and ready == "True":
            self.core.note(f"node {name} is ready again")
        health.ready = ready
        return ready

    def _mark_unknown(self, name: str, *, posted: bool) -> None:
        reason, message = SILENT if posted else NEVER
        at = objects.stamp(self.core.now)

        def change(copy: JSON) -> None:
            for type_ in TYPES:
                objects.set_condition(copy, type_, "Unknown", reason=reason, message=message, at=at)

        self.core.storage.update("nodes", "", name, change, status=True)

    def _mark_pods(self, name: str) -> None:
        for key, pod in list(self.core.view.pods_on[name].items()):
            if objects.is_ready(pod):
                self.core.storage.update(
                    "pods",
                    *key,
                    lambda copy: podstatus.not_ready(copy, self.core.now),
                    uid=objects.uid_of(pod),
                    status=True,
                )

    def _queue(self, name: str, node: JSON, zone: _Zone, ready: str) -> None:
        """Enter the node for its NoExecute taint, swap a wrong one at once, or take both away."""
        wanted = {"True": "", "False": objects.NOT_READY}.get(ready, objects.UNREACHABLE)
        present = [key for key in _EVICTING if objects.has_taint(node, key, "NoExecute")]
        if not wanted:
            zone.queue.pop(name, None)
            if present:
                self._set_evicting(name, "")
        elif not present:
            zone.queue.setdefault(name)
        elif present != [wanted]:
            self._set_evicting(name, wanted)

    def _set_evicting(self, name: str, key: str) -> None:
        at = objects.stamp(self.core.now)

        def change(copy: JSON) -> None:
            others = [t for t in objects.taints_of(copy) if t["key"] not in _EVICTING or t["effect"] != "NoExecute"]
            if key:
                others.append({"key": key, "effect": "NoExecute", "timeAdded": at})
            _put_taints(copy, others)

        self.core.storage.update("nodes", "", name, change)

    # How fast

    def _judge_zones(self, tallies: dict[str, list[bool]]) -> None:
        states = {name: _judge(ready) for name, ready in tallies.items()}
        was_all_full = bool(self.zones) and all(zone.state is ZoneState.FULL for zone in self.zones.values())
        is_all_full = bool(states) and all(state is ZoneState.FULL for state in states.values())
        for name, state in states.items():
            if self.zones[name].state is not state:
                self.core.note(f"zone {name} is now {state.value}")
        if is_all_full and not was_all_full:
            self._hold()
        elif was_all_full and not is_all_full:
            for health in self._health.values():
                health.seen_at = self.core.now
        for name, state in states.items():
            zone = self.zones[name]
            zone.rate = 0.0 if is_all_full else _rate(state, len(tallies[name]))
            zone.state = state

    def _hold(self) -> None:
        """Every zone is gone: more likely it is me. Take all evicting taints away and set none."""
        self.core.note("all zones are disrupted: the node controller evicts nothing")
        for key, node in list(self.core.view.nodes.items()):
            if any(objects.has_taint(node, taint, "NoExecute") for taint in _EVICTING):
                self._set_evicting(key[1], "")

    def _taint_next(self, zone: _Zone) -> None:
        if zone.rate <= 0 or (zone.next_at is not None and self.core.now < zone.next_at):
            return
        name = next(iter(zone.queue))
        del zone.queue[name]
        node = self.core.storage.get("nodes", "", name)
        ready = objects.condition_status(node, "Ready") if node else "True"
        if node is None or ready == "True":
            return
        zone.next_at = self.core.now + timedelta(seconds=1 / zone.rate)
        self._set_evicting(name, objects.NOT_READY if ready == "False" else objects.UNREACHABLE)

    # At once

    def _taint_by_condition(self, node: JSON) -> None:
        """The NoSchedule taints follow the conditions and the cordon, without any rate."""
        wanted = {}
        ready = objects.condition_status(node, "Ready")
        if ready in ("False", ""):
            wanted[objects.NOT_READY] = "NoSchedule"
        elif ready == "Unknown":
            wanted[objects.UNREACHABLE] = "NoSchedule"
        for type_, taint in _PRESSURE_TAINTS:
            if objects.condition_status(node, type_) == "True":
                wanted[taint] = "NoSchedule"
        if node["spec"].get("unschedulable"):
            wanted[objects.UNSCHEDULABLE] = "NoSchedule"
        present = {t["key"] for t in objects.taints_of(node) if (t["key"], t["effect"]) in _MANAGED}
        if present == set(wanted):
            return
        at = objects.stamp(self.core.now)

        def change(copy: JSON) -> None:
            kept = [
                taint
                for taint in objects.taints_of(copy)
                if (taint["key"], taint["effect"]) not in _MANAGED or taint["key"] in wanted
            ]
            kept += [
                {"key": key, "effect": effect, "timeAdded": at} for key, effect in wanted.items() if key not in present
            ]
            _put_taints(copy, kept)

        self.core.storage.update("nodes", "", node["metadata"]["name"], change)


def _put_taints(node: JSON, taints: list[JSON]) -> None:
    if taints:
        node["spec"]["taints"] = taints
    else:
        node["spec"].pop("taints", None)


def _zone(node: JSON) -> str:
    return objects.labels_of(node).get(objects.ZONE, "")


def _judge(ready: list[bool]) -> ZoneState:
    bad = len(ready) - sum(ready)
    if bad == len(ready):
        return ZoneState.FULL
    if bad > 2 and bad / len(ready) >= UNHEALTHY_SHARE:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def _rate(state: ZoneState, size: int) -> float:
    if state is ZoneState.PARTIAL:
        return SLOW_RATE if size > LARGE_ZONE else 0.0
    return RATE
