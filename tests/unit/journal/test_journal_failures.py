"""A disk that fails, a process that dies, an answer that gets lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from healer import telemetry
from healer.clock import SystemClock
from healer.errors import JournalError
from healer.journal import open_journal, read_journal
from healer.testing.journal_contract import progress

FILL_THE_DISK = """
import asyncio, json, resource, sys
from healer import telemetry
from healer.clock import SystemClock
from healer.errors import JournalError
from healer.journal import open_journal
from healer.testing.journal_contract import progress

def writable():
    return telemetry.JOURNAL_WRITABLE._value.get()

async def main():
    kept, refused = [], []
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    async with open_journal(sys.argv[1], clock=SystemClock()) as journal:
        async def append(name, size=2000):
            try:
                await journal.append([progress(f"{name} {'x' * size}", incident=name)] * 5)
            except JournalError as error:
                refused.append(name)
                return str(error)
            kept.append(name)

        before = writable()
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        said = None
        while not said:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(append(f"i-{len(kept)}-{n}")) for n in range(4)]
            said = next(filter(None, (task.result() for task in tasks)), None)
        await append("still full", 200_000)
        full = writable()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        await append("room again")
        verification = await journal.verify()
    print(json.dumps({"kept": kept, "refused": refused, "said": said, "writable": [before, full, writable()],
                      "ok": verification.ok, "events": verification.events}))

asyncio.run(main())
"""

APPEND_FOR_EVER = """
import asyncio, sys
from healer.clock import SystemClock
from healer.journal import open_journal
from healer.testing.journal_contract import progress

async def main():
    async with open_journal(sys.argv[1], clock=SystemClock()) as journal:
        async def append():
            while True:
                recorded = await journal.append([progress("x")] * 3)
                print("\\n".join(f"{r.seq} {r.digest}" for r in recorded), flush=True)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(append())

asyncio.run(main())
"""


def append_until_killed(path: Path, enough: int) -> list[str]:
    """What a process acknowledged until it was killed, right after it said `enough` lines."""
    with subprocess.Popen([sys.executable, "-c", APPEND_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        lines = [it.stdout.readline() for _ in range(enough)]
        it.kill()
        lines += it.stdout.readlines()
    return [line for line in lines if line.endswith("\n")]


async def test_a_full_disk_refuses_and_room_on_it_mends_all_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FILL_THE_DISK, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["kept"][-1] == "room again"
    assert "still full" in found["refused"]
    assert "writing" in found["said"]
    assert found["writable"] == [1.0, 0.0, 1.0]
    assert found["ok"]
    async with read_journal(path) as reader:
        incidents = [r.event.incident async for r in reader.read()]
        assert (await reader.verify()).ok
    assert sorted(incidents) == sorted(found["kept"] * 5)


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    acknowledged: dict[int, str] = {}
    for enough in (100, 400):
        for line in append_until_killed(path, enough):
            seq, digest = line.split()
            acknowledged[int(seq)] = digest
    async with open_journal(path, clock=SystemClock()) as journal:
        stored = {r.seq: r.digest async for r in journal.read()}
        assert (await journal.verify()).ok
        assert len(acknowledged) >= 500
        assert {seq: stored.get(seq) for seq in acknowledged} == acknowledged
        assert (await journal.append([progress("goes on")]))[0].seq == max(stored) + 1


async def test_one_failed_transaction_refuses_everybody_in_it_and_nobody_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
        await journal.append([progress("first")])
        failures = telemetry.JOURNAL_FAILURES._value.get()

        async def broken(*_: object) -> None:
            raise OperationalError("INSERT", {}, Exception("database or disk is full"))

        with monkeypatch.context() as patch:
            patch.setattr(journal._writer, "_commit", broken)
            refused: list[str] = []

            async def append() -> None:
                with pytest.raises(JournalError) as caught:
                    await journal.append([progress("lost")] * 2)
                refused.append(str(caught.value))

            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(append())
        assert refused == ["writing 6 events to the journal: database or disk is full"] * 3
        assert telemetry.JOURNAL_FAILURES._value.get() == failures + 1
        assert telemetry.JOURNAL_WRITABLE._value.get() == 0
        assert [r.seq for r in await journal.append([progress("kept")])] == [2]
        assert telemetry.JOURNAL_WRITABLE._value.get() == 1


async def test_a_commit_whose_answer_was_lost_counts_when_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
        commit = journal._writer._commit

        async def loses_the_answer(*args: Any) -> None:
            await commit(*args)
            raise OperationalError("COMMIT", {}, Exception("disk I/O error"))

        with monkeypatch.context() as patch:
            patch.setattr(journal._writer, "_commit", loses_the_answer)
            assert [r.seq for r in await journal.append([progress("a"), progress("b")])] == [1, 2]
        assert [r.seq for r in await journal.append([progress("c")])] == [3]
        assert (await journal.verify()).events == 3


async def test_many_appends_share_few_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
        commit, sizes = journal._writer._commit, list[int]()

        async def counting(rows: Any, start: Any) -> None:
            sizes.append(len(rows))
            await commit(rows, start)

        monkeypatch.setattr(journal._writer, "_commit", counting)
        async with asyncio.TaskGroup() as group:
            for n in range(3000):
                group.create_task(journal.append([progress(str(n))]))
        assert sum(sizes) == 3000
        assert len(sizes) <= 10


async def test_closing_writes_what_waits(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(journal.append([progress(str(n))])) for n in range(1500)]
            await asyncio.sleep(0)
            await journal.close()
        outcomes = [task.result()[0].seq for task in tasks]
    assert sorted(outcomes) == list(range(1, 1501))
