"""Opening a journal, to write or to look on."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import sqlalchemy as sa

from healer import telemetry
from healer.clock import Clock, external_work
from healer.errors import JournalError
from healer.journal import migrate, postgres
from healer.journal.engine import on_connection, reading_engine, translated, writing_engine
from healer.journal.lock import only_writer
from healer.journal.reading import JournalReader
from healer.journal.schema import LEADER
from healer.journal.sharing import SharedWriter
from healer.journal.writing import Writer
from healer.model.events import AnyEvent, Recorded

W = TypeVar("W", bound=Writer)

_TERM: Final = sa.select(LEADER.c.term)


class SqlJournal(JournalReader):
    """The journal of a process that writes. Implements `ports.Journal`."""

    def __init__(self, writer: Writer, reading: sa.Engine) -> None:
        super().__init__(reading)
        self._writer = writer

    async def append(self, events: Sequence[AnyEvent]) -> Sequence[Recorded]:
        """As `ports.Journal.append`. A cancelled call may or may not have written its events, but never a part of them."""
        return await self._writer.append(events)

    async def close(self) -> None:
        """Write what waits and take no more. Leaving the context of `open_journal` does it as well."""
        await self._writer.stop()


class PostgresJournal(SqlJournal):
    """A journal that several processes write to. Implements `ports.SharedJournal` too."""

    def __init__(self, writer: SharedWriter, reading: sa.Engine) -> None:
        super().__init__(writer, reading)
        self._shared = writer

    async def append(self, events: Sequence[AnyEvent], *, term: int = 0) -> Sequence[Recorded]:
        return await self._shared.append(events, term)

    async def lead(self, term: int) -> None:
        await self._shared.lead(term)

    async def term(self) -> int:
        with translated("reading the journal"), external_work():
            return await on_connection(self._engine, lambda connection: connection.scalar(_TERM)) or 0


@contextlib.asynccontextmanager
async def open_journal(where: str | os.PathLike[str], *, clock: Clock) -> AsyncIterator[SqlJournal]:
    """The journal at `where`, made or brought up to date if need be.

    A file is for this process alone: JournalInUse names the one that has it. A URL of PostgreSQL gives a
    PostgresJournal, which others may have open too. JournalError says what else is wrong with it.
    """
    text = os.fspath(where)
    if postgres.is_postgres(text):
        async with open_shared_journal(text) as journal:
            yield journal
        return
    path = _path(text)
    _make(path)
    with only_writer(path, clock.now()):
        async with (
            _up_to_date(writing_engine(path), f"journal {str(path)!r}") as engine,
            _disposed(reading_engine(path)) as reading,
            _running(Writer(engine)) as writer,
        ):
            yield SqlJournal(writer, reading)


@contextlib.asynccontextmanager
async def open_shared_journal(url: str) -> AsyncIterator[PostgresJournal]:
    """The journal at a URL of PostgreSQL, made or brought up to date if need be; others may have it open too."""
    async with (
        _up_to_date(postgres.writing_engine(url), f"journal in {postgres.shown(url)}") as engine,
        _disposed(postgres.reading_engine(url)) as reading,
        _running(SharedWriter(engine)) as writer,
    ):
        yield PostgresJournal(writer, reading)


@contextlib.asynccontextmanager
async def read_journal(where: str | os.PathLike[str]) -> AsyncIterator[JournalReader]:
    """The journal at `where`, to read only, beside the process that writes to it or without one."""
    text = os.fspath(where)
    if postgres.is_postgres(text):
        engine, name = postgres.reading_engine(text), postgres.shown(text)
    else:
        path = _path(text)
        engine, name = reading_engine(path), repr(str(path))
        if not path.is_file():
            raise JournalError(
                f"reading journal {str(path)!r}: there is no such file; see journal.path of the configuration"
            )
    async with _disposed(engine):
        with translated(f"reading journal {name}"), external_work():
            migrate.check_readable(await on_connection(engine, migrate.version))
        yield JournalReader(engine)


@contextlib.asynccontextmanager
async def _up_to_date(engine: sa.Engine, name: str) -> AsyncIterator[sa.Engine]:
    async with _disposed(engine):
        with translated(f"opening {name}"), external_work():
            await asyncio.to_thread(migrate.upgrade, engine)
        telemetry.JOURNAL_WRITABLE.set(1)
        yield engine


@contextlib.asynccontextmanager
async def _disposed(engine: sa.Engine) -> AsyncIterator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


@contextlib.asynccontextmanager
async def _running(writer: W) -> AsyncIterator[W]:
    """Keep `writer` at work. What the caller raises passes through as it is, after everything that waits was written."""
    raised: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run(), name="journal writer")
        try:
            yield writer
        except BaseException as error:  # noqa: BLE001 (raised again below, outside of the task group)
            raised = error
        await writer.stop()
    if raised is not None:
        raise raised


def _path(text: str) -> Path:
    if "://" in text:
        scheme = text.partition("://")[0]
        raise JournalError(f"opening a journal at {scheme}://…: give a file, or a URL postgresql://…")
    return Path(text)


def _make(path: Path) -> None:
    """The folder and the file, for the eyes of this user only: alerts can hold secrets that somebody put into a label."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise JournalError(f"opening journal {str(path)!r}: {error}; make it writable, or set another path") from error
