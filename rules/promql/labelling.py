"""Label sets of results: dropping names, grouping, and what happens when two series become one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from healer.errors import QueryError
from healer.model.series import METRIC_NAME, Labels, Times
from healer.rules.promql.values import Vector

T = TypeVar("T", bound=Hashable)
Key = tuple[tuple[str, str], ...]
SAME_LABELS = "vector cannot contain metrics with the same labelset"


def without_name(labels: Labels) -> Labels:
    pairs = labels.pairs
    if pairs and pairs[0][0] == METRIC_NAME:
        return Labels.of_sorted(pairs[1:])
    return labels.without(METRIC_NAME)


def drop_names(vector: Vector) -> Vector:
    """The same samples without metric names; QueryError when two of one time get the same labels."""
    return merged(relabelled(vector, [without_name(labels) for labels in vector.labels]))


def relabelled(vector: Vector, labels: Iterable[Labels]) -> Vector:
    return Vector(labels=tuple(labels), values=vector.values, present=vector.present)


def merged(vector: Vector, problem: Callable[[Labels], str] = lambda _: SAME_LABELS) -> Vector:
    """One row per label set, as when a pod is replaced: rows of one label set follow each other in time.

    QueryError when two of them have a sample at the same step.
    """
    if len(set(vector.labels)) == len(vector.labels):
        return vector
    group, distinct = number_off(vector.labels)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct)))
    present = vector.present[order]
    counts = np.add.reduceat(present, starts, axis=0, dtype=np.int64)
    if (counts > 1).any():
        raise QueryError(problem(distinct[int(np.argwhere(counts > 1)[0][0])]))
    values = np.add.reduceat(np.where(present, vector.values[order], 0.0), starts, axis=0)
    return Vector(labels=tuple(distinct), values=values, present=counts > 0)


def number_off(keys: Sequence[T]) -> tuple[Times, list[T]]:
    """A number for each key, equal for equal ones, in the order they first appear; and the distinct keys."""
    numbers: dict[T, int] = {}
    found = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.int64, count=len(keys))
    return found, list(numbers)


def kept(names: Iterable[str]) -> Callable[[Labels], Key]:
    """A function from labels to the pairs with these names."""
    wanted = frozenset(names)
    return lambda labels: tuple([pair for pair in labels.pairs if pair[0] in wanted])


def left(names: Iterable[str]) -> Callable[[Labels], Key]:
    """A function from labels to the pairs without these names and without the metric name."""
    unwanted = frozenset((*names, METRIC_NAME))
    return lambda labels: tuple([pair for pair in labels.pairs if pair[0] not in unwanted])


def replaced(labels: Labels, name: str, value: str) -> Labels:
    """`labels` with `name` set, or removed when the value is empty."""
    return Labels([*(pair for pair in labels.pairs if pair[0] != name), (name, value)])
