"""The guards in their order, and the judgement over all of them. Pure; they gate only *new* disruption."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from healer.model.decisions import GO, Answer, Decision, Moment
from healer.safety import breakers, ownership, pacing, sight, windows
from healer.safety.state import Fleet, Request

Check = Callable[[Request, Fleet, Moment], Decision]


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """`for_all`: it also holds for what disturbs nobody (taking back, helping); the others hold for disruption only."""

    name: str
    check: Check
    for_all: bool = False


def guards() -> tuple[Guard, ...]:
    """Every guard, in the order in which they answer. No plugin and no configuration takes one out."""
    return (
        Guard("pause", sight.pause_switch, for_all=True),
        Guard("freshness", sight.freshness, for_all=True),
        Guard("vantage", sight.vantage),
        Guard("zone-outage", sight.zone_outage),
        Guard("self-protection", ownership.self_protection, for_all=True),
        Guard("protection", ownership.protection, for_all=True),
        Guard("attempts", pacing.attempts, for_all=True),
        Guard("lock", ownership.lock, for_all=True),
        Guard("cooldown", pacing.cooldown),
        Guard("last-node", breakers.last_node),
        Guard("fleet-breaker", breakers.fleet_breaker),
        Guard("min-healthy", breakers.min_healthy),
        Guard("rate", pacing.rate),
        Guard("in-flight", pacing.in_flight),
        Guard("maintenance-window", windows.maintenance_window),
    )


GUARDS: Final = guards()


def judge(request: Request, fleet: Fleet, now: Moment) -> tuple[Decision, tuple[Decision, ...]]:
    """The first answer that is not "go", else "go"; and what every guard answered, for people."""
    answers = tuple(
        dataclasses.replace(guard.check(request, fleet, now), guard=guard.name)
        for guard in GUARDS
        if guard.for_all or request.disrupts
    )
    return next((answer for answer in answers if answer.answer is not Answer.GO), GO), answers
