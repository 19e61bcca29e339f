"""What was acknowledged is there after a kill, and damage on disk costs only what it hit."""

from __future__ import annotations

import errno
import logging
import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from healer.clock import milliseconds
from healer.errors import StoreError
from healer.model.series import STALE, batch, is_stale
from healer.store import frames
from healer.store.embedded import EmbeddedStore, open_store
from healer.testing.store_contract import Series, named, read, series

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = milliseconds(NOW)


class StoppedClock:
    def __init__(self, at: datetime = NOW) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0


async def append(store: EmbeddedStore, second: int, *, count: int = 3) -> None:
    rows = ((series("m", n=str(n)), NOW_MS - 60_000 + second * 1000, float(second)) for n in range(count))
    assert (await store.append(batch(rows))).accepted == count


async def everything(store: EmbeddedStore) -> Series:
    return await read(store, named("m"), start_ms=NOW_MS - 60_000, end_ms=NOW_MS)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A store with ten scrapes of three series, closed."""
    async with open_store(tmp_path, clock=StoppedClock()) as store:
        for second in range(10):
            await append(store, second)
    return tmp_path


async def reopened(folder: Path) -> tuple[Series, EmbeddedStore]:
    async with open_store(folder, clock=StoppedClock()) as store:
        return await everything(store), store


WRITER = """
import asyncio, pathlib, sys
from healer.clock import SystemClock, milliseconds
from healer.model.series import Labels, batch
from healer.store.embedded import open_store

async def main():
    clock = SystemClock()
    labels = [Labels({"__name__": "m", "n": str(n)}) for n in range(50)]
    async with open_store(pathlib.Path(sys.argv[1]), clock=clock, segment_bytes=20_000) as store:
        start = milliseconds(clock.now()) - 3_600_000
        for count in range(1, 1_000_000):
            appended = await store.append(batch((one, start + count, float(count)) for one in labels))
            assert appended.accepted == 50
            print(start, count, flush=True)

asyncio.run(main())
"""


def acknowledged_before_a_kill(folder: Path) -> tuple[int, int]:
    """Start time and number of the last scrape that a writer, killed in the middle, has acknowledged."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line.split()[1]) == 300:
                break
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
    assert writer.returncode == -signal.SIGKILL
    # A line that was cut off by the kill was not seen as an acknowledgement by anybody.
    acknowledged = [text for text in [line, *rest.splitlines(keepends=True)] if text.endswith("\n")]
    start, count = acknowledged[-1].split()
    return int(start), int(count)


async def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    start, count = acknowledged_before_a_kill(tmp_path)
    assert len(segments(tmp_path)) > 1
    async with open_store(tmp_path, clock=StoppedClock(datetime.fromtimestamp(start / 1000 + 3600, UTC))) as store:
        columns = await store.select([named("m")], start, start + count)
        assert len(columns) == 50
        assert (columns.times_ms.reshape(50, count) == start + np.arange(1, count + 1)).all()
        assert (columns.values.reshape(50, count) == np.arange(1, count + 1)).all()
        assert store.damage.places == 0


async def test_everything_comes_back_bit_by_bit(tmp_path: Path) -> None:
    rows = [(series("m", x="ä\n\x00"), NOW_MS - 2, STALE), (series("m"), NOW_MS - 1, 0.1), (series("n"), NOW_MS, -0.0)]
    async with open_store(tmp_path, clock=StoppedClock()) as store:
        await store.append(batch(rows))
        before = await store.select([], 0, NOW_MS)
    async with open_store(tmp_path, clock=StoppedClock()) as store:
        after = await store.select([], 0, NOW_MS)
        assert after.labels == before.labels
        assert after.values.tobytes() == before.values.tobytes()
        assert after.times_ms.tolist() == before.times_ms.tolist()
        assert is_stale(after.values).any()
        assert (await store.append(batch(rows[1:2]))).accepted == 1
        assert (await store.append(batch([(series("n"), NOW_MS - 1, 1.0)]))).rejected == {"out of order": 1}


async def test_a_torn_tail_is_cut_at_every_length(folder: Path) -> None:
    (segment,) = segments(folder)
    whole = segment.read_bytes()
    for length in range(len(whole) - 1, len(whole) - 90, -7):
        segment.write_bytes(whole[:length])
        found, store = await reopened(folder)
        assert {len(rows) for rows in found.values()} <= {8, 9}
        assert store.damage.places == 0
        assert frames.read_segment(segment).good_bytes <= length
        assert segment.stat().st_size <= length
    async with open_store(folder, clock=StoppedClock()) as store:
        await append(store, 30)
    found, _ = await reopened(folder)
    assert all(rows[-1] == (NOW_MS - 30_000, 30.0) for rows in found.values())


