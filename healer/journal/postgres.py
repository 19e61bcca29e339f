"""Connections to a journal on PostgreSQL. A server that falls silent is given up within seconds, never waited for.

psycopg is imported when the first connection is made: only who keeps the journal there needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool

from healer.errors import JournalError

SCHEMES: Final = ("postgresql://", "postgres://")
DEFAULTS: Final[Mapping[str, str]] = {
    "application_name": "healer",
    "connect_timeout": "3",
    # Of several hosts the one that takes writes: after a failover that is another one.
    "target_session_attrs": "read-write",
    # A server that is cut off, or a failover address that has moved, answers nothing at all.
    "tcp_user_timeout": "5000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    # A replica that is stopped in the middle of a transaction must not keep the others waiting.
    "options": "-c statement_timeout=5000 -c idle_in_transaction_session_timeout=2000",
}
"""What a URL does not say itself. libpq's own defaults wait for minutes, or for ever."""


def is_postgres(where: str) -> bool:
    return where.startswith(SCHEMES)


def shown(url: str) -> str:
    """Where a journal is, for messages: hosts and database, no secrets."""
    found = _settings(url)
    hosts, name = found.get("host") or "the local socket", found.get("dbname") or found.get("user", "")
    return f"PostgreSQL database {name!r} at {hosts}"


def writing_engine(url: str) -> sa.Engine:
    """No pool: the writer keeps the only connection, and renews it after a failure."""
    return _engine(url, poolclass=NullPool)


def reading_engine(url: str) -> sa.Engine:
    """A few connections that are kept, since replicas look for news several times a second."""
    return _engine(url, poolclass=QueuePool, pool_size=2, max_overflow=3, pool_pre_ping=True, pool_timeout=5)


def _engine(url: str, **more: Any) -> sa.Engine:
    psycopg = _driver()
    settings = {**DEFAULTS, **_settings(url)}

    def connect() -> Any:
        return psycopg.connect(**settings)

    return sa.create_engine("postgresql+psycopg://", creator=connect, **more)


def _settings(url: str) -> dict[str, Any]:
    psycopg = _driver()
    try:
        found: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        # Its own message would show the password.
        raise JournalError(
            "opening the journal: its URL cannot be read; write postgresql://user:password@host:5432/database"
        ) from None
    return found


def _driver() -> Any:
    try:
        import psycopg  # noqa: PLC0415 — only for who needs it
        import psycopg.conninfo  # noqa: PLC0415
    except ImportError as error:
        raise JournalError(f"opening the journal on PostgreSQL: {error}; install `cluster-healer[postgres]`") from error
    return psycopg
