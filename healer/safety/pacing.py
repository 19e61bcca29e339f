"""Guards that ask whether it is too often or too much at once. Times are monotonic: a step of the wall clock moves none."""

from __future__ import annotations

from typing import Final

from healer.model.decisions import GO, Decision, Moment, Reason, refuse, wait
from healer.model.targets import Level
from healer.safety.state import Disruption, Fleet, Request

HOUR_SECONDS: Final = 3600.0


def attempts(request: Request, _fleet: Fleet, _now: Moment) -> Decision:
    """A remedy that has not helped so often will not help."""
    most = request.remedy.limits.attempts
    if request.attempt > most:
        return refuse(
            Reason.ATTEMPTS_EXHAUSTED,
            f"{request.remedy.name} has been tried {request.attempt - 1} times for this incident; {most} is the limit",
        )
    return GO


def cooldown(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """What has just been treated is left alone for a while; the next rung of a ladder need not wait for the one before."""
    seconds = request.remedy.limits.cooldown_seconds
    ended = [d for d in fleet.disruptions if d.ended is not None and _same_thing(request, d)]
    ended = [d for d in ended if d.remedy not in request.remedy.after]
    if not ended:
        return GO
    last = max(ended, key=lambda d: d.ended or 0.0)
    since = now.monotonic - (last.ended or 0.0)
    if since >= seconds:
        return GO
    return wait(
        Reason.COOLDOWN,
        f"{last.remedy} was done to {last.target} {since:.0f} s ago; {seconds:g} s must pass",
        seconds=seconds - since,
    )


def _same_thing(request: Request, earlier: Disruption) -> bool:
    return earlier.target.key == request.target.key or earlier.owner.key == request.owner.key


def rate(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """How often a remedy may be used in an hour, in one cluster."""
    most = request.remedy.limits.per_hour
    if most is None:
        return GO
    recent = sorted(
        d.started
        for d in fleet.disruptions
        if d.remedy == request.remedy.name
        and d.cluster == request.cluster.name
        and now.monotonic - d.started < HOUR_SECONDS
    )
    if len(recent) < most:
        return GO
    frees = recent[-most] + HOUR_SECONDS - now.monotonic if most else None
    return wait(
        Reason.RATE_LIMIT,
        f"{request.remedy.name} was begun {len(recent)} times in the last hour; {most} is the limit",
        seconds=frees,
    )


def in_flight(request: Request, fleet: Fleet, _now: Moment) -> Decision:
    """How much may be in our hands at once: of one remedy, in one zone, in the whole cluster, in all clusters."""
    running = fleet.in_flight(request.cluster.name)
    limits, settings = request.remedy.limits, fleet.settings
    of_remedy = [d for d in running if d.remedy == request.remedy.name]
    of_level = [d for d in running if (d.target.level is Level.NODE) == request.is_node]
    fleet_limit = settings.max_in_flight if request.is_node else settings.max_in_flight_workloads
    things = "nodes" if request.is_node else "workloads"
    checks: list[tuple[list[Disruption], int | None, str]] = [
        (of_remedy, limits.max_in_flight, f"operations of {request.remedy.name}"),
        (of_level, fleet_limit, f"{things} of cluster {request.cluster.name}"),
    ]
    if request.is_node:
        anywhere = [d for d in fleet.disruptions if d.in_flight and d.target.level is Level.NODE]
        checks.append((anywhere, settings.max_in_flight_all_clusters, "nodes of all clusters"))
    if request.zone:
        in_zone = [d for d in of_remedy if d.zone == request.zone]
        checks.append((in_zone, limits.per_zone, f"operations of {request.remedy.name} in zone {request.zone}"))
    if request.zone and request.is_node:
        in_zone = [d for d in of_level if d.zone == request.zone]
        checks.append((in_zone, settings.max_in_flight_per_zone, f"nodes of zone {request.zone}"))
    for found, most, what in checks:
        if most is not None and len(found) >= most:
            names = ", ".join(sorted(str(d.target) for d in found))
            held = f" ({names})" if names else ""
            return wait(Reason.IN_FLIGHT_LIMIT, f"{len(found)} {what} are in our hands{held}; {most} is the limit")
    return GO
