"""Engines of SQLAlchemy for a journal, how they are waited for, and the one place where their exceptions become ours.

The driver is an asyncio one. `waited` is what SQLAlchemy's own AsyncEngine is made of; that one is not used because
importing it loads the whole ORM, of which nothing here is needed: seven megabytes in every process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, TypeVarTuple
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from healer.errors import JournalError

Args = TypeVarTuple("Args")
T = TypeVar("T")

BUSY_SECONDS: Final = 5.0
"""How long SQLite waits for another connection's lock; readers hold none that matter for longer than a page."""


def path_of(url_or_path: str | os.PathLike[str]) -> Path:
    """The file of a journal given as a path or as `sqlite+aiosqlite:///path`."""
    text = os.fspath(url_or_path)
    if "://" not in text:
        return Path(text)
    url = sa.make_url(text)
    if url.drivername not in ("sqlite", "sqlite+aiosqlite") or not url.database or url.database == ":memory:":
        raise JournalError(
            f"opening journal {url.render_as_string()!r}: this version keeps it in SQLite; set journal.path to a file"
        )
    return Path(url.database)


def writing_engine(path: Path) -> sa.Engine:
    """Connections that may write. No pool: the writer keeps the only one, and renews it after a failure."""
    engine = sa.create_engine(
        sa.URL.create("sqlite+aiosqlite", database=str(path)),
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
        sa.URL.create("sqlite+aiosqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"}),
        poolclass=NullPool,
        connect_args={"timeout": BUSY_SECONDS},
    )


async def waited(work: Callable[[*Args], T], *args: *Args) -> T:
    """Call `work`; wherever it waits for the driver, only the caller waits, not the event loop. Engines need it."""
    return await greenlet_spawn(work, *args)


async def on_connection(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    """The result of `work` on a connection of its own."""

    def connected() -> T:
        with engine.connect() as connection:
            return work(connection)

    return await waited(connected)


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
