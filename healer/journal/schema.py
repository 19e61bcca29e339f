"""The tables of the journal. Changes need a new migration and a new HEAD.

A new journal is made from what stands here; the migrations bring an older one to the same form.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from healer.journal.chain import GENESIS

HEAD: Final = "0002"
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
"""One row, moved in every transaction: shows events cut off the end, and brings several writers into one line."""

LEADER: Final = sa.Table(
    "leader",
    metadata,
    sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("term", sa.BigInteger(), nullable=False),
    sa.CheckConstraint("id = 1", name="leader_is_one_row"),
)
"""One row: the newest fencing token. Of use only where several replicas write."""

VERSION: Final = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Where alembic keeps the newest migration; not among the tables that it compares."""

_REFUSE: Final = {
    "sqlite": [
        f"CREATE TRIGGER events_no_{verb.lower()} BEFORE {verb} ON events "
        "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        (
            "CREATE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$"
        ),
        (
            "CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
            "FOR EACH STATEMENT EXECUTE FUNCTION events_refuse()"
        ),
    ],
}
"""Against slips of the hand in a database shell; the chain of digests is what shows deeds done on purpose."""

for _dialect, _statements in _REFUSE.items():
    for _statement in _statements:
        _refuse = sa.DDL(_statement)  # type: ignore[no-untyped-call]
        sa.event.listen(EVENTS, "after_create", _refuse.execute_if(dialect=_dialect))


def create(connection: sa.Connection) -> None:
    """Everything that a new journal has, as at HEAD."""
    metadata.create_all(connection)
    connection.execute(sa.insert(NEWEST).values(id=1, seq=0, digest=GENESIS))
    connection.execute(sa.insert(LEADER).values(id=1, term=0))
    VERSION.create(connection)
    connection.execute(sa.insert(VERSION).values(version_num=HEAD))
