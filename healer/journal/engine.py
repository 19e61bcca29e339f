"""Engines of SQLAlchemy for a journal, how they are waited for, and the one place where their exceptions become ours.

SQLite knows no waiting without a thread, and an asyncio driver goes to its thread and back for every statement: fifteen
times in a transaction of ours, each time behind whatever else the event loop has to do. Here a thread takes a
transaction as a whole. (SQLAlchemy's AsyncEngine would also load the ORM: seven megabytes in every process.)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from healer.errors import JournalError

T = TypeVar("T")

BUSY_SECONDS: Final = 5.0
"""How long SQLite waits for another connection's lock; readers hold none that matter for longer than a page."""


def writing_engine(path: Path) -> sa.Engine:
    """Connections that may write. No pool: the writer keeps the only one, and renews it after a failure."""
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        poolclass=NullPool,
        # Python's driver then begins with BEGIN IMMEDIATE: the lock is taken at once, never upgraded half-way.
        connect_args={"isolation_level": "IMMEDIATE", "timeout": BUSY_SECONDS},
    )

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    return engine


def reading_engine(path: Path) -> sa.Engine:
    """Connections that can only read, each opened for one use: no thread and no snapshot stays behind."""
    return sa.create_engine(
        sa.URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"}),
        poolclass=NullPool,
        connect_args={"timeout": BUSY_SECONDS},
    )


async def on_connection(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    """The result of `work`, in a thread, on a connection of its own."""

    def connected() -> T:
        with engine.connect() as connection:
            return work(connection)

    return await asyncio.to_thread(connected)


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Foreign exceptions become JournalError: "doing: cause"."""
    try:
        yield
    except IntegrityError as error:
        raise JournalError(
            f"{doing}: something else changed the journal ({error.orig}); see `healer audit --verify`"
        ) from error
    except SQLAlchemyError as error:
        raise JournalError(f"{doing}: {getattr(error, 'orig', None) or error}") from error
    except OSError as error:
        raise JournalError(f"{doing}: {error}") from error
