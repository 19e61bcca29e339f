"""One of several replicas leads: what only a leader does begins with its term and ends with it, at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from healer import telemetry
from healer.clock import Clock
from healer.errors import JournalError
from healer.kube.leader import Elector
from healer.loop.sharing import SharedRecorder
from healer.loop.supervise import Worker, forever
from healer.model import events as ev
from healer.ports import SharedJournal

log = logging.getLogger(__name__)

UNWRITABLE_SECONDS: Final = 5.0
"""A leader that cannot write to the journal for so long lets another try, who may reach it."""
LOOK_SECONDS: Final = 0.5
COLD_SECONDS: Final = 10.0
"""For so long after its start a replica that does not know its clusters yet lets others go first."""


class Leadership:
    """Run `work` as a worker. `workers` makes what a leader does, anew for each term; `ready`: whether we know the clusters.

    `calm`: whether no call to the outside is under way. `changed` hears of the beginning and the end of each term.
    """

    def __init__(
        self,
        elector: Elector,
        recorder: SharedRecorder,
        journal: SharedJournal,
        clock: Clock,
        *,
        host: str,
    ) -> None:
        self._elector = elector
        self._recorder = recorder
        self._journal = journal
        self._clock = clock
        self._host = host
        self._began = clock.monotonic()
        self._ending = False
        self._was_calm = True
        self._has_begun = False
        self.workers: Callable[[], Mapping[str, Worker]] = dict
        self.ready: Callable[[], bool] = lambda: True
        self.calm: Callable[[], bool] = lambda: True
        self.changed: Callable[[bool], None] = lambda _: None

    @property
    def holder(self) -> str:
        return self._elector.holder

    async def work(self) -> None:
        """Stand for election, lead, stand again. Until cancelled."""
        while not self._ending:
            term = await self._elector.elected(willing=self._is_willing, newest_term=self._journal.term)
            log.info("leading, term %d", term)
            why = await self._one_term(term)
            log.warning("not leading any more: %s", why)
            if self._was_calm:
                # Else what was under way may still arrive: the time of the lease is left to it.
                await self._elector.release()
            # Who could not do its work lets others go first, and for long when it could not even begin.
            await asyncio.sleep(LOOK_SECONDS if self._has_begun else UNWRITABLE_SECONDS)
        await asyncio.Event().wait()

    async def end(self) -> None:
        """At the end of the service, when nothing is under way: let go, so that another begins at once."""
        self._ending = True
        self._stop()
        await self._elector.release()

    def _is_willing(self) -> bool:
        return not self._ending and (self.ready() or self._clock.monotonic() - self._began >= COLD_SECONDS)

    async def _one_term(self, term: int) -> str:
        """Lead until that is over; why."""
        why: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._recorder.deposed.clear()
        self._has_begun = False
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_tell(why, self._elector.held()), name="lease"),
                group.create_task(_tell(why, self._deposed()), name="deposed"),
                group.create_task(_tell(why, self._mute()), name="journal of the leader"),
                group.create_task(self._lead(term, why), name=f"term {term}"),
            ]
            try:
                return await asyncio.shield(why)
            finally:
                # In one breath: from here on nothing is recorded and no call is sent.
                self._stop()
                for task in tasks:
                    task.cancel()

    def _stop(self) -> None:
        self._was_calm = self.calm()
        self._elector.step_down()
        if self._recorder.term:
            self._recorder.term = 0
            telemetry.LEADER.set(0)
            self.changed(False)

    async def _lead(self, term: int, why: asyncio.Future[str]) -> None:
        try:
            await self._journal.lead(term)
            await self._recorder.current()
            self._recorder.term = term
            await self._recorder.record(ev.LeaderElected(at=self._clock.now(), host=self._host, term=term))
        except JournalError as error:
            _say(why, f"the term could not begin: {error}")
            return
        self._has_begun = True
        telemetry.LEADER.set(1)
        self.changed(True)
        async with asyncio.TaskGroup() as group:
            for name, worker in self.workers().items():
                group.create_task(forever(name, worker()), name=name)

    async def _deposed(self) -> str:
        await self._recorder.deposed.wait()
        return "the journal knows a newer leader"

    async def _mute(self) -> str:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            since = self._recorder.unwritable_since
            if since is not None and self._clock.monotonic() - since >= UNWRITABLE_SECONDS:
                return f"the journal could not be written for {UNWRITABLE_SECONDS:.0f} s"


async def _tell(why: asyncio.Future[str], work: Coroutine[Any, Any, str]) -> None:
    _say(why, await work)


def _say(why: asyncio.Future[str], text: str) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        why.set_result(text)
