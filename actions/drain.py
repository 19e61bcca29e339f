"""Evict the pods of a node by the rules of `kubectl drain`, and wait until they are gone: accepted is not gone.

Every eviction names the pod's UID, so that a pod made anew under the same name is never hit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final

from pydantic import Field

from healer.actions import steps
from healer.actions.cordon import Cordon, is_cordoned
from healer.actions.steps import Deadline
from healer.cluster import drains
from healer.cluster.drains import DrainPlan, Fate, PodPlan, Rules
from healer.config.fields import Duration, Flag, PositiveDuration, Section
from healer.errors import BudgetBlocked, Conflict, MultipleBudgets, NotFound, Retryable, TakenOver
from healer.model.cluster import ClusterState, Pod
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, StepContext, Verb

LEAST_GAP_SECONDS: Final = 1.0
"""Between two evictions of one pod, whatever the server says."""


class DrainSettings(Section):
    """`drain`: evict the node's pods and wait until they are gone."""

    timeout: PositiveDuration = Field(
        timedelta(minutes=5),
        description="How long it may take. Then it fails, with what is left, and what was done is undone as far as it can be.",
    )
    grace: Duration | None = Field(
        None, description="How long each pod may take to end. Default: what the pod itself asks for."
    )
    delete_local_data: Flag = Field(
        False, description="Also evict pods with emptyDir volumes: what lies in them is lost."
    )
    force: Flag = Field(False, description="Also evict pods that no controller makes anew: they are lost.")
    ignore_unreachable: Flag = Field(
        False,
        description="At the deadline, go on although pods of a node that is not Ready have not ended: nobody there ends them. Nothing is deleted by force.",
    )


@dataclasses.dataclass(slots=True)
class Turn:
    """Where one pod's eviction stands: how often it was asked for, when it may be asked for again (monotonic), and why not."""

    tries: int = 0
    again: float = 0.0
    earliest: float = 0.0
    why: str = ""
    foreseen: bool = False
    """Whether a budget refused it as our view said it would: then our view also tells when it no longer does."""


