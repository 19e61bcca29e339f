"""Sums that do not lose small values next to large ones: Kahan's method with Neumaier's improvement, as in Prometheus."""

from __future__ import annotations

from typing import Final

import numpy as np

from healer.model.series import Floats, Times

BLOCK: Final = 64
"""Up to so many terms are added in the same order as Prometheus does; longer runs are added block by block."""


def compensated(values: Floats, first: Times, last: Times) -> tuple[Floats, Floats]:
    """For each run `first[i]:last[i]` along the first axis: its sum and what rounding took from it.

    Takes one pass of array operations per position in a run, not per run. The true sum is the sum of both.
    """
    counts = last - first
    if not len(counts) or counts.max(initial=0) <= BLOCK:
        return _in_step(values, first, counts)
    blocks = -(-counts // BLOCK)
    ends = np.cumsum(blocks)
    begins = ends - blocks
    starts = np.repeat(first, blocks) + BLOCK * (np.arange(ends[-1]) - np.repeat(begins, blocks))
    stops = np.minimum(starts + BLOCK, np.repeat(last, blocks))
    sums, lost = _in_step(values, starts, stops - starts)
    total, lost_between = compensated(sums, begins, ends)
    lost_within, _ = compensated(lost, begins, ends)
    return total, np.where(np.isinf(total), 0.0, lost_between + lost_within)


def total(values: Floats, first: Times, last: Times) -> Floats:
    """For each run: its sum."""
    sums, lost = compensated(values, first, last)
    return np.where(np.isinf(sums), sums, sums + lost)


def mean(values: Floats, first: Times, last: Times) -> Floats:
    """For each run (of one term at least): its mean, also where the sum is beyond float64."""
    sums, lost = compensated(values, first, last)
    counts = (last - first).reshape(-1, *[1] * (values.ndim - 1))
    means: Floats = np.where(np.isinf(sums), sums, sums / counts + lost / counts)
    for index in np.argwhere(np.isinf(means)):
        run = values[(slice(first[index[0]], last[index[0]]), *index[1:])]
        if np.isfinite(run).all():
            means[tuple(index)] = np.sum(run / len(run))
    return means


def _in_step(values: Floats, first: Times, counts: Times) -> tuple[Floats, Floats]:
    """Adds the k-th terms of all runs at once, for each k; longest runs first, so that those still going are a prefix."""
    order = np.argsort(-counts, kind="stable")
    starts, sizes = first[order], counts[order]
    shape = (len(counts), *values.shape[1:])
    sums, lost = np.zeros(shape), np.zeros(shape)
    longest = int(sizes[0]) if len(sizes) else 0
    still_going = len(sizes) - np.searchsorted(sizes[::-1], np.arange(longest), side="right")
    for k in range(longest):
        going = still_going[k]
        term = values[starts[:going] + k]
        before = sums[:going]
        after = before + term
        rounding = np.where(np.abs(before) >= np.abs(term), (before - after) + term, (term - after) + before)
        lost[:going] = np.where(np.isinf(after), 0.0, lost[:going] + rounding)
        sums[:going] = after
    unsorted = np.empty_like(order)
    unsorted[order] = np.arange(len(order))
    return sums[unsorted], lost[unsorted]
