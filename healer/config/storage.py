"""`store:` and `journal:` where samples and decisions are kept."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field, model_validator

from healer.config.fields import FilePath, PositiveDuration, Secret, Section


class Embedded(Section):
    """The time-series store inside healer."""

    path: FilePath = Field(
        Path("data"), validate_default=True, description="The folder of its files. Made if it is not there."
    )
    keep: PositiveDuration = Field(
        timedelta(days=7), description="How long samples are kept. A week shows the same hour of the same weekday."
    )


class Store(Section):
    """Where samples are kept."""

    embedded: Embedded = Field(
        Embedded(), validate_default=True, description="The store inside healer: nothing to install."
    )


class Postgres(Section):
    """A database in PostgreSQL, shared by all replicas."""

    url: Secret = Field(
        description="`postgresql://user:password@host:5432/database`. Several hosts (`@a:5432,b:5432/`) are tried in turn, and the one that takes writes is used. Parameters of libpq may follow, e.g. `?sslmode=verify-full`."
    )
    url_file: FilePath | None = Field(None, description="The file that `url` is read from.")


class Journal(Section):
    """Where every decision is kept."""

    path: FilePath = Field(
        Path("data/journal.db"),
        validate_default=True,
        description="A SQLite file on a local disk (network file systems lie about locks and syncing). Made if it is not there.",
    )
    postgres: Postgres | None = Field(
        None, description="In place of `path`: a PostgreSQL database, needed where several replicas of healer work."
    )

    @property
    def where(self) -> str:
        """The file, or the URL: what `healer.journal` opens."""
        return self.postgres.url.get_secret_value() if self.postgres else str(self.path)

    @model_validator(mode="after")
    def _is_in_one_place(self) -> Journal:
        if self.postgres is not None and "path" in self.model_fields_set:
            raise ValueError("give 'path' or 'postgres', not both")
        return self
