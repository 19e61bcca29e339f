"""Puts Kubernetes Events on the objects that incidents are about, so that `kubectl describe` tells what Healer does, or not.

Telling only: it holds up nothing and fails nothing. A remedy in shadow mode writes nothing to the cluster, so there are
no Events of it either; and in a storm of alerts the API server is spared.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from healer.loop.book import Book, Cluster
from healer.loop.recorder import Recorder
from healer.loop.records import Incident
from healer.model import events as ev
from healer.model.decisions import Answer, Reason
from healer.model.plans import Mode
from healer.model.targets import ObjectRef

log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.3
"""How long Events wait before they are written: what is urgent goes first."""
WAITING_LIMIT: Final = 200
"""Events that may wait; of more the oldest are left out. What happened stands in the journal in any case."""
UNREMARKABLE: Final = frozenset(
    {
        Reason.SUPERSEDED,
        Reason.NO_REMEDY,
        Reason.STORM,
        Reason.AWAITING_APPROVAL,
        Reason.STALE_DATA,
        Reason.API_UNHEALTHY,
    }
)
"""Decisions that say nothing about the object."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One Event that is to be written. Without `about`, it belongs on the incident's target."""

    incident: str
    reason: str
    message: str
    about: ObjectRef | None = None
    warning: bool = False


class Annotating:
    """Run `work` as a worker. `storming(cluster)`: whether so many alerts arrive that Events would do harm."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        clusters: Mapping[str, Cluster],
        book: Callable[[], Book],
        storming: Callable[[str], bool],
    ) -> None:
        self._memory = recorder.memory
        self._clusters = clusters
        self._book = book
        self._storming = storming
        self._waiting: deque[Note] = deque(maxlen=WAITING_LIMIT)
        self._wake = asyncio.Event()
        self._opened: dict[str, Note] = {}
        """Incidents about which nothing has been decided yet."""
        self._held: dict[str, tuple[Answer, Reason]] = {
            incident.id: (incident.decided.answer, incident.decided.reason)
            for incident in self._memory.open_incidents()
            if incident.decided
        }
        """Why each open incident waits, as last told, also by a predecessor."""
        self._unwatch = recorder.watch(self._heard)

    async def work(self) -> None:
        """Write what has been noted, one after the other, until cancelled."""
        try:
            await self._work()
        finally:
            self._unwatch()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(GATHER_SECONDS)
            while self._waiting:
                await self._write(self._waiting.popleft())

    def _heard(self, event: ev.AnyEvent) -> None:
        note = self._note(event)
        if isinstance(event, ev.IncidentOpened) and note is not None:
            # Until there is a remedy for it, nobody knows whether it may be told.
            self._opened[event.incident] = note
            return
        if isinstance(event, ev.Planned | ev.Decided | ev.Escalated | ev.IncidentClosed):
            self._tell(self._opened.pop(event.incident, None))
        self._tell(note)

    def _tell(self, note: Note | None) -> None:
        if note is not None:
            self._waiting.append(note)
            self._wake.set()

    def _note(self, event: ev.AnyEvent) -> Note | None:
        """What `event` is worth telling on the object."""
        match event:
            case ev.IncidentOpened():
                message = f"incident {event.incident}: alert {event.title}{self._summary(event.episode)}"
                return Note(
                    incident=event.incident, reason="IncidentOpened", message=message, about=event.target, warning=True
                )
            case ev.Decided():
                return self._held_back(event)
            case ev.OperationStarted():
                self._held.pop(event.incident, None)
                steps = ", ".join(preview.action for preview in event.plan.previews)
                message = f"incident {event.incident}: carrying out {event.remedy} ({steps}), attempt {event.attempt}"
                return Note(incident=event.incident, reason="RemedyStarted", message=message, about=event.plan.target)
            case ev.ApprovalRequested():
                message = f"incident {event.incident}: {event.remedy} waits for approval until {event.expires_at:%H:%M:%S} UTC"
                return Note(incident=event.incident, reason=str(Reason.AWAITING_APPROVAL), message=message)
            case ev.StepEnded() if not event.ok:
                undo = "undoing " if event.undo else ""
                message = f"incident {event.incident}: {undo}{event.action} failed ({event.reason}): {event.detail}"
                return Note(incident=event.incident, reason="StepFailed", message=message, warning=True)
            case ev.Escalated():
                message = f"incident {event.incident}: a person is needed ({event.reason}): {event.detail}"
                return Note(incident=event.incident, reason="Escalated", message=message, warning=True)
            case ev.IncidentClosed():
                self._held.pop(event.incident, None)
                detail = f": {event.detail}" if event.detail else ""
                return Note(
                    incident=event.incident,
                    reason=str(event.reason),
                    message=f"incident {event.incident}: closed ({event.reason}){detail}",
                )
            case _:
                return None

    def _summary(self, episode_id: str) -> str:
        episode = self._memory.episodes.get(episode_id)
        summary = episode.annotations.get("summary", "") if episode else ""
        return f", {summary}" if summary else ""

    def _held_back(self, event: ev.Decided) -> Note | None:
        """A guard has said no, or not yet: told when the reason is another than before."""
        if not event.incident or event.reason in UNREMARKABLE or event.answer is Answer.GO or not event.guard:
            return None
        if self._held.get(event.incident) == (event.answer, event.reason):
            return None
        self._held[event.incident] = (event.answer, event.reason)
        word = "waits" if event.answer is Answer.WAIT else "is refused"
        what = event.remedy or "a repair"
        return Note(
            incident=event.incident,
            reason=str(event.reason),
            message=f"incident {event.incident}: {what} {word} ({event.guard}): {event.detail}",
        )

    async def _write(self, note: Note) -> None:
        incident = self._memory.incidents.get(note.incident)
        if incident is None or self._is_quiet(incident):
            return
        about = note.about or incident.target
        cluster = self._clusters.get(incident.cluster)
        if about is None or cluster is None or not about.uid:
            return
        try:
            await cluster.kube.event(about, reason=note.reason, message=note.message, warning=note.warning)
        except Exception as error:  # noqa: BLE001 (whatever it was, telling must not end the service)
            log.warning("event %s on %s: %s: %s", note.reason, about, type(error).__name__, error)

    def _is_quiet(self, incident: Incident) -> bool:
        """Nobody has decided to do anything yet, or what is done must leave no trace in the cluster, or it has worse to do."""
        remedy = self._book().remedies.get(incident.remedy)
        mode = incident.mode or (remedy.mode if remedy else Mode.SHADOW)
        return mode == Mode.SHADOW or self._storming(incident.cluster)
