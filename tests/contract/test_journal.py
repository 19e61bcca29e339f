"""All journals keep the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from healer import ports
from healer.clock import SystemClock
from healer.errors import JournalError
from healer.journal import PostgresJournal, SqlJournal, open_journal, open_shared_journal
from healer.testing.journal_contract import JournalContract, SharedJournalContract, progress
from healer.testing.journals import MemoryJournal
from tests.postgres import Postgres


class TestSqlJournal(JournalContract):
    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[SqlJournal]:
        async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
            yield journal


class TestPostgresJournal(JournalContract, SharedJournalContract):
    @pytest.fixture
    def url(self, postgres: Postgres) -> str:
        return postgres.new_database()

    @pytest.fixture
    async def journal(self, url: str) -> AsyncIterator[PostgresJournal]:
        async with open_shared_journal(url) as journal:
            yield journal

    @pytest.fixture
    async def other(self, journal: PostgresJournal, url: str) -> AsyncIterator[PostgresJournal]:
        async with open_shared_journal(url) as other:
            yield other


def fits_the_ports(
    sql: SqlJournal, postgres: PostgresJournal, memory: MemoryJournal
) -> tuple[ports.Journal, ports.SharedJournal, ports.SharedJournal]:
    """Checked by mypy."""
    return sql, postgres, memory


class TestMemoryJournal(JournalContract, SharedJournalContract):
    @pytest.fixture
    def journal(self) -> MemoryJournal:
        return MemoryJournal()

    @pytest.fixture
    def other(self, journal: MemoryJournal) -> MemoryJournal:
        return journal

    async def test_it_refuses_while_told_to_and_then_goes_on(self, journal: MemoryJournal) -> None:
        with journal.failing(), pytest.raises(JournalError, match="disk is full"):
            await journal.append([progress("lost")])
        await journal.append([progress("kept")])
        assert journal.events == [progress("kept")]
