"""The events, and which is the newest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from healer.journal.chain import GENESIS

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("incident", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.CheckConstraint("seq > 0", name="events_seq_counts_from_one"),
    )
    op.create_index("events_by_incident", "events", ["incident", "seq"])
    newest = op.create_table(
        "newest",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name="newest_is_one_row"),
    )
    op.bulk_insert(newest, [{"id": 1, "seq": 0, "digest": GENESIS}])
    if op.get_bind().dialect.name == "sqlite":
        # Against slips of the hand in a database shell; the chain of digests is what shows deeds done on purpose.
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER events_no_{verb.lower()} BEFORE {verb} ON events "
                "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
            )
