"""From an incident to a decision: which remedy, what it would do, what the guards say, what the mode makes of it.

Synchronous and without I/O: it reads memory, the book and the clusters' state, and answers with events. Nothing has
happened until these are recorded.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from healer.loop.book import Book
from healer.loop.memory import Memory, flapping
from healer.loop.records import Episode, Incident, Operation
from healer.loop.views import FLAP_OVER, FLAP_TIMES
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.decisions import GO, Answer, Decision, Moment, Reason, refuse, wait
from healer.model.incidents import IncidentState
from healer.model.plans import Mode, Otherwise, Plan, Preview, Remedy
from healer.model.targets import Level, ObjectRef
from healer.rules.targets import resolve
from healer.safety.guards import judge
from healer.safety.state import Disruption, Fleet, Request

RECHECK_SECONDS: Final = 5.0
RECHECK_MOST_SECONDS: Final = 60.0
BLOCKED_RECHECK_SECONDS: Final = 15.0
OVERRIDABLE: Final = frozenset({Reason.SELF_PROTECTION, Reason.PROTECTED})
"""Refusals that a person may overrule by approving."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """`start`: the operation that begins once the events are recorded. `again`: seconds until it is worth another look."""

    events: list[ev.AnyEvent]
    start: str = ""
    again: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision is made from."""

    memory: Memory
    book: Book
    states: Mapping[str, ClusterState]
    moment: Moment
    since: datetime
    """When this process began to listen."""
    storming: frozenset[str] = frozenset()


def decide(incident: Incident, now: Situation) -> Outcome:
    """What to do about `incident`, which is open or awaiting approval, now."""
    firing = now.memory.firing_of(incident)
    if not firing:
        return _over(incident, now)
    if incident.state is IncidentState.ESCALATED:
        return Outcome([])
    if incident.state is IncidentState.AWAITING_APPROVAL:
        return _approval(incident, firing, now)
    return _fresh(incident, firing, now)


def _over(incident: Incident, now: Situation) -> Outcome:
    """Every alert has resolved before, or after, we did anything."""
    events: list[ev.AnyEvent] = []
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


# A fresh look --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    remedy: Remedy
    episode: Episode
    target: ObjectRef | None
    decision: Decision


def _fresh(incident: Incident, firing: list[Episode], now: Situation) -> Outcome:
    choices = _choices(incident, firing, now)
    if not choices:
        return _nothing_left(incident, now)
    best, *others = choices
    events = _superseded(incident, best, others, now)
    decision, plan, preface = _consider(incident, best, now, approved=False)
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


def _choices(incident: Incident, firing: list[Episode], now: Situation) -> list[Choice]:
    """Every remedy that applies, best first: by priority, then what is higher in the hierarchy, then the order of the file."""
    found: dict[str, Choice] = {}
    for episode in firing:
        for remedy in now.book.index.matching(episode.labels):
            if (
                remedy.name in found
                or remedy.name in incident.failed
                or remedy.name in incident.denied
                or remedy.on_resolved
            ):
                continue
            if not set(remedy.after) <= incident.failed:
                continue
            target, decision = _aim(remedy, episode, now)
            found[remedy.name] = Choice(remedy, episode, target, decision)
    order = list(now.book.remedies)
    return sorted(
        found.values(),
        key=lambda c: (-c.remedy.priority, -(c.target.level if c.target else 0), order.index(c.remedy.name)),
    )


