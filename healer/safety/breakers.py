"""Guards that count: how many nodes of a pool and a cluster may be bad or in our hands at once.

The documented integer, for n nodes and a share p: max(1, floor(p x n)), and for two nodes or more never all n.
For 20 % that is 1 of 1 (only where the remedy allows the last node), 1 of 2, 1 of 3, 1 of 4, 1 of 5, 2 of 10.
"""

from __future__ import annotations

import dataclasses

from healer.cluster import domains, health
from healer.model.decisions import GO, Decision, Moment, Reason, refuse
from healer.model.plans import Share
from healer.model.targets import Level
from healer.safety.state import Fleet, Request


def limit_of(share: Share, total: int) -> int:
    """How many of `total` nodes may be bad: the integer that is shown and compared. At least 1, and never all of several."""
    most = max(1, share.floor_of(total))
    return min(most, max(1, total - 1))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The nodes of a scope, by name: all of them, the bad ones, the ones in our hands (the target included)."""

    scope: str
    total: frozenset[str]
    bad: frozenset[str]
    ours: frozenset[str]

    @property
    def out(self) -> frozenset[str]:
        return self.bad | self.ours


def counts(request: Request, fleet: Fleet, now: Moment) -> tuple[Count, ...]:
    """The scopes that matter to a request: for a node its pool and its cluster, else the cluster.

    Counted as it would be once the request is under way. A node of ours that is gone still counts: it is missing.
    """
    census = fleet.census(request.cluster, now)
    ours = {d.target.name: d.pool for d in fleet.in_flight(request.cluster.name) if d.target.level is Level.NODE}
    if request.is_node:
        ours[request.target.name] = request.pool
    cluster = _count(f"cluster {request.cluster.name}", census.nodes, census.bad, frozenset(ours))
    if not request.is_node:
        return (cluster,)
    pool = request.pool
    name = f"pool {pool}" if pool else "the nodes without a pool"
    in_pool = frozenset(node for node, its in ours.items() if its == pool)
    return (_count(name, census.pools.get(pool, frozenset()), census.bad, in_pool), cluster)


def _count(scope: str, members: frozenset[str], bad: frozenset[str], ours: frozenset[str]) -> Count:
    return Count(scope=scope, total=members | ours, bad=members & bad, ours=ours)


def fleet_breaker(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """Past the limit something else is wrong than one node, and each further repair takes capacity away."""
    fine = []
    for found in counts(request, fleet, now):
        limit = limit_of(fleet.settings.max_unhealthy, len(found.total))
        if len(found.out) <= limit:
            fine.append(f"{len(found.out)} of {len(found.total)} nodes of {found.scope}, {limit} is the limit")
            continue
        bad = [request.cluster.nodes[name] for name in sorted(found.bad)]
        hint = domains.in_common(request.cluster, bad)
        detail = (
            f"{len(found.out)} of {len(found.total)} nodes of {found.scope} would be bad or in our hands;"
            f" {limit} is the limit (max(1, floor({fleet.settings.max_unhealthy} of {len(found.total)})))"
        )
        return refuse(Reason.FLEET_BREAKER, f"{detail}; {hint}" if hint else detail)
    return dataclasses.replace(GO, detail=f"bad or in our hands: {'; '.join(fine)}")


def last_node(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """The only node of a pool is touched only where the remedy says so."""
    if not request.is_node or request.remedy.limits.allow_last_node:
        return GO
    pool, _ = counts(request, fleet, now)
    if len(pool.total) > 1:
        return GO
    return refuse(
        Reason.LAST_NODE,
        f"{request.target.name} is the only node of {pool.scope}; allow_last_node: true in the limits of"
        f" {request.remedy.name} would let it be touched",
    )


def min_healthy(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """What the remedy wants to see healthy all the time: nodes of the pool, or pods of the workload."""
    share = request.remedy.limits.min_healthy
    if share is None:
        return GO
    scope, things, left, total = _nodes_left(request, fleet, now) if request.is_node else _pods_left(request)
    least = share.ceil_of(total)
    if left >= least:
        return GO
    return refuse(
        Reason.FLEET_BREAKER,
        f"{left} of {total} {things} of {scope} would be healthy; the least for {request.remedy.name} is {least}"
        f" (ceil({share} of {total}))",
    )


def _nodes_left(request: Request, fleet: Fleet, now: Moment) -> tuple[str, str, int, int]:
    pool, _ = counts(request, fleet, now)
    usable = {
        name
        for name in pool.total - pool.out
        if (node := request.cluster.nodes.get(name)) is not None and health.is_node_usable(node)
    }
    return pool.scope, "nodes", len(usable), len(pool.total)


def _pods_left(request: Request) -> tuple[str, str, int, int]:
    touched = {t.ref.key for t in request.plan.touches if t.ref.kind == "Pod"} | {request.target.key}
    pods = list(request.cluster.pods_of(request.owner))
    workload = request.cluster.workloads.get((request.owner.kind, request.owner.namespace, request.owner.name))
    healthy = sum(1 for pod in pods if pod.ref.key not in touched and health.is_pod_healthy(pod))
    return str(request.owner), "pods", healthy, workload.replicas if workload else len(pods)
