"""From an alert to an incident: which one object it is about, whose incident that is, whether anybody has a remedy. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Final

from healer.loop.book import Book
from healer.loop.memory import Memory
from healer.loop.records import Episode, Incident
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.decisions import Answer, Moment, Reason
from healer.model.incidents import IncidentState
from healer.model.targets import ObjectRef
from healer.rules.targets import Unresolved, resolve

ALERT_KIND: Final = "Alert"
"""The kind of the stand-in owner of an alert whose object could not be found."""


@dataclasses.dataclass(slots=True)
class Found:
    """What was made of an episode: events to record, and the incident to decide about (empty: none)."""

    events: list[ev.AnyEvent]
    incident: str = ""


def place(
    episode: Episode,
    memory: Memory,
    book: Book,
    states: Mapping[str, ClusterState],
    moment: Moment,
    opening: dict[tuple[str, str, str, str], str],
) -> Found:
    """Find, reopen or open the incident of a new episode. `opening`: incidents opened in this round, by owner."""
    target, unresolved = _target(episode, states)
    owner = _owner(episode, target, states)
    if back := _returning(episode, memory, book, moment):
        flaps = len(back.flaps) + 1
        event = ev.IncidentReopened(at=moment.wall, incident=back.id, episode=episode.id, flaps=flaps)
        return Found([event], back.id)
    note = "; ".join((*episode.notes, *((f"{unresolved.reason}: {unresolved.detail}",) if unresolved else ())))
    if known := memory.open_by_owner.get(owner.key) or opening.get(owner.key):
        attached = ev.AlertAttached(at=moment.wall, incident=known, episode=episode.id, target=target, note=note)
        return Found([attached], known)
    if not book.index.matching(episode.labels):
        detail = f"no remedy matches alert {episode.name}"
        return Found(
            [
                ev.Decided(
                    at=moment.wall,
                    cluster=episode.cluster,
                    answer=Answer.REFUSE,
                    reason=Reason.NO_REMEDY,
                    detail=detail,
                    episode=episode.id,
                    target=target,
                )
            ]
        )
    id_ = incident_id(owner, episode, memory.seq)
    opening[owner.key] = id_
    opened = ev.IncidentOpened(
        at=moment.wall,
        incident=id_,
        cluster=episode.cluster,
        owner=owner,
        title=episode.name,
        severity=episode.labels.get("severity", ""),
        episode=episode.id,
        target=target,
        note=note,
        trace_id=hashlib.sha256(f"{id_} {moment.wall}".encode()).hexdigest()[:32],
    )
    return Found([opened], id_)


def incident_id(owner: ObjectRef, episode: Episode, seq: int) -> str:
    """Short enough to type, and the same for nobody else."""
    return "i" + hashlib.sha256(f"{owner.key} {episode.id} {seq}".encode()).hexdigest()[:7]


def _target(episode: Episode, states: Mapping[str, ClusterState]) -> tuple[ObjectRef | None, Unresolved | None]:
    state = states.get(episode.cluster)
    if state is None:
        known = ", ".join(sorted(states)) or "none"
        return None, Unresolved(
            reason=Reason.TARGET_NOT_FOUND,
            detail=f"cluster {episode.cluster!r} is not one of ours ({known}); name it under clusters, or send its alerts elsewhere",
        )
    found = resolve(episode.labels, state)
    return (found, None) if isinstance(found, ObjectRef) else (None, found)


def _owner(episode: Episode, target: ObjectRef | None, states: Mapping[str, ClusterState]) -> ObjectRef:
    if target is None:
        return ObjectRef(
            cluster=episode.cluster,
            kind=ALERT_KIND,
            namespace=episode.labels.get("namespace", ""),
            name=episode.name,
            uid=episode.id,
        )
    return states[episode.cluster].owner_of(target)


def _returning(episode: Episode, memory: Memory, book: Book, moment: Moment) -> Incident | None:
    """The incident that this very alert belonged to until a short while ago."""
    incident = memory.incidents.get(memory.last_by_identity.get((episode.cluster, episode.labels), ""))
    if incident is None or incident.state is not IncidentState.CLOSED or incident.closed is None:
        return None
    if memory.open_by_owner.get(incident.owner.key):
        return None
    return incident if moment.monotonic - incident.closed <= book.hold.total_seconds() else None
