"""Functions: rates and their resets, statistics over time, labels, histograms, the calendar."""

from __future__ import annotations

import math
from typing import Any

import pytest

from healer.errors import QueryError
from healer.rules.promql import ParseError, String, Vector, parse
from healer.rules.promql.functions import FUNCTIONS


def test_increase_reaches_to_both_edges_of_the_window(data: Any) -> None:
    data.load(60, {"a_total": [1000 + 60 * i for i in range(11)]})
    # Samples at 6 to 10 min: 240 between them; the window's start is one interval before, so it is reached.
    assert data.at("increase(a_total[5m])", 600) == {"{}": pytest.approx(300)}
    assert data.at("rate(a_total[5m])", 600) == {"{}": pytest.approx(1)}


def test_a_rate_is_not_extended_further_than_half_an_interval_beyond_a_gap(data: Any) -> None:
    data.load(60, {"a_total": [1000, 1060, 1120]}, start_seconds=600)
    # At 15 min the last sample is 3 min old: 120 over 2 min, half a minute more on each side.
    assert data.at("increase(a_total[10m])", 900) == {"{}": pytest.approx(180)}


def test_a_counter_is_not_extended_to_before_it_was_zero(data: Any) -> None:
    data.load(60, {"a_total": [6, 66, 126]}, start_seconds=600)
    assert data.at("increase(a_total[10m])", 720) == {"{}": pytest.approx(126)}
    assert data.at("delta(a_total[10m])", 720) == {"{}": pytest.approx(150)}


def test_what_a_counter_lost_in_resets_is_added(data: Any) -> None:
    data.load(60, {"a_total": [0, 100, 50, 150, 20, 30]})
    assert data.at("increase(a_total[6m])", 300) == {"{}": pytest.approx(30 + 100 + 150)}
    assert data.at("resets(a_total[6m])", 300) == {"{}": 2}


def test_a_reset_before_the_first_sample_of_a_window_does_not_count(data: Any) -> None:
    data.load(60, {"a_total": [100, 5, 10, 15]})
    assert data.at("resets(a_total[3m])", 180) == {"{}": 0}
    assert data.at("increase(a_total[3m])", 180)["{}"] == pytest.approx(15)


def test_a_rate_needs_two_samples(data: Any) -> None:
    data.load(60, {"a_total": [1, 2]})
    assert data.at("rate(a_total[1m])", 60) == {}


def test_rates_of_many_series_do_not_mix(data: Any) -> None:
    data.load(15, {f'a_total{{i="{i}"}}': [i * j for j in range(40)] for i in range(20)})
    rows = data.over("rate(a_total[1m])", 300, 500, 50)
    assert len(rows) == 20
    for i in range(20):
        assert rows[f'{{i="{i}"}}'] == pytest.approx([i / 15] * 5)


def test_irate_takes_the_last_two_samples_and_knows_resets(data: Any) -> None:
    data.load(10, {"a_total": [0, 5, 25], "b_total": [0, 50, 20]})
    assert data.at("irate(a_total[1m])", 25) == {"{}": 2}
    assert data.at("irate(b_total[1m])", 25) == {"{}": 2}
    assert data.at("idelta(b_total[1m])", 25) == {"{}": -30}


def test_changes_do_not_count_nan_after_nan(data: Any) -> None:
    nan = math.nan
    data.load(10, {"a": [1, 1, 2, nan, nan, 3]})
    assert data.at("changes(a[1m])", 50) == {"{}": 3}


def test_trends_by_least_squares(data: Any) -> None:
    data.load(10, {"a": [3 + 2 * i for i in range(7)], "b": [5] * 7})
    assert data.at("deriv(a[1m1s])", 60) == {"{}": pytest.approx(0.2)}
    assert data.at("predict_linear(a[1m1s], 60)", 60) == {"{}": pytest.approx(27)}
    assert data.at("deriv(b[1m1s])", 60) == {"{}": 0}


def test_a_prediction_counts_from_the_time_of_evaluation_even_with_at(data: Any) -> None:
    data.load(10, {"a": list(range(7))})
    assert data.over("predict_linear(a[1m1s] @ 60, 0)", 60, 80, 10) == {"{}": pytest.approx([6, 7, 8])}


