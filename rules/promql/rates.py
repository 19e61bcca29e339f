"""How fast counters and gauges move: Prometheus' formulas, for all series and steps at once."""

from __future__ import annotations

import numpy as np

from healer.model.series import Floats, Times
from healer.rules.promql.segments import Segments, per_run
from healer.rules.promql.values import Bools, Windows


def take(samples: Floats, rows: Times) -> Floats:
    """`samples[rows]`; any number where a row lies beyond the end, as it does for empty windows."""
    return samples[np.clip(rows, 0, len(samples) - 1)]


def extrapolated(found: Windows, *, is_counter: bool, per_second: bool) -> tuple[Floats, Bools]:
    """Change over the whole window, judged from the samples in it (two at least).

    The samples rarely reach the edges of the window: the change is extended to an edge that is near (1.1 times the
    average distance between samples), otherwise by half that distance; a counter never to before it was zero.
    """
    steps_between = found.counts - 1
    present = steps_between > 0
    first_ms, last_ms = _times(found, found.first), _times(found, found.last - 1)
    first, last = take(found.values, found.first), take(found.values, found.last - 1)
    change = last - first
    if is_counter:
        change = _add_lost_to_resets(found, change)
    to_start = (first_ms - (found.ends_ms - found.range_ms)) / 1000
    to_end = (found.ends_ms - last_ms) / 1000
    sampled = (last_ms - first_ms) / 1000
    between = sampled / np.maximum(steps_between, 1)
    to_start = np.where(to_start >= between * 1.1, between / 2, to_start)
    if is_counter:
        to_zero = np.where((change > 0) & (first >= 0), sampled * (first / change), to_start)
        to_start = np.where(to_zero < to_start, to_zero, to_start)
    to_end = np.where(to_end >= between * 1.1, between / 2, to_end)
    factor = (sampled + to_start + to_end) / sampled
    if per_second:
        factor = factor / (found.range_ms / 1000)
    return change * factor, present


def _times(found: Windows, rows: Times) -> Times:
    return found.times_ms[np.clip(rows, 0, len(found.times_ms) - 1)]


def _add_lost_to_resets(found: Windows, change: Floats) -> Floats:
    """A counter that falls was reset, and had reached the value before: add those, in the order of the samples."""
    resets = np.flatnonzero(falls(found.values))
    if not len(resets):
        return change
    lost = found.values[resets - 1]
    # A fall counts only between two samples of one window, hence from its second sample on.
    start = np.searchsorted(resets, (found.first + 1).ravel())
    stop = np.maximum(np.searchsorted(resets, found.last.ravel()), start)
    sums = change.ravel().copy()
    for k in range(int((stop - start).max(initial=0))):
        going = np.flatnonzero(start + k < stop)
        sums[going] += lost[start[going] + k]
    return sums.reshape(change.shape)


def falls(values: Floats) -> Bools:
    """Where a value is less than the one before it; the first is not."""
    return np.concatenate(([False], values[1:] < values[:-1]))


def changed(values: Floats) -> Bools:
    """Where a value differs from the one before it; NaN after NaN does not."""
    both_nan = np.isnan(values[1:]) & np.isnan(values[:-1])
    return np.concatenate(([False], (values[1:] != values[:-1]) & ~both_nan))


def count_between(found: Windows, marked: Bools) -> tuple[Floats, Bools]:
    """How many samples are marked in each window, after its first."""
    before = np.concatenate(([0], np.cumsum(marked)))
    count = before[found.last] - before[np.minimum(found.first + 1, found.last)]
    return count.astype(np.float64), found.counts > 0


def instant_change(found: Windows, *, is_counter: bool) -> tuple[Floats, Bools]:
    """Between the last two samples: per second for a counter (which may have been reset), else the difference."""
    last, before = take(found.values, found.last - 1), take(found.values, found.last - 2)
    elapsed_ms = _times(found, found.last - 1) - _times(found, found.last - 2)
    present = (found.counts > 1) & (elapsed_ms != 0)
    if not is_counter:
        return last - before, present
    change = np.where(last < before, last, last - before)
    return change / (elapsed_ms / 1000), present


def slope(found: Windows) -> tuple[Floats, Bools]:
    """Per second, by least squares."""

    def of(segments: Segments) -> Floats:
        since = found.times_ms[segments.rows[segments.offsets[:-1]]][segments.owner]
        return _regression(segments, found.times_ms[segments.rows] - since)[0]

    return per_run(found.values, found.first, found.last, of), found.counts > 1


def predicted(found: Windows, now_ms: Times, ahead_seconds: Floats) -> tuple[Floats, Bools]:
    """The value `ahead_seconds` after `now_ms` (each per step), on the line of least squares."""
    shape = found.first.shape
    now, ahead = np.broadcast_to(now_ms, shape).ravel(), np.broadcast_to(ahead_seconds, shape).ravel()

    def of(segments: Segments) -> Floats:
        elapsed = found.times_ms[segments.rows] - now[segments.ids][segments.owner]
        rise, start = _regression(segments, elapsed)
        return rise * ahead[segments.ids] + start

    return per_run(found.values, found.first, found.last, of), found.counts > 1


def _regression(segments: Segments, elapsed_ms: Times) -> tuple[Floats, Floats]:
    """Slope per second and value at time 0 of the line through each run."""
    x, y, n = elapsed_ms / 1000, segments.values, segments.counts
    sum_x, sum_y = segments.add(x), segments.add(y)
    covariance = segments.add(x * y) - sum_x * sum_y / n
    rise = covariance / (segments.add(x * x) - sum_x * sum_x / n)
    start = sum_y / n - rise * sum_x / n
    first = y[segments.offsets[:-1]]
    level = np.logical_and.reduceat(y == segments.spread(first), segments.offsets[:-1])
    flat = np.where(np.isinf(first), np.nan, 0.0)
    return np.where(level, flat, rise), np.where(level, first + flat, start)


def smoothed(found: Windows, smoothing: Floats, trend_factor: Floats) -> tuple[Floats, Bools]:
    """Double exponential smoothing (Holt): the level after the last sample. Factors per step, in (0, 1)."""
    shape, counts = found.first.shape, found.counts
    sf, tf = np.broadcast_to(smoothing, shape), np.broadcast_to(trend_factor, shape)
    before = level = take(found.values, found.first)
    trend = take(found.values, found.first + 1) - level
    for k in range(1, int(counts.max(initial=0))):
        going = counts > k
        if k > 1:
            trend = np.where(going, tf * (level - before) + (1 - tf) * trend, trend)
        higher = sf * take(found.values, found.first + k) + (1 - sf) * (level + trend)
        before, level = np.where(going, level, before), np.where(going, higher, level)
    return level, counts > 1
