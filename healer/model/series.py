"""Samples and series: what collectors bring, what the store keeps, what rules read.

Times are integer milliseconds since the Unix epoch, as in Prometheus; values are float64. NaN is a value.
A series that ended is marked by one special NaN, told apart by its bits (`STALE_BITS`), never by `isnan`.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Final, TypeVar, overload

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]

METRIC_NAME: Final = "__name__"
STALE_BITS: Final = 0x7FF0000000000002
STALE: Final[float] = struct.unpack("<d", struct.pack("<Q", STALE_BITS))[0]
"""The stale marker of Prometheus. Compare bits (`is_stale`), since it is a NaN."""


def is_stale(values: Floats) -> npt.NDArray[np.bool_]:
    """Which of `values` (any shape) are the stale marker; same shape."""
    marked: npt.NDArray[np.bool_] = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64) == STALE_BITS
    return marked


class Labels(Mapping[str, str]):
    """An immutable label set, sorted by name, hashable; an empty value means the label is absent."""

    __slots__ = ("_hash", "pairs")
    pairs: tuple[tuple[str, str], ...]

    def __init__(self, pairs: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        items = pairs.items() if isinstance(pairs, Mapping) else pairs
        self.pairs = tuple(sorted(pair for pair in items if pair[1]))
        self._hash = hash(self.pairs)

    @classmethod
    def of_sorted(cls, pairs: tuple[tuple[str, str], ...]) -> Labels:
        """Labels of pairs that are sorted already, with distinct names and no empty value; quicker, as nothing is checked."""
        labels = cls.__new__(cls)
        labels.pairs = pairs
        labels._hash = hash(pairs)  # noqa: SLF001 (its own class)
        return labels

    def __getitem__(self, name: str) -> str:
        for key, value in self.pairs:
            if key == name:
                return value
        raise KeyError(name)

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, default: str, /) -> str: ...
    @overload
    def get(self, name: str, default: T, /) -> str | T: ...
    def get(self, name: str, default: object = None, /) -> object:
        """As of any mapping; by far the most frequent question, so that it does without the exception."""
        for key, value in self.pairs:
            if key == name:
                return value
        return default

    def items(self) -> ItemsView[str, str]:
        """As of any mapping, without a search for each."""
        return dict(self.pairs).items()

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.pairs == other.pairs

    def __lt__(self, other: Labels) -> bool:
        return self.pairs < other.pairs

    def __repr__(self) -> str:
        return f"Labels({str(self)!r})"

    def __str__(self) -> str:
        """As Prometheus prints it: `name{a="b"}`."""
        rest = ", ".join(f'{n}="{escape(v)}"' for n, v in self.pairs if n != METRIC_NAME)
        name = self.metric
        return f"{name}{{{rest}}}" if rest or not name else name

    @property
    def metric(self) -> str:
        """The metric name, or an empty string."""
        return self.get(METRIC_NAME, "")

    def with_(self, **labels: str) -> Labels:
        """A copy with these labels set; an empty value removes one."""
        return Labels({**dict(self.pairs), **labels})

    def without(self, *names: str) -> Labels:
        """A copy without these labels."""
        return Labels(pair for pair in self.pairs if pair[0] not in names)


def escape(value: str) -> str:
    """`value` as it stands between double quotes in the exposition format."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples handed over together: row i is (labels[i], times_ms[i], values[i]); the arrays are 1-D and of one length."""

    labels: tuple[Labels, ...]
    times_ms: Times
    values: Floats

    def __len__(self) -> int:
        return len(self.labels)


def batch(rows: Iterable[tuple[Labels, int, float]]) -> Batch:
    """A batch of (labels, time in ms, value) rows."""
    listed = list(rows)
    return Batch(
        labels=tuple(row[0] for row in listed),
        times_ms=np.array([row[1] for row in listed], dtype=np.int64),
        values=np.array([row[2] for row in listed], dtype=np.float64),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The samples of several series, one after the other, in time order within each.

    Series i is `labels[i]`, with rows `offsets[i]:offsets[i + 1]` of `times_ms` (int64) and `values` (float64).
    Stale markers are kept as values, so that the evaluator can see where a series ended.
    """

    labels: tuple[Labels, ...]
    offsets: Times
    times_ms: Times
    values: Floats

    def __len__(self) -> int:
        return len(self.labels)


NO_COLUMNS: Final = Columns(
    labels=(),
    offsets=np.zeros(1, dtype=np.int64),
    times_ms=np.zeros(0, dtype=np.int64),
    values=np.zeros(0, dtype=np.float64),
)
