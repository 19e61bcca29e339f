"""What each kind of event changes in memory: one function a kind, all of one signature."""
# ruff: noqa: ARG001 — not every kind needs every argument

from __future__ import annotations

import functools
from typing import Final

from healer.loop.memory import Memory
from healer.loop.records import Approval, CallRecord, Episode, Incident, Operation
from healer.model import events as ev
from healer.model.decisions import Answer, Decision, Moment, Reason, Verdict
from healer.model.incidents import IncidentState
from healer.model.series import Labels


def take(memory: Memory, recorded: ev.Recorded, moment: Moment) -> None:
    """Take one event in. `moment`: now; its monotonic time is corrected by the age of the event."""
    memory.seq = recorded.seq
    age = max(0.0, (moment.wall - recorded.event.at).total_seconds())
    apply(recorded.event, memory, recorded.seq, moment.monotonic - age)


@functools.singledispatch
def apply(event: ev.Event, memory: Memory, seq: int, monotonic: float) -> None:
    """Kinds that change nothing here (service and configuration notes)."""


@apply.register
def _(event: ev.Paused, memory: Memory, seq: int, monotonic: float) -> None:
    memory.paused_by, memory.paused_why = event.by, event.why


@apply.register
def _(event: ev.Resumed, memory: Memory, seq: int, monotonic: float) -> None:
    memory.paused_by = memory.paused_why = ""


@apply.register
def _(event: ev.AlertFired, memory: Memory, seq: int, monotonic: float) -> None:
    known = memory.episodes.get(event.episode)
    episode = Episode(
        id=event.episode,
        cluster=event.cluster,
        labels=Labels(event.labels),
        annotations=event.annotations,
        starts_at=event.starts_at,
        heard_at=event.at,
        source=event.source,
        generator_url=event.generator_url,
        value=event.value,
        incident=known.incident if known else "",
        target=known.target if known else None,
        notes=event.notes,
    )
    memory.episodes[event.episode] = episode
    memory.firing[(event.cluster, episode.labels)] = episode


@apply.register
def _(event: ev.AlertResolved, memory: Memory, seq: int, monotonic: float) -> None:
    episode = memory.episodes.get(event.episode)
    if episode is None:
        return
    episode.ends_at = event.ends_at
    if memory.firing.get((episode.cluster, episode.labels)) is episode:
        del memory.firing[(episode.cluster, episode.labels)]
    incident = memory.incidents.get(episode.incident)
    if incident is None:
        if not episode.incident:
            del memory.episodes[event.episode]
        return
    memory.say(incident, seq, event.at, f"alert {episode.name} resolved", "good")


@apply.register
def _(event: ev.StormNoticed, memory: Memory, seq: int, monotonic: float) -> None:
    memory.storms[event.cluster] = event.at


@apply.register
def _(event: ev.IncidentOpened, memory: Memory, seq: int, monotonic: float) -> None:
    incident = Incident(
        id=event.incident,
        seq=seq,
        cluster=event.cluster,
        owner=event.owner,
        title=event.title,
        severity=event.severity,
        opened_at=event.at,
        changed_at=event.at,
        target=event.target,
    )
    memory.incidents[event.incident] = incident
    memory.open_by_owner[event.owner.key] = event.incident
    memory.attach(incident, event.episode, event.target)
    about = f" about {event.target}" if event.target else ""
    memory.say(
        incident,
        seq,
        event.at,
        f"incident opened by alert {event.title}{about}" + (f" ({event.note})" if event.note else ""),
    )