def test_statistics_over_time(data: Any) -> None:
    data.load(10, {"a": [2, 4, 4, 4, 5, 5, 7, 9]})
    expected = {
        "sum": 40, "avg": 5, "min": 2, "max": 9, "count": 8, "last": 9, "first": 2, "present": 1,
        "stddev": 2, "stdvar": 4, "mad": 0.5, "ts_of_min": 0, "ts_of_max": 70, "ts_of_first": 0, "ts_of_last": 70,
    }  # fmt: skip
    for name, value in expected.items():
        assert list(data.at(f"{name}_over_time(a[2m])", 70).values()) == [pytest.approx(value)], name


def test_small_values_are_not_lost_next_to_large_ones(data: Any) -> None:
    data.load(10, {"a": [1, 1e100, 1, -1e100]})
    assert data.at("sum_over_time(a[1m])", 30) == {"{}": 2}


def test_an_average_does_not_overflow(data: Any) -> None:
    data.load(10, {"a": [1.5e308, 1.5e308], 'b{c="1"}': [1.5e308], 'b{c="2"}': [1.5e308]})
    assert data.at("avg_over_time(a[1m])", 10) == {"{}": pytest.approx(1.5e308)}
    assert data.at("sum_over_time(a[1m])", 10) == {"{}": math.inf}
    assert data.at("avg(b)", 0) == {"{}": pytest.approx(1.5e308)}


def test_long_windows_are_summed_exactly(data: Any) -> None:
    data.load(1, {"a": [0.1] * 5000})
    assert data.at("sum_over_time(a[5000s])", 4999) == {"{}": 500.0}


def test_minimum_and_maximum_pass_over_nan(data: Any) -> None:
    data.load(10, {"a": [math.nan, 1, 2], "b": [math.nan]})
    assert data.at("min_over_time(a[1m])", 20) == {"{}": 1}
    assert math.isnan(data.at("max_over_time(b[1m])", 20)["{}"])


def test_quantiles_over_time_lie_between_their_neighbours(data: Any) -> None:
    data.load(10, {"a": [4, 1, 3, 2]})
    assert data.at("quantile_over_time(0.5, a[1m])", 30) == {"{}": 2.5}
    assert data.at("quantile_over_time(2, a[1m])", 30) == {"{}": math.inf}
    assert data.annotations("quantile_over_time(2, a[1m])", 30) == [
        "PromQL warning: quantile value should be between 0 and 1, got 2 2"
    ]


def test_functions_drop_the_metric_name_except_those_that_pick_a_sample(data: Any) -> None:
    data.load(10, {'a{b="1"}': [1, 2]})
    assert data.at("abs(a)", 10) == {'{b="1"}': 2}
    assert data.at("last_over_time(a[1m])", 10) == {'a{b="1"}': 2}
    assert data.at("-a", 10) == {'{b="1"}': -2}
    assert data.at("+a", 10) == {'a{b="1"}': 2}


def test_two_series_that_become_one_at_the_same_time_are_an_error(data: Any) -> None:
    data.load(10, {'a{b="1"}': [1], 'c{b="1"}': [2]})
    with pytest.raises(QueryError, match="vector cannot contain metrics with the same labelset"):
        data.at('abs({b="1"})', 0)


def test_two_series_that_follow_each_other_may_become_one(data: Any) -> None:
    data.load(600, {'a{pod="1"}': [1, None], 'a{pod="2"}': [None, 2]})
    assert data.over('label_replace(a, "pod", "", "", "")', 0, 600, 600) == {"a": [1, 2]}


def test_a_rate_of_what_is_not_named_like_a_counter_is_remarked_on(data: Any) -> None:
    data.load(10, {"a": [1, 2], "b_total": [1, 2]})
    (note,) = data.annotations("rate(a[1m]) + rate(b_total[1m])", 10)
    assert note.startswith("PromQL info: metric might not be a counter")
    assert note.endswith('"a" a[1m]')


