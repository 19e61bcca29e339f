"""Restart all pods of a workload by its own rollout, as `kubectl rollout restart` does: as many at once as it allows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Final

from pydantic import Field

from healer.actions import steps
from healer.actions.steps import Deadline
from healer.cluster import health
from healer.config.fields import PositiveDuration, Section
from healer.errors import Conflict, NotFound, Retryable
from healer.model.cluster import ClusterState, Workload
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, StepContext, Verb

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
CONFLICTS: Final = 5
LOOK_SECONDS: Final = 2.0


class RolloutRestartSettings(Section):
    """`rollout-restart`: make all pods of the workload anew, by its own rules."""

    timeout: PositiveDuration = Field(
        timedelta(minutes=10),
        description="How long the rollout may take. Then the change is taken back, which rolls to where it was.",
    )


class RolloutRestart:
    """Changes an annotation of the pod template, so that every pod is made anew."""

    Settings: ClassVar[type[RolloutRestartSettings]] = RolloutRestartSettings
    name: ClassVar[str] = "rollout-restart"
    kinds: ClassVar[frozenset[str]] = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
    verbs: ClassVar[tuple[Verb, ...]] = tuple(
        Verb(group="apps", resource=resource, verb=verb)
        for resource in ("deployments", "statefulsets", "daemonsets")
        for verb in ("get", "patch")
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: RolloutRestartSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        workload = _workload(state, target)
        summary = f"restart all pods of {target}, step by step"
        blocked = None
        if workload is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"{target} is gone")
        elif workload.paused:
            blocked = Blocked(reason=Reason.INFEASIBLE, detail=f"the rollout of {target} is paused; resume it first")
        if workload is None or blocked:
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        pods = tuple(Touched(ref=pod.ref, effect=Effect.RESTART) for pod in state.pods_of(target))
        left = health.rollout_left(workload)
        return Preview(
            action=self.name,
            target=target,
            summary=summary,
            touches=(Touched(ref=target, effect=Effect.RESTART), *pods),
            warnings=(f"a rollout of {target} is not complete: {left}",) if left else (),
        )

    async def run(self, context: StepContext) -> None:
        generation = await self._change(context)
        deadline = await Deadline.begin(context, self.settings.timeout)
        while True:
            context.check()
            workload = _workload(context.state(), context.target)
            left = "it is not there" if workload is None else _left(workload, generation)
            if not left:
                await context.say(f"{context.target} has rolled out")
                return
            if deadline.passed or (workload is not None and _has_failed(workload, generation)):
                raise steps.DeadlinePassed(f"restarting {context.target}: the rollout does not end: {left}")
            await deadline.wait(LOOK_SECONDS)

    async def _change(self, context: StepContext) -> int:
        """Change the template once; the generation of the object from then on."""
        for _ in range(CONFLICTS):
            found = await steps.read_target(context)
            if found.get("spec", {}).get("updateStrategy", {}).get("type") == "OnDelete":
                raise steps.CannotBeDone(
                    f"restarting {context.target}: its strategy is OnDelete; restart its pods one by one"
                )
            if context.recall("stamp") is None:
                await context.remember("previous", _stamp(found))
                await context.remember("stamp", context.clock.now().isoformat(timespec="seconds"))
            try:
                result = await self._patch(context, "annotate", found, context.recall("stamp"))
            except Conflict:
                continue
            if result is None:
                return _generation(await steps.read_target(context))
            return int(result["generation"])
        raise Retryable(f"restarting {context.target}: it changed {CONFLICTS} times while we tried")

    async def _patch(
        self, context: StepContext, call: str, found: JSON, stamp: str | None, *, irreversible: bool = True
    ) -> JSON | None:
        async def patch(_key: str) -> JSON | None:
            # Without the last annotation the map goes as well: the template is then exactly what it was.
            alone = stamp is None and set(_annotations(found)) == {RESTARTED_AT}
            annotations = None if alone else {RESTARTED_AT: stamp}
            body = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
            changed = await context.kube.patch(context.target, body, resource_version=steps.version_of(found))
            return {"generation": _generation(changed)}

        async def done() -> bool:
            now = await steps.read(context, context.target)
            return now is not None and _stamp(now) == stamp

        return await context.once(call, context.target, patch, steps.settled_when(done), irreversible=irreversible)

    async def verify(self, context: StepContext) -> Finding:
        workload = _workload(context.state(), context.target)
        if workload is None:
            return Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{context.target} is gone",))
        if left := health.rollout_left(workload):
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"{context.target}: {left}",))
        ill = [
            p
            for p in context.state().pods_of(context.target)
            if not health.is_pod_healthy(p) and p.deleting_since is None
        ]
        if ill:
            told = tuple(f"{pod.ref}: {', '.join(health.pod_problems(pod))}" for pod in ill)
            return Finding(verdict=Verdict.NOT_FIXED, evidence=told)
        told_all = f"all {workload.ready} pods of {context.target} are new and Ready"
        return Finding(verdict=Verdict.FIXED, evidence=(told_all,))

    async def undo(self, context: StepContext) -> None:
        """Put the annotation back: the workload rolls to the revision it came from. Not if somebody has changed it since."""
        stamp = context.recall("stamp")
        for _ in range(CONFLICTS):
            found = await steps.read(context, context.target)
            if found is None or stamp is None or _stamp(found) != stamp:
                return
            try:
                await self._patch(context, "restore", found, context.recall("previous"), irreversible=False)
            except Conflict:
                continue
            except NotFound:
                return
            await context.say(f"{context.target} rolls back to where it was")
            return
        raise Retryable(f"restoring {context.target}: it changed {CONFLICTS} times while we tried")


def _workload(state: ClusterState, target: ObjectRef) -> Workload | None:
    found = state.workloads.get((target.kind, target.namespace, target.name))
    return found if found is not None and found.ref.uid == target.uid else None


def _left(workload: Workload, generation: int) -> str:
    if workload.generation < generation:
        return "the change has not reached us yet"
    return health.rollout_left(workload)


def _has_failed(workload: Workload, generation: int) -> bool:
    progressing = workload.conditions.get("Progressing")
    return (
        workload.observed_generation >= generation
        and progressing is not None
        and progressing.reason == "ProgressDeadlineExceeded"
    )


def _annotations(found: JSON) -> dict[str, Any]:
    return found.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations") or {}


def _stamp(found: JSON) -> str | None:
    stamp = _annotations(found).get(RESTARTED_AT)
    return str(stamp) if stamp is not None else None


def _generation(found: JSON) -> int:
    return int(found.get("metadata", {}).get("generation", 0))
