"""Statistics of the samples in each window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from healer.model.series import Floats
from healer.rules.promql import segments, sums
from healer.rules.promql.rates import take
from healer.rules.promql.segments import Segments, per_run
from healer.rules.promql.values import Bools, Windows

Cells = tuple[Floats, Bools]


def total(found: Windows) -> Cells:
    return _by_run(found, sums.total)


def average(found: Windows) -> Cells:
    return _by_run(found, sums.mean)


def _by_run(found: Windows, function: Callable[..., Floats]) -> Cells:
    present = found.counts > 0
    result = np.zeros(present.shape)
    result[present] = function(found.values, found.first[present], found.last[present])
    return result, present


def smallest(found: Windows) -> Cells:
    return _extreme(found, np.fmin), found.counts > 0


def largest(found: Windows) -> Cells:
    return _extreme(found, np.fmax), found.counts > 0


def _extreme(found: Windows, choose: np.ufunc) -> Floats:
    """NaN only where all samples are."""
    # reduceat takes one run from each index to the next: first, last, first, last …; every other one is a window.
    edges = np.stack((found.first, found.last), axis=-1).ravel()
    result: Floats = choose.reduceat(np.append(found.values, np.nan), edges)[::2].reshape(found.first.shape)
    return result


def number(found: Windows) -> Cells:
    return found.counts.astype(np.float64), found.counts > 0


def presence(found: Windows) -> Cells:
    return np.ones(found.counts.shape), found.counts > 0


def newest(found: Windows) -> Cells:
    return take(found.values, found.last - 1), found.counts > 0


def oldest(found: Windows) -> Cells:
    return take(found.values, found.first), found.counts > 0


def time_of_newest(found: Windows) -> Cells:
    return take(found.times_ms / 1000, found.last - 1), found.counts > 0


def time_of_oldest(found: Windows) -> Cells:
    return take(found.times_ms / 1000, found.first), found.counts > 0


def time_of_smallest(found: Windows) -> Cells:
    return _time_of(found, _extreme(found, np.fmin))


def time_of_largest(found: Windows) -> Cells:
    return _time_of(found, _extreme(found, np.fmax))


def _time_of(found: Windows, extreme: Floats) -> Cells:
    """When the extreme was reached last."""
    flat = extreme.ravel()

    def of(runs: Segments) -> Floats:
        wanted = runs.spread(flat[runs.ids])
        reached = (runs.values == wanted) | np.isnan(wanted)
        rows = np.maximum.reduceat(np.where(reached, runs.rows, -1), runs.offsets[:-1])
        return found.times_ms[rows] / 1000

    return per_run(found.values, found.first, found.last, of), found.counts > 0


def variance(found: Windows) -> Cells:
    return per_run(found.values, found.first, found.last, segments.variance), found.counts > 0


def deviation(found: Windows) -> Cells:
    values, present = variance(found)
    return np.sqrt(values), present


def median_deviation(found: Windows) -> Cells:
    return per_run(found.values, found.first, found.last, segments.median_deviation), found.counts > 0


def quantile(found: Windows, q: Floats) -> Cells:
    """`q` per step."""
    wanted = np.broadcast_to(q, found.first.shape).ravel()
    values = per_run(found.values, found.first, found.last, lambda runs: segments.quantile(runs, wanted[runs.ids]))
    return values, found.counts > 0
