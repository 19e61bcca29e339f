"""Finds the samples of many series at many times at once."""

from __future__ import annotations

import numpy as np

from healer.errors import QueryError
from healer.model.series import Columns, Floats, Labels, Times, is_stale
from healer.rules.promql.values import Bools, Windows

MOST_CELLS = 50_000_000
"""Series × steps that one part of a query may take up; Prometheus stops at as many samples."""


def check_size(series: int, steps: int) -> None:
    if series * steps > MOST_CELLS:
        raise QueryError(
            f"query would take up {series} series × {steps} steps, more than {MOST_CELLS} samples; "
            "narrow the selectors or use a longer step"
        )


def counts_until(columns: Columns, edges_ms: Times) -> Times:
    """For each series and edge: the row after its last sample at or before the edge. Shape series × edges.

    One binary search for all: row keys grow by more than any time difference from one series to the next.
    """
    sizes = np.diff(columns.offsets)
    series = np.arange(len(sizes), dtype=np.int64)
    base = int(columns.times_ms.min())
    span = int(columns.times_ms.max()) - base + 2
    keys = np.repeat(series * span, sizes) + (columns.times_ms - base)
    wanted = (series * span)[:, None] + np.clip(edges_ms - base, -1, span - 1)[None, :]
    found: Times = np.searchsorted(keys, wanted.ravel(), side="right").reshape(wanted.shape)
    return found


def latest(columns: Columns, times_ms: Times, lookback_ms: int) -> tuple[Floats, Bools, Times]:
    """For each series and time t: value, whether there is one, and time of the last sample in (t - lookback, t].

    A series whose last sample is a stale marker has ended: nothing is there.
    """
    shape = (len(columns), len(times_ms))
    check_size(*shape)
    if not len(columns.times_ms):
        return np.zeros(shape), np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.int64)
    after = counts_until(columns, times_ms)
    row = np.maximum(after - 1, 0)
    values, found_ms = columns.values[row], columns.times_ms[row]
    present = (after > columns.offsets[:-1, None]) & (found_ms > times_ms[None, :] - lookback_ms) & ~is_stale(values)
    return values, present, found_ms


def windows(columns: Columns, ends_ms: Times, range_ms: int) -> Windows:
    """For each series and end t: the samples in (t - range, t], without stale markers."""
    check_size(len(columns), len(ends_ms))
    stale = is_stale(columns.values)
    if stale.any():
        columns = _without(columns, stale)
    if len(columns.times_ms):
        first, last = counts_until(columns, ends_ms - range_ms), counts_until(columns, ends_ms)
    else:
        first = last = np.zeros((len(columns), len(ends_ms)), dtype=np.int64)
    return Windows(
        labels=columns.labels,
        times_ms=columns.times_ms,
        values=columns.values,
        first=first,
        last=last,
        ends_ms=ends_ms,
        range_ms=range_ms,
    )


def _without(columns: Columns, unwanted: Bools) -> Columns:
    kept = ~unwanted
    before = np.concatenate(([0], np.cumsum(kept)))
    return Columns(
        labels=columns.labels,
        offsets=before[columns.offsets],
        times_ms=columns.times_ms[kept],
        values=columns.values[kept],
    )


def as_columns(labels: tuple[Labels, ...], values: Floats, present: Bools, times_ms: Times) -> Columns:
    """The samples of a vector at its steps, as a subquery reads them."""
    offsets = np.concatenate(([0], np.cumsum(present.sum(axis=1, dtype=np.int64))))
    times = np.broadcast_to(times_ms, present.shape)[present]
    return Columns(labels=labels, offsets=offsets, times_ms=times, values=values[present])


def in_window(found: Windows, step: int = 0) -> Columns:
    """The samples of the windows of one step."""
    first, sizes = found.first[:, step], found.counts[:, step]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rows = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], sizes)
    return Columns(labels=found.labels, offsets=offsets, times_ms=found.times_ms[rows], values=found.values[rows])


def without_empty(columns: Columns) -> Columns:
    """Without the series that have no sample."""
    sizes = np.diff(columns.offsets)
    rows = np.flatnonzero(sizes)
    if len(rows) == len(sizes):
        return columns
    return Columns(
        labels=tuple(columns.labels[row] for row in rows.tolist()),
        offsets=np.concatenate(([0], np.cumsum(sizes[rows]))),
        times_ms=columns.times_ms,
        values=columns.values,
    )
