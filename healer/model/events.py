"""What the journal holds: everything that was heard, decided, done and found, in order, never changed afterwards.

Incidents, approvals, `why`, audit, replay and metrics are readings of these. A kind of event is never removed and a
field never changes its meaning; new fields have defaults, so that an old journal stays readable.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from healer.model.decisions import Answer, Reason, Verdict
from healer.model.plans import Plan
from healer.model.targets import NodeIdentity, ObjectRef


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: wall time. `incident`: the incident it belongs to, or empty."""

    at: datetime
    incident: str = ""


class ServiceStarted(Event, frozen=True, kw_only=True, tag=True):
    version: str
    config_digest: str
    host: str = ""


class ServiceStopped(Event, frozen=True, kw_only=True, tag=True):
    pass


class LeaderElected(Event, frozen=True, kw_only=True, tag=True):
    """Of several replicas this one leads from now on. `term` is its fencing token."""

    host: str
    term: int


class ConfigReloaded(Event, frozen=True, kw_only=True, tag=True):
    config_digest: str
    problems: tuple[str, ...] = ()
    """Empty when the new configuration runs; else the old one goes on."""


class JournalRecovered(Event, frozen=True, kw_only=True, tag=True):
    """For so long nothing could be written, and therefore nothing was taken in and nothing new was done."""

    seconds: float


class Paused(Event, frozen=True, kw_only=True, tag=True):
    by: str
    why: str = ""


class Resumed(Event, frozen=True, kw_only=True, tag=True):
    by: str
    why: str = ""


class AlertFired(Event, frozen=True, kw_only=True, tag=True):
    """A new episode, or another sender of a known one. `episode` is (cluster, labels, start) as one short id."""

    cluster: str
    episode: str
    labels: tuple[tuple[str, str], ...]
    annotations: dict[str, str] = {}
    starts_at: datetime
    source: str
    generator_url: str = ""
    value: float | None = None
    notes: tuple[str, ...] = ()
    """What was odd about it: a start in the future was clamped, the batch was truncated."""
    incomplete: bool = False
    """The sender has cut its batch off: there are more alerts like this than we know."""


class AlertResolved(Event, frozen=True, kw_only=True, tag=True):
    """`source`: who says so; where another still says that it fires, it does. Empty: it is over, whoever said what."""

    cluster: str
    episode: str
    ends_at: datetime
    source: str = ""


class AlertsRejected(Event, frozen=True, kw_only=True, tag=True):
    """Alerts of a batch that could not be taken, by reason."""

    source: str
    counts: dict[str, int]
    examples: tuple[str, ...] = ()


class StormNoticed(Event, frozen=True, kw_only=True, tag=True):
    cluster: str
    alerts: int
    over_seconds: float


class IncidentOpened(Event, frozen=True, kw_only=True, tag=True):
    """The first alert of an owner, `episode`, about `target` (None: it could not be resolved; `note` says why)."""

    cluster: str
    owner: ObjectRef
    title: str
    severity: str
    episode: str
    target: ObjectRef | None = None
    note: str = ""
    trace_id: str = ""


class IncidentReopened(Event, frozen=True, kw_only=True, tag=True):
    """The same alert is back soon after the end: the same incident goes on. `flaps` counts how often by now."""

    episode: str
    flaps: int


class AlertAttached(Event, frozen=True, kw_only=True, tag=True):
    """An alert belongs to this incident. `target`: the one object it is about."""

    episode: str
    target: ObjectRef | None = None
    note: str = ""


class Decided(Event, frozen=True, kw_only=True, tag=True):
    """A decision: also, and above all, the decision to do nothing. `wait_seconds` as in `Decision`."""

    cluster: str
    answer: Answer
    reason: Reason
    detail: str = ""
    guard: str = ""
    remedy: str = ""
    episode: str = ""
    target: ObjectRef | None = None
    wait_seconds: float | None = None


class Planned(Event, frozen=True, kw_only=True, tag=True):
    plan: Plan
    mode: str


class ApprovalRequested(Event, frozen=True, kw_only=True, tag=True):
    remedy: str
    digest: str
    expires_at: datetime
    needed: int


