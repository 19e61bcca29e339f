"""What reports of alerts, and pauses, change in memory: one function an event kind."""
# ruff: noqa: ARG001 — all are called alike, and not every one needs every argument

from __future__ import annotations

from healer.loop.memory import Memory
from healer.loop.records import Episode
from healer.model import events as ev
from healer.model.series import Labels


def paused(event: ev.Paused, memory: Memory, seq: int, monotonic: float) -> None:
    memory.paused_by, memory.paused_why = event.by, event.why


def resumed(event: ev.Resumed, memory: Memory, seq: int, monotonic: float) -> None:
    memory.paused_by = memory.paused_why = ""


def alert_fired(event: ev.AlertFired, memory: Memory, seq: int, monotonic: float) -> None:
    labels = Labels(event.labels)
    firing = memory.firing.get((event.cluster, labels))
    if firing:
        # Another sender of it, or two replicas that have taken the same alert at the same moment.
        firing.sources.add(event.source)
        firing.heard_at = event.at
        return
    known = memory.episodes.get(event.episode)
    if known and (before := memory.incidents.get(known.incident)) and not before.is_open:
        # It had ended, and its incident too, when a replica that had not heard of that took it once more.
        before.episodes.remove(known.id)
        known = None
    episode = Episode(
        id=event.episode,
        cluster=event.cluster,
        labels=labels,
        annotations=event.annotations,
        starts_at=event.starts_at,
        heard_at=event.at,
        source=event.source,
        sources={event.source},
        generator_url=event.generator_url,
        value=event.value,
        incident=known.incident if known else "",
        target=known.target if known else None,
        notes=event.notes,
        incomplete=event.incomplete,
    )
    memory.episodes[event.episode] = episode
    memory.firing[(event.cluster, episode.labels)] = episode


def alert_resolved(event: ev.AlertResolved, memory: Memory, seq: int, monotonic: float) -> None:
    episode = memory.episodes.get(event.episode)
    if episode is None or not episode.firing:
        return
    episode.sources.discard(event.source)
    if event.source and episode.sources:
        return
    episode.ends_at = event.ends_at
    if memory.firing.get((episode.cluster, episode.labels)) is episode:
        del memory.firing[(episode.cluster, episode.labels)]
    incident = memory.incidents.get(episode.incident)
    if incident is None:
        if not episode.incident:
            del memory.episodes[event.episode]
        return
    memory.say(incident, seq, event.at, f"alert {episode.name} resolved", "good")


def storm_noticed(event: ev.StormNoticed, memory: Memory, seq: int, monotonic: float) -> None:
    memory.storms[event.cluster] = event.at