@apply.register
def _(event: ev.IncidentReopened, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents.get(event.incident)
    if incident is None:
        return
    memory.attach(incident, event.episode, incident.target)
    memory.open_by_owner[incident.owner.key] = incident.id
    incident.state = IncidentState.OPEN
    incident.closed_at = None
    incident.decided = None
    incident.verdict = None
    incident.flaps.append(event.at)
    memory.say(incident, seq, event.at, f"the alert is back ({event.flaps} times by now); the incident goes on", "bad")


@apply.register
def _(event: ev.AlertAttached, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    episode = memory.attach(incident, event.episode, event.target)
    name = episode.name if episode else "unknown"
    about = f" about {event.target}" if event.target else ""
    memory.say(
        incident, seq, event.at, f"alert {name}{about} belongs to it too" + (f" ({event.note})" if event.note else "")
    )


TONES: Final = {Answer.GO: "good", Answer.WAIT: "wait", Answer.REFUSE: "bad"}


@apply.register
def _(event: ev.Decided, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents.get(event.incident)
    if incident is None:
        if episode := memory.episodes.get(event.episode):
            episode.reason = event.reason
        return
    if event.reason is Reason.SUPERSEDED:
        incident.answers[event.remedy] = event.detail
        memory.say(incident, seq, event.at, f"remedy {event.remedy}: {event.detail}")
        return
    incident.decided = Decision(
        answer=event.answer,
        reason=event.reason,
        detail=event.detail,
        guard=event.guard,
        wait_seconds=event.wait_seconds,
    )
    incident.reason, incident.detail = event.reason, event.detail
    if event.remedy:
        incident.remedy = event.remedy
    who = f"{event.guard}: " if event.guard else ""
    what = f"{event.answer} ({event.reason})" if event.answer is not Answer.GO else "go"
    memory.say(
        incident, seq, event.at, f"{who}{what}" + (f": {event.detail}" if event.detail else ""), TONES[event.answer]
    )


@apply.register
def _(event: ev.Planned, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.plan, incident.mode, incident.remedy = event.plan, event.mode, event.plan.remedy
    incident.target = event.plan.target
    radius = ", ".join(f"{count} {kind}" for kind, count in event.plan.blast_radius.items()) or "nothing"
    steps = " → ".join(preview.action for preview in event.plan.previews)
    memory.say(incident, seq, event.at, f"plan {event.plan.remedy} for {event.plan.target}: {steps}; touches {radius}")


@apply.register
def _(event: ev.ApprovalRequested, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.state = IncidentState.AWAITING_APPROVAL
    incident.approval = Approval(
        remedy=event.remedy, digest=event.digest, expires_at=event.expires_at, needed=event.needed
    )
    memory.say(incident, seq, event.at, f"waiting for approval until {event.expires_at:%H:%M:%S}", "wait")


@apply.register
def _(event: ev.ApprovalAnswered, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents.get(event.incident)
    if incident is None:
        return
    word = "approved" if event.approve else "denied"
    if not event.accepted:
        memory.say(incident, seq, event.at, f"{event.by} {word} by {event.via}: does not count ({event.reason})", "bad")
        return
    memory.say(incident, seq, event.at, f"{word} by {event.by} ({event.via})", "good" if event.approve else "bad")
    approval = incident.approval
    if approval is None:
        return
    if not event.approve:
        incident.denied.add(approval.remedy)
        incident.approval = None
        incident.state = IncidentState.OPEN
        return
    approval.given[event.by] = event.at
    if approval.complete:
        incident.approved_digest = approval.digest


@apply.register
def _(event: ev.ApprovalVoided, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.approval = None
    incident.approved_digest = ""
    if incident.state is IncidentState.AWAITING_APPROVAL:
        incident.state = IncidentState.OPEN
    incident.reason, incident.detail = event.reason, event.detail
    memory.say(
        incident,
        seq,
        event.at,
        f"approval is no longer asked for ({event.reason})" + (f": {event.detail}" if event.detail else ""),
    )


@apply.register
def _(event: ev.OperationStarted, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    memory.operations[event.operation] = Operation(
        id=event.operation,
        incident=event.incident,
        cluster=event.cluster,
        remedy=event.remedy,
        attempt=event.attempt,
        plan=event.plan,
        owner=incident.owner,
        identity=event.identity,
        zone=event.zone,
        pool=event.pool,
        started=monotonic,
        started_at=event.at,
    )
    incident.operation = event.operation
    incident.state = IncidentState.ACTING
    incident.approval = None
    incident.approved_digest = ""
    incident.attempts[event.remedy] = event.attempt
    memory.say(incident, seq, event.at, f"carrying out {event.remedy}, attempt {event.attempt}")


@apply.register
def _(event: ev.StepStarted, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    step = operation.step(event.step)
    if event.undo:
        memory.incidents[operation.incident].state = IncidentState.UNDOING
    else:
        step.started = True
    word = "undo " if event.undo else ""
    memory.say(memory.incidents[operation.incident], seq, event.at, f"{word}{event.action}: started")


@apply.register
def _(event: ev.CallIntended, memory: Memory, seq: int, monotonic: float) -> None:
    memory.operations[event.operation].step(event.step).calls[_call(event)] = CallRecord(key=event.key)


@apply.register
def _(event: ev.CallEnded, memory: Memory, seq: int, monotonic: float) -> None:
    calls = memory.operations[event.operation].step(event.step).calls
    name = _call(event)
    if event.outcome in ("done", "settled"):
        call = calls.setdefault(name, CallRecord(key=""))
        call.outcome, call.result = "done", event.result
    else:
        calls.pop(name, None)


def _call(event: ev.CallIntended | ev.CallEnded) -> str:
    return f"undo {event.call}" if event.undo else event.call


@apply.register
def _(event: ev.StepNoted, memory: Memory, seq: int, monotonic: float) -> None:
    memory.operations[event.operation].step(event.step).notes[event.name] = event.value


@apply.register
def _(event: ev.StepProgress, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    memory.say(memory.incidents[operation.incident], seq, event.at, event.text)


@apply.register
def _(event: ev.StepEnded, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    step = operation.step(event.step)
    if event.undo:
        step.undone = True
    else:
        step.ended, step.ok = True, event.ok
        step.reason, step.detail = event.reason, event.detail
    word = "undo " if event.undo else ""
    end = "done" if event.ok else f"failed ({event.reason}): {event.detail}"
    memory.say(
        memory.incidents[operation.incident],
        seq,
        event.at,
        f"{word}{event.action}: {end}",
        "good" if event.ok else "bad",
    )


@apply.register
def _(event: ev.OperationEnded, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    incident = memory.incidents[operation.incident]
    operation.ended, operation.ended_at = monotonic, event.at
    operation.ok, operation.reason, operation.detail = event.ok, event.reason, event.detail
    if not event.ok:
        incident.failed.add(operation.remedy)
        incident.state = IncidentState.OPEN
        incident.reason, incident.detail = event.reason, event.detail
        incident.decided = None
        memory.say(incident, seq, event.at, f"{operation.remedy} ended ({event.reason}): {event.detail}", "bad")


@apply.register
def _(event: ev.OperationCancelled, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    operation.cancelled_by = event.by
    memory.say(memory.incidents[operation.incident], seq, event.at, f"cancelled by {event.by}", "wait")


@apply.register
def _(event: ev.VerificationStarted, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    incident = memory.incidents[operation.incident]
    operation.verifying = True
    incident.state = IncidentState.VERIFYING
    incident.reason, incident.detail = Reason.VERIFYING, "waiting for the proof of the cure"
    memory.say(incident, seq, event.at, "verifying the cure")


REASONS: Final = {
    Verdict.FIXED: Reason.FIXED,
    Verdict.NOT_FIXED: Reason.NOT_FIXED,
    Verdict.WORSE: Reason.WORSE,
    Verdict.INCONCLUSIVE: Reason.INCONCLUSIVE,
}
VERDICT_TONES: Final = {
    Verdict.FIXED: "good",
    Verdict.INCONCLUSIVE: "wait",
    Verdict.NOT_FIXED: "bad",
    Verdict.WORSE: "bad",
}


@apply.register
def _(event: ev.Verified, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    incident = memory.incidents[operation.incident]
    operation.verdict = event.verdict
    incident.verdict = event.verdict
    if event.verdict is not Verdict.FIXED:
        incident.failed.add(operation.remedy)
        incident.decided = None
        if incident.state is IncidentState.VERIFYING and event.verdict is not Verdict.WORSE:
            incident.state = IncidentState.OPEN
    evidence = "; ".join(event.evidence)
    incident.reason, incident.detail = REASONS[event.verdict], evidence
    memory.say(
        incident,
        seq,
        event.at,
        f"verdict: {event.verdict}" + (f" ({evidence})" if evidence else ""),
        VERDICT_TONES[event.verdict],
    )


@apply.register
def _(event: ev.Escalated, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.state = IncidentState.ESCALATED
    incident.approval = None
    incident.reason, incident.detail = event.reason, event.detail
    memory.say(incident, seq, event.at, f"a person is needed ({event.reason}): {event.detail}", "bad")


@apply.register
def _(event: ev.IncidentClosed, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.state = IncidentState.CLOSED
    incident.closed_at = event.at
    incident.approval = None
    incident.reason, incident.detail = event.reason, event.detail
    if memory.open_by_owner.get(incident.owner.key) == incident.id:
        del memory.open_by_owner[incident.owner.key]
    memory.recently_closed.append(incident.id)
    memory.say(
        incident, seq, event.at, f"closed ({event.reason})" + (f": {event.detail}" if event.detail else ""), "good"
    )
    memory.forget_old()


@apply.register
def _(event: ev.Told, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents.get(event.incident)
    if incident is not None:
        incident.handles[event.notifier] = event.handle