def _aim(remedy: Remedy, episode: Episode, now: Situation) -> tuple[ObjectRef | None, Decision]:
    state = now.states.get(episode.cluster)
    if state is None:
        return None, refuse(Reason.TARGET_NOT_FOUND, f"cluster {episode.cluster!r} is not one of ours", guard="target")
    found = resolve(episode.labels, state, remedy.target)
    if not isinstance(found, ObjectRef):
        return None, refuse(found.reason, found.detail, guard="target")
    takes = frozenset.intersection(*(action.kinds for action in now.book.actions[remedy.name]))
    if found.kind in takes:
        return found, GO
    # An alert about a pod is met by what can be done to its workload; never the other way, and never up to a node.
    owner = state.owner_of(found)
    if owner.kind in takes and owner.level is Level.WORKLOAD:
        return owner, GO
    steps = ", ".join(step.action for step in remedy.steps)
    kinds = ", ".join(sorted(takes)) or "nothing in common"
    return None, refuse(
        Reason.INVALID_TARGET, f"{steps} can be done to {kinds}, and the alert is about {found}", guard="target"
    )


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
        return _held(incident, None, incident.target, refuse(Reason.NO_REMEDY, "no remedy matches any more"), [], now)
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

_QUIET: Final = frozenset({Reason.TARGET_GONE, Reason.TAKEN_OVER, Reason.CANCELLED})
"""Ends after which nobody need be woken: the object is no more, or a person is at it already."""


# Plan and guards -----------------------------------------------------------------------------------------------------


def _consider(
    incident: Incident, choice: Choice, now: Situation, *, approved: bool
) -> tuple[Decision, Plan | None, list[ev.AnyEvent]]:
    """What would be done and whether it may. The plan comes along even when the answer is no, so that it can be shown."""
    if choice.target is None:
        return choice.decision, None, []
    if aged := _too_old(incident, now):
        return aged, None, []
    state = now.states[choice.target.cluster]
    plan = make_plan(choice.remedy, choice.target, state, now.book)
    events: list[ev.AnyEvent] = []
    if incident.plan is None or incident.plan.digest != plan.digest or incident.mode != choice.remedy.mode:
        events.append(ev.Planned(at=now.moment.wall, incident=incident.id, plan=plan, mode=choice.remedy.mode))
    if plan.blocked:
        decision = wait(plan.blocked.reason, plan.blocked.detail, guard="plan", seconds=BLOCKED_RECHECK_SECONDS)
        return decision, plan, events
    if incident.cluster in now.storming:
        decision = wait(
            Reason.STORM, "so many alerts arrive at once that their common cause must be found first", guard="storm"
        )
        return decision, plan, events
    if incident.operation and flapping(incident, now.moment.wall, over=FLAP_OVER, times=FLAP_TIMES):
        return (
            refuse(
                Reason.FLAPPING,
                f"the alert came back {len(incident.flaps)} times; a person should look",
                guard="flapping",
            ),
            plan,
            events,
        )
    request = request_of(incident, choice.remedy, plan, state, approved=approved)
    decision, answers = judge(request, fleet_of(now, incident), now.moment)
    if decision.answer is Answer.GO:
        names = ", ".join(answer.guard for answer in answers)
        decision = dataclasses.replace(decision, guard="guards", detail=f"all {len(answers)} agree ({names})")
    return decision, plan, events


def _too_old(incident: Incident, now: Situation) -> Decision | None:
    heard = max(episode.heard_at for episode in now.memory.firing_of(incident))
    age = now.moment.wall - heard
    if heard >= now.since or age <= now.book.max_event_age:
        # Senders do not repeat themselves: what was heard since we started counts until it resolves.
        return None
    return wait(
        Reason.TOO_OLD,
        f"nothing has confirmed the alert for {_minutes(age)}; more than {_minutes(now.book.max_event_age)} is not acted upon",
        guard="age",
    )


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:.0f} min"


def make_plan(remedy: Remedy, target: ObjectRef, state: ClusterState, book: Book) -> Plan:
    """The preview of every step, and a digest of what a person would agree to."""
    previews = tuple(action.plan(target, state) for action in book.actions[remedy.name])
    return Plan(remedy=remedy.name, target=target, previews=previews, digest=_digest(remedy, target, previews, state))


