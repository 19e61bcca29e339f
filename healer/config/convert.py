"""From what the user wrote to the values of the model."""

from __future__ import annotations

from typing import Literal

from healer.config.remedies import Approval, Limits, Remedy, Verify
from healer.config.schema import Config
from healer.model import plans


def remedies(config: Config) -> tuple[plans.Remedy, ...]:
    """In the order of the file."""
    return tuple(map(remedy, config.remedies))


def remedy(given: Remedy) -> plans.Remedy:
    """`match: all` becomes no matchers: only here, where it was written out."""
    return plans.Remedy(
        name=given.name,
        matchers=given.when,
        steps=tuple(plans.StepSpec(action=step.name, params=step.params) for step in given.steps),
        target=given.target or "",
        mode=given.mode,
        verify=_verify(given.verify),
        otherwise=given.otherwise,
        limits=_limits(given.limits),
        approval=_approval(given.approval),
        priority=given.priority,
        on_resolved=given.on == "resolved",
        after=given.after,
    )


def _verify(given: Verify) -> plans.VerifySpec:
    return plans.VerifySpec(
        alert_resolved=given.alert == "resolved",
        object_healthy=given.object == "healthy",
        query=given.query,
        for_seconds=given.for_.total_seconds(),
        timeout_seconds=given.timeout.total_seconds(),
    )


def limit(given: int | Literal["unlimited"]) -> int | None:
    """None for any number, which had to be written out."""
    return None if given == "unlimited" else given


def _limits(given: Limits) -> plans.Limits:
    return plans.Limits(
        max_in_flight=given.max_in_flight,
        per_zone=limit(given.per_zone),
        per_hour=limit(given.per_hour),
        min_healthy=given.min_healthy,
        cooldown_seconds=given.cooldown.total_seconds(),
        attempts=given.attempts,
        allow_last_node=given.allow_last_node,
    )


def _approval(given: Approval) -> plans.ApprovalSpec:
    return plans.ApprovalSpec(
        groups=given.groups,
        minimum=given.minimum,
        expires_seconds=given.expires.total_seconds(),
        not_requester=given.not_requester,
    )
