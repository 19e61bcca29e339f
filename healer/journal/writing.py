"""Group commit: what arrives while the disk is busy goes into the next transaction together.

One writer takes appends from a bounded queue. A cancelled append leaves nothing half done: the transaction is the
writer's, not the caller's.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, TypeVarTuple

import sqlalchemy as sa

from healer import telemetry
from healer.clock import external_work
from healer.errors import Deposed, JournalError
from healer.journal import chain
from healer.journal.chain import Head, Row
from healer.journal.engine import translated
from healer.journal.reading import newest
from healer.journal.schema import EVENTS, NEWEST
from healer.model.events import AnyEvent, Recorded

T = TypeVar("T")
Args = TypeVarTuple("Args")

QUEUED_APPENDS: Final = 1000
"""Appends that may wait; the next caller waits for a place. Enough for every webhook a storm sends at once."""
BATCH_EVENTS: Final = 1000
"""No further append joins a transaction of so many events: about 10 ms of work."""

Pair = tuple[AnyEvent, bytes]
"""An event and its canonical JSON."""

_INSERT: Final = sa.insert(EVENTS)
_MOVE: Final = (
    sa.update(NEWEST)
    .where(NEWEST.c.seq == sa.bindparam("old"))
    .values(seq=sa.bindparam("new"), digest=sa.bindparam("with_digest"))
)


@dataclasses.dataclass(slots=True)
class _Append:
    events: Sequence[AnyEvent]
    data: list[bytes]
    done: asyncio.Future[Sequence[Recorded]]
    term: int


class Writer:
    """Owns the only connection that writes."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._queue: asyncio.Queue[_Append | None] = asyncio.Queue(QUEUED_APPENDS)
        self._connection: sa.Connection | None = None
        self._head: Head | None = None
        self._stopping = False
        self._ended = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")

    async def append(self, events: Sequence[AnyEvent], term: int = 0) -> Sequence[Recorded]:
        """As `ports.Journal.append`; with `term` as `ports.SharedJournal.append`."""
        if not events:
            return ()
        if self._stopping:
            raise JournalError(f"writing {len(events)} events: the journal is closed")
        entry = _Append(tuple(events), chain.encoded(events), asyncio.get_running_loop().create_future(), term)
        await self._queue.put(entry)
        if self._ended.is_set():
            raise JournalError(f"writing {len(events)} events: the journal was closed meanwhile")
        return await entry.done

    async def run(self) -> None:
        """Write until `stop`."""
        try:
            while (first := await self._queue.get()) is not None:
                await self._write(self._batch(first))
            while not self._queue.empty():
                if (late := self._queue.get_nowait()) is not None:
                    await self._write(self._batch(late))
        finally:
            self._ended.set()
            self._refuse_the_rest()
            await self._disconnect()
            self._thread.shutdown(wait=False)

    async def stop(self) -> None:
        """Write what waits, then end. Returns when the connection is closed or `run` was cancelled."""
        if not self._stopping:
            self._stopping = True
            await self._queue.put(None)
        await self._ended.wait()

    def _batch(self, first: _Append) -> list[_Append]:
        found, size = [first], len(first.events)
        while size < BATCH_EVENTS and not self._queue.empty():
            entry = self._queue.get_nowait()
            if entry is None:
                # Told to stop: this batch, then the end. Nobody adds anything after that word.
                self._queue.put_nowait(None)
                break
            found.append(entry)
            size += len(entry.events)
        return found

    async def _write(self, batch: list[_Append]) -> None:
        """What belongs to the leader has a transaction of its own: when it leads no more, the rest goes on."""
        wanted = [entry for entry in batch if not entry.done.done()]
        try:
            for term in {entry.term: None for entry in wanted}:
                await self._write_together([entry for entry in wanted if entry.term == term], term)
        except BaseException:
            for entry in wanted:
                entry.done.cancel()
            raise

    async def _write_together(self, wanted: list[_Append], term: int) -> None:
        pairs = [pair for entry in wanted for pair in zip(entry.events, entry.data, strict=True)]
        try:
            rows = await self._record(pairs, term)
        except JournalError as error:
            if not isinstance(error, Deposed):
                telemetry.JOURNAL_WRITABLE.set(0)
                telemetry.JOURNAL_FAILURES.inc()
            for entry in wanted:
                if not entry.done.done():
                    entry.done.set_exception(_copy(error))
            return
        telemetry.JOURNAL_WRITABLE.set(1)
        for kind, count in collections.Counter(row.kind for row in rows).items():
            telemetry.JOURNAL_EVENTS.labels(kind).inc(count)
        remaining = iter(rows)
        for entry in wanted:
            recorded = [
                Recorded(seq=row.seq, event=event, digest=row.digest)
                for event, row in zip(entry.events, remaining, strict=False)
            ]
            if not entry.done.done():
                entry.done.set_result(recorded)

    async def _record(self, events: Sequence[Pair], term: int) -> list[Row]:  # noqa: ARG002 — for the shared one
        """All of `events` in one transaction, or JournalError and none."""
        with translated(f"writing {len(events)} events to the journal"), external_work():
            rows: list[Row] = []
            try:
                start = await self._where()
                for event, data in events:
                    rows.append(chain.as_row(event, data, rows[-1].head if rows else start))
                await self._commit(rows, start)
            except Exception:
                await self._disconnect()
                # Perhaps only the answer to the commit got lost: what is on the disk says whether it was written.
                if not rows or await self._where() != rows[-1].head:
                    raise
            self._head = rows[-1].head
        return rows

    async def _commit(self, rows: list[Row], start: Head) -> None:
        await self._in_thread(self._insert, rows, start)

    def _insert(self, rows: list[Row], start: Head) -> None:
        connection = self._connected()
        end = rows[-1].head
        with connection.begin():
            connection.execute(_INSERT, [row.columns for row in rows])
            moved = connection.execute(_MOVE, {"old": start.seq, "new": end.seq, "with_digest": end.digest})
            if moved.rowcount != 1:
                raise JournalError(
                    f"writing {len(rows)} events to the journal: another process wrote to it; let only one run"
                )

    async def _where(self) -> Head:
        if self._head is None:
            self._head = await self._in_thread(self._newest)
        return self._head

    async def _in_thread(self, work: Callable[[*Args], T], *args: *Args) -> T:
        """All that touches the connection goes through one thread, in order; also what comes after a cancelled call."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _newest(self) -> Head:
        connection = self._connected()
        with connection.begin():
            return newest(connection)

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection, self._head = self._connection, None, None
        if connection is not None:
            # A connection that cannot even be closed properly is not worth an error of its own.
            with contextlib.suppress(JournalError), translated("closing the journal"), external_work():
                await self._in_thread(connection.close)

    def _refuse_the_rest(self) -> None:
        while not self._queue.empty():
            entry = self._queue.get_nowait()
            if entry is not None and not entry.done.done():
                entry.done.set_exception(JournalError(f"writing {len(entry.events)} events: the journal was closed"))


def _copy(error: JournalError) -> JournalError:
    """Each caller raises an exception of its own: one raised in many tasks would grow their tracebacks together."""
    copy = type(error)(str(error))
    copy.__cause__ = error.__cause__ or error
    return copy
