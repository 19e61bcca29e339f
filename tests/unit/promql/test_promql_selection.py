"""Which samples count at a time: lookback, left-open windows, stale markers, offset, @ and subqueries."""

from __future__ import annotations

import math
from typing import Any

import pytest

from healer.errors import QueryError
from healer.model.matchers import Matcher, MatchOp
from healer.model.series import STALE
from healer.rules.promql import Matrix, Select, evaluate, metric_names, parse, selects


def test_a_sample_is_found_for_just_less_than_the_lookback(data: Any) -> None:
    data.load(1, {"a": [7]})
    assert data.at("a", 0) == {"a": 7}
    assert data.at("a", 299.999) == {"a": 7}
    assert data.at("a", 300) == {}


def test_the_newest_sample_at_or_before_the_time_is_taken(data: Any) -> None:
    data.load(10, {"a": [1, 2, 3]})
    assert data.over("a", 0, 25, 5) == {"a": [1, 1, 2, 2, 3, 3]}


def test_windows_are_open_on_the_left_and_closed_on_the_right(data: Any) -> None:
    data.load(60, {"a": [1, 10, 100, 1000, 10_000]})
    assert data.at("sum_over_time(a[2m])", 240) == {"{}": 11_000}
    assert data.at("sum_over_time(a[2m1ms])", 240) == {"{}": 11_100}
    assert data.at("count_over_time(a[1m])", 240) == {"{}": 1}


def test_a_stale_marker_ends_a_series_at_once(data: Any) -> None:
    data.load(10, {"a": [1, STALE, None, 4]})
    assert data.over("a", 0, 40, 10) == {"a": [1, None, None, 4, 4]}


def test_a_stale_marker_is_not_a_sample_of_a_window(data: Any) -> None:
    data.load(10, {"a": [1, STALE, 3]})
    assert data.at("count_over_time(a[1m])", 20) == {"{}": 2}
    assert data.at("count_over_time(a[10s])", 10) == {}


def test_nan_is_a_value_and_not_an_absent_sample(data: Any) -> None:
    data.load(10, {"a": [math.nan]})
    assert math.isnan(data.at("a", 0)["a"])
    assert data.at("absent(a)", 0) == {}
    assert data.at("count(a)", 0) == {"{}": 1}
    assert data.at("a == a", 0) == {}
    assert data.at("absent(b)", 0) == {"{}": 1}


def test_offset_looks_back_and_forth(data: Any) -> None:
    data.load(10, {"a": [0, 1, 2, 3, 4]})
    assert data.at("a offset 20s", 30) == {"a": 1}
    assert data.at("a offset -10s", 30) == {"a": 4}
    assert data.at("sum_over_time(a[20s] offset 10s)", 30) == {"{}": 3}


def test_at_fixes_the_time_at_every_step_and_offset_counts_from_there(data: Any) -> None:
    data.load(10, {"a": [0, 1, 2, 3, 4]})
    assert data.over("a @ 20", 0, 40, 20) == {"a": [2, 2, 2]}
    assert data.over("a @ 20 offset 10s", 0, 40, 20) == {"a": [1, 1, 1]}
    assert data.over("a offset 10s @ 20", 0, 40, 20) == {"a": [1, 1, 1]}
    assert data.over("a @ start()", 10, 40, 10) == {"a": [1, 1, 1, 1]}
    assert data.over("sum_over_time(a[20s] @ end())", 10, 40, 10) == {"{}": [7, 7, 7, 7]}


def test_at_within_a_subquery_means_the_times_of_the_whole_query(data: Any) -> None:
    data.load(10, {"a": [0, 1, 2, 3, 4]})
    assert data.at("sum_over_time((a @ start())[30s:10s])", 40) == {"{}": 12}


def test_a_subquery_is_evaluated_at_multiples_of_its_step(data: Any) -> None:
    data.load(1, {"a": list(range(100))})
    # From (12, 52] at multiples of 20: 20 and 40, although 52 - 20 = 32 is between them.
    result = data.query("a[40s:20s]", 52)
    assert isinstance(result, Matrix)
    assert result.columns.times_ms.tolist() == [20_000, 40_000]
    assert data.at("sum_over_time(a[40s:20s] offset 12s)", 64) == {"{}": 60}


def test_a_subquery_window_is_open_on_the_left_too(data: Any) -> None:
    data.load(1, {"a": list(range(100))})
    assert data.query("a[40s:20s]", 60).columns.times_ms.tolist() == [40_000, 60_000]