def test_absent_takes_the_labels_that_the_selector_fixes(data: Any) -> None:
    data.load(10, {"a": [1]})
    assert data.at('absent(x{b="1", c!="2", d=~"3"})', 0) == {'{b="1"}': 1}
    assert data.at('absent(x{b="1", b="2", c="3"})', 0) == {'{c="3"}': 1}
    assert data.at('absent(sum(x{b="1"}))', 0) == {"{}": 1}
    assert data.at('absent_over_time(x{b="1"}[5m])', 0) == {'{b="1"}': 1}
    assert data.over("absent(a)", 0, 600, 300) == {"{}": [None, 1, 1]}


def test_label_replace_needs_the_whole_value_to_match(data: Any) -> None:
    data.load(10, {'a{pod="web-7"}': [1]})
    assert data.at('label_replace(a, "n", "$2.$name", "pod", "(?P<name>.*)-(.*)")', 0) == {
        'a{n="7.web", pod="web-7"}': 1
    }
    assert data.at('label_replace(a, "n", "x", "pod", "web")', 0) == {'a{pod="web-7"}': 1}
    assert data.at('label_replace(a, "n", "$$${1}x$9", "pod", "(w).*")', 0) == {'a{n="$wx", pod="web-7"}': 1}
    with pytest.raises(QueryError, match="invalid regular expression in label_replace"):
        data.at('label_replace(a, "n", "", "pod", "(")', 0)


def test_label_join(data: Any) -> None:
    data.load(10, {'a{b="1", c="2"}': [1]})
    assert data.at('label_join(a, "d", "-", "c", "none", "b")', 0) == {'a{b="1", c="2", d="2--1"}': 1}


def test_sorting_puts_nan_last_both_ways(data: Any) -> None:
    data.load(10, {'a{b="1"}': [2], 'a{b="2"}': [math.nan], 'a{b="3"}': [1]})
    assert list(data.at("sort(a)", 0)) == ['a{b="3"}', 'a{b="1"}', 'a{b="2"}']
    assert list(data.at("sort_desc(a)", 0)) == ['a{b="1"}', 'a{b="3"}', 'a{b="2"}']


def test_sorting_by_label_reads_numbers_as_numbers(data: Any) -> None:
    data.load(10, {f'a{{b="n{i}"}}': [1] for i in (10, 9, 100)})
    assert list(data.at('sort_by_label(a, "b")', 0)) == ['a{b="n9"}', 'a{b="n10"}', 'a{b="n100"}']
    assert list(data.at('sort_by_label_desc(a, "b")', 0)) == ['a{b="n100"}', 'a{b="n10"}', 'a{b="n9"}']


def test_rounding_goes_half_upwards(data: Any) -> None:
    data.load(10, {'a{b="1"}': [2.5], 'a{b="2"}': [-2.5], 'a{b="3"}': [7.3]})
    assert data.at("round(a)", 0) == {'{b="1"}': 3, '{b="2"}': -2, '{b="3"}': 7}
    assert data.at("round(a, 5)", 0) == {'{b="1"}': 5, '{b="2"}': 0, '{b="3"}': 5}


def test_clamp(data: Any) -> None:
    data.load(10, {"a": [5]})
    assert data.at("clamp(a, 0, 3)", 0) == {"{}": 3}
    assert data.at("clamp(a, 3, 0)", 0) == {}
    assert math.isnan(data.at("clamp_min(a, NaN)", 0)["{}"])


def test_scalar_is_nan_unless_there_is_one_sample(data: Any) -> None:
    data.load(10, {'a{b="1"}': [5], 'a{b="2"}': [6]})
    assert data.number('scalar(a{b="1"})') == 5
    assert math.isnan(data.number("scalar(a)"))
    assert math.isnan(data.number("scalar(none)"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("year", 2024), ("month", 2), ("day_of_month", 29), ("day_of_year", 60), ("day_of_week", 4),
        ("days_in_month", 29), ("hour", 23), ("minute", 59),
    ],
)  # fmt: skip
def test_the_calendar_in_utc(data: Any, name: str, value: int) -> None:
    assert data.at(f"{name}(vector(1709251199))", 0) == {"{}": value}
    assert data.at(f"{name}()", 1_709_251_199) == {"{}": value}


def test_a_time_that_is_no_number_has_no_calendar(data: Any) -> None:
    assert math.isnan(data.at("hour(vector(NaN))", 0)["{}"])