class Drain:
    """Evicts a node's pods."""

    Settings: ClassVar[type[DrainSettings]] = DrainSettings
    name: ClassVar[str] = "drain"
    kinds: ClassVar[frozenset[str]] = frozenset({"Node"})
    verbs: ClassVar[tuple[Verb, ...]] = (
        Verb(group="", resource="nodes", verb="get"),
        Verb(group="", resource="pods", verb="get"),
        Verb(group="", resource="pods", verb="list"),
        Verb(group="", resource="pods/eviction", verb="create"),
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: DrainSettings) -> None:
        self.settings = settings
        self._rules = Rules(delete_local_data=settings.delete_local_data, force=settings.force)

    # Before ----------------------------------------------------------------------------------------------------------

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        node = state.nodes.get(target.name)
        if node is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"there is no node {target.name!r} any more")
            return Preview(action=self.name, target=target, summary=f"drain {target.name}", blocked=blocked)
        plan = drains.plan_drain(state, target.name, self._rules)
        return Preview(
            action=self.name,
            target=target,
            summary=drains.summary(plan),
            touches=tuple(_touched(pod) for pod in plan.pods),
            warnings=_warnings(plan, state),
            reversible=not plan.of(Fate.EVICT),
            blocked=_in_one(plan.blocked),
        )

    # During ----------------------------------------------------------------------------------------------------------

    async def run(self, context: StepContext) -> None:
        deadline = await Deadline.begin(context, self.settings.timeout)
        await self._take_note(context)
        turns: dict[str, Turn] = {}
        cordoned = False
        while True:
            context.check()
            cordoned = self._still_ours(context, cordoned=cordoned)
            plan = drains.plan_drain(context.state(), context.target.name, self._rules)
            _refuse_forbidden(context, plan)
            try:
                if not _left(plan) and not await self._missed(context, plan):
                    break
                if deadline.passed:
                    self._give_up(context, plan, turns)
                    break
                await self._round(context, plan, turns, deadline)
                pause = self._pause(context, plan, turns)
            except Retryable as error:
                pause = max(LEAST_GAP_SECONDS, error.delay_seconds)
            await deadline.wait(pause)
        await context.say(f"{context.target.name} is drained")

    async def _take_note(self, context: StepContext) -> None:
        """What there was before, to compare with afterwards; and a look whether the cordon before us still stands."""
        if context.recall("ready_before") is None:
            await context.remember("ready_before", self._ready_before(context))
        cordoned_before_us = context.recall_from(Cordon.name, "ours") is not None
        node = await steps.read(context, context.target)
        if node is not None and cordoned_before_us and not is_cordoned(node):
            raise TakenOver(f"draining {context.target}: somebody has uncordoned it")

    def _ready_before(self, context: StepContext) -> dict[str, int]:
        state = context.state()
        owners = {
            state.owner_of(pod.ref)
            for pod in state.pods_on(context.target.name)
            if pod.owner is not None and not pod.is_mirror
        }
        workloads = (state.workloads.get((o.kind, o.namespace, o.name)) for o in owners if o.kind != "DaemonSet")
        return {_key(w.ref): w.ready for w in workloads if w is not None}

    def _still_ours(self, context: StepContext, *, cordoned: bool) -> bool:
        """Whether the node has been seen cordoned. One that no longer is was uncordoned by a person, who is now in charge."""
        node = context.state().nodes.get(context.target.name)
        if node is None:
            return cordoned
        if cordoned and not node.unschedulable:
            raise TakenOver(f"draining {context.target}: somebody has uncordoned it")
        return node.unschedulable

    async def _missed(self, context: StepContext, plan: DrainPlan) -> bool:
        """A last fresh look: whether pods are still there that our view does not show (yet)."""
        known = {planned.pod.ref.uid for planned in plan.of(Fate.STAY)}
        pods = await context.kube.list("Pod", field_selector=f"spec.nodeName={context.target.name}")
        return any(pod.get("metadata", {}).get("uid") not in known for pod in pods)

    async def _round(self, context: StepContext, plan: DrainPlan, turns: dict[str, Turn], deadline: Deadline) -> None:
        """Ask for the eviction of every pod whose turn it is. Critical pods have to wait for the others to be gone."""
        left = _left(plan)
        if not left:
            return
        lowest = min(planned.tier for planned in left)
        due = [planned for planned in left if planned.fate is Fate.EVICT and planned.tier == lowest]
        now = context.clock.monotonic()
        due = [planned for planned in due if _is_due(turns.setdefault(planned.pod.ref.uid, Turn()), planned, now)]
        if due:
            await self._check_node(context)
        for planned in due:
            context.check()
            await self._evict(context, planned, turns[planned.pod.ref.uid], deadline)

    async def _check_node(self, context: StepContext) -> None:
        """Our view may lag: whether somebody has taken the node back is asked afresh before each round of evictions."""
        node = await steps.read(context, context.target)
        seen = context.state().nodes.get(context.target.name)
        if node is not None and seen is not None and seen.unschedulable and not is_cordoned(node):
            raise TakenOver(f"draining {context.target}: somebody has uncordoned it")

    async def _evict(self, context: StepContext, planned: PodPlan, turn: Turn, deadline: Deadline) -> None:
        pod, grace, asked = planned.pod, self.settings.grace, context.clock.monotonic()

        async def evict(_key: str) -> JSON | None:
            deadline.held(since=asked)
            await context.kube.evict(pod.ref, grace_seconds=int(grace.total_seconds()) if grace is not None else None)
            return None

        async def leaving() -> bool:
            found = await steps.read(context, pod.ref)
            return found is None or bool(found.get("metadata", {}).get("deletionTimestamp"))

        turn.tries += 1
        turn.foreseen = False
        call = f"evict {pod.ref.namespace}/{pod.ref.name} {pod.ref.uid}"
        try:
            await context.once(call, pod.ref, evict, steps.settled_when(leaving))
        except NotFound:
            _wait(context, turn, pod, LEAST_GAP_SECONDS, "gone")
        except MultipleBudgets as error:
            raise MultipleBudgets(_two_budgets(context.state(), pod, error)) from error
        except BudgetBlocked as error:
            turn.foreseen = bool(planned.delay)
            _wait(context, turn, pod, error.delay_seconds, "; ".join(error.budgets) or str(error))
            if turn.tries == 1:
                await context.say(f"{pod.ref} has to wait: {turn.why}")
        except Retryable as error:
            _wait(context, turn, pod, error.delay_seconds, str(error))
        except Conflict as error:
            # Another pod bears the name now, which nobody asked for; or this one has just changed, and its turn comes again.
            _wait(context, turn, pod, LEAST_GAP_SECONDS, str(error))
        else:
            _wait(context, turn, pod, steps.LONGEST_BACKOFF_SECONDS, "evicted; it has not ended yet")

    def _pause(self, context: StepContext, plan: DrainPlan, turns: dict[str, Turn]) -> float:
        now = context.clock.monotonic()
        next_turns = [turns[p.pod.ref.uid].again for p in plan.of(Fate.EVICT) if p.pod.ref.uid in turns]
        return min([steps.POLL_SECONDS, *(at - now for at in next_turns if at > now)])

    def _give_up(self, context: StepContext, plan: DrainPlan, turns: dict[str, Turn]) -> None:
        """The deadline has passed. Raises, unless nobody is there who could end what is left, and that is allowed for."""
        node = context.state().nodes.get(context.target.name)
        left = _left(plan)
        unreachable = node is None or not node.ready
        if self.settings.ignore_unreachable and unreachable and all(p.fate is Fate.LEAVING for p in left):
            return
        lines = [f"{p.pod.ref} ({_why_left(p, turns.get(p.pod.ref.uid))})" for p in left]
        shown = "; ".join(lines[:10]) + (f"; and {len(lines) - 10} more" if len(lines) > 10 else "")
        timeout = self.settings.timeout.total_seconds()
        raise steps.DeadlinePassed(
            f"draining {context.target}: {len(left)} pods are left after {timeout:g} s: {shown or 'pods that we cannot see'}"
        )

    # After -----------------------------------------------------------------------------------------------------------

    async def verify(self, context: StepContext) -> Finding:
        """Whether what had to leave is Ready again elsewhere: as many pods of each owner as before."""
        state = context.state()
        before: dict[str, int] = context.recall("ready_before") or {}
        missing = []
        for workload in state.workloads.values():
            wanted = min(before.get(_key(workload.ref), 0), workload.replicas)
            if workload.ready < wanted:
                missing.append(f"{workload.ref}: {workload.ready} pods are Ready, {wanted} were before")
        if missing:
            return Finding(verdict=Verdict.NOT_FIXED, evidence=tuple(missing))
        return Finding(
            verdict=Verdict.FIXED,
            evidence=(f"all {len(before)} workloads of {context.target.name} have as many Ready pods as before",),
        )

    async def undo(self, context: StepContext) -> None:
        """Evicted pods are not brought back: their controllers have made others. The cordon gives the node back."""


