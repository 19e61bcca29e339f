"""Guards that ask whether what we see is true and whole: pause switch, freshness, vantage point, outage of a zone."""

from __future__ import annotations

from healer.cluster import domains
from healer.cluster.domains import Zone
from healer.model.decisions import GO, Decision, Moment, Reason, refuse, wait
from healer.safety.state import VIEW, Fleet, Request


def pause_switch(_request: Request, fleet: Fleet, _now: Moment) -> Decision:
    """Nothing new is started while a person has said so."""
    if fleet.paused:
        return wait(Reason.PAUSED, f"everything is paused by {fleet.paused}")
    return GO


def freshness(request: Request, fleet: Fleet, _now: Moment) -> Decision:
    """What we know must be young, and the API server well for as long as a node may take to be heard of again."""
    seen, settings = request.cluster.freshness, fleet.settings
    if not seen.synced:
        return wait(Reason.STALE_DATA, f"not everything of cluster {request.cluster.name} has been read yet")
    if seen.silent_seconds > settings.stale_after_seconds:
        return wait(
            Reason.API_UNHEALTHY,
            f"the API server of {request.cluster.name} has not answered for {seen.silent_seconds:.0f} s"
            f" (the limit is {settings.stale_after_seconds:g} s)",
        )
    left = settings.grace_after_outage_seconds - seen.healthy_seconds
    if left > 0:
        return wait(
            Reason.API_UNHEALTHY,
            f"the API server of {request.cluster.name} has answered for {seen.healthy_seconds:.0f} s without a break;"
            f" {settings.grace_after_outage_seconds:g} s are needed",
            seconds=left,
        )
    return GO


def vantage(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """When many nodes fall silent at once, our own view is the first suspect."""
    if sentence := fleet.census(request.cluster, now).vantage:
        return refuse(Reason.VANTAGE_FAULT, sentence)
    if just_over := _just_over(request, fleet, now, VIEW):
        return _until_quiet(Reason.VANTAGE_FAULT, "many nodes were silent at once", just_over, fleet)
    node = request.cluster.nodes.get(request.target.name) if request.is_node else None
    if node is None:
        return GO
    diagnosis = domains.diagnose(request.cluster, node, now.monotonic, fleet.settings.thresholds)
    if diagnosis.fault is domains.Fault.UNKNOWN:
        return wait(Reason.STALE_DATA, diagnosis.detail, seconds=diagnosis.again_seconds)
    return GO


def zone_outage(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """In a zone that is out, no repair of a node helps; the other zones go on."""
    if not request.zone:
        return GO
    settings = fleet.settings
    zone = fleet.census(request.cluster, now).zones.get(request.zone) or Zone(name=request.zone, bad=(), total=0)
    is_out = zone.is_out(settings.zone_outage_percent)
    just_over = _just_over(request, fleet, now, request.zone)
    ours = sum(1 for d in fleet.in_flight(request.cluster.name) if d.zone == request.zone)
    if not (is_out or just_over) or ours < settings.zone_outage_max:
        return GO
    if not is_out:
        return _until_quiet(Reason.ZONE_OUTAGE, f"zone {request.zone} was out", just_over, fleet)
    return refuse(
        Reason.ZONE_OUTAGE,
        f"{len(zone.bad)} of {zone.total} nodes of zone {zone.name} are bad"
        f" (the limit is {settings.zone_outage_percent:g}%): the zone is out, and in such a zone"
        f" {settings.zone_outage_max} may be worked on at once ({ours} are)",
    )


def _just_over(request: Request, fleet: Fleet, now: Moment, zone: str) -> float:
    """Seconds left until what was out has been well for a grace period: alerts and reports lag behind; 0 when it has."""
    last = fleet.outages.get((request.cluster.name, zone))
    return 0.0 if last is None else max(0.0, last + fleet.settings.grace_after_outage_seconds - now.monotonic)


def _until_quiet(reason: Reason, what: str, left: float, fleet: Fleet) -> Decision:
    grace = fleet.settings.grace_after_outage_seconds
    return wait(reason, f"{what} until {grace - left:.0f} s ago; {grace:g} s must have passed", seconds=left)
