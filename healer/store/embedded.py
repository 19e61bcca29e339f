"""The store that needs nothing installed: recent samples in memory, and on disk a log that brings them back.

It keeps whatever is within `keep` and fits into the memory limit; the oldest goes first, and is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Final

from healer import clock as clocks
from healer import telemetry
from healer.model.matchers import Matcher
from healer.model.series import Batch, Columns, Floats, Labels, Times
from healer.ports import Appended
from healer.store import admission, folder, log
from healer.store.columns import NEVER, Ids
from healer.store.flushing import Flusher
from healer.store.memory import SeriesMemory

logger = logging.getLogger(__name__)

KEEP: Final = timedelta(days=7)
MEMORY_LIMIT_BYTES: Final = 512 * 1024 * 1024
MAX_SERIES: Final = 2_000_000
FUTURE_MS: Final = 10 * 60 * 1000
PRUNE_EVERY_MS: Final = 60 * 1000


@contextlib.asynccontextmanager
async def open_store(
    path: pathlib.Path | None,
    *,
    clock: clocks.Clock,
    keep: timedelta = KEEP,
    memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
    max_series: int = MAX_SERIES,
    segment_bytes: int = log.SEGMENT_BYTES,
) -> AsyncIterator[EmbeddedStore]:
    """The store in the folder `path`, made if need be; None for one that is in memory only.

    StoreError when another process holds the folder, or it cannot be read.
    """
    async with contextlib.AsyncExitStack() as stack:
        segments: log.SegmentLog | None = None
        on_write: Callable[[], None] | None = None
        if path is not None:
            stack.enter_context(folder.hold(path))
            segments = log.SegmentLog(path, segment_bytes=segment_bytes)
            stack.callback(segments.close)
            flusher = Flusher(segments)
            stack.push_async_callback(flusher.aclose)
            on_write = flusher.written
        store = EmbeddedStore(
            clock=clock,
            keep=keep,
            memory_limit_bytes=memory_limit_bytes,
            max_series=max_series,
            segments=segments,
            on_write=on_write,
        )
        if path is not None:
            with clocks.external_work():
                await asyncio.to_thread(store.recover)
        yield store


class EmbeddedStore:
    """A `healer.ports.Store`. Made by `open_store`."""

    def __init__(
        self,
        *,
        clock: clocks.Clock,
        keep: timedelta,
        memory_limit_bytes: int,
        max_series: int,
        segments: log.SegmentLog | None = None,
        on_write: Callable[[], None] | None = None,
    ) -> None:
        self._clock = clock
        self._keep_ms = round(keep.total_seconds() * 1000)
        self._log = segments
        self._on_write = on_write
        self._memory = SeriesMemory(
            memory_limit_bytes=memory_limit_bytes,
            max_series=max_series,
            forgotten=segments.forget if segments is not None else lambda _: None,
        )
        self._newest_ms = NEVER
        self._pruned_ms = NEVER
        self._evicted_samples = 0
        self.damage = log.Damage()
        """What could not be read back when the store was opened."""

    @property
    def series(self) -> int:
        """How many series have a sample here."""
        return len(self._memory)

    async def append(self, batch: Batch) -> Appended:
        """See `healer.ports.Store`. A sample that is already there, with the same value, counts as accepted."""
        now_ms = clocks.milliseconds(self._clock.now())
        bounds = admission.Bounds(oldest_ms=self._floor_ms(now_ms), newest_ms=now_ms + FUTURE_MS)
        accepted, refused = self._memory.take(
            batch.labels, batch.times_ms, batch.values, bounds=bounds, write=self._write
        )
        self._prune(now_ms)
        telemetry.SAMPLES_APPENDED.inc(accepted)
        for reason, count in refused.items():
            telemetry.SAMPLES_REJECTED.labels(reason).inc(count)
        telemetry.STORE_SERIES.set(len(self._memory))
        return Appended(accepted=accepted, rejected=refused)

    async def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Columns:
        """See `healer.ports.Store`."""
        return self._memory.select(matchers, start_ms, end_ms)

    def recover(self) -> None:
        """Take back what the log holds. Blocks; `open_store` calls it once, in a thread."""
        if self._log is None:
            return
        self.damage = self._log.replay(self._take_back)
        if self.damage.places:
            telemetry.STORE_DAMAGE.inc(self.damage.places)
            logger.error(
                "reading the store: %d damaged places were left out, and with them the names of %d samples elsewhere",
                self.damage.places,
                self.damage.orphans,
            )
        self._prune(clocks.milliseconds(self._clock.now()))
        telemetry.STORE_SERIES.set(len(self._memory))

    def _take_back(self, labels: Sequence[Labels], times_ms: Times, values: Floats) -> None:
        self._memory.take(labels, times_ms, values, bounds=admission.ANY_TIME, write=self._note)

    def _write(self, ids: Ids, times_ms: Times, values: Floats) -> None:
        if self._log is not None:
            self._log.write(ids, self._memory.labels, times_ms, values)
        if self._on_write is not None:
            self._on_write()
        self._note(ids, times_ms, values)

    def _note(self, _: Ids, times_ms: Times, __: Floats) -> None:
        self._newest_ms = max(self._newest_ms, int(times_ms.max()))

    def _floor_ms(self, now_ms: int) -> int:
        """The oldest time that is kept. A wall clock that has jumped far ahead must not throw everything away."""
        newest_ms = now_ms if self._newest_ms == NEVER else min(now_ms, self._newest_ms)
        return newest_ms - self._keep_ms

    def _prune(self, now_ms: int) -> None:
        floor_ms = self._floor_ms(now_ms)
        evicted = self._memory.evicted_samples - self._evicted_samples
        if evicted:
            self._evicted_samples += evicted
            telemetry.SAMPLES_EVICTED.inc(evicted)
        elif floor_ms - self._pruned_ms < PRUNE_EVERY_MS:
            return
        self._pruned_ms = floor_ms
        self._memory.drop_until(floor_ms - 1)
        if self._log is not None:
            self._log.drop_until(max(floor_ms - 1, self._memory.evicted_until_ms))
