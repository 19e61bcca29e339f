"""The one way in: journal first, then memory, then whoever watches.

A single writer takes everything that has been handed in meanwhile to the journal in one transaction, so that many
alerts share one flush of the disk, and memory changes in the order of the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from healer import telemetry
from healer.clock import Clock
from healer.errors import Deposed, JournalError
from healer.loop import fold
from healer.loop.memory import Memory
from healer.model.decisions import Moment
from healer.model.events import AnyEvent, Decided, IncidentClosed, IncidentOpened, Recorded
from healer.ports import Journal

WAITING_LIMIT: Final = 100_000
"""Events that may wait for the disk; more are refused, so that the sender keeps them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """Events that wait for the disk, and the term of the leader that they belong to; 0 for those that may come from anybody."""

    events: tuple[AnyEvent, ...]
    done: asyncio.Future[None]
    term: int


class Recorder:
    """Writes events; run `work` as a worker. `record` returns when its events are durable and in memory."""

    shared = False
    """Whether other replicas write to the journal, too."""

    def __init__(self, journal: Journal, memory: Memory, clock: Clock) -> None:
        self.memory = memory
        self.clock = clock
        self._journal = journal
        self._waiting: deque[Waiting] = deque()
        self._digest = ""
        self._count = 0
        self._wake = asyncio.Event()
        self._watchers: list[Callable[[AnyEvent], None]] = []
        self.unwritable_since: float | None = None
        """On the monotonic clock; None while the journal takes what it is given."""
        self.started_at = clock.now()

    def moment(self) -> Moment:
        return Moment(wall=self.clock.now(), monotonic=self.clock.monotonic())

    async def load(self) -> None:
        """Read the whole journal into memory. Before anything else."""
        async for recorded in self._journal.read():
            fold.take(self.memory, recorded, self.moment())

    async def current(self) -> None:
        """Know everything that any replica had acknowledged before this call. JournalError when that is impossible."""

    def leading(self) -> bool:
        """Whether it is for us to decide and to act."""
        return True

    def check_leading(self) -> None:
        """Deposed when it is not. To be asked right before each call to the outside."""
        if not self.leading():
            raise Deposed("another replica leads")

    async def record(self, *events: AnyEvent) -> None:
        """JournalError when they could not be written: then nothing of them has happened."""
        if not events:
            return
        if self._count + len(events) > WAITING_LIMIT:
            raise JournalError(f"recording {len(events)} events: {self._count} are waiting for the disk already")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(events, done, self._term_of(events)))
        self._count += len(events)
        self._wake.set()
        await done

    def watch(self, watcher: Callable[[AnyEvent], None]) -> Callable[[], None]:
        """Call `watcher` after each event has been applied; returns how to stop that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def _term_of(self, events: Sequence[AnyEvent]) -> int:  # noqa: ARG002 — for the shared one
        return 0

    async def work(self) -> None:
        """The writer. Never ends of itself."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._write(self._taken())

    def _taken(self) -> list[Waiting]:
        batch = list(self._waiting)
        self._waiting.clear()
        self._count = 0
        return batch

    async def _write(self, batch: Sequence[Waiting]) -> None:
        events = [event for waiting in batch for event in waiting.events]
        try:
            recorded = await self._journal.append(events)
        except JournalError as error:
            if self.unwritable_since is None:
                self.unwritable_since = self.clock.monotonic()
            self._refuse(batch, error)
            return
        except BaseException:
            for waiting in batch:
                waiting.done.cancel()
            raise
        self._written(batch, recorded)

    def _refuse(self, batch: Sequence[Waiting], error: JournalError) -> None:
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_exception(type(error)(str(error)))

    def _written(self, batch: Sequence[Waiting], recorded: Sequence[Recorded]) -> None:
        self.unwritable_since = None
        moment = self.moment()
        for one in recorded:
            self._take(one, moment)
            self._meter(one.event)
        # The disk gets what has come meanwhile before those who waited for this go on: they have much to do.
        asyncio.get_running_loop().call_soon(_release, batch)

    def _take(self, recorded: Recorded, moment: Moment) -> None:
        fold.take(self.memory, recorded, moment)
        self._digest = recorded.digest
        for watcher in tuple(self._watchers):
            watcher(recorded.event)

    def _meter(self, event: AnyEvent) -> None:
        match event:
            case Decided():
                telemetry.DECISIONS.labels(event.answer, event.reason).inc()
            case IncidentOpened() if episode := self.memory.episodes.get(event.episode):
                telemetry.DETECT_SECONDS.observe(max(0.0, (event.at - episode.starts_at).total_seconds()))
            case IncidentClosed():
                telemetry.INCIDENTS_CLOSED.labels(event.reason).inc()
            case _:
                return


def _release(batch: Sequence[Waiting]) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_result(None)


@contextlib.asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[Recorder]:
    """The recorder with its writer, loaded; for whoever needs no more of the service."""
    await recorder.load()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.work(), name="recorder")
        try:
            yield recorder
        finally:
            task.cancel()
