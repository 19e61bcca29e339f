"""The evaluator, all series and steps at once, against Prometheus' formulas written out for one window at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from healer.model.series import STALE, Columns, Labels, is_stale
from healer.rules.promql import Vector, evaluate, parse

Sample = tuple[int, float]
RANGE_MS, STEP_MS, STEPS = 60_000, 17_000, 12


def extrapolated_rate(samples: list[Sample], end_ms: int, *, is_counter: bool, per_second: bool) -> float | None:
    """`extrapolatedRate` of Prometheus 3, for one window of float samples."""
    if len(samples) < 2:
        return None
    (first_ms, first), (last_ms, last) = samples[0], samples[-1]
    result = last - first
    if is_counter:
        previous = first
        for _, value in samples[1:]:
            if value < previous:
                result += previous
            previous = value
    to_start, to_end = (first_ms - (end_ms - RANGE_MS)) / 1000, (end_ms - last_ms) / 1000
    sampled = (last_ms - first_ms) / 1000
    average = sampled / (len(samples) - 1)
    threshold = average * 1.1
    if to_start >= threshold:
        to_start = average / 2
    if is_counter and result > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / result))
    if to_end >= threshold:
        to_end = average / 2
    factor = (sampled + to_start + to_end) / sampled
    return result * (factor / (RANGE_MS / 1000) if per_second else factor)


values = st.floats(0, 1e6) | st.integers(0, 20).map(float) | st.just(STALE)
series = st.lists(st.tuples(st.integers(1, 40_000), values), max_size=25)


def laid_out(found: list[list[tuple[int, float]]]) -> tuple[Columns, list[list[Sample]]]:
    """Series from distances in time and values; as columns and as lists."""
    lists: list[list[Sample]] = []
    for one in found:
        times = np.cumsum([0, *(distance for distance, _ in one)])[1:].tolist()
        lists.append(list(zip(times, (value for _, value in one), strict=True)))
    columns = Columns(
        labels=tuple(Labels({"__name__": "x_total", "i": f"{i:02}"}) for i in range(len(found))),
        offsets=np.cumsum([0, *map(len, lists)]),
        times_ms=np.array([time for one in lists for time, _ in one], dtype=np.int64),
        values=np.array([value for one in lists for _, value in one], dtype=np.float64),
    )
    return columns, lists


def rows(text: str, columns: Columns) -> dict[str, list[float | None]]:
    result = evaluate(parse(text), lambda _: columns, start_ms=0, end_ms=STEP_MS * (STEPS - 1), step_ms=STEP_MS)
    assert isinstance(result, Vector)
    return {
        labels["i"]: [
            float(value) if there else None for value, there in zip(result.values[n], result.present[n], strict=True)
        ]
        for n, labels in enumerate(result.labels)
    }


def same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


@given(st.lists(series, min_size=1, max_size=5), st.sampled_from(["rate", "increase", "delta"]))
def test_rates_are_those_of_the_formula_for_every_series_and_step(
    found: list[list[tuple[int, float]]], name: str
) -> None:
    columns, lists = laid_out(found)
    got = rows(f"{name}(x_total[1m])", columns)
    for i, samples in enumerate(lists):
        for step in range(STEPS):
            end_ms = step * STEP_MS
            window = [s for s in samples if end_ms - RANGE_MS < s[0] <= end_ms and not is_stale(np.array([s[1]]))[0]]
            expected = extrapolated_rate(window, end_ms, is_counter=name != "delta", per_second=name == "rate")
            assert same(got.get(f"{i:02}", [None] * STEPS)[step], expected)


@given(st.lists(series, min_size=1, max_size=5))
def test_a_selector_finds_the_newest_sample_unless_it_is_old_or_stale(found: list[list[tuple[int, float]]]) -> None:
    columns, lists = laid_out(found)
    result = evaluate(
        parse("x_total"),
        lambda _: columns,
        start_ms=0,
        end_ms=STEP_MS * (STEPS - 1),
        step_ms=STEP_MS,
        lookback_ms=30_000,
    )
    assert isinstance(result, Vector)
    got = {labels["i"]: row for row, labels in enumerate(result.labels)}
    for i, samples in enumerate(lists):
        for step in range(STEPS):
            now = step * STEP_MS
            newest = next((s for s in reversed(samples) if s[0] <= now), None)
            there = newest is not None and newest[0] > now - 30_000 and not is_stale(np.array([newest[1]]))[0]
            row = got.get(f"{i:02}")
            assert (row is not None and bool(result.present[row, step])) == there
            if there and newest is not None and row is not None:
                assert result.values[row, step] == newest[1]


@given(st.lists(series, min_size=1, max_size=5))
def test_sums_extremes_and_counts_over_time_are_those_of_each_window(found: list[list[tuple[int, float]]]) -> None:
    columns, lists = laid_out(found)
    functions: dict[str, Callable[[list[float]], float]] = {"sum": math.fsum, "min": min, "max": max, "count": len}
    for name, function in functions.items():
        got = rows(f"{name}_over_time(x_total[1m])", columns)
        for i, samples in enumerate(lists):
            for step in range(STEPS):
                end_ms = step * STEP_MS
                window = [
                    value
                    for time, value in samples
                    if end_ms - RANGE_MS < time <= end_ms and not is_stale(np.array([value]))[0]
                ]
                expected = float(function(window)) if window else None
                assert same(got.get(f"{i:02}", [None] * STEPS)[step], expected)


@given(st.lists(st.lists(st.floats(-1e300, 1e300), max_size=150), min_size=1, max_size=4))
def test_compensated_sums_are_as_good_as_exact_ones(groups: list[list[float]]) -> None:
    labels, numbers = [], []
    for group, members in enumerate(groups):
        for i, value in enumerate(members):
            labels.append(Labels({"__name__": "x", "g": str(group), "i": str(i)}))
            numbers.append(value)
    columns = Columns(
        labels=tuple(labels),
        offsets=np.arange(len(labels) + 1),
        times_ms=np.zeros(len(labels), dtype=np.int64),
        values=np.array(numbers, dtype=np.float64),
    )
    result = evaluate(parse("sum by (g) (x)"), lambda _: columns, start_ms=0, end_ms=0, step_ms=0)
    assert isinstance(result, Vector)
    for labels_of_group, value in result.at():
        members = groups[int(labels_of_group["g"])]
        # Once rounded and once more for the corrections, which are small next to the largest term.
        allowed = 4e-16 * abs(math.fsum(members)) + len(members) ** 2 * 5e-32 * math.fsum(map(abs, members))
        assert abs(value - math.fsum(members)) <= allowed