def test_quantiles_of_a_classic_histogram(data: Any) -> None:
    data.load(10, {f'h_bucket{{le="{le}"}}': [count] for le, count in [("1", 10), ("2", 30), ("+Inf", 40)]})
    assert data.at("histogram_quantile(0.5, h_bucket)", 0) == {"{}": 1.5}
    assert data.at("histogram_quantile(0.125, h_bucket)", 0) == {"{}": 0.5}
    assert data.at("histogram_quantile(1, h_bucket)", 0) == {"{}": 2}
    assert data.at("histogram_quantile(-1, h_bucket)", 0) == {"{}": -math.inf}
    assert math.isnan(data.at("histogram_quantile(0.5, h_bucket * 0)", 0)["{}"])
    assert data.at("histogram_fraction(0, 1.5, h_bucket)", 0) == {"{}": 0.5}
    assert data.at('histogram_quantiles(h_bucket, "q", 0.5, 1)', 0) == {'{q="0.5"}': 1.5, '{q="1.0"}': 2}


def test_a_histogram_without_its_last_bucket_has_no_quantile(data: Any) -> None:
    data.load(10, {'h_bucket{le="1"}': [10], 'h_bucket{le="2"}': [30]})
    assert math.isnan(data.at("histogram_quantile(0.5, h_bucket)", 0)["{}"])


def test_a_bucket_that_comes_and_goes_is_seen_at_each_step(data: Any) -> None:
    data.load(
        600,
        {
            'h_bucket{le="1"}': [10, 10],
            'h_bucket{le="1.5"}': [None, 30],
            'h_bucket{le="2"}': [30, 30],
            'h_bucket{le="+Inf"}': [40, 40],
        },
    )
    assert data.over("histogram_quantile(0.5, h_bucket)", 0, 600, 600) == {"{}": [1.5, 1.25]}


def test_buckets_that_fall_are_mended_and_remarked_on(data: Any) -> None:
    data.load(10, {f'h_bucket{{le="{le}"}}': [count] for le, count in [("1", 10), ("2", 9), ("+Inf", 20)]})
    assert data.at("histogram_quantile(0.25, h_bucket)", 0) == {"{}": 0.5}
    (note,) = data.annotations("histogram_quantile(0.25, h_bucket)", 0)
    assert note.startswith("PromQL info: input to histogram_quantile needed to be fixed for monotonicity")


def test_a_bucket_without_le_is_left_out_with_a_warning(data: Any) -> None:
    data.load(10, {"h": [1]})
    assert data.at("histogram_quantile(0.5, h)", 0) == {}
    assert data.annotations("histogram_quantile(0.5, h)", 0) == [
        'PromQL warning: bucket label "le" is missing or has a malformed value of "" for metric name "h" h'
    ]


def test_smoothing_needs_factors_between_zero_and_one(data: Any) -> None:
    data.load(10, {"a": [10 * i for i in range(7)]})
    assert data.at("double_exponential_smoothing(a[2m], 0.5, 0.5)", 60) == {"{}": pytest.approx(60)}
    with pytest.raises(QueryError, match="invalid smoothing factor"):
        data.at("double_exponential_smoothing(a[2m], 1, 0.5)", 60)


def test_a_string_is_an_answer(data: Any) -> None:
    assert data.query("('x')", 0) == String(value="x")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_answers_over_no_data_at_all(data: Any, name: str) -> None:
    function = FUNCTIONS[name]
    given = {"scalar": "0.5", "string": '"x"', "instant vector": "none", "range vector": "none[5m]"}
    text = f"{name}({', '.join(given[kind] for kind in function.arguments)})"
    for start, end, step in ((0, 0, 0), (0, 60, 20)):
        result = data.query(text, start, end, step)
        if isinstance(result, Vector):
            assert result.values.shape == result.present.shape == (len(result.labels), 4 if step else 1)
            assert bool(len(result)) == (name in ("absent", "absent_over_time", "vector"))
        else:
            assert len(result.values) == (4 if step else 1)


@pytest.mark.parametrize("name", ["histogram_count", "info", "holt_winters"])
def test_what_is_not_supported_says_why(name: str) -> None:
    with pytest.raises(ParseError, match=f'function "{name}" is not supported: '):
        parse(f"{name}(a)")
