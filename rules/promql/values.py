"""What expressions yield: tables of series × steps. Whether a sample is there is kept apart from its value, since NaN is a value."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from healer.model.series import NO_COLUMNS, Columns, Floats, Labels, Times

Bools = npt.NDArray[np.bool_]
NO_TIMES: Final[Times] = np.zeros(0, dtype=np.int64)


class Level(enum.StrEnum):
    WARNING = "PromQL warning"
    INFO = "PromQL info"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Annotation:
    """A remark on the result; `start` and `end` are the bytes of the expression that it is about."""

    level: Level
    message: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.level}: {self.message}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vector:
    """An instant vector at each step: `values` and `present` have a row per series and a column per step.

    `values` holds anything where `present` is false. The order of the rows matters only after `sort` and `topk`.
    """

    labels: tuple[Labels, ...]
    values: Floats
    present: Bools
    times_ms: Times = dataclasses.field(default_factory=NO_TIMES.copy)
    annotations: tuple[Annotation, ...] = ()

    def at(self, step: int = -1) -> Iterator[tuple[Labels, float]]:
        """The samples of one step, the last by default."""
        column, present = self.values[:, step].tolist(), self.present[:, step].tolist()
        return ((labels, column[i]) for i, labels in enumerate(self.labels) if present[i])

    def __len__(self) -> int:
        return len(self.labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scalar:
    """A number at each step."""

    values: Floats
    times_ms: Times = dataclasses.field(default_factory=NO_TIMES.copy)
    annotations: tuple[Annotation, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class String:
    value: str
    annotations: tuple[Annotation, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """The raw samples of a range selector at one instant."""

    columns: Columns = NO_COLUMNS
    annotations: tuple[Annotation, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """A range vector at each step: row i, step j holds the samples `first[i, j]:last[i, j]` of `times_ms` and `values`.

    `ends_ms` are the (included) ends of the windows, after offset and @; there is one column where @ fixes the time.
    Stale markers are left out. All samples of a window belong to series i, in time order.
    """

    labels: tuple[Labels, ...]
    times_ms: Times
    values: Floats
    first: Times
    last: Times
    ends_ms: Times
    range_ms: int

    @property
    def counts(self) -> Times:
        return self.last - self.first


Result = Vector | Scalar | String | Matrix
Value = Vector | Scalar | String | Windows


def some(present: Bools, *, axis: int) -> Bools:
    """Whether anything is there along an axis of a table."""
    found: Bools = np.logical_or.reduce(present, axis=axis)
    return found


def no_series(steps: int) -> Vector:
    return Vector(labels=(), values=np.zeros((0, steps)), present=np.zeros((0, steps), dtype=np.bool_))


class Notes:
    """Gathers annotations while a query runs, each once."""

    def __init__(self) -> None:
        self._found: dict[Annotation, None] = {}

    def warn(self, message: str, start: int, end: int) -> None:
        self._found.setdefault(Annotation(Level.WARNING, message, start, end))

    def inform(self, message: str, start: int, end: int) -> None:
        self._found.setdefault(Annotation(Level.INFO, message, start, end))

    def all(self) -> tuple[Annotation, ...]:
        return tuple(self._found)
