"""What is known of an alert's episode, an incident, an operation: the mutable side of the journal's readings."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from healer.model.decisions import Decision, Reason, Verdict
from healer.model.incidents import IncidentState, TimelineEntry
from healer.model.plans import Plan
from healer.model.series import Labels
from healer.model.targets import NodeIdentity, ObjectRef


@dataclasses.dataclass(slots=True, kw_only=True)
class Episode:
    """One occurrence of one alert. `heard_at`: when we last heard that it fires."""

    id: str
    cluster: str
    labels: Labels
    annotations: dict[str, str]
    starts_at: datetime
    heard_at: datetime
    source: str
    sources: set[str]
    """Who says that it fires; `source` told of it first."""
    generator_url: str = ""
    value: float | None = None
    ends_at: datetime | None = None
    incident: str = ""
    target: ObjectRef | None = None
    notes: tuple[str, ...] = ()
    incomplete: bool = False
    reason: Reason = Reason.OK
    """Why there is no incident for it, where there is none."""

    @property
    def firing(self) -> bool:
        return self.ends_at is None

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "")


@dataclasses.dataclass(slots=True, kw_only=True)
class CallRecord:
    """A call to the outside: intended, then ended. `outcome` empty: unknown."""

    key: str
    outcome: str = ""
    result: Any = None


@dataclasses.dataclass(slots=True, kw_only=True)
class StepRecord:
    started: bool = False
    ended: bool = False
    ok: bool = False
    reason: Reason = Reason.OK
    detail: str = ""
    undone: bool = False
    calls: dict[str, CallRecord] = dataclasses.field(default_factory=dict)
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True, kw_only=True)
class Operation:
    """A plan being carried out, or carried out. `started`/`ended` are seconds on our monotonic clock."""

    id: str
    incident: str
    cluster: str
    remedy: str
    attempt: int
    plan: Plan
    owner: ObjectRef
    identity: NodeIdentity | None
    zone: str
    pool: str
    started: float
    started_at: datetime
    steps: dict[int, StepRecord] = dataclasses.field(default_factory=dict)
    ended: float | None = None
    ended_at: datetime | None = None
    ok: bool = False
    reason: Reason = Reason.OK
    detail: str = ""
    verifying: bool = False
    verdict: Verdict | None = None
    """`verifying` and `verdict`: the plan may be done while its cure is still to be proven."""
    cancelled_by: str = ""

    def step(self, index: int) -> StepRecord:
        return self.steps.setdefault(index, StepRecord())

    @property
    def settled(self) -> bool:
        """Nothing is left to do for it: failed for good, or verified."""
        return self.ended is not None and (not self.ok or self.verdict is not None)


@dataclasses.dataclass(slots=True, kw_only=True)
class Approval:
    """An open question to people."""

    remedy: str
    digest: str
    expires_at: datetime
    """As people are told. What counts is `expires`, in seconds on our monotonic clock: no step of the wall clock moves it."""
    expires: float
    needed: int
    given: dict[str, datetime] = dataclasses.field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.given) >= self.needed


@dataclasses.dataclass(slots=True, kw_only=True)
class Incident:
    """An incident under way or ended. `decided` is the newest decision; `failed` the remedies that did not help."""

    id: str
    seq: int
    cluster: str
    owner: ObjectRef
    title: str
    severity: str
    opened_at: datetime
    changed_at: datetime
    state: IncidentState = IncidentState.OPEN
    episodes: list[str] = dataclasses.field(default_factory=list)
    target: ObjectRef | None = None
    remedy: str = ""
    mode: str = ""
    plan: Plan | None = None
    decided: Decision | None = None
    answers: dict[str, str] = dataclasses.field(default_factory=dict)
    """Superseded remedies and by which; each is journalled once."""
    approval: Approval | None = None
    approved_digest: str = ""
    denied: set[str] = dataclasses.field(default_factory=set)
    operation: str = ""
    attempts: dict[str, int] = dataclasses.field(default_factory=dict)
    failed: set[str] = dataclasses.field(default_factory=set)
    verdict: Verdict | None = None
    flaps: list[datetime] = dataclasses.field(default_factory=list)
    closed_at: datetime | None = None
    closed: float | None = None
    """The same in seconds on our monotonic clock."""
    escalated: float | None = None
    """When a person was called, on our monotonic clock."""
    reason: Reason = Reason.OK
    detail: str = ""
    timeline: list[TimelineEntry] = dataclasses.field(default_factory=list)
    handles: dict[str, str] = dataclasses.field(default_factory=dict)
    incomplete: bool = False

    @property
    def is_open(self) -> bool:
        return self.state is not IncidentState.CLOSED
