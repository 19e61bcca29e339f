"""Incidents as people see them, made from memory."""

from __future__ import annotations

from datetime import timedelta

from healer.loop.memory import Memory, flapping
from healer.loop.records import Episode, Incident, Operation
from healer.model.decisions import Verdict
from healer.model.incidents import AlertLine, IncidentState, IncidentView, Times

FLAP_OVER = timedelta(minutes=10)
FLAP_TIMES = 3


def view(memory: Memory, incident: Incident, *, external_url: str = "") -> IncidentView:
    """All that is shown of `incident` now."""
    operation = memory.operation_of(incident)
    approval = incident.approval
    episodes = memory.episodes_of(incident)
    return IncidentView(
        id=incident.id,
        cluster=incident.cluster,
        title=incident.title,
        severity=incident.severity,
        state=incident.state,
        owner=incident.owner,
        target=incident.target,
        opened_at=incident.opened_at,
        changed_at=incident.changed_at,
        closed_at=incident.closed_at,
        alerts=tuple(_alert_line(episode) for episode in episodes),
        remedy=incident.remedy,
        mode=incident.mode,
        plan=incident.plan,
        reason=incident.reason,
        detail=incident.detail,
        verdict=incident.verdict,
        times=times(incident, operation, episodes),
        approval_digest=approval.digest if approval else "",
        approval_expires_at=approval.expires_at if approval else None,
        approvals=tuple(approval.given) if approval else (),
        approvals_needed=approval.needed if approval else 0,
        page=incident.state is IncidentState.ESCALATED,
        acknowledged=incident.state in (IncidentState.ACTING, IncidentState.VERIFYING, IncidentState.UNDOING),
        flapping=flapping(incident, incident.changed_at, over=FLAP_OVER, times=FLAP_TIMES),
        incomplete=incident.incomplete,
        timeline=tuple(incident.timeline),
        url=f"{external_url.rstrip('/')}/#incident={incident.id}" if external_url else "",
    )


def _alert_line(episode: Episode) -> AlertLine:
    return AlertLine(
        name=episode.name,
        summary=episode.annotations.get("summary") or episode.annotations.get("description", ""),
        severity=episode.labels.get("severity", ""),
        labels=str(episode.labels),
        starts_at=episode.starts_at,
        firing=episode.firing,
        source=", ".join(sorted(episode.sources)) or episode.source,
    )


def times(incident: Incident, operation: Operation | None, episodes: list[Episode]) -> Times:
    """How long each part took. Detection is counted from the earliest start of its alerts."""
    started = min((episode.starts_at for episode in episodes), default=incident.opened_at)
    detect = max(0.0, (incident.opened_at - started).total_seconds())
    if operation is None:
        return Times(detect=detect)
    acted = (operation.ended_at - operation.started_at).total_seconds() if operation.ended_at else None
    proven = None
    if operation.ended_at and incident.closed_at and operation.verdict is Verdict.FIXED:
        proven = (incident.closed_at - operation.ended_at).total_seconds()
    return Times(
        detect=detect,
        decide=(operation.started_at - incident.opened_at).total_seconds(),
        act=acted,
        verify=proven,
    )
