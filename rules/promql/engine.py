"""Evaluates a tree over samples that were fetched beforehand: all series and all steps at once, without I/O or clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from healer.errors import QueryError
from healer.model.series import Columns
from healer.rules.promql import tree, windows
from healer.rules.promql.aggregate import aggregate
from healer.rules.promql.binary import binary, negated
from healer.rules.promql.calls import Site, vector
from healer.rules.promql.functions import FUNCTIONS
from healer.rules.promql.labelling import drop_names
from healer.rules.promql.select import LOOKBACK_MS, SUBQUERY_STEP_MS, Grid, Query, Select
from healer.rules.promql.values import Matrix, Notes, Result, Scalar, String, Value, Vector, Windows, no_series

Fetch = Callable[[Select], Columns]


def evaluate(
    expr: tree.Expr,
    fetch: Fetch,
    *,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    lookback_ms: int = LOOKBACK_MS,
    subquery_step_ms: int = SUBQUERY_STEP_MS,
) -> Result:
    """`expr` at every step from start to end, both included.

    `fetch` answers the selects that `selects` with the same arguments names; each is asked for once. Rows without any
    sample are left out. A range vector can only be evaluated at a single time. Raises QueryError.
    """
    query = Query(
        start_ms=start_ms, end_ms=end_ms, step_ms=step_ms, lookback_ms=lookback_ms, subquery_step_ms=subquery_step_ms
    )
    run = _Run(query, fetch)
    # NaN, infinities and divisions by zero are ordinary values here.
    with np.errstate(all="ignore"):
        value = run.value(expr, query.grid)
        return _finished(value, query, run.notes)


def instant(
    expr: tree.Expr,
    fetch: Fetch,
    *,
    at_ms: int,
    lookback_ms: int = LOOKBACK_MS,
    subquery_step_ms: int = SUBQUERY_STEP_MS,
) -> Result:
    """`expr` at one time, as rules evaluate it."""
    return evaluate(
        expr,
        fetch,
        start_ms=at_ms,
        end_ms=at_ms,
        step_ms=0,
        lookback_ms=lookback_ms,
        subquery_step_ms=subquery_step_ms,
    )


def _finished(value: Value, query: Query, notes: Notes) -> Result:
    annotations = notes.all()
    match value:
        case Windows():
            if query.grid.count != 1:
                raise QueryError(
                    'invalid expression type "range vector" for range query, must be scalar or instant vector'
                )
            columns = windows.in_window(value)
            return Matrix(columns=windows.without_empty(columns), annotations=annotations)
        case String():
            return dataclasses.replace(value, annotations=annotations)
        case Scalar():
            return dataclasses.replace(value, times_ms=query.grid.times_ms, annotations=annotations)
        case Vector(labels=labels, values=values, present=present):
            rows = np.flatnonzero(present.any(axis=1))
            if len(rows) != len(labels):
                labels = tuple(labels[row] for row in rows.tolist())
                values, present = values[rows], present[rows]
            if len(set(labels)) != len(labels):
                raise QueryError("vector cannot contain metrics with the same labelset")
            return Vector(
                labels=labels, values=values, present=present, times_ms=query.grid.times_ms, annotations=annotations
            )


class _Run:
    """One evaluation: what was fetched and noted so far."""

    def __init__(self, query: Query, fetch: Fetch) -> None:
        self.query = query
        self.notes = Notes()
        self._fetch = fetch
        self._fetched: dict[Select, Columns] = {}

    def fetch(self, select: Select) -> Columns:
        if select not in self._fetched:
            self._fetched[select] = self._fetch(select)
        return self._fetched[select]

    def value(self, node: tree.Expr, grid: Grid) -> Value:
        match node:
            case tree.NumberLiteral(value=number):
                return Scalar(values=np.full(grid.count, number))
            case tree.StringLiteral(value=text):
                return String(value=text)
            case tree.VectorSelector():
                return self.latest(node, grid)[0]
            case tree.MatrixSelector(selector=selector, range=length):
                range_ms = self.query.length(length)
                columns = self.fetch(self.query.select(selector, grid, range_ms))
                return windows.windows(columns, self.query.moved(selector, grid).times_ms, range_ms)
            case tree.Subquery():
                return self.subquery(node, grid)
            case tree.Paren(expr=inner):
                return self.value(inner, grid)
            case tree.Unary(op=op, expr=inner):
                value = self.value(inner, grid)
                if op == "+":
                    return value
                return Scalar(values=-value.values) if isinstance(value, Scalar) else negated(vector(value))
            case tree.Binary(left=left, right=right):
                return binary(node, _operand(self.value(left, grid)), _operand(self.value(right, grid)))
            case tree.Aggregate(expr=inner, param=param):
                over = vector(self.value(inner, grid))
                by = None if param is None else self.value(param, grid)
                return aggregate(node, over, by if isinstance(by, Scalar | String) else None, self.notes)
            case tree.Call():
                return self.call(node, grid)

    def call(self, node: tree.Call, grid: Grid) -> Value:
        if node.name == "timestamp" and isinstance(selector := tree.bare(node.args[0]), tree.VectorSelector):
            return drop_names(self.latest(selector, grid)[1])
        args = []
        for arg in node.args:
            args.append(self.value(arg, grid))  # noqa: PERF401 (a comprehension would cost a frame per level)
        site = Site(node=node, times_ms=grid.times_ms, query=self.query, notes=self.notes)
        return FUNCTIONS[node.name].call(site, args)

    def latest(self, node: tree.VectorSelector, grid: Grid) -> tuple[Vector, Vector]:
        """The newest samples: their values, and their times in seconds."""
        lookback_ms = self.query.lookback_ms
        columns = self.fetch(self.query.select(node, grid, lookback_ms))
        values, present, times_ms = windows.latest(columns, self.query.moved(node, grid).times_ms, lookback_ms)
        shape = (len(columns), grid.count)
        there = np.broadcast_to(present, shape)
        return (
            Vector(labels=columns.labels, values=np.broadcast_to(values, shape), present=there),
            Vector(labels=columns.labels, values=np.broadcast_to(times_ms / 1000, shape), present=there),
        )

    def subquery(self, node: tree.Subquery, grid: Grid) -> Windows:
        below = self.query.inner(node, grid)
        inner = vector(self.value(node.expr, below)) if below.count else no_series(0)
        columns = windows.as_columns(inner.labels, inner.values, inner.present, below.times_ms)
        return windows.windows(columns, self.query.moved(node, grid).times_ms, self.query.length(node.range))


def _operand(value: Value) -> Scalar | Vector:
    return value if isinstance(value, Scalar) else vector(value)
