"""Quantiles and fractions of classic histograms: counters per bucket, told apart by the label `le`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from healer.errors import QueryError
from healer.model.series import METRIC_NAME, Floats, Labels, Times
from healer.rules.promql.calls import Site, numbers, text, vector
from healer.rules.promql.labelling import drop_names, number_off, replaced
from healer.rules.promql.numbers import format_value
from healer.rules.promql.strings import is_utf8, quote
from healer.rules.promql.values import Bools, Value, Vector, no_series, some
from healer.rules.promql.windows import check_size

_TOLERANCE: Final = 1e-12
"""Differences between neighbouring buckets below this (relatively) are rounding, not observations."""
_SMALLEST_NORMAL: Final = float(np.finfo(np.float64).tiny)
_FORCED: Final = (
    "input to histogram_quantile needed to be fixed for monotonicity "
    "(see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Histograms:
    """Each cell (histogram × step, flat) has a column of cumulative counts with a row per upper bound, where it is there."""

    labels: tuple[Labels, ...]
    bounds: Floats
    counts: Floats
    there: Bools
    steps: int

    def alike(self) -> Iterator[tuple[Times, Floats, Floats]]:
        """Cells that have the same buckets: their numbers, their bounds, their counts (bucket × cell)."""
        used = np.flatnonzero(self.there.any(axis=0))
        if not len(used):
            return
        kinds, kind = np.unique(np.packbits(self.there[:, used], axis=0), axis=1, return_inverse=True)
        for number in range(kinds.shape[1]):
            cells = used[kind.ravel() == number]
            rows = np.flatnonzero(self.there[:, cells[0]])
            yield cells, self.bounds[rows], self.counts[np.ix_(rows, cells)]

    def vector(self, cells: Floats) -> Vector:
        shape = (len(self.labels), self.steps)
        present = some(self.there, axis=0).reshape(shape)
        return drop_names(Vector(labels=self.labels, values=cells.reshape(shape), present=present))


def _gathered(site: Site, of: Vector, arg: int) -> _Histograms | None:
    """The buckets of `of`, put together; None when there are none. Series without a usable `le` are left out."""
    rows, bounds = [], []
    for row, labels in enumerate(of.labels):
        bound = _bound(labels.get("le", ""))
        if bound is None:
            if of.present[row].any():
                problem = f'bucket label "le" is missing or has a malformed value of {quote(labels.get("le", ""))}'
                site.warn(f"{problem} for metric name {quote(labels.metric)}", arg)
            continue
        rows.append(row)
        bounds.append(bound)
    if not rows:
        return None
    keys = [tuple([pair for pair in of.labels[row].pairs if pair[0] != "le"]) for row in rows]
    histogram, distinct = number_off(keys)
    upper, bucket = np.unique(np.array(bounds), return_inverse=True)
    shape = (len(upper), len(distinct), site.steps)
    check_size(len(upper) * len(distinct), site.steps)
    counts, there = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    present = of.present[rows]
    # Buckets that write the same bound differently ("1", "1.0") are added up.
    np.add.at(counts, (bucket, histogram), np.where(present, of.values[rows], 0.0))
    np.logical_or.at(there, (bucket, histogram), present)
    return _Histograms(
        labels=tuple(map(Labels.of_sorted, distinct)),
        bounds=upper,
        counts=counts.reshape(len(upper), -1),
        there=there.reshape(len(upper), -1),
        steps=site.steps,
    )


def _bound(le: str) -> float | None:
    try:
        return float(le)
    except ValueError:
        return None


def histogram_quantile(site: Site, args: Sequence[Value]) -> Vector:
    q = numbers(args[0])
    _check_quantile(site, q, 0)
    found = _gathered(site, vector(args[1]), 1)
    return no_series(site.steps) if found is None else found.vector(_quantiles(site, found, q, 1))


def histogram_quantiles(site: Site, args: Sequence[Value]) -> Vector:
    """Several quantiles at once, told apart by a label of the caller's choice."""
    label = text(args[1])
    if not label or not is_utf8(label):
        raise QueryError(f"invalid label name in histogram_quantiles(): {quote(label)}")
    wanted = [numbers(arg) for arg in args[2:]]
    for index, q in enumerate(wanted):
        _check_quantile(site, q, index + 2)
    found = _gathered(site, vector(args[0]), 0)
    if found is None:
        return no_series(site.steps)
    parts: list[Vector] = []
    for q in wanted:
        part = found.vector(_quantiles(site, found, q, 0))
        parts.extend(_told_apart(part, label, q))
    labels = tuple(labels for part in parts for labels in part.labels)
    values = np.concatenate([part.values for part in parts])
    present = np.concatenate([part.present for part in parts])
    return drop_names(Vector(labels=labels, values=values, present=present))


def _told_apart(part: Vector, label: str, q: Floats) -> Iterator[Vector]:
    """`part` with the quantile as a label: one copy per distinct value that `q` takes over the steps."""
    texts = np.array([_label_value(value) for value in q.tolist()])
    for shown in dict.fromkeys(texts.tolist()):
        labels = tuple(replaced(labels, label, shown) for labels in part.labels)
        yield Vector(labels=labels, values=part.values, present=part.present & (texts == shown))


