"""What draining a node would do to each of its pods, and every reason why it cannot be done.

The order of questions is that of `kubectl drain`; unlike it, every reason is reported, not just the last, and budgets
are looked at before anything is touched.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Final

from healer.cluster import health
from healer.model.cluster import Budget, ClusterState, Pod
from healer.model.decisions import Reason
from healer.model.plans import Blocked

CRITICAL_PRIORITY: Final = 2_000_000_000
"""From here on pods are critical for the cluster or the node, and leave last."""


class Fate(enum.StrEnum):
    EVICT = "evict"
    LEAVING = "leaving"
    """Being deleted already: not asked again, but waited for."""
    STAY = "stay"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a person has allowed: losing what lies in local volumes, and pods that nobody makes anew."""

    delete_local_data: bool = False
    force: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """What happens to one pod. `note` says why, for people; `tier`: lower ones leave first.

    `delay`: what would hold it up now. `deadlock`: what will hold it up for ever, as its budget stands.
    `blocked`: why it must not be evicted at all.
    """

    pod: Pod
    fate: Fate
    note: str = ""
    tier: int = 0
    delay: str = ""
    deadlock: Blocked | None = None
    blocked: tuple[Blocked, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """Pods in the order in which they leave, and all that stands in the way."""

    node_name: str
    pods: tuple[PodPlan, ...]

    @property
    def forbidden(self) -> tuple[Blocked, ...]:
        """Why nothing may be evicted, now or later, as things stand."""
        return tuple(blocked for plan in self.pods for blocked in plan.blocked)

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        """Why it should not be begun: what is forbidden, and what would never end."""
        return (*self.forbidden, *(plan.deadlock for plan in self.pods if plan.deadlock))

    def of(self, fate: Fate) -> tuple[PodPlan, ...]:
        return tuple(plan for plan in self.pods if plan.fate is fate)


def plan_drain(state: ClusterState, node_name: str, rules: Rules) -> DrainPlan:
    node = state.nodes.get(node_name)
    alive = node is not None and node.ready
    plans = [plan_pod(state, pod, rules, alive=alive) for pod in state.pods_on(node_name)]
    return DrainPlan(node_name=node_name, pods=tuple(sorted(plans, key=_order)))


def _order(plan: PodPlan) -> tuple[int, int, str, str]:
    return (plan.tier, plan.pod.priority, plan.pod.ref.namespace, plan.pod.ref.name)


def plan_pod(state: ClusterState, pod: Pod, rules: Rules, *, alive: bool) -> PodPlan:
    """`alive`: its node is Ready. From a dead one the pods are lost already, whatever their budgets say."""
    if note := _stays(state, pod):
        return PodPlan(pod=pod, fate=Fate.STAY, note=note)
    tier = int(pod.priority >= CRITICAL_PRIORITY)
    if pod.deleting_since is not None:
        finalizers = f"; finalizers: {', '.join(pod.finalizers)}" if pod.finalizers else ""
        return PodPlan(pod=pod, fate=Fate.LEAVING, note=f"it is being deleted already{finalizers}", tier=tier)
    notes: list[str] = []
    blocked: list[Blocked] = []
    if pod.local_volumes:
        volumes = ", ".join(pod.local_volumes)
        if rules.delete_local_data:
            notes.append(f"what lies in {volumes} is lost")
        else:
            blocked.append(_infeasible(pod, f"has local data in {volumes}; delete_local_data: true would lose it"))
    if pod.owner is None:
        if rules.force:
            notes.append("nobody makes it anew")
        else:
            blocked.append(_infeasible(pod, "has no controller that would make it anew; force: true would lose it"))
    budgets = _consulted(state, pod)
    delay, deadlock = "", None
    if len(budgets) > 1:
        names = " and ".join(sorted(f"{b.ref.namespace}/{b.ref.name}" for b in budgets))
        detail = f"{pod.ref} is covered by the disruption budgets {names}, and with more than one the API refuses"
        blocked.append(Blocked(reason=Reason.MULTIPLE_BUDGETS, detail=f"{detail} every eviction; narrow one of them"))
    elif budgets:
        delay = forecast(budgets[0], pod)
        if alive and (why := never(budgets[0], pod)):
            deadlock = _infeasible(pod, why)
    return PodPlan(
        pod=pod,
        fate=Fate.EVICT,
        note="; ".join(notes),
        tier=tier,
        delay=delay,
        deadlock=deadlock,
        blocked=tuple(blocked),
    )


def _stays(state: ClusterState, pod: Pod) -> str:
    """Why a pod is left where it is; empty when it has to go."""
    if pod.is_mirror:
        return "static pod: only the kubelet can end it"
    if pod.is_finished:
        return f"has finished ({pod.phase})"
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        known = ("DaemonSet", pod.ref.namespace, pod.owner.name) in state.workloads
        return f"DaemonSet {pod.owner.name}" + ("" if known else " (which is not known here)")
    return ""


def _infeasible(pod: Pod, why: str) -> Blocked:
    return Blocked(reason=Reason.INFEASIBLE, detail=f"{pod.ref} {why}")


def _consulted(state: ClusterState, pod: Pod) -> tuple[Budget, ...]:
    """The budgets that an eviction asks: none for a pod that has not started yet."""
    return () if pod.phase == "Pending" else state.budgets_of(pod)


def forecast(budget: Budget, pod: Pod) -> str:
    """Why an eviction would be refused now, by the rules of the eviction API; empty when it would be granted."""
    name = f"{budget.ref.namespace}/{budget.ref.name}"
    if not pod.ready:
        if budget.always_allow_unhealthy:
            return ""
        if budget.desired_healthy > 0 and budget.current_healthy >= budget.desired_healthy:
            return ""
        if budget.disruptions_allowed <= 0:
            return (
                f"budget {name} lets a pod that is not Ready go only while {budget.desired_healthy} others are healthy,"
                f" and {budget.current_healthy} are"
            )
    if budget.observed_generation < budget.generation:
        return f"budget {name} has changed and its controller has not counted anew"
    if budget.disruptions_allowed <= 0:
        return f"budget {name} allows no disruption now ({budget.current_healthy} healthy, {budget.desired_healthy} wanted)"
    return ""


def never(budget: Budget, pod: Pod) -> str:
    """Why waiting will not help: the budget wants all the pods that there are meant to be. Empty when it may help."""
    if budget.observed_generation < budget.generation or budget.disruptions_allowed > 0 or budget.expected_pods <= 0:
        return ""
    if budget.desired_healthy < budget.expected_pods or (not pod.ready and budget.always_allow_unhealthy):
        return ""
    name = f"{budget.ref.namespace}/{budget.ref.name}"
    return (
        f"can never be evicted: budget {name} wants {budget.desired_healthy} of {budget.expected_pods} pods healthy;"
        " let it allow one disruption, or add a replica"
    )


def summary(plan: DrainPlan) -> str:
    """One line for people: how many leave, how many stay and why."""
    leaving = len(plan.of(Fate.EVICT))
    text = f"evict {leaving} pod{'' if leaving == 1 else 's'} from {plan.node_name}"
    rest = [f"{len(plan.of(Fate.LEAVING))} already leaving"] if plan.of(Fate.LEAVING) else []
    rest += [f"{count} {kind}" for kind, count in _kinds(plan.of(Fate.STAY)) if count]
    return f"{text} ({', '.join(rest)})" if rest else text


def _kinds(stay: Iterable[PodPlan]) -> Iterable[tuple[str, int]]:
    pods = [plan.pod for plan in stay]
    mirror = sum(pod.is_mirror for pod in pods)
    finished = sum(pod.is_finished and not pod.is_mirror for pod in pods)
    return (
        ("of DaemonSets stay", len(pods) - mirror - finished),
        ("static stay", mirror),
        ("finished stay", finished),
    )


def capacity_left(state: ClusterState, plan: DrainPlan) -> str:
    """A warning when what leaves asks for more than the other nodes have free, counted as a whole; empty when it fits.

    A count, not a proof: what does not fit as a whole fits nowhere, but what fits may still find no single node.
    """
    others = [n for n in state.nodes.values() if n.name != plan.node_name and health.is_node_usable(n)]
    moving = [p.pod.requests for p in plan.of(Fate.EVICT)]
    used = [pod.requests for node in others for pod in state.pods_on(node.name) if not pod.is_finished]
    cpu = sum(n.allocatable.cpu_millicores for n in others) - sum(r.cpu_millicores for r in used)
    memory = sum(n.allocatable.memory_bytes for n in others) - sum(r.memory_bytes for r in used)
    asked_cpu, asked_memory = sum(r.cpu_millicores for r in moving), sum(r.memory_bytes for r in moving)
    short = []
    if asked_cpu > cpu:
        short.append(f"{asked_cpu} millicores asked for, {max(0, cpu)} free")
    if asked_memory > memory:
        short.append(f"{asked_memory >> 20} MiB asked for, {max(0, memory) >> 20} free")
    return f"the {len(others)} other nodes have too little room: {'; '.join(short)}" if short else ""
