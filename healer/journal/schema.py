"""The tables of the journal. Changes need a new migration and a new HEAD.

A new journal is made from what stands here; the migrations bring an older one to the same form.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from healer.journal.chain import GENESIS

HEAD: Final = "0001"
"""The newest migration. Kept here so that a journal that is new, or up to date, opens without importing alembic."""

metadata: Final = sa.MetaData()

EVENTS: Final = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text(), nullable=False),
    sa.Column("kind", sa.Text(), nullable=False),
    sa.Column("incident", sa.Text(), nullable=False),
    sa.Column("data", sa.Text(), nullable=False),
    sa.Column("digest", sa.Text(), nullable=False),
    sa.CheckConstraint("seq > 0", name="events_seq_counts_from_one"),
    sa.Index("events_by_incident", "incident", "seq"),
)

NEWEST: Final = sa.Table(
    "newest",
    metadata,
    sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger(), nullable=False),
    sa.Column("digest", sa.Text(), nullable=False),
    sa.CheckConstraint("id = 1", name="newest_is_one_row"),
)
"""One row, moved in every transaction: shows events cut off the end, and fences a second writer on PostgreSQL."""

VERSION: Final = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Where alembic keeps the newest migration; not among the tables that it compares."""

for _verb in ("UPDATE", "DELETE"):
    # Against slips of the hand in a database shell; the chain of digests is what shows deeds done on purpose.
    _refuse = sa.DDL(  # type: ignore[no-untyped-call]
        f"CREATE TRIGGER events_no_{_verb.lower()} BEFORE {_verb} ON events "
        "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
    )
    sa.event.listen(EVENTS, "after_create", _refuse.execute_if(dialect="sqlite"))


def create(connection: sa.Connection) -> None:
    """Everything that a new journal has, as at HEAD."""
    metadata.create_all(connection)
    connection.execute(sa.insert(NEWEST).values(id=1, seq=0, digest=GENESIS))
    VERSION.create(connection)
    connection.execute(sa.insert(VERSION).values(version_num=HEAD))
