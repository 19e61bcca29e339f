"""The writer of a journal that several replicas write to.

Each transaction first takes the row of `newest`, so that all of them stand in one line: the chain goes on from what it
finds there, and a leader's write is refused once another replica has begun to lead (`term`, the fencing token). What is
checked under that lock cannot change before the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from healer.clock import external_work
from healer.errors import Deposed
from healer.journal import chain
from healer.journal.chain import Head, Row
from healer.journal.engine import translated
from healer.journal.schema import EVENTS, LEADER, NEWEST
from healer.journal.writing import Pair, Writer

_IN_LINE: Final = (
    sa.select(NEWEST.c.seq, NEWEST.c.digest, LEADER.c.term)
    .join_from(NEWEST, LEADER, NEWEST.c.id == LEADER.c.id)
    .with_for_update()
)
"""Both rows: what is read without a lock is as old as the statement, which may have waited in line since."""
_WRITE: Final = sa.text(
    "WITH moved AS (UPDATE newest SET seq = :new, digest = :with_digest) "
    "INSERT INTO events (seq, at, kind, incident, data, digest) SELECT * FROM unnest("
    "CAST(:seq AS bigint[]), CAST(:at AS text[]), CAST(:kind AS text[]), "
    "CAST(:incident AS text[]), CAST(:data AS text[]), CAST(:digest AS text[]))"
)
"""One message for any number of events. Between several (psycopg would send them in a pipeline) the server waits for ever for
a client that was stopped, and with it everybody who waits in line: its limit for idle transactions does not count then.
"""
_LEAD: Final = sa.update(LEADER).values(term=sa.bindparam("to"))
_STORED: Final = sa.select(EVENTS.c.digest).where(EVENTS.c.seq == sa.bindparam("at"))


class SharedWriter(Writer):
    """One of several writers."""

    async def lead(self, term: int) -> None:
        """As `ports.SharedJournal.lead`."""
        with translated("beginning to lead"), external_work():
            try:
                await self._in_thread(self._lead, term)
            except Exception:
                await self._disconnect()
                raise

    async def _record(self, events: Sequence[Pair], term: int) -> list[Row]:
        with translated(f"writing {len(events)} events to the journal"), external_work():
            rows: list[Row] = []
            try:
                await self._in_thread(self._write_in_line, events, term, rows)
            except Deposed:
                raise
            except Exception:
                await self._disconnect()
                # Perhaps only the answer to the commit got lost.
                if not rows or not await self._in_thread(self._is_stored, rows[-1].head):
                    raise
        return rows

    # In the thread ---------------------------------------------------------------------------------------------------

    def _write_in_line(self, events: Sequence[Pair], term: int, rows: list[Row]) -> None:
        connection = self._connected()
        with connection.begin():
            seq, digest, newest = connection.execute(_IN_LINE).one()
            if term and term != newest:
                raise Deposed(f"writing {len(events)} events as leader of term {term}: term {newest} has begun")
            head = Head(seq, digest)
            for event, data in events:
                rows.append(chain.as_row(event, data, head))
                head = rows[-1].head
            columns = {name: [getattr(row, name) for row in rows] for name in Row.__slots__}
            connection.execute(_WRITE, {"new": head.seq, "with_digest": head.digest, **columns})

    def _lead(self, term: int) -> None:
        connection = self._connected()
        with connection.begin():
            _, _, newest = connection.execute(_IN_LINE).one()
            if term <= newest:
                raise Deposed(f"beginning to lead with term {term}: term {newest} has begun already")
            connection.execute(_LEAD, {"to": term})

    def _is_stored(self, head: Head) -> bool:
        connection = self._connected()
        with connection.begin():
            return connection.scalar(_STORED, {"at": head.seq}) == head.digest