def _label_value(q: float) -> str:
    """As the label `quantile` is written: 1.0, not 1."""
    shown = format_value(q)
    return f"{shown}.0" if shown.lstrip("-").isdigit() else shown


def _check_quantile(site: Site, q: Floats, arg: int) -> None:
    for value in np.unique(q[~((q >= 0) & (q <= 1))]):
        site.warn(f"quantile value should be between 0 and 1, got {format_value(float(value))}", arg)


def _quantiles(site: Site, found: _Histograms, q: Floats, arg: int) -> Floats:
    cells = np.full(found.counts.shape[1], np.nan)
    for numbers_of, bounds, counts in found.alike():
        forced, cells[numbers_of] = _quantile(q[numbers_of % found.steps], bounds, counts)
        for histogram in np.unique(numbers_of[forced] // found.steps):
            site.inform(f"{_FORCED} {quote(found.labels[histogram].get(METRIC_NAME, ''))}", arg)
    return cells


def _quantile(q: Floats, bounds: Floats, counts: Floats) -> tuple[Bools, Floats]:
    """For each cell: whether its counts had to be made monotonic, and the quantile, linear within its bucket."""
    forced = np.zeros(len(q), dtype=np.bool_)
    if bounds[-1] != np.inf:
        result = np.full(len(q), np.nan)
    else:
        forced, counts = _made_monotonic(counts)
        result = _within(q, bounds, counts) if len(bounds) > 1 else np.full(len(q), np.nan)
    outside = np.where(np.isnan(q), np.nan, np.where(q < 0, -np.inf, np.inf))
    inside = (q >= 0) & (q <= 1)
    return forced & inside, np.where(inside, result, outside)


def _within(q: Floats, bounds: Floats, counts: Floats) -> Floats:
    observations = counts[-1]
    rank = q * observations
    reached = counts[:-1] >= rank
    bucket = np.where(reached.any(axis=0), reached.argmax(axis=0), len(bounds) - 1)
    cell = np.arange(len(q))
    below = np.maximum(bucket - 1, 0)
    start = np.where(bucket > 0, bounds[below], 0.0)
    before = np.where(bucket > 0, counts[below, cell], 0.0)
    share = (rank - before) / (counts[bucket, cell] - before)
    result = start + (bounds[bucket] - start) * share
    result = np.where((bucket == 0) & (bounds[0] <= 0), bounds[0], result)
    result = np.where(bucket == len(bounds) - 1, bounds[-2], result)
    return np.where(observations == 0, np.nan, result)


def _made_monotonic(counts: Floats) -> tuple[Bools, Floats]:
    """Cumulative counts cannot fall; where scrapes raced they seem to. Says where a fall was more than rounding."""
    result = counts.copy()
    forced = np.zeros(counts.shape[1], dtype=np.bool_)
    before = result[0]
    for row in result[1:]:
        insignificant = _almost_equal(before, row)
        falls = (row < before) & ~insignificant
        forced |= falls
        row[:] = np.where(insignificant | falls, before, row)
        before = row
    return forced, result


def _almost_equal(first: Floats, second: Floats) -> Bools:
    size = np.abs(first) + np.abs(second)
    tiny = (first == 0) | (second == 0) | (size < _SMALLEST_NORMAL)
    limit = np.where(tiny, _TOLERANCE * _SMALLEST_NORMAL, _TOLERANCE * size)
    equal: Bools = (first == second) | (np.abs(first - second) < limit)
    return equal


def histogram_fraction(site: Site, args: Sequence[Value]) -> Vector:
    """The share of observations between two values."""
    lower, upper = numbers(args[0]), numbers(args[1])
    found = _gathered(site, vector(args[2]), 2)
    if found is None:
        return no_series(site.steps)
    cells = np.full(found.counts.shape[1], np.nan)
    for numbers_of, bounds, counts in found.alike():
        if bounds[-1] != np.inf:
            continue
        low, high = lower[numbers_of % found.steps], upper[numbers_of % found.steps]
        share = (_observed(high, bounds, counts) - _observed(low, bounds, counts)) / counts[-1]
        share = np.where(low >= high, 0.0, share)
        cells[numbers_of] = np.where((counts[-1] == 0) | np.isnan(low) | np.isnan(high), np.nan, share)
    return found.vector(cells)


def _observed(value: Floats, bounds: Floats, counts: Floats) -> Floats:
    """How many observations are below `value` in each cell. Nothing can be said within a bucket without an end."""
    result = counts[-1].copy()
    settled = np.zeros(len(value), dtype=np.bool_)
    below = np.zeros(len(value))
    start = 0.0 if bounds[0] > 0 else -np.inf
    for end, count in zip(bounds.tolist(), counts, strict=True):
        inside = below + (count - below) * (value - start) / (end - start) if start != -np.inf else count
        here = np.where(value <= start, below, inside)
        found = ~settled & (value < end)
        result = np.where(found, here, result)
        settled |= found
        below, start = count, end
    most: Floats = np.minimum(result, counts[-1])
    return most
