"""Both journals keep the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from healer import ports
from healer.clock import SystemClock
from healer.errors import JournalError
from healer.journal import SqlJournal, open_journal
from healer.testing.journal_contract import JournalContract, progress
from healer.testing.journals import MemoryJournal


class TestSqlJournal(JournalContract):
    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[SqlJournal]:
        async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
            yield journal


def fits_the_port(sql: SqlJournal, memory: MemoryJournal) -> tuple[ports.Journal, ports.Journal]:
    """Checked by mypy."""
    return sql, memory


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def journal(self) -> MemoryJournal:
        return MemoryJournal()

    async def test_it_refuses_while_told_to_and_then_goes_on(self, journal: MemoryJournal) -> None:
        with journal.failing(), pytest.raises(JournalError, match="disk is full"):
            await journal.append([progress("lost")])
        await journal.append([progress("kept")])
        assert journal.events == [progress("kept")]