def _refuse_forbidden(context: StepContext, plan: DrainPlan) -> None:
    """What was not allowed when it was planned is not allowed later either, whatever has come to the node meanwhile."""
    if blocked := _in_one(plan.forbidden):
        error = MultipleBudgets if blocked.reason is Reason.MULTIPLE_BUDGETS else steps.CannotBeDone
        raise error(f"draining {context.target}: {blocked.detail}")


def _left(plan: DrainPlan) -> tuple[PodPlan, ...]:
    return tuple(planned for planned in plan.pods if planned.fate is not Fate.STAY)


def _is_due(turn: Turn, planned: PodPlan, now: float) -> bool:
    """Its time has come; or the budget that refused it has room again, and the server's own delay is over."""
    return now >= turn.again or (turn.foreseen and not planned.delay and now >= turn.earliest)


def _wait(context: StepContext, turn: Turn, pod: Pod, asked_seconds: float, why: str) -> None:
    now = context.clock.monotonic()
    turn.why = why
    turn.earliest = now + max(LEAST_GAP_SECONDS, asked_seconds)
    turn.again = now + max(LEAST_GAP_SECONDS, asked_seconds, steps.backoff(turn.tries, pod.ref.uid))


def _why_left(planned: PodPlan, turn: Turn | None) -> str:
    if planned.pod.finalizers:
        return f"held by finalizers {', '.join(planned.pod.finalizers)}"
    return turn.why if turn and turn.why else planned.note or planned.delay or "not asked yet"


def _touched(planned: PodPlan) -> Touched:
    effect = Effect.EVICT if planned.fate is Fate.EVICT else Effect.NONE
    return Touched(ref=planned.pod.ref, effect=effect, note="; ".join(filter(None, (planned.note, planned.delay))))


def _warnings(plan: DrainPlan, state: ClusterState) -> tuple[str, ...]:
    leaving = plan.of(Fate.EVICT)
    warnings = [f"{planned.pod.ref}: {planned.note}" for planned in leaving if planned.note]
    warnings += [f"{planned.pod.ref} will have to wait: {planned.delay}" for planned in leaving if planned.delay]
    warnings += [room] if (room := drains.capacity_left(state, plan)) else []
    return tuple(warnings)


def _in_one(blocked: Sequence[Blocked]) -> Blocked | None:
    """Every reason in one, under the name of the one that is hardest to guess."""
    if not blocked:
        return None
    two = [b for b in blocked if b.reason is Reason.MULTIPLE_BUDGETS]
    return Blocked(reason=(two or blocked)[0].reason, detail="; ".join(b.detail for b in blocked))


def _two_budgets(state: ClusterState, pod: Pod, error: MultipleBudgets) -> str:
    names = ", ".join(sorted(f"{b.ref.namespace}/{b.ref.name}" for b in state.budgets_of(pod)))
    return f"{error} (budgets {names})" if names else str(error)


def _key(ref: ObjectRef) -> str:
    return f"{ref.kind}/{ref.namespace}/{ref.name}"
