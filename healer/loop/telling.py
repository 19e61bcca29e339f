"""Keeps people informed: one message per incident and notifier, edited as it goes. Telling never holds up a repair."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from healer import telemetry
from healer.errors import JournalError, Retryable
from healer.loop.recorder import Recorder
from healer.loop.records import Incident
from healer.loop.views import view
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.model.plans import Mode
from healer.ports import Notifier

log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.3
"""How long changes are gathered before a message is edited: several events often come together."""
LONGEST_DELAY_SECONDS: Final = 60.0
"""Between tries while the other side is down, unless it asks for more. A page is tried until it arrives."""
LOST_ENDS: Final = timedelta(minutes=1)
"""Incidents that ended so shortly before we began are told of once more: a page must not stay open for want of a word."""
QUIET: Final = frozenset({Reason.STORM})
"""While an incident only waits for these, it is not worth a message of its own."""
TELLING_EVENTS: Final = (
    ev.IncidentOpened,
    ev.IncidentReopened,
    ev.AlertAttached,
    ev.AlertResolved,
    ev.Decided,
    ev.Planned,
    ev.ApprovalRequested,
    ev.ApprovalAnswered,
    ev.ApprovalVoided,
    ev.OperationStarted,
    ev.StepStarted,
    ev.StepEnded,
    ev.OperationEnded,
    ev.OperationCancelled,
    ev.VerificationStarted,
    ev.Verified,
    ev.Escalated,
    ev.IncidentClosed,
)


class Telling:
    """Run `work` as a worker for each notifier."""

    def __init__(self, recorder: Recorder, notifier: Notifier, *, external_url: str = "") -> None:
        self._recorder = recorder
        self._notifier = notifier
        self._external_url = external_url
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._unwatch = recorder.watch(self._note)

    def _note(self, event: ev.AnyEvent) -> None:
        if event.incident and isinstance(event, TELLING_EVENTS):
            self._changed[event.incident] = None
            self._wake.set()

    async def work(self) -> None:
        """Tell the newest of each incident, one after the other, until cancelled."""
        try:
            await self._work()
        finally:
            self._unwatch()

    async def _work(self) -> None:
        for incident in [*self._recorder.memory.open_incidents(), *self._ended_of_late()]:
            self._changed[incident.id] = None
            self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(GATHER_SECONDS)
            failures = 0
            while self._changed:
                id_ = next(iter(self._changed))
                del self._changed[id_]
                asked = await self._tell(id_)
                # A notifier that never waits must not keep the lease from being renewed while thousands are told.
                await asyncio.sleep(0)
                if asked is None:
                    failures = 0
                    continue
                failures += 1
                self._changed.setdefault(id_)
                await asyncio.sleep(max(asked, min(LONGEST_DELAY_SECONDS, 2.0**failures / 2)))

    def _ended_of_late(self) -> list[Incident]:
        """Whoever was at work before us may have died between the end of an incident and telling of it."""
        since = self._recorder.clock.now() - LOST_ENDS
        return [
            incident
            for incident in self._recorder.memory.incidents.values()
            if incident.closed_at and incident.closed_at >= since and self._notifier.name in incident.handles
        ]

    async def _tell(self, id_: str) -> float | None:
        """Tell the newest of one incident; or the seconds after which it is to be tried again."""
        incident = self._recorder.memory.incidents.get(id_)
        if incident is None or not self._recorder.leading():
            return None
        handle = incident.handles.get(self._notifier.name, "")
        if not handle and not self._is_worth_a_message(incident):
            return None
        shown = view(self._recorder.memory, incident, external_url=self._external_url)
        try:
            told = await self._notifier.tell(shown, handle)
        except Retryable as error:
            log.info("telling %s of incident %s: %s; trying again", self._notifier.name, id_, error)
            telemetry.NOTIFICATIONS.labels(self._notifier.name, "retried").inc()
            return error.delay_seconds
        except Exception as error:  # noqa: BLE001 — whatever a notifier raises, it must not end the service
            log.warning("telling %s of incident %s: %s: %s", self._notifier.name, id_, type(error).__name__, error)
            telemetry.NOTIFICATIONS.labels(self._notifier.name, "failed").inc()
            return None
        telemetry.NOTIFICATIONS.labels(self._notifier.name, "told").inc()
        await self._keep(id_, handle, told)
        return None

    def _is_worth_a_message(self, incident: Incident) -> bool:
        """Nobody is told of what only waits out a storm, or of what a remedy in shadow mode would have done."""
        if incident.state is not IncidentState.OPEN:
            return incident.mode != Mode.SHADOW or self._notifier.shadow
        return incident.reason not in QUIET and (incident.mode != Mode.SHADOW or self._notifier.shadow)

    async def _keep(self, id_: str, before: str, handle: str) -> None:
        if handle == before:
            return
        try:
            await self._recorder.record(
                ev.Told(at=self._recorder.clock.now(), incident=id_, notifier=self._notifier.name, handle=handle)
            )
        except JournalError as error:
            log.warning("keeping the handle of a message to %s: %s", self._notifier.name, error)


def tellers(recorder: Recorder, notifiers: Sequence[Notifier], *, external_url: str = "") -> dict[str, Telling]:
    """One worker per notifier, by its name."""
    return {notifier.name: Telling(recorder, notifier, external_url=external_url) for notifier in notifiers}
