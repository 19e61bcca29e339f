"""Remedies (what to do when), plans (what would be done now) and previews (what a person should know before)."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from healer.model.decisions import Reason
from healer.model.matchers import Matcher
from healer.model.targets import ObjectRef


class Mode(enum.StrEnum):
    """What happens with a plan that the guards let pass."""

    SHADOW = "shadow"
    SUGGEST = "suggest"
    APPROVE = "approve"
    AUTO = "auto"


class Effect(enum.StrEnum):
    """What happens to an object that a plan touches."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    TAINT = "taint"
    EVICT = "evict"
    DELETE = "delete"
    RESTART = "restart"
    SCALE = "scale"
    REPLACE = "replace"
    NONE = "none"
    """Looked at and left alone; listed so that a person knows."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    ref: ObjectRef
    effect: Effect
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why an action cannot be done to this target now. `reason` says which kind, `detail` the sentence with the mend."""

    reason: Reason
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What one action would do. The engine computes the blast radius from `touches`; nobody can claim a smaller one."""

    action: str
    target: ObjectRef
    summary: str
    touches: tuple[Touched, ...] = ()
    warnings: tuple[str, ...] = ()
    reversible: bool = True
    blocked: Blocked | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step of a remedy: an action by name, with its parameters as the user gave them (validated by the action)."""

    action: str
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A number, or a part of a whole, e.g. 3 or 20 %. Exactly one is set; `percent` is 0–100."""

    count: int | None = None
    percent: float | None = None

    def floor_of(self, total: int) -> int:
        """The number meant for `total` things, rounded down, never below 1 and never above `total` (0 of 0)."""
        if self.count is not None:
            return min(self.count, total)
        return min(total, max(1, int(total * (self.percent or 0.0) // 100)))

    def ceil_of(self, total: int) -> int:
        """The same, rounded up, for a minimum that must be kept."""
        if self.count is not None:
            return min(self.count, total)
        return min(total, -int(-total * (self.percent or 0.0) // 100))

    def __str__(self) -> str:
        return str(self.count) if self.count is not None else f"{self.percent:g}%"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a remedy may disturb. None means: not limited by this remedy (the fleet's own limits still hold)."""

    max_in_flight: int = 1
    per_zone: int | None = 1
    per_hour: int | None = 3
    min_healthy: Share | None = None
    cooldown_seconds: float = 600.0
    attempts: int = 2
    allow_last_node: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VerifySpec:
    """When the cure counts: alert gone, object healthy and `query` true, all of it for `for_seconds`, within `timeout_seconds`."""

    alert_resolved: bool = True
    object_healthy: bool = True
    query: str | None = None
    for_seconds: float = 120.0
    timeout_seconds: float = 900.0


class Otherwise(enum.StrEnum):
    """What happens when a remedy did not help."""

    PAGE = "page"
    TELL = "tell"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSpec:
    """Who has to agree. Without groups anybody who may use the console or the channel can."""

    groups: tuple[str, ...] = ()
    minimum: int = 1
    expires_seconds: float = 900.0
    not_requester: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A runbook as data. `target` is a template over the alert's labels, or empty: then the alert's own object is the target.

    `priority`: higher first; equal ones in the order of the file.
    """

    name: str
    matchers: tuple[Matcher, ...]
    steps: tuple[StepSpec, ...]
    target: str = ""
    mode: Mode = Mode.SHADOW
    verify: VerifySpec = dataclasses.field(default_factory=VerifySpec)
    otherwise: Otherwise = Otherwise.PAGE
    limits: Limits = dataclasses.field(default_factory=Limits)
    approval: ApprovalSpec = dataclasses.field(default_factory=ApprovalSpec)
    priority: int = 0
    on_resolved: bool = False
    after: tuple[str, ...] = ()
    """Names of remedies that must have failed on this incident first: the next rung of a ladder."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(matcher.matches(labels) for matcher in self.matchers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be done now, to what. `digest` changes when anything that a person approved would be different.

    `recipe` names the steps with their settings, as they were configured then; empty in journals of before it was kept.
    """

    remedy: str
    target: ObjectRef
    previews: tuple[Preview, ...]
    digest: str
    recipe: str = ""

    @property
    def touches(self) -> tuple[Touched, ...]:
        """Everything that changes, each object once with its strongest effect last."""
        return tuple(t for preview in self.previews for t in preview.touches if t.effect is not Effect.NONE)

    @property
    def blast_radius(self) -> Mapping[str, int]:
        """How many objects of each kind are touched."""
        seen: dict[str, set[str]] = {}
        for touched in self.touches:
            seen.setdefault(touched.ref.kind, set()).add(touched.ref.uid or str(touched.ref))
        return {kind: len(objects) for kind, objects in sorted(seen.items())}

    @property
    def blocked(self) -> Blocked | None:
        return next((p.blocked for p in self.previews if p.blocked), None)
