"""From an incident to a decision: which remedy, what it would do, what the guards say, what the mode makes of it.

Synchronous and without I/O: it reads memory, the book and the clusters' state, and answers with events. Nothing has
happened until these are recorded.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Final

from healer.loop.choosing import Choice, choices
from healer.loop.planning import consider, failure_domain, recipe
from healer.loop.records import Approval, Episode, Incident
from healer.loop.situation import Situation
from healer.model import events as ev
from healer.model.decisions import Answer, Decision, Reason, Verdict, refuse
from healer.model.incidents import IncidentState
from healer.model.plans import Mode, Otherwise, Plan, Remedy
from healer.model.targets import Level, ObjectRef

RECHECK_SECONDS: Final = 5.0
RECHECK_MOST_SECONDS: Final = 60.0
OVERRIDABLE: Final = frozenset({Reason.SELF_PROTECTION, Reason.PROTECTED})
"""Refusals that a person may overrule by approving."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """`start`: the operation that begins once the events are recorded. `again`: seconds until it is worth another look."""

    events: list[ev.AnyEvent]
    start: str = ""
    again: float | None = None


def decide(incident: Incident, now: Situation) -> Outcome:
    """What to do about `incident`, which is open or awaiting approval, now."""
    firing = now.memory.firing_of(incident)
    if incident.state is not IncidentState.ESCALATED and (unproven := _unproven(incident, now)):
        return unproven
    if not firing:
        left = _left_to_a_person(incident, now)
        return Outcome([], again=left) if left > 0 else _over(incident, now)
    if incident.state is IncidentState.ESCALATED:
        return Outcome([])
    if incident.state is IncidentState.AWAITING_APPROVAL:
        return _approval(incident, firing, now)
    return _fresh(incident, firing, now)


def _over(incident: Incident, now: Situation) -> Outcome:
    """Every alert has resolved before, or after, we did anything."""
    outcome = _afterwards(incident, now)
    if outcome is not None and (incident.approval or not _refused(incident, outcome)):
        return outcome
    events: list[ev.AnyEvent] = outcome.events if outcome else []
    if incident.approval:
        events.append(
            ev.ApprovalVoided(
                at=now.moment.wall,
                incident=incident.id,
                digest=incident.approval.digest,
                reason=Reason.NO_LONGER_NEEDED,
                detail="every alert has resolved",
            )
        )
    detail = (
        "after a person was called"
        if incident.state is IncidentState.ESCALATED
        else "every alert resolved before anything was done"
    )
    if incident.operation and incident.state is not IncidentState.ESCALATED:
        detail = "every alert has resolved"
    events.append(
        ev.IncidentClosed(at=now.moment.wall, incident=incident.id, reason=Reason.RESOLVED_ON_ITS_OWN, detail=detail)
    )
    return Outcome(events)


def _afterwards(incident: Incident, now: Situation) -> Outcome | None:
    """What remedies for the end of an alert (`on: resolved`) make of it, where nothing else has been done about it."""
    if incident.operation or incident.state is IncidentState.ESCALATED:
        return None
    episodes = now.memory.episodes_of(incident)
    found = choices(incident, episodes, now, resolved=True)
    if not found:
        return None
    if incident.approval is None:
        return _with(incident, found, now)
    if all(choice.remedy.name != incident.approval.remedy for choice in found):
        return None
    return _approval(incident, episodes, now, resolved=True)


def _refused(incident: Incident, outcome: Outcome) -> bool:
    """Whether that ends in a no, after which there is nothing to wait for."""
    newest = next((event for event in reversed(outcome.events) if isinstance(event, ev.Decided)), incident.decided)
    asked = any(isinstance(event, ev.ApprovalRequested) for event in outcome.events)
    return not outcome.start and not asked and newest is not None and newest.answer is Answer.REFUSE


# A fresh look --------------------------------------------------------------------------------------------------------


def _fresh(incident: Incident, firing: list[Episode], now: Situation) -> Outcome:
    found = choices(incident, firing, now)
    return _with(incident, found, now) if found else _nothing_left(incident, now)


def _with(incident: Incident, found: list[Choice], now: Situation) -> Outcome:
    """What comes of the best of several remedies."""
    best, *others = found
    events = _superseded(incident, best, others, now)
    decision, plan, preface = consider(incident, best, now, approved=False)
    events += preface
    if plan is not None and decision.answer is not Answer.GO and _may_overrule(decision, best.remedy):
        return _ask(incident, best.remedy, plan, decision, events, now)
    if plan is not None and decision.answer is Answer.GO:
        match best.remedy.mode:
            case Mode.AUTO:
                return _start(incident, best.remedy, plan, decision, events, now)
            case Mode.APPROVE:
                return _ask(incident, best.remedy, plan, decision, events, now)
            case Mode.SUGGEST:
                decision = refuse(
                    Reason.SUGGESTED, "a person may do this by hand, or raise the remedy's mode", guard="mode"
                )
            case Mode.SHADOW:
                decision = refuse(
                    Reason.SHADOW, "this would have been done; the remedy is in shadow mode", guard="mode"
                )
    return _held(incident, best.remedy, best.target, decision, events, now)


def _unproven(incident: Incident, now: Situation) -> Outcome | None:
    """Where it cannot be told whether a remedy has helped, a person has to look, and a stronger one is not for us to try."""
    operation = now.memory.operation_of(incident)
    if operation is None or operation.verdict is not Verdict.INCONCLUSIVE:
        return None
    remedy = now.book.remedies.get(operation.remedy)
    if remedy is not None and remedy.otherwise is Otherwise.TELL:
        return None
    detail = f"{operation.remedy} was carried out, but whether it helped cannot be told"
    event = ev.Escalated(at=now.moment.wall, incident=incident.id, reason=Reason.INCONCLUSIVE, detail=detail)
    return Outcome([event], again=now.book.hold.total_seconds())


def _left_to_a_person(incident: Incident, now: Situation) -> float:
    """Seconds for which a cure that could not be proven stays open although its alert has gone: a page that ends at once calls nobody."""
    if incident.state is not IncidentState.ESCALATED or incident.reason is not Reason.INCONCLUSIVE:
        return 0.0
    if incident.escalated is None:
        return 0.0
    return incident.escalated + now.book.hold.total_seconds() - now.moment.monotonic


def _superseded(incident: Incident, best: Choice, others: list[Choice], now: Situation) -> list[ev.AnyEvent]:
    return [
        ev.Decided(
            at=now.moment.wall,
            incident=incident.id,
            cluster=incident.cluster,
            answer=Answer.REFUSE,
            reason=Reason.SUPERSEDED,
            remedy=other.remedy.name,
            detail=f"superseded by {best.remedy.name}",
            episode=other.episode.id,
            target=other.target,
        )
        for other in others
        if incident.answers.get(other.remedy.name) != f"superseded by {best.remedy.name}"
    ]


def _nothing_left(incident: Incident, now: Situation) -> Outcome:
    """No remedy remains: those that there were did not help, or were denied, or have gone from the configuration."""
    last = now.book.remedies.get(incident.remedy)
    if incident.denied and not incident.failed:
        return _held(
            incident, None, incident.target, refuse(Reason.DENIED, "a person has denied what could be done"), [], now
        )
    if not incident.failed:
        later = choices(incident, now.memory.episodes_of(incident), now, resolved=True)
        detail = "its remedy is for the end of the alert" if later else "no remedy matches any more"
        return _held(incident, None, incident.target, refuse(Reason.NO_REMEDY, detail), [], now)
    if incident.reason in _QUIET:
        return _held(
            incident, None, incident.target, refuse(incident.reason, incident.detail, guard="operation"), [], now
        )
    reason = incident.reason if incident.reason in _FAILURES else Reason.NOT_FIXED
    tried = ", ".join(sorted(incident.failed))
    if last is not None and last.otherwise is Otherwise.TELL:
        return _held(incident, None, incident.target, refuse(reason, f"{tried} did not help"), [], now)
    detail = f"{tried} did not help" + (f": {incident.detail}" if incident.detail else "")
    return Outcome([ev.Escalated(at=now.moment.wall, incident=incident.id, reason=reason, detail=detail)])


_FAILURES: Final = frozenset(
    {
        Reason.STEP_FAILED,
        Reason.DEADLINE,
        Reason.OUTCOME_UNKNOWN,
        Reason.NOT_FENCED,
        Reason.INFEASIBLE,
    }
)

_ENOUGH: Final = frozenset({Reason.ATTEMPTS_EXHAUSTED, Reason.FLAPPING})

_QUIET: Final = frozenset({Reason.TAKEN_OVER, Reason.CANCELLED})
"""Ends after which nobody need be woken: a person is at it already."""


# What comes of it ----------------------------------------------------------------------------------------------------


def _may_overrule(decision: Decision, remedy: Remedy) -> bool:
    return decision.reason in OVERRIDABLE and remedy.mode in (Mode.APPROVE, Mode.AUTO)


def _held(
    incident: Incident,
    remedy: Remedy | None,
    target: ObjectRef | None,
    decision: Decision,
    events: list[ev.AnyEvent],
    now: Situation,
) -> Outcome:
    """Nothing is done now, and that is recorded when it is news. Where doing it again would not help, a person is called."""
    if decision.reason in _ENOUGH:
        events.append(_decided(incident, remedy, target, decision, now))
        events.append(
            ev.Escalated(at=now.moment.wall, incident=incident.id, reason=decision.reason, detail=decision.detail)
        )
        return Outcome(events)
    if not _same(incident.decided, decision) or (remedy is not None and remedy.name != incident.remedy):
        events.append(_decided(incident, remedy, target, decision, now))
    again = decision.wait_seconds
    if again is None:
        waited = (now.moment.wall - incident.changed_at).total_seconds()
        again = min(RECHECK_MOST_SECONDS, max(RECHECK_SECONDS, waited / 4))
    return Outcome(events, again=max(0.5, min(again, RECHECK_MOST_SECONDS)))


def _same(before: Decision | None, after: Decision) -> bool:
    return before is not None and (before.answer, before.reason, before.guard) == (
        after.answer,
        after.reason,
        after.guard,
    )


def _decided(
    incident: Incident, remedy: Remedy | None, target: ObjectRef | None, decision: Decision, now: Situation
) -> ev.Decided:
    return ev.Decided(
        at=now.moment.wall,
        incident=incident.id,
        cluster=incident.cluster,
        answer=decision.answer,
        reason=decision.reason,
        detail=decision.detail,
        guard=decision.guard,
        remedy=remedy.name if remedy else "",
        target=target,
        wait_seconds=decision.wait_seconds,
    )


def _ask(
    incident: Incident, remedy: Remedy, plan: Plan, decision: Decision, events: list[ev.AnyEvent], now: Situation
) -> Outcome:
    if decision.answer is not Answer.GO:
        events.append(_decided(incident, remedy, plan.target, decision, now))
    expires = remedy.approval.expires_seconds
    events.append(
        ev.ApprovalRequested(
            at=now.moment.wall,
            incident=incident.id,
            remedy=remedy.name,
            digest=plan.digest,
            expires_at=now.moment.wall + timedelta(seconds=expires),
            needed=max(1, remedy.approval.minimum),
        )
    )
    return Outcome(events, again=expires + 0.1)


def _approval(incident: Incident, episodes: list[Episode], now: Situation, *, resolved: bool = False) -> Outcome:
    """An answer has come, or the time for it has run out, or we still wait."""
    approval = incident.approval
    if approval is None:
        return _fresh(incident, episodes, now)
    if why := _reconfigured(incident, approval, now):
        return Outcome([_void(incident, Reason.PLAN_CHANGED, why, now)], again=0.5)
    if not approval.complete:
        left = approval.expires - now.moment.monotonic
        if left > 0:
            return Outcome([], again=left + 0.1)
        detail = f"nobody answered until {approval.expires_at:%H:%M:%S}"
        return Outcome(
            [
                _void(incident, Reason.APPROVAL_EXPIRED, detail, now),
                ev.Escalated(at=now.moment.wall, incident=incident.id, reason=Reason.APPROVAL_EXPIRED, detail=detail),
            ]
        )
    choice = next(
        (c for c in choices(incident, episodes, now, resolved=resolved) if c.remedy.name == approval.remedy), None
    )
    if choice is None:
        return Outcome([_void(incident, Reason.PLAN_CHANGED, "the remedy no longer applies", now)], again=0.5)
    decision, plan, events = consider(incident, choice, now, approved=True)
    if plan is None and decision.answer is Answer.WAIT:
        return _held(incident, choice.remedy, None, decision, events, now)
    if plan is None or plan.digest != approval.digest:
        return Outcome(
            [_void(incident, Reason.PLAN_CHANGED, "what would be done is no longer what was approved", now)], again=0.5
        )
    if decision.answer is Answer.GO:
        return _start(incident, choice.remedy, plan, decision, events, now)
    return _held(incident, choice.remedy, plan.target, decision, events, now)


def _reconfigured(incident: Incident, approval: Approval, now: Situation) -> str:
    """What has become of the remedy since people were asked; empty when it is as it was."""
    remedy = now.book.remedies.get(approval.remedy)
    if remedy is None:
        return f"remedy {approval.remedy} is no longer configured"
    if remedy.mode != incident.mode:
        return f"remedy {remedy.name} is in mode {remedy.mode} now"
    if incident.plan and incident.plan.recipe not in ("", recipe(remedy)):
        return f"the steps of {remedy.name} are others now"
    return ""


def _void(incident: Incident, reason: Reason, detail: str, now: Situation) -> ev.ApprovalVoided:
    digest = incident.approval.digest if incident.approval else ""
    return ev.ApprovalVoided(at=now.moment.wall, incident=incident.id, digest=digest, reason=reason, detail=detail)


def _start(
    incident: Incident, remedy: Remedy, plan: Plan, decision: Decision, events: list[ev.AnyEvent], now: Situation
) -> Outcome:
    state = now.states[plan.target.cluster]
    zone, pool = failure_domain(plan.target, state)
    node = state.nodes.get(plan.target.name) if plan.target.level is Level.NODE else None
    attempt = incident.attempts.get(remedy.name, 0) + 1
    operation = f"{incident.id}-{remedy.name}-{attempt}"
    events.append(_decided(incident, remedy, plan.target, decision, now))
    events.append(
        ev.OperationStarted(
            at=now.moment.wall,
            incident=incident.id,
            operation=operation,
            cluster=plan.target.cluster,
            remedy=remedy.name,
            attempt=attempt,
            plan=plan,
            identity=node.identity if node else None,
            zone=zone,
            pool=pool,
        )
    )
    return Outcome(events, start=operation)
