"""The nodes of a cluster, counted once for everybody who asks about the same moment: which are bad, by pool and by zone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from healer.cluster import domains
from healer.cluster.domains import Thresholds, Zone
from healer.model.cluster import ClusterState


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """`pools`: names of nodes by pool, also those without one (empty). `vantage`: as of `domains.vantage`."""

    nodes: frozenset[str]
    bad: frozenset[str]
    pools: Mapping[str, frozenset[str]]
    zones: Mapping[str, Zone]
    vantage: str


def take(state: ClusterState, now: float, limits: Thresholds) -> Census:
    """Count. `now` is monotonic."""
    bad: set[str] = set()
    pools: dict[str, set[str]] = {}
    zones: dict[str, list[str]] = {}
    for name, node in state.nodes.items():
        if domains.is_bad(state, node, now, limits.silent_after_seconds):
            bad.add(name)
        pools.setdefault(node.pool, set()).add(name)
        zones.setdefault(node.zone, []).append(name)
    return Census(
        nodes=frozenset(state.nodes),
        bad=frozenset(bad),
        pools={pool: frozenset(names) for pool, names in pools.items()},
        zones={
            zone: Zone(name=zone, bad=tuple(sorted(bad.intersection(names))), total=len(names))
            for zone, names in zones.items()
        },
        vantage=domains.vantage(state, now, limits) if bad else "",
    )
