"""A journal in memory, with the same chain of digests, that can be told to fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from healer.errors import Deposed, JournalError
from healer.journal import chain
from healer.journal.chain import Head, Row, Verification
from healer.model.events import AnyEvent, Event, Recorded


class MemoryJournal:
    """Implements `ports.SharedJournal`, for any number of replicas in one process. `writable` is an attribute: while False, appends raise JournalError and write nothing.

    `halt_before` and `halt_after`: an append of an event for which they are true never returns, with nothing written or
    with everything; `halted` then. So does it look from outside when a process dies at that moment.
    """

    def __init__(self) -> None:
        self.writable = True
        self.halt_before: Callable[[AnyEvent], bool] = _never
        self.halt_after: Callable[[AnyEvent], bool] = _never
        self.halted = False
        self._rows: list[Row] = []
        self._closed = False
        self._term = 0

    @property
    def events(self) -> list[Event]:
        """Everything written so far, for assertions."""
        return [chain.as_recorded(row).event for row in self._rows]

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Refuse everything inside this block, as on a full disk."""
        self.writable = False
        try:
            yield
        finally:
            self.writable = True

    async def append(self, events: Sequence[AnyEvent], *, term: int = 0) -> Sequence[Recorded]:
        await self._halt(self.halt_before, events)
        data = chain.encoded(events)
        if self._closed or not self.writable:
            why = "the journal is closed" if self._closed else "the test says that the disk is full"
            raise JournalError(f"writing {len(events)} events to the journal: {why}")
        if term and term != self._term:
            raise Deposed(f"writing {len(events)} events as leader of term {term}: term {self._term} has begun")
        new: list[Row] = []
        for event, text in zip(events, data, strict=True):
            new.append(chain.as_row(event, text, new[-1].head if new else self._head()))
        self._rows += new
        await self._halt(self.halt_after, events)
        return [Recorded(seq=row.seq, event=event, digest=row.digest) for row, event in zip(new, events, strict=True)]

    async def lead(self, term: int) -> None:
        if term <= self._term:
            raise Deposed(f"beginning to lead with term {term}: term {self._term} has begun already")
        self._term = term

    async def term(self) -> int:
        return self._term

    async def read(self, *, after: int = 0, incident: str = "") -> AsyncIterator[Recorded]:
        for row in self._rows[after:]:
            if not incident or row.incident == incident:
                yield chain.as_recorded(row)

    async def verify(self, after: int = 0) -> Verification:
        start = self._rows[after - 1].head if after else Head()
        return await chain.verify(self._from(after), head=self._head(), start=start)

    async def close(self) -> None:
        self._closed = True

    async def _halt(self, at: Callable[[AnyEvent], bool], events: Sequence[AnyEvent]) -> None:
        if any(at(event) for event in events):
            self.halted = True
            await asyncio.Event().wait()

    def _head(self) -> Head:
        return self._rows[-1].head if self._rows else Head()

    async def _from(self, after: int) -> AsyncIterator[Row]:
        for row in self._rows[after:]:
            yield row


def _never(_: AnyEvent) -> bool:
    return False
