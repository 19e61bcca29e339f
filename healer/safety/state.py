"""What guards may know: what is asked for, what is under way, and the rules of the house. Frozen values, no clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from healer.cluster import census
from healer.cluster.census import Census
from healer.cluster.domains import Thresholds
from healer.model.cluster import ClusterState
from healer.model.decisions import Moment
from healer.model.matchers import Matcher
from healer.model.plans import Effect, Plan, Remedy, Share
from healer.model.targets import Level, ObjectRef

HARMLESS: Final = frozenset({Effect.NONE, Effect.UNCORDON})
"""Effects that take nothing away from anybody."""
VIEW: Final = ""
"""In place of a zone: our view of a whole cluster."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """One operation of ours, under way or of the last day. `started` and `ended` are seconds on our monotonic clock.

    `ended` is None until it is settled: failed for good, or its cure verified. `ok` is None until then.
    `zone` and `pool` are those of the node that is, or carries, the target; empty for a workload.
    """

    operation: str
    remedy: str
    target: ObjectRef
    owner: ObjectRef
    cluster: str
    incident: str = ""
    zone: str = ""
    pool: str = ""
    attempt: int = 1
    started: float
    ended: float | None = None
    ok: bool | None = None

    @property
    def in_flight(self) -> bool:
        return self.ended is None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveWindow:
    """A maintenance window that is open now, until `until` (wall time). Without matchers it holds everything back.

    `matchers` are over cluster, kind, namespace, name, zone, pool and remedy of what is asked for.
    """

    name: str
    until: datetime
    matchers: tuple[Matcher, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SafetySettings:
    """The limits of the whole fleet. A remedy's own limits can only be narrower."""

    max_unhealthy: Share = dataclasses.field(default_factory=lambda: Share(percent=20.0))
    """Above so many nodes that are unhealthy or in our hands, of a pool and of a cluster, nothing new is started.

    In integers: max(1, floor(share x nodes)), and for two nodes or more never all of them.
    """
    max_in_flight: int = 1
    """Nodes in our hands at once, in one cluster."""
    max_in_flight_all_clusters: int | None = None
    """… in all of them together; None for any number."""
    max_in_flight_per_zone: int = 1
    max_in_flight_workloads: int = 10
    """Pods and workloads in our hands at once, in one cluster."""
    zone_outage_percent: float = 55.0
    """From this share of bad nodes (at least two) a zone is taken to be out, which no repair of a node mends."""
    zone_outage_max: int = 0
    """Nodes of such a zone that may be in our hands at once."""
    vantage_percent: float = 55.0
    """From this share of silent nodes, in more than one zone, it is rather our view that is broken."""
    silent_after_seconds: float = 15.0
    """A node is silent when our clock has seen no renewal of its lease for so long; kubelets renew every 10 s."""
    settle_seconds: float = 25.0
    """How long a node must have been silent before others that fell silent with it are sure to show: 0 turns waiting off."""
    stale_after_seconds: float = 60.0
    """The API server may have said nothing for so long before what we know counts as old."""
    grace_after_outage_seconds: float = 60.0
    """How long the API server must have answered without a break before anything new is started: a node's grace period.

    As long must an outage of a zone, or of our view, be over.
    """

    @property
    def thresholds(self) -> Thresholds:
        """What of them is about failure domains."""
        return Thresholds(
            zone_outage_percent=self.zone_outage_percent,
            vantage_percent=self.vantage_percent,
            silent_after_seconds=self.silent_after_seconds,
            settle_seconds=self.settle_seconds,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for. `attempt` counts from 1, within the incident. `zone` and `pool` as in `Disruption`."""

    remedy: Remedy
    plan: Plan
    owner: ObjectRef
    cluster: ClusterState
    incident: str = ""
    zone: str = ""
    pool: str = ""
    attempt: int = 1
    approved_by_person: bool = False

    @property
    def target(self) -> ObjectRef:
        return self.plan.target

    @property
    def is_node(self) -> bool:
        return self.target.level is Level.NODE

    @property
    def disrupts(self) -> bool:
        """False for what only takes back or helps: a plan whose every effect is harmless."""
        return any(touched.effect not in HARMLESS for touched in self.plan.touches)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything else. `paused`: who paused and why, or empty. `self_node`, `self_namespace`: where Healer itself runs.

    `self_cluster` empty: a node or namespace of that name is protected in every cluster.
    """

    paused: str = ""
    disruptions: tuple[Disruption, ...] = ()
    self_cluster: str = ""
    self_node: str = ""
    self_namespace: str = ""
    protected_namespaces: frozenset[str] = frozenset()
    settings: SafetySettings = dataclasses.field(default_factory=SafetySettings)
    windows: tuple[ActiveWindow, ...] = ()
    states: Mapping[str, ClusterState] = dataclasses.field(default_factory=dict)
    outages: Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    """(cluster, zone or VIEW) → monotonic time at which it was last seen to be out."""
    censuses: Mapping[str, Census] = dataclasses.field(default_factory=dict)
    """The counts of this very moment, by cluster, where somebody has taken them already."""

    def census(self, state: ClusterState, now: Moment) -> Census:
        """The counts of a cluster."""
        return self.censuses.get(state.name) or census.take(state, now.monotonic, self.settings.thresholds)

    def in_flight(self, cluster: str) -> tuple[Disruption, ...]:
        """What is under way in a cluster."""
        return tuple(d for d in self.disruptions if d.in_flight and d.cluster == cluster)
