"""The newest fencing token, and the guard of an append-only table on PostgreSQL too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    leader = op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="leader_is_one_row"),
    )
    op.bulk_insert(leader, [{"id": 1, "term": 0}])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
            "FOR EACH STATEMENT EXECUTE FUNCTION events_refuse()"
        )
