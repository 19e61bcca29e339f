"""Keeps people informed: one message per incident and notifier, edited as it goes. Telling never holds up a repair."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from healer import telemetry
from healer.errors import ActionError, HealerError, JournalError, Retryable
from healer.loop.recorder import Recorder
from healer.loop.views import view
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.ports import Notifier

log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.3
"""How long changes are gathered before a message is edited: several events often come together."""
TRIES: Final = 8
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
        recorder.watch(self._note)

    def _note(self, event: ev.AnyEvent) -> None:
        if event.incident and isinstance(event, TELLING_EVENTS):
            self._changed[event.incident] = None
            self._wake.set()

    async def work(self) -> None:
        """Tell the newest of each incident, one after the other."""
        for incident in self._recorder.memory.open_incidents():
            self._changed[incident.id] = None
            self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(GATHER_SECONDS)
            while self._changed:
                id_ = next(iter(self._changed))
                del self._changed[id_]
                await self._tell(id_)

    async def _tell(self, id_: str) -> None:
        incident = self._recorder.memory.incidents.get(id_)
        if incident is None:
            return
        handle = incident.handles.get(self._notifier.name, "")
        if not handle and incident.reason in QUIET and incident.state is IncidentState.OPEN:
            return
        for attempt in range(1, TRIES + 1):
            try:
                told = await self._notifier.tell(
                    view(self._recorder.memory, incident, external_url=self._external_url), handle
                )
            except Retryable as error:
                telemetry.NOTIFICATIONS.labels(self._notifier.name, "retried").inc()
                await asyncio.sleep(max(error.delay_seconds, min(60.0, 2.0**attempt / 2)))
            except (ActionError, HealerError) as error:
                log.warning("telling %s of incident %s: %s", self._notifier.name, id_, error)
                telemetry.NOTIFICATIONS.labels(self._notifier.name, "failed").inc()
                return
            else:
                telemetry.NOTIFICATIONS.labels(self._notifier.name, "told").inc()
                await self._keep(id_, handle, told)
                return
        log.warning("telling %s of incident %s: given up after %d tries", self._notifier.name, id_, TRIES)
        telemetry.NOTIFICATIONS.labels(self._notifier.name, "given up").inc()

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