def test_a_subquery_before_the_epoch_is_aligned_downwards(data: Any) -> None:
    data.load(1, {"a": [5]}, start_seconds=-10)
    assert data.query("a[15s:10s]", 4).columns.times_ms.tolist() == [-10_000, 0]


def test_a_subquery_without_a_step_takes_the_minute(data: Any) -> None:
    data.load(1, {"a": list(range(200))})
    assert data.query("a[2m:]", 130).columns.times_ms.tolist() == [60_000, 120_000]


def test_a_subquery_shorter_than_its_step_may_hold_nothing(data: Any) -> None:
    data.load(1, {"a": list(range(100))})
    assert data.at("count_over_time(a[5s:1m])", 50) == {}


def test_a_step_or_range_may_come_from_the_query(data: Any) -> None:
    data.load(1, {"a": list(range(100))})
    assert data.over("count_over_time(a[step()])", 50, 60, 5) == {"{}": [5, 5, 5]}
    assert data.over("a offset range()", 50, 60, 5) == {"a": [40, 45, 50]}


def test_a_range_that_comes_to_nothing_is_an_error(data: Any) -> None:
    with pytest.raises(QueryError, match="duration must be greater than 0"):
        data.query("rate(a[range()])", 5)


def test_timestamp_of_a_selector_is_that_of_its_sample(data: Any) -> None:
    data.load(10, {"a": [0, 1, 2]})
    assert data.at("timestamp(a)", 25) == {"{}": 20}
    assert data.at("timestamp((a))", 25) == {"{}": 20}
    assert data.at("timestamp(abs(a))", 25) == {"{}": 25}
    assert data.at("timestamp(a offset 10s)", 25) == {"{}": 10}


def test_the_plan_names_each_range_once() -> None:
    expr = parse('rate(a{b="c"}[5m]) / rate(a{b="c"}[5m]) + a')
    name, matcher = Matcher("__name__", MatchOp.EQUAL, "a"), Matcher("b", MatchOp.EQUAL, "c")
    assert selects(expr, start_ms=600_000, end_ms=900_000, step_ms=60_000) == (
        Select(matchers=(name, matcher), start_ms=300_001, end_ms=900_000),
        Select(matchers=(name,), start_ms=300_001, end_ms=900_000),
    )


def test_the_plan_ends_at_the_last_step_and_follows_offset_and_subquery() -> None:
    (select,) = selects(parse("max_over_time(a[10m:1m] offset 1h)"), start_ms=7_200_000, end_ms=7_259_999, step_ms=1000)
    assert (select.start_ms, select.end_ms) == (3_060_000 - 300_000 + 1, 3_600_000)


def test_metric_names_are_those_of_all_selectors() -> None:
    assert metric_names(parse("a + rate({__name__='b'}[5m]) and max_over_time({'c.d'}[1h:])")) == frozenset(
        {"a", "b", "c.d"}
    )
    assert metric_names(parse("1 + time()")) == frozenset()
    assert metric_names(parse("a + {job='b'}")) is None
    assert metric_names(parse("{__name__=~'a|b'}")) is None


def test_a_range_vector_is_no_answer_to_a_range_query(data: Any) -> None:
    data.load(10, {"a": [1, 2]})
    with pytest.raises(QueryError, match="invalid expression type"):
        data.query("a[1m]", 0, 10, 10)


def test_a_raw_range_leaves_out_series_without_samples(data: Any) -> None:
    data.load(10, {'a{b="1"}': [1, 2], 'a{b="2"}': [STALE]})
    columns = data.query("a[1m]", 10).columns
    assert [str(labels) for labels in columns.labels] == ['a{b="1"}']
    assert columns.values.tolist() == [1, 2]


def test_more_steps_than_memory_holds_are_refused() -> None:
    with pytest.raises(QueryError, match="use a longer step"):
        evaluate(parse("1"), lambda _: pytest.fail("nothing to fetch"), start_ms=0, end_ms=10**9, step_ms=1)
    with pytest.raises(QueryError, match="use a longer step"):
        selects(parse("max_over_time(a[1y:1ms])"), start_ms=0, end_ms=0, step_ms=0)


def test_a_range_query_needs_a_step() -> None:
    with pytest.raises(QueryError, match="needs a step above zero"):
        selects(parse("a"), start_ms=0, end_ms=10, step_ms=0)
