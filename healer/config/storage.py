"""`store:` and `journal:` where samples and decisions are kept."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from healer.config.fields import FilePath, PositiveDuration, Section


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


class Journal(Section):
    """Where every decision is kept."""

    path: FilePath = Field(
        Path("data/journal.db"),
        validate_default=True,
        description="A SQLite file on a local disk (network file systems lie about locks and syncing). Made if it is not there.",
    )
