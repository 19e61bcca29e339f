"""Remembers when whole zones, or our view of a cluster, were last out: just after that nothing can be told of a single node."""

from __future__ import annotations

from collections.abc import Mapping

from healer.cluster import domains
from healer.model.cluster import ClusterState
from healer.safety.sight import thresholds
from healer.safety.state import VIEW, SafetySettings


class Outages:
    """Look often: what nobody has looked at has not been out. Forgotten with the process, which looks on for as long anyway."""

    def __init__(self) -> None:
        self.last: dict[tuple[str, str], float] = {}
        """(cluster, zone, or VIEW for our view of it all) → monotonic time at which it was last seen to be out."""

    def look(self, states: Mapping[str, ClusterState], settings: SafetySettings, now: float) -> None:
        limits = thresholds(settings)
        for state in states.values():
            if domains.vantage(state, now, limits):
                self.last[state.name, VIEW] = now
            for name in {node.zone for node in state.nodes.values()} - {""}:
                zone = domains.zone_of(state, name, now, limits.silent_after_seconds)
                if zone.is_out(limits.zone_outage_percent):
                    self.last[state.name, name] = now