def _digest(remedy: Remedy, target: ObjectRef, previews: tuple[Preview, ...], state: ClusterState) -> str:
    """Changes with the target, the steps and whose objects are touched, not with every pod that comes and goes."""
    touched = sorted(
        {
            (p.action, t.effect.value, str(state.owner_of(t.ref)))
            for p in previews
            for t in p.touches
            if t.ref.kind != "Node"
        }
    )
    steps = [(step.action, dict(step.params)) for step in remedy.steps]
    text = msgspec.json.encode((remedy.name, target, steps, touched), order="deterministic", enc_hook=str)
    return hashlib.sha256(text).hexdigest()[:12]


def request_of(incident: Incident, remedy: Remedy, plan: Plan, state: ClusterState, *, approved: bool) -> Request:
    zone, pool = failure_domain(plan.target, state)
    return Request(
        remedy=remedy,
        plan=plan,
        owner=incident.owner,
        cluster=state,
        incident=incident.id,
        zone=zone,
        pool=pool,
        attempt=incident.attempts.get(remedy.name, 0) + 1,
        approved_by_person=approved,
    )


def failure_domain(target: ObjectRef, state: ClusterState) -> tuple[str, str]:
    """Zone and pool of the node that is, or carries, the target."""
    name = target.name if target.level is Level.NODE else ""
    if target.kind == "Pod" and (pod := state.pods.get((target.namespace, target.name))):
        name = pod.node_name
    node = state.nodes.get(name)
    return (node.zone, node.pool) if node else ("", "")


def fleet_of(now: Situation, incident: Incident | None = None) -> Fleet:
    """What the guards may know: everything under way or done of late, and the rules of the house."""
    return Fleet(
        paused=now.memory.paused,
        disruptions=tuple(
            _disruption(operation)
            for operation in now.memory.operations.values()
            if incident is None or operation.incident != incident.id or operation.settled
        ),
        self_cluster=now.book.self_cluster,
        self_node=now.book.self_node,
        self_namespace=now.book.self_namespace,
        protected_namespaces=now.book.protected_namespaces,
        settings=now.book.safety,
        windows=now.book.windows(now.moment.wall),
        states=now.states,
    )


def _disruption(operation: Operation) -> Disruption:
    return Disruption(
        operation=operation.id,
        remedy=operation.remedy,
        target=operation.plan.target,
        owner=operation.owner,
        cluster=operation.cluster,
        zone=operation.zone,
        pool=operation.pool,
        attempt=operation.attempt,
        started=operation.started,
        ended=operation.ended if operation.settled else None,
        ok=operation.ok if operation.settled else None,
    )


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
    if not _same(incident.decided, decision):
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


def _approval(incident: Incident, firing: list[Episode], now: Situation) -> Outcome:
    """An answer has come, or the time for it has run out, or we still wait."""
    approval = incident.approval
    if approval is None:
        return _fresh(incident, firing, now)
    if not approval.complete:
        left = (approval.expires_at - now.moment.wall).total_seconds()
        if left > 0:
            return Outcome([], again=left + 0.1)
        detail = f"nobody answered until {approval.expires_at:%H:%M:%S}"
        return Outcome(
            [
                _void(incident, Reason.APPROVAL_EXPIRED, detail, now),
                ev.Escalated(at=now.moment.wall, incident=incident.id, reason=Reason.APPROVAL_EXPIRED, detail=detail),
            ]
        )
    choice = next((c for c in _choices(incident, firing, now) if c.remedy.name == approval.remedy), None)
    if choice is None:
        return Outcome([_void(incident, Reason.PLAN_CHANGED, "the remedy no longer applies", now)], again=0.5)
    decision, plan, events = _consider(incident, choice, now, approved=True)
    if plan is None or plan.digest != approval.digest:
        return Outcome(
            [_void(incident, Reason.PLAN_CHANGED, "what would be done is no longer what was approved", now)], again=0.5
        )
    if decision.answer is Answer.GO:
        return _start(incident, choice.remedy, plan, decision, events, now)
    return _held(incident, choice.remedy, plan.target, decision, events, now)


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
