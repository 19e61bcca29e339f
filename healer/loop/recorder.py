"""The one way in: journal first, then memory, then whoever watches.

A single writer takes everything that has been handed in meanwhile to the journal in one transaction, so that many
alerts share one flush of the disk, and memory changes in the order of the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from healer import telemetry
from healer.clock import Clock
from healer.errors import JournalError
from healer.loop import fold
from healer.loop.memory import Memory
from healer.model.decisions import Moment
from healer.model.events import AnyEvent, Decided, IncidentClosed, IncidentOpened
from healer.ports import Journal

WAITING_LIMIT: Final = 100_000
"""Events that may wait for the disk; more are refused, so that the sender keeps them."""


class Recorder:
    """Writes events; run `work` as a worker. `record` returns when its events are durable and in memory."""

    def __init__(self, journal: Journal, memory: Memory, clock: Clock) -> None:
        self.memory = memory
        self.clock = clock
        self._journal = journal
        self._waiting: deque[tuple[tuple[AnyEvent, ...], asyncio.Future[None]]] = deque()
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

    async def record(self, *events: AnyEvent) -> None:
        """JournalError when they could not be written: then nothing of them has happened."""
        if not events:
            return
        if self._count + len(events) > WAITING_LIMIT:
            raise JournalError(f"recording {len(events)} events: {self._count} are waiting for the disk already")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((events, done))
        self._count += len(events)
        self._wake.set()
        await done

    def watch(self, watcher: Callable[[AnyEvent], None]) -> Callable[[], None]:
        """Call `watcher` after each event has been applied; returns how to stop that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def work(self) -> None:
        """The writer. Never ends of itself."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch = list(self._waiting)
            self._waiting.clear()
            self._count = 0
            await self._write(batch)

    async def flush(self) -> None:
        """Write what is still waiting; for the end, when the writer has been cancelled."""
        batch = list(self._waiting)
        self._waiting.clear()
        await self._write(batch)

    async def _write(self, batch: Sequence[tuple[tuple[AnyEvent, ...], asyncio.Future[None]]]) -> None:
        events = [event for group, _ in batch for event in group]
        try:
            recorded = await self._journal.append(events)
        except JournalError as error:
            if self.unwritable_since is None:
                self.unwritable_since = self.clock.monotonic()
            for _, done in batch:
                if not done.cancelled():
                    done.set_exception(JournalError(str(error)))
            return
        except BaseException:
            for _, done in batch:
                done.cancel()
            raise
        self.unwritable_since = None
        moment = self.moment()
        for one in recorded:
            fold.take(self.memory, one, moment)
            self._meter(one.event)
            for watcher in tuple(self._watchers):
                watcher(one.event)
        for _, done in batch:
            if not done.done():
                done.set_result(None)

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
