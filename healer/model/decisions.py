"""Decisions as values that carry their reason.

The same reason is the log field, the metric label, the journal column and the text in Slack.
"""

from __future__ import annotations

import dataclasses
import enum
from datetime import datetime


class Answer(enum.StrEnum):
    GO = "go"
    WAIT = "wait"
    REFUSE = "refuse"


class Reason(enum.StrEnum):
    """Why something is done, or not done yet, or not done. docs/reasons.md explains each to the person on call."""

    OK = "ok"
    # What the alert is about
    NO_REMEDY = "NoRemedy"
    AMBIGUOUS_TARGET = "AmbiguousTarget"
    TARGET_NOT_FOUND = "TargetNotFound"
    TARGET_GONE = "TargetGone"
    INVALID_TARGET = "InvalidTarget"
    SUPERSEDED = "Superseded"
    RESOLVED_ON_ITS_OWN = "ResolvedOnItsOwn"
    FLAPPING = "Flapping"
    TOO_OLD = "TooOld"
    STORM = "Storm"
    # Guards
    PAUSED = "Paused"
    STALE_DATA = "StaleData"
    API_UNHEALTHY = "ApiUnhealthy"
    VANTAGE_FAULT = "VantageFault"
    ZONE_OUTAGE = "ZoneOutage"
    SELF_PROTECTION = "SelfProtection"
    PROTECTED = "Protected"
    LOCKED = "Locked"
    COOLDOWN = "Cooldown"
    RATE_LIMIT = "RateLimit"
    IN_FLIGHT_LIMIT = "InFlightLimit"
    FLEET_BREAKER = "FleetBreaker"
    LAST_NODE = "LastNode"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    ATTEMPTS_EXHAUSTED = "AttemptsExhausted"
    # Planning
    INFEASIBLE = "Infeasible"
    MULTIPLE_BUDGETS = "MultipleBudgets"
    NOT_FENCED = "NotFenced"
    NOTHING_TO_DO = "NothingToDo"
    # Modes and people
    SHADOW = "Shadow"
    SUGGESTED = "Suggested"
    AWAITING_APPROVAL = "AwaitingApproval"
    APPROVAL_EXPIRED = "ApprovalExpired"
    DENIED = "Denied"
    PLAN_CHANGED = "PlanChanged"
    NOT_ALLOWED = "NotAllowed"
    NO_LONGER_NEEDED = "NoLongerNeeded"
    ALREADY_DECIDED = "AlreadyDecided"
    CANCELLED = "Cancelled"
    TAKEN_OVER = "TakenOver"
    # Acting
    STEP_FAILED = "StepFailed"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    DEADLINE = "Deadline"
    # Verifying
    FIXED = "Fixed"
    NOT_FIXED = "NotFixed"
    WORSE = "Worse"
    INCONCLUSIVE = "Inconclusive"
    VERIFYING = "Verifying"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Now, on both clocks. Compare `monotonic` (seconds); show `wall`."""

    wall: datetime
    monotonic: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a guard, or planning, answers. `wait_seconds` is from now; None with WAIT means: until something changes.

    `guard` names who said so; `detail` is a sentence for a person, with the numbers.
    """

    answer: Answer
    reason: Reason
    detail: str = ""
    guard: str = ""
    wait_seconds: float | None = None


GO = Decision(answer=Answer.GO, reason=Reason.OK)


def refuse(reason: Reason, detail: str, *, guard: str = "") -> Decision:
    return Decision(answer=Answer.REFUSE, reason=reason, detail=detail, guard=guard)


def wait(reason: Reason, detail: str, *, guard: str = "", seconds: float | None = None) -> Decision:
    return Decision(answer=Answer.WAIT, reason=reason, detail=detail, guard=guard, wait_seconds=seconds)


class Verdict(enum.StrEnum):
    """What verification found."""

    FIXED = "fixed"
    NOT_FIXED = "not fixed"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
