"""The journal as it reads now: episodes, incidents, operations, pauses. Changed only by `healer.loop.fold`, event by event.

Because nothing else changes it, what a restart reads back is what the process knew before it died.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from healer.loop.records import Episode, Incident, Operation
from healer.model.incidents import IncidentState, TimelineEntry
from healer.model.series import Labels
from healer.model.targets import ObjectRef

CLOSED_KEPT: Final = 2000
"""Closed incidents kept in memory; older ones are read from the journal."""
TIMELINE_KEPT: Final = 400
UNDER_WAY: Final = frozenset({IncidentState.ACTING, IncidentState.VERIFYING, IncidentState.UNDOING})


class Memory:
    """The fold of all recorded events."""

    def __init__(self) -> None:
        self.seq = 0
        self.paused_by = ""
        self.paused_why = ""
        self.episodes: dict[str, Episode] = {}
        self.firing: dict[tuple[str, Labels], Episode] = {}
        """Firing episodes by identity."""
        self.incidents: dict[str, Incident] = {}
        self.open_by_owner: dict[tuple[str, str, str, str], str] = {}
        self.operations: dict[str, Operation] = {}
        self.recently_closed: deque[str] = deque()
        self.last_by_identity: dict[tuple[str, Labels], str] = {}
        """The newest incident of an identity, for recognising what comes back."""
        self.storms: dict[str, datetime] = {}

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> str:
        if not self.paused_by:
            return ""
        return f"{self.paused_by}: {self.paused_why}" if self.paused_why else self.paused_by

    def open_incidents(self) -> Iterator[Incident]:
        return (self.incidents[id_] for id_ in list(self.open_by_owner.values()))

    def episodes_of(self, incident: Incident) -> list[Episode]:
        return [self.episodes[id_] for id_ in incident.episodes if id_ in self.episodes]

    def firing_of(self, incident: Incident) -> list[Episode]:
        return [episode for episode in self.episodes_of(incident) if episode.firing]

    def operation_of(self, incident: Incident) -> Operation | None:
        return self.operations.get(incident.operation)

    def unsettled_operations(self) -> list[Operation]:
        """What must be carried on after a restart, oldest first."""
        return [op for op in self.operations.values() if self._is_under_way(op)]

    def _is_under_way(self, operation: Operation) -> bool:
        """Not settled, or settled without what has to follow: the end of the incident, or taking back."""
        incident = self.incidents[operation.incident]
        if not incident.is_open or incident.operation != operation.id:
            return False
        return not operation.settled or incident.state in UNDER_WAY

    # Changing --------------------------------------------------------------------------------------------------------

    def say(self, incident: Incident, seq: int, at: datetime, text: str, tone: str = "info") -> None:
        incident.changed_at = at
        incident.timeline.append(TimelineEntry(at=at, text=text, tone=tone, seq=seq))
        if len(incident.timeline) > TIMELINE_KEPT:
            del incident.timeline[1 : len(incident.timeline) - TIMELINE_KEPT + 1]

    def attach(self, incident: Incident, episode_id: str, target: ObjectRef | None) -> Episode | None:
        episode = self.episodes.get(episode_id)
        if episode_id not in incident.episodes:
            incident.episodes.append(episode_id)
        if episode is None:
            return None
        episode.incident = incident.id
        episode.target = target
        incident.incomplete = incident.incomplete or episode.incomplete
        self.last_by_identity[(episode.cluster, episode.labels)] = incident.id
        return episode

    def detach(self, incident: Incident, episodes: Sequence[str]) -> None:
        """They are nobody's again, as if they had just been heard of."""
        for id_ in episodes:
            incident.episodes.remove(id_)
            episode = self.episodes[id_]
            episode.incident, episode.target = "", None
            self.last_by_identity.pop((episode.cluster, episode.labels), None)

    def forget_old(self) -> None:
        """Drop the oldest closed incidents, with their episodes and operations."""
        while len(self.recently_closed) > CLOSED_KEPT:
            incident = self.incidents.get(self.recently_closed.popleft())
            if incident is None or incident.is_open:
                continue
            del self.incidents[incident.id]
            for id_ in incident.episodes:
                episode = self.episodes.pop(id_, None)
                if episode and self.last_by_identity.get((episode.cluster, episode.labels)) == incident.id:
                    del self.last_by_identity[(episode.cluster, episode.labels)]
            for operation in [op.id for op in self.operations.values() if op.incident == incident.id]:
                del self.operations[operation]


def flapping(incident: Incident, now: datetime, *, over: timedelta, times: int) -> bool:
    """Whether its alert came back at least `times` within `over`."""
    return sum(1 for at in incident.flaps if now - at <= over) >= times
