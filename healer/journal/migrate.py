"""Bring a journal's tables to the form that this version writes."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from healer import __version__
from healer.errors import JournalError
from healer.journal import schema
from healer.journal.schema import HEAD

ONE_AT_A_TIME: Final = 0x6865616C6572
"""The advisory lock under which tables are made: "healer" as a number."""


def version(connection: sa.Connection) -> str:
    """The migration the journal is at; empty for a new file."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return ""
    return connection.scalar(sa.text("SELECT version_num FROM alembic_version")) or ""


def check_readable(found: str) -> None:
    """JournalError when tables at `found` are not those of this version."""
    if found == HEAD:
        return
    if found < HEAD:
        raise JournalError(
            f"reading the journal: its tables are at {found or 'nothing'!r}, this version reads {HEAD!r}; "
            "start `healer run` once, it brings them up to date"
        )
    raise JournalError(
        f"reading the journal: its tables are at {found!r}, version {__version__} knows {HEAD!r}; "
        "a newer version wrote them: use that version, or a newer one"
    )


def upgrade(engine: sa.Engine) -> None:
    """All in one transaction: a process killed in the middle leaves the journal as it was."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Replicas start together; one of them makes the tables, the others wait for it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ONE_AT_A_TIME)))
        found = version(connection)
        if found == HEAD:
            return
        if found > HEAD:
            check_readable(found)
        if connection.dialect.name == "sqlite":
            # Python's driver begins no transaction before CREATE TABLE by itself.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        if found:
            _migrate(connection)
        else:
            schema.create(connection)


def _migrate(connection: sa.Connection) -> None:
    # Imported here: tens of megabytes that only a start on the journal of an older version needs.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "healer.journal:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