async def test_a_torn_header_is_no_obstacle(folder: Path) -> None:
    (folder / "series-0000000002.log").write_bytes(frames.HEADER[:3])
    (folder / "series-0000000003.log").write_bytes(b"")
    found, _ = await reopened(folder)
    assert {len(rows) for rows in found.values()} == {10}


async def test_a_flipped_bit_costs_one_frame_and_is_counted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (segment,) = segments(folder)
    whole = segment.read_bytes()
    middle = len(whole) // 2
    segment.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
    with caplog.at_level(logging.WARNING):
        found, store = await reopened(folder)
    assert {len(rows) for rows in found.values()} == {9}
    assert store.damage.places == 1
    assert "skipped" in caplog.text
    assert str(segment) in caplog.text


async def test_any_flipped_bit_leaves_the_rest_readable_and_nothing_wrong(folder: Path) -> None:
    (segment,) = segments(folder)
    whole = segment.read_bytes()
    truth, _ = await reopened(folder)
    dice = random.Random(7)  # noqa: S311 (the same every time)
    for _ in range(60):
        position, bit = dice.randrange(len(whole)), dice.randrange(8)
        segment.write_bytes(whole[:position] + bytes([whole[position] ^ (1 << bit)]) + whole[position + 1 :])
        found, _ = await reopened(folder)
        for name, rows in found.items():
            assert set(rows) <= set(truth[name])
            assert len(rows) >= 9


async def test_lost_definitions_cost_their_segment_only(folder: Path) -> None:
    async with open_store(folder, clock=StoppedClock()) as store:
        await append(store, 20)
    first = segments(folder)[0]
    whole = first.read_bytes()
    at = whole.index(b"__name__")
    first.write_bytes(whole[:at] + b"X" + whole[at + 1 :])
    found, store = await reopened(folder)
    assert {tuple(rows) for rows in found.values()} == {((NOW_MS - 40_000, 20.0),)}
    assert (store.damage.places, store.damage.orphans) == (1, 30)


async def test_garbage_in_the_folder_is_skipped(folder: Path) -> None:
    (folder / "series-0000000007.log").write_bytes(bytes(range(256)) * 20)
    (folder / "series-0000000008.log").write_bytes(frames.MARKER * 300)
    found, _ = await reopened(folder)
    assert {len(rows) for rows in found.values()} == {10}


async def test_an_unknown_format_is_refused_with_the_mend(folder: Path) -> None:
    (segment,) = segments(folder)
    newer = frames.MAGIC + bytes([9, 255 - 9])
    segment.write_bytes(newer + segment.read_bytes()[len(newer) :])
    with pytest.raises(StoreError, match=r"format 9, and this Healer reads format 1; run the version that wrote it"):
        await reopened(folder)


async def test_one_process_per_folder(folder: Path) -> None:
    async with open_store(folder, clock=StoppedClock()):
        with pytest.raises(StoreError, match=rf"process {os.getpid()} holds it; stop that process"):
            await reopened(folder)
    await reopened(folder)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"opening the store in .*/file/series'.*[Nn]ot a directory"):
        await reopened(tmp_path / "file" / "series")


async def test_a_full_disk_refuses_samples_and_recovers_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    room = [10_000]

    def limited(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(file, data[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", limited)
    async with open_store(tmp_path, clock=StoppedClock()) as store:
        await append(store, 0)
        room[0] = 20
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left on device; make room or shorten `keep`"):
                await append(store, 1, count=4)
        assert store.series == 3
        assert {len(rows) for rows in (await everything(store)).values()} == {1}
        room[0] = 10_000
        await append(store, 2, count=4)
        live = await everything(store)
    found, store = await reopened(tmp_path)
    assert found == live
    assert [len(rows) for rows in found.values()] == [2, 2, 2, 1]
    assert store.damage.places == 0


async def test_a_disk_that_is_full_from_the_start_refuses_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with open_store(tmp_path, clock=StoppedClock()) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(StoreError, match="No space left"):
                await append(store, 0)
        await append(store, 1)
    found, store = await reopened(tmp_path)
    assert {tuple(rows) for rows in found.values()} == {((NOW_MS - 59_000, 1.0),)}
