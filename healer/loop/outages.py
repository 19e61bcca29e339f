"""Remembers when whole zones, or our view of a cluster, were last out: just after that nothing can be told of a single node."""

from __future__ import annotations

from collections.abc import Mapping

from healer.cluster.census import Census
from healer.safety.state import VIEW


class Outages:
    """Look often: what nobody has looked at has not been out. Forgotten with the process, which looks on for as long anyway."""

    def __init__(self) -> None:
        self.last: dict[tuple[str, str], float] = {}
        """(cluster, zone, or VIEW for our view of it all) → monotonic time at which it was last seen to be out."""

    def look(self, censuses: Mapping[str, Census], zone_outage_percent: float, now: float) -> None:
        """Take note of what is out now, by the counts of each cluster."""
        for cluster, census in censuses.items():
            if census.vantage:
                self.last[cluster, VIEW] = now
            for name, zone in census.zones.items():
                if name and zone.is_out(zone_outage_percent):
                    self.last[cluster, name] = now
