"""The tables of the journal. Changes need a new migration and a new HEAD."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

HEAD: Final = "0001"
"""The newest migration. Kept here so that an up-to-date journal opens without importing alembic."""

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
