"""Which samples an expression reads: the plan that a store answers before anything is computed."""

from __future__ import annotations

import dataclasses

import numpy as np

from healer.errors import QueryError
from healer.model.matchers import Matcher, MatchOp
from healer.model.series import METRIC_NAME, Times
from healer.rules.promql import tree
from healer.rules.promql.durations import milliseconds, positive_milliseconds

LOOKBACK_MS = 300_000
SUBQUERY_STEP_MS = 60_000
MOST_STEPS = 1_000_000
"""Of a query or a subquery: what is asked for beyond would not fit into memory."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """The series that match, with their samples (stale markers included) in [start_ms, end_ms]."""

    matchers: tuple[Matcher, ...]
    start_ms: int
    end_ms: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The times of evaluation: from start to end, both included; a step of 0 for a single time."""

    start_ms: int
    end_ms: int
    step_ms: int

    @property
    def count(self) -> int:
        if self.end_ms < self.start_ms:
            return 0
        return 1 + ((self.end_ms - self.start_ms) // self.step_ms if self.step_ms else 0)

    @property
    def times_ms(self) -> Times:
        return self.start_ms + self.step_ms * np.arange(self.count, dtype=np.int64)

    @property
    def last_ms(self) -> int:
        return self.start_ms + self.step_ms * (self.count - 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What holds for a query as a whole, wherever in the tree one is."""

    start_ms: int
    end_ms: int
    step_ms: int
    lookback_ms: int = LOOKBACK_MS
    subquery_step_ms: int = SUBQUERY_STEP_MS

    @property
    def grid(self) -> Grid:
        step_ms = 0 if self.start_ms == self.end_ms else self.step_ms
        if step_ms <= 0 and self.start_ms != self.end_ms:
            raise QueryError(f"query from {self.start_ms} to {self.end_ms} needs a step above zero, got {step_ms}")
        return checked(Grid(start_ms=self.start_ms, end_ms=self.end_ms, step_ms=step_ms))

    def length(self, duration: tree.Expr) -> int:
        """A range or a step, in ms; above zero."""
        return positive_milliseconds(duration, step_ms=self.step_ms, range_ms=self.end_ms - self.start_ms)

    def offset(self, duration: tree.Expr | None) -> int:
        return milliseconds(duration, step_ms=self.step_ms, range_ms=self.end_ms - self.start_ms)

    def fixed(self, at: int | tree.Anchor | None) -> int | None:
        """The time that `@` gives, if it stands there."""
        match at:
            case tree.Anchor.START:
                return self.start_ms
            case tree.Anchor.END:
                return self.end_ms
            case _:
                return at

    def moved(self, node: tree.VectorSelector | tree.Subquery, grid: Grid) -> Grid:
        """The times that `node` looks back from, after @ and offset; a single one where @ fixes it."""
        offset, at = self.offset(node.offset), self.fixed(node.at)
        if at is not None:
            return Grid(start_ms=at - offset, end_ms=at - offset, step_ms=0)
        return Grid(start_ms=grid.start_ms - offset, end_ms=grid.last_ms - offset, step_ms=grid.step_ms)

    def inner(self, node: tree.Subquery, grid: Grid) -> Grid:
        """Where a subquery evaluates its expression: at multiples of its step since the epoch, whatever the query's times."""
        outer = self.moved(node, grid)
        step_ms = self.subquery_step_ms if node.step is None else self.length(node.step)
        before_ms = outer.start_ms - self.length(node.range)
        return checked(Grid(start_ms=(before_ms // step_ms + 1) * step_ms, end_ms=outer.last_ms, step_ms=step_ms))

    def select(self, node: tree.VectorSelector, grid: Grid, range_ms: int) -> Select:
        """Windows are open on the left, hence one millisecond less."""
        times = self.moved(node, grid)
        return Select(matchers=node.all_matchers, start_ms=times.start_ms - range_ms + 1, end_ms=times.last_ms)


def checked(grid: Grid) -> Grid:
    if grid.count > MOST_STEPS:
        raise QueryError(f"evaluating at {grid.count} steps is more than the {MOST_STEPS} allowed; use a longer step")
    return grid


def selects(
    expr: tree.Expr,
    *,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    lookback_ms: int = LOOKBACK_MS,
    subquery_step_ms: int = SUBQUERY_STEP_MS,
) -> tuple[Select, ...]:
    """Everything that `evaluate` with the same arguments will fetch, each once."""
    query = Query(
        start_ms=start_ms, end_ms=end_ms, step_ms=step_ms, lookback_ms=lookback_ms, subquery_step_ms=subquery_step_ms
    )
    found: dict[Select, None] = {}
    open_nodes: list[tuple[tree.Expr, Grid]] = [(expr, query.grid)]
    while open_nodes:
        node, grid = open_nodes.pop()
        match node:
            case tree.VectorSelector():
                found.setdefault(query.select(node, grid, query.lookback_ms))
            case tree.MatrixSelector(selector=selector, range=length):
                found.setdefault(query.select(selector, grid, query.length(length)))
            case tree.Subquery(expr=inner):
                if (below := query.inner(node, grid)).count:
                    open_nodes.append((inner, below))
            case _:
                open_nodes.extend((child, grid) for child in reversed(tree.children(node)))
    return tuple(found)


def metric_names(expr: tree.Expr) -> frozenset[str] | None:
    """The names of all metrics that `expr` reads; None when one of its selectors has no fixed name."""
    names: set[str] = set()
    open_nodes: list[tree.Expr] = [expr]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, tree.VectorSelector):
            fixed = [m.value for m in node.all_matchers if m.name == METRIC_NAME and m.op is MatchOp.EQUAL and m.value]
            if not fixed:
                return None
            names.update(fixed)
        open_nodes.extend(tree.children(node))
    return frozenset(names)
