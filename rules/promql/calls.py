"""How functions are called: what they are told, and how an array function becomes one over vectors or windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from healer.errors import QueryError
from healer.model.series import Floats, Times
from healer.rules.promql import tree
from healer.rules.promql.labelling import drop_names
from healer.rules.promql.select import Query
from healer.rules.promql.tree import Kind
from healer.rules.promql.values import Bools, Notes, Scalar, String, Value, Vector, Windows, no_series


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a function is called: its node, the times of evaluation, the query around it."""

    node: tree.Call
    times_ms: Times
    query: Query
    notes: Notes

    @property
    def steps(self) -> int:
        return len(self.times_ms)

    def warn(self, message: str, arg: int) -> None:
        node = self.node.args[arg]
        self.notes.warn(message, node.start, node.end)

    def inform(self, message: str, arg: int) -> None:
        node = self.node.args[arg]
        self.notes.inform(message, node.start, node.end)


Implementation = Callable[[Site, Sequence[Value]], Value]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """`arguments` are the kinds in order; the last may be left out `optional` times, or repeated (-1: at will)."""

    name: str
    arguments: tuple[Kind, ...]
    optional: int = 0
    returns: Kind = Kind.VECTOR
    call: Implementation

    @property
    def least(self) -> int:
        return len(self.arguments) - (self.optional != 0)

    @property
    def most(self) -> int | None:
        """How many arguments it can take; None for any number."""
        if self.optional < 0:
            return None
        return self.least + self.optional


def vector(value: Value) -> Vector:
    if not isinstance(value, Vector):
        raise QueryError(f"expected an instant vector, got {type(value).__name__}")
    return value


def numbers(value: Value) -> Floats:
    """A scalar's values, one per step."""
    if not isinstance(value, Scalar):
        raise QueryError(f"expected a scalar, got {type(value).__name__}")
    return value.values


def text(value: Value) -> str:
    if not isinstance(value, String):
        raise QueryError(f"expected a string, got {type(value).__name__}")
    return value.value


def window(value: Value) -> Windows:
    if not isinstance(value, Windows):
        raise QueryError(f"expected a range vector, got {type(value).__name__}")
    return value


def each(function: Callable[..., Any]) -> Implementation:
    """Applies `function` to each value; further arguments are scalars. The metric name goes."""

    def call(_: Site, args: Sequence[Value]) -> Vector:
        of = vector(args[0])
        values = np.asarray(function(of.values, *map(numbers, args[1:])), dtype=np.float64)
        return drop_names(Vector(labels=of.labels, values=values, present=of.present))

    return call


def scalars(function: Callable[..., Any]) -> Implementation:
    """Applies `function` to scalars."""
    return lambda _, args: Scalar(values=np.asarray(function(*map(numbers, args)), dtype=np.float64))


def over(function: Callable[[Windows], tuple[Floats, Bools]], *, keeps_name: bool = False) -> Implementation:
    """Applies `function` to each window."""

    def call(site: Site, args: Sequence[Value]) -> Vector:
        found = window(args[0])
        if not len(found.values):
            return no_series(site.steps)
        return from_cells(site, found, function(found), keeps_name=keeps_name)

    return call


def from_cells(site: Site, found: Windows, cells: tuple[Floats, Bools], *, keeps_name: bool = False) -> Vector:
    """The vector of one value per window; where @ fixes the time, it is the same at every step."""
    values, present = cells
    rows = present.any(axis=1)
    labels = found.labels
    if not rows.all():
        labels = tuple(labels[i] for i in np.flatnonzero(rows).tolist())
        values, present = values[rows], present[rows]
    shape = (len(labels), site.steps)
    result = Vector(labels=labels, values=np.broadcast_to(values, shape), present=np.broadcast_to(present, shape))
    return result if keeps_name else drop_names(result)


def widened(found: Windows, steps: int) -> Windows:
    """With a column for each step, for functions whose scalar arguments differ by step although @ fixes the time."""
    shape = (len(found.labels), steps)
    return dataclasses.replace(
        found,
        first=np.broadcast_to(found.first, shape),
        last=np.broadcast_to(found.last, shape),
        ends_ms=np.broadcast_to(found.ends_ms, steps),
    )
