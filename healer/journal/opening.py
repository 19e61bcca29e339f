"""Opening a journal, to write or to look on."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from healer import telemetry
from healer.clock import Clock, external_work
from healer.errors import JournalError
from healer.journal import migrate
from healer.journal.engine import on_connection, path_of, reading_engine, translated, writing_engine
from healer.journal.lock import only_writer
from healer.journal.reading import JournalReader
from healer.journal.writing import Writer
from healer.model.events import AnyEvent, Recorded


class SqlJournal(JournalReader):
    """The journal of the process that decides. Implements `ports.Journal`."""

    def __init__(self, writer: Writer, path: Path) -> None:
        super().__init__(reading_engine(path))
        self._writer = writer

    async def append(self, events: Sequence[AnyEvent]) -> Sequence[Recorded]:
        """As `ports.Journal.append`. A cancelled call may or may not have written its events, but never a part of them."""
        return await self._writer.append(events)

    async def close(self) -> None:
        """Write what waits and take no more. Leaving the context of `open_journal` does it as well."""
        await self._writer.stop()


@contextlib.asynccontextmanager
async def open_journal(url_or_path: str | os.PathLike[str], *, clock: Clock) -> AsyncIterator[SqlJournal]:
    """The journal at `url_or_path`, made or brought up to date if need be, for this process alone.

    JournalInUse names the process that has it; JournalError says what else is wrong with it.
    """
    path = path_of(url_or_path)
    _make(path)
    with only_writer(path, clock.now()):
        engine = writing_engine(path)
        try:
            with translated(f"opening journal {str(path)!r}"), external_work():
                await asyncio.to_thread(migrate.upgrade, engine)
            telemetry.JOURNAL_WRITABLE.set(1)
            async with _running(Writer(engine)) as writer:
                yield SqlJournal(writer, path)
        finally:
            engine.dispose()


@contextlib.asynccontextmanager
async def read_journal(url_or_path: str | os.PathLike[str]) -> AsyncIterator[JournalReader]:
    """The journal at `url_or_path`, to read only, beside the process that writes to it or without one."""
    path = path_of(url_or_path)
    if not path.is_file():
        raise JournalError(
            f"reading journal {str(path)!r}: there is no such file; see journal.path of the configuration"
        )
    engine = reading_engine(path)
    try:
        with translated(f"reading journal {str(path)!r}"), external_work():
            migrate.check_readable(await on_connection(engine, migrate.version))
        yield JournalReader(engine)
    finally:
        engine.dispose()


@contextlib.asynccontextmanager
async def _running(writer: Writer) -> AsyncIterator[Writer]:
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


def _make(path: Path) -> None:
    """The folder and the file, for the eyes of this user only: alerts can hold secrets that somebody put into a label."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise JournalError(f"opening journal {str(path)!r}: {error}; make it writable, or set another path") from error
