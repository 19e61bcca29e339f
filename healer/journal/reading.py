"""Reading the journal, page by page, also beside a running writer. No snapshot is held between pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import sqlalchemy as sa

from healer.clock import external_work
from healer.errors import JournalError
from healer.journal import chain
from healer.journal.chain import Head, Row, Verification
from healer.journal.engine import on_connection, translated
from healer.journal.schema import EVENTS, NEWEST
from healer.model.events import Recorded

PAGE: Final = 1000
"""Events per page: a few hundred kilobytes, a few milliseconds."""


class JournalReader:
    """Reads and verifies. Everything that it shows was committed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    async def read(self, *, after: int = 0, incident: str = "") -> AsyncIterator[Recorded]:
        """As `ports.Journal.read`."""
        async for row in self._rows(after=after, incident=incident):
            yield chain.as_recorded(row)

    async def verify(self, after: int = 0) -> Verification:
        """Compute the chain anew, from the event after `after` (which is trusted) to the newest."""
        with translated("verifying the journal"), external_work():
            head = await on_connection(self._engine, newest)
            digest = sa.select(EVENTS.c.digest).where(EVENTS.c.seq == after)
            trusted = await on_connection(self._engine, lambda connection: connection.scalar(digest))
        if after and trusted is None:
            return Verification(ok=False, events=0, first_bad_seq=after, detail=f"event {after} is missing")
        start = Head(after, trusted) if trusted is not None else Head()
        found = await chain.verify(self._rows(after=start.seq), head=head, start=start)
        last, now = start.seq + found.events, await self.head()
        if found.ok and last > now.seq:
            detail = f"events {now.seq + 1} to {last} were not written by healer: the newest of its own is {now.seq}"
            return Verification(
                ok=False,
                events=now.seq - start.seq,
                first_bad_seq=now.seq + 1,
                detail=detail,
                digest=now.digest,
            )
        return found

    async def head(self) -> Head:
        """The newest event."""
        with translated("reading the journal"), external_work():
            return await on_connection(self._engine, newest)

    async def _rows(self, *, after: int, incident: str = "") -> AsyncIterator[Row]:
        query = sa.select(EVENTS).order_by(EVENTS.c.seq).limit(PAGE)
        if incident:
            query = query.where(EVENTS.c.incident == incident)
        while True:
            page = await self._page(query.where(EVENTS.c.seq > after))
            for row in page:
                yield row
            if len(page) < PAGE:
                return
            after = page[-1].seq

    async def _page(self, query: sa.Select[int, str, str, str, str, str]) -> list[Row]:
        with translated("reading the journal"), external_work():
            return await on_connection(
                self._engine, lambda connection: [Row(*row) for row in connection.execute(query)]
            )


def newest(connection: sa.Connection) -> Head:
    """Where the chain ends. JournalError when the tables are damaged."""
    found = connection.execute(sa.select(NEWEST.c.seq, NEWEST.c.digest)).one_or_none()
    if found is None:
        raise JournalError("reading the journal: table 'newest' is empty; restore the journal from a backup")
    return Head(*found)
