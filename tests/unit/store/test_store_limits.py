"""The store keeps within its limits: time, memory and number of series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from healer import telemetry
from healer.clock import LoopClock, milliseconds
from healer.model.series import Batch, batch
from healer.sim.time import run
from healer.store.columns import BYTES_PER_CHUNK, CHUNK
from healer.store.embedded import open_store
from healer.testing.store_contract import match, named, read, series

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = milliseconds(NOW)


class SetClock:
    """Says what it is told to."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0


def segment_sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.glob("*.log")]


def evicted() -> float:
    return telemetry.REGISTRY.get_sample_value("healer_samples_evicted_total") or 0.0


async def test_samples_beyond_keep_go_from_memory_and_from_disk(tmp_path: Path) -> None:
    clock = SetClock()
    labels = tuple(series("m", n=str(n)) for n in range(20))
    async with open_store(tmp_path, clock=clock, keep=timedelta(hours=1), segment_bytes=3000) as store:
        at = np.zeros(0, dtype=np.int64)
        for minute in range(300):
            clock.at = NOW + timedelta(minutes=minute)
            at = np.full(20, milliseconds(clock.at))
            assert (await store.append(Batch(labels=labels, times_ms=at, values=np.full(20, 1.0)))).accepted == 20
        found = await read(store, named("m"), start_ms=0, end_ms=at[0])
        kept = {len(rows) for rows in found.values()}
        assert all(61 <= count <= 61 + CHUNK for count in kept)
        assert 1 <= len(segment_sizes(tmp_path)) < 15
    async with open_store(tmp_path, clock=clock, keep=timedelta(hours=1)) as store:
        again = await read(store, named("m"), start_ms=int(at[0]) - 3_600_000, end_ms=int(at[0]))
        assert {len(rows) for rows in again.values()} == {61}


async def test_a_series_that_ended_long_ago_is_forgotten(tmp_path: Path) -> None:
    clock = SetClock()
    async with open_store(tmp_path, clock=clock, keep=timedelta(hours=1)) as store:
        await store.append(batch([(series("m", pod="old"), NOW_MS, 1.0), (series("up"), NOW_MS, 1.0)]))
        clock.at = NOW + timedelta(hours=2)
        for extra in range(2):
            await store.append(batch([(series("m", pod="new"), milliseconds(clock.at) + extra, 1.0)]))
        assert store.series == 1
        assert await store.select([match("pod", "old")], 0, milliseconds(clock.at)) is not None
        assert set(await read(store, start_ms=0, end_ms=2 * NOW_MS)) == {'m{pod="new"}'}
        # Its number is used again for another series, and the log must say so.
        await store.append(batch([(series("other"), milliseconds(clock.at), 7.0)]))
    async with open_store(tmp_path, clock=clock, keep=timedelta(hours=1)) as store:
        assert set(await read(store, start_ms=0, end_ms=2 * NOW_MS)) == {'m{pod="new"}', "other"}


async def test_samples_older_than_keep_are_refused() -> None:
    async with open_store(None, clock=SetClock(), keep=timedelta(hours=1)) as store:
        appended = await store.append(batch([(series("m"), NOW_MS - 3_600_001, 1.0), (series("n"), NOW_MS, 1.0)]))
        assert (appended.accepted, dict(appended.rejected)) == (1, {"too old": 1})
        assert store.series == 1


async def test_a_wall_clock_that_jumps_ahead_throws_nothing_away() -> None:
    clock = SetClock()
    async with open_store(None, clock=clock, keep=timedelta(hours=1)) as store:
        await store.append(batch([(series("m"), NOW_MS, 1.0)]))
        clock.at = NOW + timedelta(days=4000)
        await store.append(batch([(series("m"), NOW_MS + 1, 2.0)]))
        assert await read(store, named("m"), start_ms=0, end_ms=NOW_MS + 1) == {"m": [(NOW_MS, 1.0), (NOW_MS + 1, 2.0)]}


async def test_memory_that_is_full_gives_up_the_oldest_and_counts_them() -> None:
    before = evicted()
    labels = tuple(series("m", n=str(n)) for n in range(10))
    async with open_store(None, clock=SetClock(), memory_limit_bytes=BYTES_PER_CHUNK * 60) as store:
        for second in range(1000):
            at = np.full(10, NOW_MS + second)
            assert (await store.append(Batch(labels=labels, times_ms=at, values=at * 1.0))).accepted == 10
        found = await read(store, named("m"), start_ms=0, end_ms=2 * NOW_MS)
        assert len(found) == 10
        left = sum(map(len, found.values()))
        assert 30 * CHUNK <= left <= 60 * CHUNK
        assert evicted() - before == 10_000 - left
        for rows in found.values():
            assert rows == [(t, float(t)) for t in range(rows[0][0], NOW_MS + 1000)]


async def test_what_memory_gave_up_goes_from_disk_too(tmp_path: Path) -> None:
    labels = tuple(series("m", n=str(n)) for n in range(10))
    async with open_store(
        tmp_path, clock=SetClock(), memory_limit_bytes=BYTES_PER_CHUNK * 60, segment_bytes=5000
    ) as store:
        for second in range(2000):
            at = np.full(10, NOW_MS + second)
            await store.append(Batch(labels=labels, times_ms=at, values=at * 1.0))
    assert sum(segment_sizes(tmp_path)) < 60 * BYTES_PER_CHUNK * 2


async def test_series_beyond_the_limit_are_refused_and_the_known_go_on() -> None:
    async with open_store(None, clock=SetClock(), max_series=3) as store:
        rows = [(series("m", n=str(n)), NOW_MS, 1.0) for n in range(5)]
        appended = await store.append(batch(rows))
        assert (appended.accepted, dict(appended.rejected)) == (3, {"too many series": 2})
        later = await store.append(batch((labels, at + 1, v) for labels, at, v in rows))
        assert (later.accepted, dict(later.rejected)) == (3, {"too many series": 2})


async def test_a_batch_larger_than_memory_keeps_its_end() -> None:
    async with open_store(None, clock=SetClock(), memory_limit_bytes=BYTES_PER_CHUNK * 8) as store:
        appended = await store.append(batch((series("m"), NOW_MS + n, float(n)) for n in range(1000)))
        assert appended.accepted == 1000
        found = await read(store, named("m"), start_ms=0, end_ms=2 * NOW_MS)
        assert found["m"][-1] == (NOW_MS + 999, 999.0)
        assert len(found["m"]) >= 4 * CHUNK


async def test_labels_that_are_not_text_are_refused() -> None:
    async with open_store(None, clock=SetClock()) as store:
        appended = await store.append(batch([(series("m", a="\ud800"), NOW_MS, 1.0), (series("m"), NOW_MS, 1.0)]))
        assert (appended.accepted, dict(appended.rejected)) == (1, {"label is not valid UTF-8": 1})


def test_virtual_time_does_not_run_ahead_of_the_disk(tmp_path: Path) -> None:
    async def main() -> float:
        import asyncio

        loop = asyncio.get_running_loop()
        clock = LoopClock(loop, epoch=NOW)
        async with open_store(tmp_path, clock=clock) as store:
            for _ in range(20):
                await store.append(batch([(series("m"), milliseconds(clock.now()), 1.0)]))
                await asyncio.sleep(0.7)
            return clock.monotonic()

    assert round(run(main), 6) == 14.0