class ApprovalAnswered(Event, frozen=True, kw_only=True, tag=True):
    """Somebody answered. `accepted` says whether the answer counted, `reason` why not."""

    digest: str
    approve: bool
    by: str
    via: str
    accepted: bool
    reason: Reason = Reason.OK


class ApprovalVoided(Event, frozen=True, kw_only=True, tag=True):
    digest: str
    reason: Reason
    detail: str = ""


class OperationStarted(Event, frozen=True, kw_only=True, tag=True):
    """From here on the plan is carried out. `operation` names it in every call, as the start of idempotency keys."""

    operation: str
    cluster: str
    remedy: str
    attempt: int
    plan: Plan
    identity: NodeIdentity | None = None
    zone: str = ""
    pool: str = ""


class StepStarted(Event, frozen=True, kw_only=True, tag=True):
    operation: str
    step: int
    action: str
    undo: bool = False


class CallIntended(Event, frozen=True, kw_only=True, tag=True):
    """Written before the call is made: from here to CallEnded its outcome is unknown."""

    operation: str
    step: int
    call: str
    key: str
    on: str
    undo: bool = False


class CallEnded(Event, frozen=True, kw_only=True, tag=True):
    """`outcome`: "done", "failed" (for certain not done), "settled" (found done by reading), "void" (found not done)."""

    operation: str
    step: int
    call: str
    outcome: str
    result: Any = None
    detail: str = ""
    undo: bool = False


class StepNoted(Event, frozen=True, kw_only=True, tag=True):
    """Something a step must remember over a restart; the newest of a name counts."""

    operation: str
    step: int
    name: str
    value: Any


class StepProgress(Event, frozen=True, kw_only=True, tag=True):
    """A line for people."""

    operation: str
    step: int
    text: str


class StepEnded(Event, frozen=True, kw_only=True, tag=True):
    operation: str
    step: int
    action: str
    ok: bool
    reason: Reason = Reason.OK
    detail: str = ""
    undo: bool = False


class OperationEnded(Event, frozen=True, kw_only=True, tag=True):
    operation: str
    ok: bool
    reason: Reason = Reason.OK
    detail: str = ""


class OperationCancelled(Event, frozen=True, kw_only=True, tag=True):
    """A person wants it stopped before its next irreversible call."""

    operation: str
    by: str


class VerificationStarted(Event, frozen=True, kw_only=True, tag=True):
    operation: str


class Verified(Event, frozen=True, kw_only=True, tag=True):
    operation: str
    verdict: Verdict
    evidence: tuple[str, ...] = ()


class Escalated(Event, frozen=True, kw_only=True, tag=True):
    reason: Reason
    detail: str = ""


class IncidentClosed(Event, frozen=True, kw_only=True, tag=True):
    """`leaves`: episodes that go on firing and no longer belong to it; they are looked at anew."""

    reason: Reason
    detail: str = ""
    leaves: tuple[str, ...] = ()


class Told(Event, frozen=True, kw_only=True, tag=True):
    """A notifier's own name for the message about this incident, so that it can be edited."""

    notifier: str
    handle: str


AnyEvent = (
    ServiceStarted
    | ServiceStopped
    | LeaderElected
    | ConfigReloaded
    | JournalRecovered
    | Paused
    | Resumed
    | AlertFired
    | AlertResolved
    | AlertsRejected
    | StormNoticed
    | IncidentOpened
    | IncidentReopened
    | AlertAttached
    | Decided
    | Planned
    | ApprovalRequested
    | ApprovalAnswered
    | ApprovalVoided
    | OperationStarted
    | StepStarted
    | CallIntended
    | CallEnded
    | StepNoted
    | StepProgress
    | StepEnded
    | OperationEnded
    | OperationCancelled
    | VerificationStarted
    | Verified
    | Escalated
    | IncidentClosed
    | Told
)

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Canonical JSON: the same event always gives the same bytes, so that they can be chained by hash."""
    return _encoder.encode(event)


def decode(data: bytes | str) -> AnyEvent:
    """Raises msgspec.DecodeError for what is not an event of a known kind."""
    return _decoder.decode(data)


def kind(event: Event) -> str:
    """The name of the kind of event, as stored."""
    return type(event).__name__


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its place in the journal. `seq` counts from 1 without gaps; `digest` chains it to all before."""

    seq: int
    event: AnyEvent
    digest: str
