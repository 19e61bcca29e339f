"""The recorder of a replica that shares its journal: it also follows what the others write, in the order of the journal.

Every replica's memory is therefore the same fold of the same events. What only a leader may write is refused here when
we do not lead, and by the journal when another has begun to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from healer.clock import Clock
from healer.errors import Deposed, JournalError, JournalRewound
from healer.loop.memory import Memory
from healer.loop.recorder import Recorder, Waiting
from healer.model import events as ev
from healer.ports import SharedJournal

log = logging.getLogger(__name__)

FOLLOW_SECONDS: Final = 0.25
"""How often the journal is looked at for what others wrote. An alert that a standby took waits so long at the most."""
ANYBODYS: Final = frozenset(
    {
        ev.ServiceStarted,
        ev.ServiceStopped,
        ev.ConfigReloaded,
        ev.JournalRecovered,
        ev.Paused,
        ev.Resumed,
        ev.AlertFired,
        ev.AlertResolved,
        ev.AlertsRejected,
        ev.StormNoticed,
        ev.ApprovalAnswered,
        ev.OperationCancelled,
    }
)
"""What arrives may arrive at any replica. All else is decided, done or told, by the leader alone."""


class SharedRecorder(Recorder):
    """`leads`: whether the lease is ours at this very moment. `term` is the one we lead in, 0 while we do not.

    `followed` is called with each event that another replica wrote, once it is in memory.
    """

    shared = True

    def __init__(self, journal: SharedJournal, memory: Memory, clock: Clock, *, leads: Callable[[], bool]) -> None:
        super().__init__(journal, memory, clock)
        self.term = 0
        self.deposed = asyncio.Event()
        """Set when the journal has told us that another leads."""
        self.followed: Callable[[ev.AnyEvent], None] = lambda _: None
        self._shared = journal
        self._leads = leads
        self._asking: list[asyncio.Future[None]] = []
        self._unsure = False

    async def load(self) -> None:
        await self._catch_up()

    def leading(self) -> bool:
        return self.term > 0 and self._leads()

    async def current(self) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.append(done)
        self._wake.set()
        await done

    def _term_of(self, events: Sequence[ev.AnyEvent]) -> int:
        if all(type(event) in ANYBODYS for event in events):
            return 0
        self.check_leading()
        return self.term

    async def work(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FOLLOW_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            asking, self._asking = self._asking, []
            await self._follow(asking)
            if self._waiting:
                await self._write(self._taken())

    # Following -------------------------------------------------------------------------------------------------------

    async def _follow(self, asking: Sequence[asyncio.Future[None]]) -> None:
        try:
            await self._catch_up()
        except JournalError as error:
            self._failed()
            for done in asking:
                if not done.done():
                    done.set_exception(JournalError(str(error)))
        except BaseException:
            for done in asking:
                done.cancel()
            raise
        else:
            self._unsure = False
            for done in asking:
                if not done.done():
                    done.set_result(None)

    async def _catch_up(self, *, before: int | None = None) -> None:
        """Take in everything that others have written, up to `before` where that is given."""
        known = self.memory.seq
        is_there = known == 0
        async for recorded in self._shared.read(after=max(0, known - 1)):
            if recorded.seq == known:
                is_there = recorded.digest == self._digest
            if is_there and recorded.seq > known and (before is None or recorded.seq < before):
                self._take(recorded, self.moment())
                self.followed(recorded.event)
        if not is_there:
            raise JournalRewound(
                f"following the journal: event {known}, which it had acknowledged, is not in it any more; "
                "was its database restored, or failed over to a copy that was behind? Start anew from what it holds"
            )

    # Writing ---------------------------------------------------------------------------------------------------------

    async def _write(self, batch: Sequence[Waiting]) -> None:
        for term in {waiting.term: None for waiting in batch}:
            await self._write_as(term, [waiting for waiting in batch if waiting.term == term])

    async def _write_as(self, term: int, batch: Sequence[Waiting]) -> None:
        events = [event for waiting in batch for event in waiting.events]
        try:
            self._check(term, len(events))
            recorded = await self._shared.append(events, term=term)
            await self._catch_up(before=recorded[0].seq)
        except Deposed as error:
            self._refuse(batch, error)
            if term == self.term and self._leads():
                # The journal says so, and it is right whatever the lease says.
                log.warning("%s", error)
                self.deposed.set()
            return
        except JournalError as error:
            self._failed()
            self._refuse(batch, error)
            return
        except BaseException:
            for waiting in batch:
                waiting.done.cancel()
            raise
        self._written(batch, recorded)

    def _check(self, term: int, count: int) -> None:
        if self._unsure:
            # Until we have seen whether the last write was made after all, nothing is built upon its failure.
            raise JournalError(f"recording {count} events: the journal does not answer")
        if term and (term != self.term or not self._leads()):
            raise Deposed(f"recording {count} events: the term in which they were decided is over")

    def _failed(self) -> None:
        self._unsure = True
        if self.unwritable_since is None:
            self.unwritable_since = self.clock.monotonic()
