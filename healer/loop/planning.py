"""What a remedy would do now, and whether the guards let it: the plan, its digest, what the guards are told. No I/O."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import timedelta
from typing import Final

import msgspec

from healer.loop.book import Book
from healer.loop.choosing import Choice
from healer.loop.memory import Memory, flapping
from healer.loop.records import Incident, Operation
from healer.loop.situation import Situation
from healer.loop.views import FLAP_OVER, FLAP_TIMES
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.decisions import Answer, Decision, Reason, refuse, wait
from healer.model.plans import Plan, Preview, Remedy
from healer.model.targets import Level, ObjectRef
from healer.safety.guards import judge
from healer.safety.state import Disruption, Fleet, Request

BLOCKED_RECHECK_SECONDS: Final = 15.0


def consider(
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
    heard = max(episode.heard_at for episode in now.memory.episodes_of(incident))
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
    return Plan(
        remedy=remedy.name,
        target=target,
        previews=previews,
        digest=_digest(remedy, target, previews, state),
        recipe=recipe(remedy),
    )


def recipe(remedy: Remedy) -> str:
    """The steps of a remedy with their settings, as a digest."""
    steps = [(step.action, dict(step.params)) for step in remedy.steps]
    return _short(steps)


def _short(value: object) -> str:
    text = msgspec.json.encode(value, order="deterministic", enc_hook=str)
    return hashlib.sha256(text).hexdigest()[:12]


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
    return _short((remedy.name, target, recipe(remedy), touched))


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


def fleet_of(now: Situation, incident: Incident) -> Fleet:
    """What the guards may know: everything under way or done of late, and the rules of the house."""
    return Fleet(
        paused=now.memory.paused,
        disruptions=tuple(d for d in now.disruptions if d.incident != incident.id or not d.in_flight),
        self_cluster=now.book.self_cluster,
        self_node=now.book.self_node,
        self_namespace=now.book.self_namespace,
        protected_namespaces=now.book.protected_namespaces,
        settings=now.book.safety,
        windows=now.book.windows(now.moment.wall),
        states=now.states,
        outages=now.outages,
        censuses=now.censuses,
    )


def disruptions(memory: Memory) -> tuple[Disruption, ...]:
    """Everything that is under way or was done, as the guards want to know it."""
    return tuple(map(_disruption, memory.operations.values()))


def _disruption(operation: Operation) -> Disruption:
    return Disruption(
        incident=operation.incident,
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
