"""What the story of an incident changes in memory: one function an event kind."""
# ruff: noqa: ARG001 — all are called alike, and not every one needs every argument

from __future__ import annotations

from typing import Final

from healer.loop.memory import Memory
from healer.loop.records import Approval, Incident
from healer.model import events as ev
from healer.model.decisions import Answer, Decision, Reason
from healer.model.incidents import IncidentState


def incident_opened(event: ev.IncidentOpened, memory: Memory, seq: int, monotonic: float) -> None:
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


def incident_reopened(event: ev.IncidentReopened, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents.get(event.incident)
    if incident is None:
        return
    memory.attach(incident, event.episode, incident.target)
    memory.open_by_owner[incident.owner.key] = incident.id
    incident.state = IncidentState.OPEN
    incident.closed_at = incident.closed = None
    incident.decided = None
    incident.verdict = None
    incident.flaps.append(event.at)
    memory.say(incident, seq, event.at, f"the alert is back ({event.flaps} times by now); the incident goes on", "bad")


def alert_attached(event: ev.AlertAttached, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    episode = memory.attach(incident, event.episode, event.target)
    name = episode.name if episode else "unknown"
    about = f" about {event.target}" if event.target else ""
    memory.say(
        incident, seq, event.at, f"alert {name}{about} belongs to it too" + (f" ({event.note})" if event.note else "")
    )


TONES: Final = {Answer.GO: "good", Answer.WAIT: "wait", Answer.REFUSE: "bad"}


def decided(event: ev.Decided, memory: Memory, seq: int, monotonic: float) -> None:
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


def planned(event: ev.Planned, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.plan, incident.mode, incident.remedy = event.plan, event.mode, event.plan.remedy
    incident.target = event.plan.target
    radius = ", ".join(f"{count} {kind}" for kind, count in event.plan.blast_radius.items()) or "nothing"
    steps = " → ".join(preview.action for preview in event.plan.previews)
    memory.say(incident, seq, event.at, f"plan {event.plan.remedy} for {event.plan.target}: {steps}; touches {radius}")


def approval_requested(event: ev.ApprovalRequested, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.state = IncidentState.AWAITING_APPROVAL
    incident.approval = Approval(
        remedy=event.remedy,
        digest=event.digest,
        expires_at=event.expires_at,
        expires=monotonic + (event.expires_at - event.at).total_seconds(),
        needed=event.needed,
    )
    memory.say(incident, seq, event.at, f"waiting for approval until {event.expires_at:%H:%M:%S}", "wait")


def approval_answered(event: ev.ApprovalAnswered, memory: Memory, seq: int, monotonic: float) -> None:
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


def approval_voided(event: ev.ApprovalVoided, memory: Memory, seq: int, monotonic: float) -> None:
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


def escalated(event: ev.Escalated, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.state = IncidentState.ESCALATED
    incident.escalated = monotonic
    incident.approval = None
    incident.reason, incident.detail = event.reason, event.detail
    memory.say(incident, seq, event.at, f"a person is needed ({event.reason}): {event.detail}", "bad")


def incident_closed(event: ev.IncidentClosed, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents[event.incident]
    incident.state = IncidentState.CLOSED
    incident.closed_at, incident.closed = event.at, monotonic
    incident.approval = None
    incident.reason, incident.detail = event.reason, event.detail
    if memory.open_by_owner.get(incident.owner.key) == incident.id:
        del memory.open_by_owner[incident.owner.key]
    memory.detach(incident, event.leaves)
    memory.recently_closed.append(incident.id)
    memory.say(
        incident, seq, event.at, f"closed ({event.reason})" + (f": {event.detail}" if event.detail else ""), "good"
    )
    memory.forget_old()


def told(event: ev.Told, memory: Memory, seq: int, monotonic: float) -> None:
    incident = memory.incidents.get(event.incident)
    if incident is not None:
        incident.handles[event.notifier] = event.handle
