"""Tampering with the file, straight in SQLite, is found at the first event it touched."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from healer.clock import SystemClock
from healer.errors import JournalError
from healer.journal import open_journal, read_journal
from healer.testing.journal_contract import progress

TAMPERINGS = {
    "edited event": ("UPDATE events SET data = replace(data, 'text 4', 'text X') WHERE seq = 4", 4),
    "edited digest": ("UPDATE events SET digest = upper(digest) WHERE seq = 4", 4),
    "edited kind": ("UPDATE events SET kind = 'Told' WHERE seq = 6", 6),
    "edited incident": ("UPDATE events SET incident = 'i-9' WHERE seq = 6", 6),
    "edited time": ("UPDATE events SET at = '2020-01-01T00:00:00.000000+00:00' WHERE seq = 6", 6),
    "removed first": ("DELETE FROM events WHERE seq = 1", 1),
    "removed from the middle": ("DELETE FROM events WHERE seq BETWEEN 5 AND 6", 5),
    "removed last": ("DELETE FROM events WHERE seq > 8", 9),
    "removed all": ("DELETE FROM events", 1),
    "removed and closed up": (
        "DELETE FROM events WHERE seq = 5; UPDATE events SET seq = seq - 1 WHERE seq > 5; UPDATE newest SET seq = 9",
        5,
    ),
    "reordered": ("UPDATE events SET seq = 99 WHERE seq = 3; UPDATE events SET seq = 3 WHERE seq = 4; UPDATE events SET seq = 4 WHERE seq = 99", 3),
    "last replaced with its digest": (
        "UPDATE events SET data = (SELECT data FROM events WHERE seq = 3), digest = 'x' WHERE seq = 10",
        10,
    ),
    "newest forged": ("UPDATE newest SET digest = 'x'", 10),
    "newest put back": ("UPDATE newest SET seq = 7, digest = (SELECT digest FROM events WHERE seq = 7)", 8),
}  # fmt: skip


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A journal with ten events that nobody has open."""
    path = tmp_path / "journal.db"
    async with open_journal(path, clock=SystemClock()) as journal:
        await journal.append([progress(f"text {n}") for n in range(1, 11)])
    return path


def tamper(path: Path, script: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        f"DROP TRIGGER IF EXISTS events_no_update; DROP TRIGGER IF EXISTS events_no_delete; {script}"
    )
    connection.close()


@pytest.mark.parametrize(("script", "first_bad"), TAMPERINGS.values(), ids=TAMPERINGS)
async def test_tampering_is_found_where_it_begins(path: Path, script: str, first_bad: int) -> None:
    tamper(path, script)
    async with read_journal(path) as journal:
        found = await journal.verify()
    assert not found.ok
    assert found.first_bad_seq == first_bad
    assert found.events == first_bad - 1
    assert str(first_bad) in found.detail


async def test_an_untouched_journal_verifies(path: Path) -> None:
    tamper(path, "")
    async with read_journal(path) as journal:
        assert (await journal.verify()).ok
        assert (await journal.verify(after=9)).ok


async def test_what_lies_before_a_trusted_event_is_not_looked_at(path: Path) -> None:
    tamper(path, "DELETE FROM events WHERE seq = 3")
    async with read_journal(path) as journal:
        assert (await journal.verify(after=3)).first_bad_seq == 3
        assert (await journal.verify(after=4)).ok


@pytest.mark.parametrize("statement", ["UPDATE events SET data = ''", "DELETE FROM events"])
async def test_a_slip_of_the_hand_in_a_database_shell_is_refused(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


async def test_an_event_of_a_newer_version_says_so(path: Path) -> None:
    tamper(
        path, "UPDATE events SET kind = 'Teleported', data = replace(data, 'StepProgress', 'Teleported') WHERE seq = 2"
    )
    async with read_journal(path) as journal:
        with pytest.raises(JournalError, match=r"event 2 .*'Teleported' is not known to version .* newer"):
            [recorded async for recorded in journal.read()]


async def test_an_event_that_is_no_longer_json_says_where(path: Path) -> None:
    tamper(path, "UPDATE events SET data = '{' WHERE seq = 2")
    async with read_journal(path) as journal:
        with pytest.raises(JournalError, match=r"event 2 .*audit --verify"):
            [recorded async for recorded in journal.read()]
        assert (await journal.verify()).first_bad_seq == 2


async def test_a_forged_event_stops_the_writer_with_a_hint(path: Path) -> None:
    tamper(path, "INSERT INTO events SELECT 11, at, kind, incident, data, digest FROM events WHERE seq = 3")
    async with open_journal(path, clock=SystemClock()) as journal:
        with pytest.raises(JournalError, match="something else changed the journal"):
            await journal.append([progress("next")])
