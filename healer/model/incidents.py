"""An incident as people see it: one owner, its alerts, what was decided, done and found. A reading of the journal."""

from __future__ import annotations

import dataclasses
import enum
from datetime import datetime

from healer.model.decisions import Reason, Verdict
from healer.model.plans import Plan
from healer.model.targets import ObjectRef


class IncidentState(enum.StrEnum):
    OPEN = "open"
    """Being decided, or nothing can be done now: the last decision says why."""
    AWAITING_APPROVAL = "awaiting approval"
    ACTING = "acting"
    VERIFYING = "verifying"
    UNDOING = "undoing"
    ESCALATED = "escalated"
    """A person has been called; Healer does nothing more of its own accord."""
    CLOSED = "closed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One line of what happened. `tone` is how it should look: "info", "good", "bad", "wait"."""

    at: datetime
    text: str
    tone: str = "info"
    seq: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long each part took, in seconds; None while it is not over.

    `detect`: first sample or report that shows the fault → incident. `decide`: incident → go. `act`: go → last step done.
    `verify`: last step done → verdict.
    """

    detect: float | None = None
    decide: float | None = None
    act: float | None = None
    verify: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlertLine:
    """An alert of an incident, as shown: name, labels as text, since when, still firing?"""

    name: str
    summary: str
    severity: str
    labels: str
    starts_at: datetime
    firing: bool
    source: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IncidentView:
    """All that a notifier, the console or the command line shows of an incident. Every text in it is data to be escaped."""

    id: str
    cluster: str
    title: str
    severity: str
    state: IncidentState
    owner: ObjectRef
    target: ObjectRef | None
    opened_at: datetime
    changed_at: datetime
    closed_at: datetime | None = None
    alerts: tuple[AlertLine, ...] = ()
    remedy: str = ""
    mode: str = ""
    plan: Plan | None = None
    reason: Reason = Reason.OK
    detail: str = ""
    verdict: Verdict | None = None
    times: Times = dataclasses.field(default_factory=Times)
    approval_digest: str = ""
    approval_expires_at: datetime | None = None
    approvals: tuple[str, ...] = ()
    approvals_needed: int = 0
    page: bool = False
    """A person must be called now: escalated, or `otherwise: page`."""
    acknowledged: bool = False
    """Healer is at work on it, so that nobody else need be woken."""
    flapping: bool = False
    incomplete: bool = False
    timeline: tuple[TimelineEntry, ...] = ()
    url: str = ""
