"""Change how many replicas a workload has, within bounds; and take it back only if nobody else has changed it since."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, Strict, model_validator

from healer.actions import steps
from healer.actions.steps import Deadline
from healer.cluster import health
from healer.config.fields import Count, PositiveDuration, Section
from healer.errors import Conflict, NotFound, Retryable
from healer.model.cluster import Autoscaler, ClusterState, Workload
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, StepContext, Verb

CONFLICTS: Final = 5
LOOK_SECONDS: Final = 2.0
Replicas = Annotated[int, Strict(), Field(ge=0)]
Change = Annotated[int, Strict()]


class ScaleSettings(Section):
    """`scale`: change the number of replicas."""

    by: Change | None = Field(None, description="How many more; fewer if negative. Give exactly one of `by` and `to`.")
    to: Replicas | None = Field(None, description="How many there shall be. Give exactly one of `by` and `to`.")
    min: Replicas = Field(
        1, description="Never fewer than this. To scale to none, `min: 0` must be written: it takes everything away."
    )
    max: Count = Field(50, description="Never more than this, so that a mistake does not fill the cluster.")
    timeout: PositiveDuration = Field(timedelta(minutes=5), description="How long it may take until they are Ready.")

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.by is None) == (self.to is None):
            raise ValueError("give exactly one of 'by' and 'to'")
        if self.by == 0:
            raise ValueError("'by: 0' changes nothing; give another number")
        if self.min > self.max:
            raise ValueError(f"'min: {self.min}' is above 'max: {self.max}'")
        if self.to is not None and not self.min <= self.to <= self.max:
            raise ValueError(f"'to: {self.to}' is not between 'min: {self.min}' and 'max: {self.max}'")
        return self


class Scale:
    """Sets the number of replicas."""

    Settings: ClassVar[type[ScaleSettings]] = ScaleSettings
    name: ClassVar[str] = "scale"
    kinds: ClassVar[frozenset[str]] = frozenset({"Deployment", "StatefulSet"})
    verbs: ClassVar[tuple[Verb, ...]] = tuple(
        verb
        for resource in ("deployments", "statefulsets")
        for verb in (
            Verb(group="apps", resource=resource, verb="get"),
            Verb(group="apps", resource=f"{resource}/scale", verb="patch"),
        )
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: ScaleSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        workload = _workload(state, target)
        if workload is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"{target} is gone")
            return Preview(action=self.name, target=target, summary=f"scale {target}", blocked=blocked)
        wanted = self._wanted(workload.replicas)
        change = f"{workload.replicas} → {wanted}"
        summary = f"scale {target} from {workload.replicas} to {wanted} replicas"
        scaler = _scaler(state, target)
        if blocked_ := self._blocked(target, workload.replicas, wanted, scaler):
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked_)
        warning = f"{scaler.ref} governs {target}, and will set it again by its own metrics" if scaler else ""
        return Preview(
            action=self.name,
            target=target,
            summary=summary,
            touches=(Touched(ref=target, effect=Effect.SCALE, note=change),),
            warnings=tuple(filter(None, (warning,))),
        )

    def _wanted(self, current: int) -> int:
        if self.settings.to is not None:
            return self.settings.to
        return max(self.settings.min, min(self.settings.max, current + (self.settings.by or 0)))

    def _blocked(self, target: ObjectRef, current: int, wanted: int, scaler: Autoscaler | None) -> Blocked | None:
        if wanted == current or (self.settings.by is not None and (wanted > current) != (self.settings.by > 0)):
            bounds = f"between min {self.settings.min} and max {self.settings.max}"
            return Blocked(
                reason=Reason.NOTHING_TO_DO,
                detail=f"{target} has {current} replicas; {bounds} there is nothing to change",
            )
        if scaler and not scaler.min_replicas <= wanted <= scaler.max_replicas:
            detail = f"{wanted} replicas are outside {scaler.min_replicas}–{scaler.max_replicas} of {scaler.ref}; change its bounds"
            return Blocked(reason=Reason.INFEASIBLE, detail=detail)
        return None

    async def run(self, context: StepContext) -> None:
        wanted = await self._change(context)
        deadline = await Deadline.begin(context, self.settings.timeout)
        while True:
            context.check()
            workload = _workload(context.state(), context.target)
            if workload is not None and workload.replicas != wanted:
                # The view lags, or somebody has changed it again: the engine's verification tells which.
                fresh = await steps.read_target(context)
                if _replicas(fresh) != wanted:
                    await context.say(f"{context.target} was set to {_replicas(fresh)} by somebody else meanwhile")
                    return
            elif workload is not None and not health.workload_problems(workload) and workload.current == wanted:
                await context.say(f"{context.target} has {wanted} replicas")
                return
            if deadline.passed:
                seen = f"{workload.ready} of {wanted} are Ready" if workload else "it is gone"
                raise steps.DeadlinePassed(f"scaling {context.target}: {seen}")
            await deadline.wait(LOOK_SECONDS)

    async def _change(self, context: StepContext) -> int:
        """Set it once. From where to where is kept before: `by` counts from what there was at first."""
        for _ in range(CONFLICTS):
            found = await steps.read_target(context)
            if context.recall("to") is None:
                current = _replicas(found)
                blocked = self._blocked(
                    context.target, current, self._wanted(current), _scaler(context.state(), context.target)
                )
                if blocked:
                    raise steps.CannotBeDone(f"scaling {context.target}: {blocked.detail}")
                await context.remember("from", current)
                await context.remember("to", self._wanted(current))
            wanted = int(context.recall("to"))
            try:
                await self._set(context, f"scale to {wanted}", found, wanted)
            except Conflict:
                continue
            return wanted
        raise Retryable(f"scaling {context.target}: it changed {CONFLICTS} times while we tried")

    async def _set(
        self, context: StepContext, call: str, found: JSON, wanted: int, *, irreversible: bool = True
    ) -> None:
        async def patch(_key: str) -> JSON | None:
            body = {"spec": {"replicas": wanted}}
            version = steps.version_of(found)
            await context.kube.patch(context.target, body, subresource="scale", resource_version=version)
            return None

        async def done() -> bool:
            now = await steps.read(context, context.target)
            return now is not None and _replicas(now) == wanted

        await context.once(call, context.target, patch, steps.settled_when(done), irreversible=irreversible)

    async def verify(self, context: StepContext) -> Finding:
        workload = _workload(context.state(), context.target)
        wanted = context.recall("to")
        if workload is None or wanted is None:
            return Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{context.target} is gone, or was not scaled",))
        problems = health.workload_problems(workload)
        told = f"{context.target} wants {workload.replicas} replicas ({wanted} by us), {workload.ready} are Ready"
        return Finding(verdict=Verdict.NOT_FIXED if problems else Verdict.FIXED, evidence=(told,))

    async def undo(self, context: StepContext) -> None:
        """Set it back to what it was, if it still is what we have set."""
        before, ours = context.recall("from"), context.recall("to")
        for _ in range(CONFLICTS):
            found = await steps.read(context, context.target)
            if found is None or ours is None or _replicas(found) != ours:
                return
            try:
                await self._set(context, f"scale back to {before}", found, int(before), irreversible=False)
            except Conflict:
                continue
            except NotFound:
                return
            await context.say(f"{context.target} is back at {before} replicas")
            return
        raise Retryable(f"scaling {context.target} back: it changed {CONFLICTS} times while we tried")


def _workload(state: ClusterState, target: ObjectRef) -> Workload | None:
    found = state.workloads.get((target.kind, target.namespace, target.name))
    return found if found is not None and found.ref.uid == target.uid else None


def _scaler(state: ClusterState, target: ObjectRef) -> Autoscaler | None:
    return next(
        (
            scaler
            for scaler in state.autoscalers.values()
            if (scaler.ref.namespace, scaler.target_kind, scaler.target_name)
            == (target.namespace, target.kind, target.name)
        ),
        None,
    )


def _replicas(found: JSON) -> int:
    return int(found.get("spec", {}).get("replicas", 1))
