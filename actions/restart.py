"""Restart a pod: delete exactly this one, by its UID, and let its controller make another."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from healer.actions import steps
from healer.actions.steps import Deadline
from healer.cluster import drains, health
from healer.config.fields import Count, Duration, PositiveDuration, Section
from healer.errors import NotFound, TargetGone
from healer.model.cluster import ClusterState, Pod
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, StepContext, Verb


class RestartSettings(Section):
    """`restart`: delete the pod and let its controller make another."""

    grace: Duration | None = Field(
        None, description="How long the pod may take to end. Default: what the pod itself asks for."
    )
    timeout: PositiveDuration = Field(timedelta(minutes=3), description="How long the old pod may take to be gone.")
    max_restarts: Count = Field(
        2,
        description="Up to so many restarts of its containers the new pod counts as healthy: a start may need a second try.",
    )


class Restart:
    """Deletes a pod that its controller will make anew."""

    Settings: ClassVar[type[RestartSettings]] = RestartSettings
    name: ClassVar[str] = "restart"
    kinds: ClassVar[frozenset[str]] = frozenset({"Pod"})
    verbs: ClassVar[tuple[Verb, ...]] = (
        Verb(group="", resource="pods", verb="get"),
        Verb(group="", resource="pods", verb="delete"),
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: RestartSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        pod = state.pods.get((target.namespace, target.name))
        summary = f"delete {target} so that another takes its place"
        if pod is None or pod.ref.uid != target.uid:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"{target} is gone, or another pod bears its name")
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        if why := _cannot(pod):
            blocked = Blocked(reason=Reason.INFEASIBLE, detail=f"{target} {why}")
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        budgets = state.budgets_of(pod) if pod.ready else ()
        return Preview(
            action=self.name,
            target=target,
            summary=summary,
            touches=(Touched(ref=pod.ref, effect=Effect.RESTART, note=f"of {state.owner_of(pod.ref)}"),),
            warnings=tuple(filter(None, (drains.forecast(budget, pod) for budget in budgets))),
            reversible=False,
        )

    async def run(self, context: StepContext) -> None:
        await self._take_note(context)
        await self._delete(context)
        deadline = await Deadline.begin(context, self.settings.timeout)
        while _still_there(context.state(), context.target):
            if deadline.passed:
                seconds = self.settings.timeout.total_seconds()
                raise steps.DeadlinePassed(f"restarting {context.target}: it has not ended after {seconds:g} s")
            await deadline.wait(steps.POLL_SECONDS)

    async def _take_note(self, context: StepContext) -> None:
        """What there was before, to know the new pod by."""
        if context.recall("before") is not None:
            return
        state = context.state()
        pod = state.pods.get((context.target.namespace, context.target.name))
        if pod is None or pod.ref.uid != context.target.uid:
            raise TargetGone(f"restarting {context.target}: it is gone, or another pod bears its name")
        owner = state.owner_of(context.target)
        pods = list(state.pods_of(owner))
        before = {
            "owner": [owner.kind, owner.namespace, owner.name],
            "pods": sorted(p.ref.uid for p in pods),
            "healthy": sum(1 for p in pods if health.is_pod_healthy(p)),
            "was_healthy": health.is_pod_healthy(pod),
        }
        await context.remember("before", before)

    async def _delete(self, context: StepContext) -> None:
        grace = self.settings.grace

        async def delete(_key: str) -> JSON | None:
            await steps.read_target(context)
            await context.kube.delete(
                context.target, grace_seconds=int(grace.total_seconds()) if grace is not None else None
            )
            return None

        async def leaving() -> bool:
            found = await steps.read(context, context.target)
            return found is None or bool(found.get("metadata", {}).get("deletionTimestamp"))

        try:
            await context.once(f"delete {context.target.uid}", context.target, delete, steps.settled_when(leaving))
        except NotFound as error:
            raise TargetGone(str(error)) from error

    async def verify(self, context: StepContext) -> Finding:
        """A pod that is new since then is healthy, and its owner has as many healthy pods as it should."""
        before = context.recall("before")
        if before is None:
            return Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{context.target} was not restarted",))
        state = context.state()
        kind, namespace, name = before["owner"]
        owner = state.find(kind, namespace, name)
        if owner is None:
            return Finding(
                verdict=Verdict.INCONCLUSIVE, evidence=(f"its owner {kind.lower()}/{namespace}/{name} is gone",)
            )
        pods = list(state.pods_of(owner))
        new = [pod for pod in pods if pod.ref.uid not in before["pods"]]
        good = [pod for pod in new if self._is_good(pod)]
        if not good:
            told = "; ".join(
                f"{p.ref}: {', '.join(health.pod_problems(p)) or f'{health.restarts(p)} restarts'}" for p in new
            )
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(told or f"{owner} has no new pod yet",))
        workload = state.workloads.get((kind, namespace, name))
        most = workload.replicas if workload and kind != "Job" else len(pods)
        wanted = min(before["healthy"] + (0 if before["was_healthy"] else 1), most)
        healthy = sum(1 for pod in pods if health.is_pod_healthy(pod))
        told = f"{good[0].ref} is new and Ready; {healthy} pods of {owner} are healthy, {before['healthy']} were before"
        return Finding(verdict=Verdict.FIXED if healthy >= wanted else Verdict.NOT_FIXED, evidence=(told,))

    def _is_good(self, pod: Pod) -> bool:
        return health.is_pod_healthy(pod) and health.restarts(pod) <= self.settings.max_restarts

    async def undo(self, context: StepContext) -> None:
        """A pod that was deleted does not come back; its controller has made another."""


def _cannot(pod: Pod) -> str:
    if pod.is_mirror:
        return "is a static pod: only its kubelet can restart it"
    if pod.owner is None:
        return "has no controller that would make it anew"
    if pod.owner.kind == "Job":
        return "belongs to a Job, which counts it as a failure"
    if pod.deleting_since is not None:
        return "is being deleted already"
    return ""


def _still_there(state: ClusterState, target: ObjectRef) -> bool:
    pod = state.pods.get((target.namespace, target.name))
    return pod is not None and pod.ref.uid == target.uid
