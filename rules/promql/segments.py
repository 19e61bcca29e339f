"""Statistics of many runs of values at once, where order within a run matters: quantiles, deviations, ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from healer.model.series import Floats, Times
from healer.rules.promql import sums

_CHUNK: Final = 4_000_000
"""Samples that are laid out at a time, since windows that overlap take up more room than their series."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Runs laid out one after the other: run i is `values[offsets[i]:offsets[i + 1]]`; none is empty.

    `rows` says where each value came from, and `ids` which run of the caller each run is.
    """

    values: Floats
    rows: Times
    owner: Times
    offsets: Times
    ids: Times

    @property
    def counts(self) -> Times:
        return np.diff(self.offsets)

    def spread(self, per_run: Floats) -> Floats:
        """A number per run as a number per value."""
        return per_run[self.owner]

    def with_values(self, values: Floats) -> Segments:
        return dataclasses.replace(self, values=values)

    def add(self, values: Floats) -> Floats:
        """The sum of `values` (one per value) in each run."""
        return sums.total(values, self.offsets[:-1], self.offsets[1:])

    def mean(self) -> Floats:
        return sums.mean(self.values, self.offsets[:-1], self.offsets[1:])


def laid_out(values: Floats, first: Times, last: Times) -> Iterator[Segments]:
    """The runs `first[i]:last[i]` of `values` that are not empty, a limited number at a time."""
    ids = np.flatnonzero(last > first)
    ends = np.cumsum((last - first)[ids])
    cuts = np.searchsorted(ends, np.arange(_CHUNK, ends[-1] if len(ends) else 0, _CHUNK))
    for part in np.split(ids, np.unique(cuts)):
        if not len(part):
            continue
        counts = (last - first)[part]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        owner = np.repeat(np.arange(len(part)), counts)
        rows = np.arange(offsets[-1]) + np.repeat(first[part] - offsets[:-1], counts)
        yield Segments(values=values[rows], rows=rows, owner=owner, offsets=offsets, ids=part)


def per_run(values: Floats, first: Times, last: Times, statistic: Callable[[Segments], Floats]) -> Floats:
    """`statistic` of every run, in the shape of `first`; zero for empty runs."""
    result = np.zeros(first.size)
    for segments in laid_out(values, first.ravel(), last.ravel()):
        result[segments.ids] = statistic(segments)
    return result.reshape(first.shape)


def variance(segments: Segments) -> Floats:
    """Of the population. Values are measured from the first of their run, so that equal ones give exactly zero."""
    shifted = segments.with_values(segments.values - segments.spread(segments.values[segments.offsets[:-1]]))
    from_mean = shifted.values - segments.spread(shifted.mean())
    return segments.add(from_mean * from_mean) / segments.counts


def in_order(segments: Segments) -> Segments:
    """Each run sorted upwards, NaN first."""
    order = np.lexsort((segments.values, ~np.isnan(segments.values), segments.owner))
    return dataclasses.replace(segments, values=segments.values[order], rows=segments.rows[order])


def quantile(segments: Segments, q: Floats) -> Floats:
    """Quantile `q[i]` of each run i, between its neighbours linearly; -Inf below 0, +Inf above 1."""
    ordered = in_order(segments).values
    most = segments.counts - 1
    rank = np.where((q >= 0) & (q <= 1), q, 0.0) * most
    lower = np.maximum(np.floor(rank), 0).astype(np.int64)
    upper = np.minimum(lower + 1, most)
    weight = rank - np.floor(rank)
    start = segments.offsets[:-1]
    between = ordered[start + lower] * (1 - weight) + ordered[start + upper] * weight
    return np.where(np.isnan(q), np.nan, np.where(q < 0, -np.inf, np.where(q > 1, np.inf, between)))


def median_deviation(segments: Segments) -> Floats:
    """The median of the distances from the median; NaN where a value is NaN."""
    half = np.full(len(segments.ids), 0.5)
    distance = np.abs(segments.values - segments.spread(quantile(segments, half)))
    result = quantile(segments.with_values(distance), half)
    with_nan = np.add.reduceat(np.isnan(segments.values), segments.offsets[:-1]) > 0
    return np.where(with_nan, np.nan, result)
