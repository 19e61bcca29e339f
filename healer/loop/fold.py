"""Takes events into memory: the table says which function knows what a kind of event changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from healer.loop import fold_alerts as alerts
from healer.loop import fold_incidents as incidents
from healer.loop import fold_operations as operations
from healer.loop.memory import Memory
from healer.model import events as ev
from healer.model.decisions import Moment

Apply = Callable[[Any, Memory, int, float], None]
"""(event, memory, seq, monotonic time of the event)"""

TABLE: Final[Mapping[type[ev.Event], Apply]] = {
    ev.Paused: alerts.paused,
    ev.Resumed: alerts.resumed,
    ev.AlertFired: alerts.alert_fired,
    ev.AlertResolved: alerts.alert_resolved,
    ev.StormNoticed: alerts.storm_noticed,
    ev.IncidentOpened: incidents.incident_opened,
    ev.IncidentReopened: incidents.incident_reopened,
    ev.AlertAttached: incidents.alert_attached,
    ev.Decided: incidents.decided,
    ev.Planned: incidents.planned,
    ev.ApprovalRequested: incidents.approval_requested,
    ev.ApprovalAnswered: incidents.approval_answered,
    ev.ApprovalVoided: incidents.approval_voided,
    ev.OperationStarted: operations.operation_started,
    ev.StepStarted: operations.step_started,
    ev.CallIntended: operations.call_intended,
    ev.CallEnded: operations.call_ended,
    ev.StepNoted: operations.step_noted,
    ev.StepProgress: operations.step_progress,
    ev.StepEnded: operations.step_ended,
    ev.OperationEnded: operations.operation_ended,
    ev.OperationCancelled: operations.operation_cancelled,
    ev.VerificationStarted: operations.verification_started,
    ev.Verified: operations.verified,
    ev.Escalated: incidents.escalated,
    ev.IncidentClosed: incidents.incident_closed,
    ev.Told: incidents.told,
}
"""Kinds that are not here change nothing: notes about the service and its configuration."""


def take(memory: Memory, recorded: ev.Recorded, moment: Moment) -> None:
    """Take one event in. `moment`: now; its monotonic time is corrected by the age of the event."""
    memory.seq = recorded.seq
    age = max(0.0, (moment.wall - recorded.event.at).total_seconds())
    apply = TABLE.get(type(recorded.event))
    if apply is not None:
        apply(recorded.event, memory, recorded.seq, moment.monotonic - age)
