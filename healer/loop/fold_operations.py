"""What carrying out a plan and proving its cure change in memory: one function an event kind."""
# ruff: noqa: ARG001 — all are called alike, and not every one needs every argument

from __future__ import annotations

from typing import Final

from healer.loop.memory import Memory
from healer.loop.records import CallRecord, Operation
from healer.model import events as ev
from healer.model.decisions import Reason, Verdict
from healer.model.incidents import IncidentState


def operation_started(event: ev.OperationStarted, memory: Memory, seq: int, monotonic: float) -> None:
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


def step_started(event: ev.StepStarted, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    step = operation.step(event.step)
    if event.undo:
        memory.incidents[operation.incident].state = IncidentState.UNDOING
    else:
        step.started = True
    word = "undo " if event.undo else ""
    memory.say(memory.incidents[operation.incident], seq, event.at, f"{word}{event.action}: started")


def call_intended(event: ev.CallIntended, memory: Memory, seq: int, monotonic: float) -> None:
    memory.operations[event.operation].step(event.step).calls[_call(event)] = CallRecord(key=event.key)


def call_ended(event: ev.CallEnded, memory: Memory, seq: int, monotonic: float) -> None:
    calls = memory.operations[event.operation].step(event.step).calls
    name = _call(event)
    if event.outcome in ("done", "settled"):
        call = calls.setdefault(name, CallRecord(key=""))
        call.outcome, call.result = "done", event.result
    else:
        calls.pop(name, None)


def _call(event: ev.CallIntended | ev.CallEnded) -> str:
    return f"undo {event.call}" if event.undo else event.call


def step_noted(event: ev.StepNoted, memory: Memory, seq: int, monotonic: float) -> None:
    memory.operations[event.operation].step(event.step).notes[event.name] = event.value


def step_progress(event: ev.StepProgress, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    memory.say(memory.incidents[operation.incident], seq, event.at, event.text)


def step_ended(event: ev.StepEnded, memory: Memory, seq: int, monotonic: float) -> None:
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


def operation_ended(event: ev.OperationEnded, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    incident = memory.incidents[operation.incident]
    operation.ended, operation.ended_at = monotonic, event.at
    operation.ok, operation.reason, operation.detail = event.ok, event.reason, event.detail
    if not event.ok:
        if event.reason is not Reason.TARGET_GONE:
            # What was never done to the object that bears the name now has not failed on it.
            incident.failed.add(operation.remedy)
        incident.state = IncidentState.OPEN
        incident.reason, incident.detail = event.reason, event.detail
        incident.decided = None
        memory.say(incident, seq, event.at, f"{operation.remedy} ended ({event.reason}): {event.detail}", "bad")


def operation_cancelled(event: ev.OperationCancelled, memory: Memory, seq: int, monotonic: float) -> None:
    operation = memory.operations[event.operation]
    operation.cancelled_by = event.by
    memory.say(memory.incidents[operation.incident], seq, event.at, f"cancelled by {event.by}", "wait")


def verification_started(event: ev.VerificationStarted, memory: Memory, seq: int, monotonic: float) -> None:
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


def verified(event: ev.Verified, memory: Memory, seq: int, monotonic: float) -> None:
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
