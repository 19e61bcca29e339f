"""Operators between series: matching, filtering, sets; and aggregation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from healer.errors import QueryError
from healer.model.series import Columns, Labels
from healer.rules.promql import Vector, evaluate, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 % 4", 3), ("-7 % 4", -3), ("2 ^ 3 ^ 2", 512), ("1 / 0", math.inf), ("-1 / 0", -math.inf),
        ("1 atan2 1", math.pi / 4), ("2 > bool 1", 1), ("NaN == bool NaN", 0), ("NaN != bool NaN", 1),
        ("-2 ^ 2", -4), ("2 - 3 - 4", -5), ("time() * 2", 120),
    ],
)  # fmt: skip
def test_arithmetic_of_numbers(data: Any, text: str, value: float) -> None:
    assert data.number(text, 60) == pytest.approx(value)


def test_series_with_the_same_labels_meet_whatever_their_names(data: Any) -> None:
    data.load(10, {'a{i="1"}': [6], 'a{i="2"}': [8], 'b{i="1"}': [2], 'b{i="3"}': [4]})
    assert data.at("a / b", 0) == {'{i="1"}': 3}


def test_a_comparison_filters_and_keeps_the_left_value_and_name(data: Any) -> None:
    data.load(10, {'a{i="1"}': [6], 'a{i="2"}': [1], 'b{i="1"}': [2], 'b{i="2"}': [4]})
    assert data.at("a > b", 0) == {'a{i="1"}': 6}
    assert data.at("a > bool b", 0) == {'{i="1"}': 1, '{i="2"}': 0}
    assert data.at("a > 3", 0) == {'a{i="1"}': 6}
    assert data.at("3 < a", 0) == {'a{i="1"}': 6}
    assert data.at("a == NaN", 0) == {}
    assert data.over("a >= 6", 0, 10, 10) == {'a{i="1"}': [6, 6]}


def test_on_keeps_only_its_labels_and_ignoring_drops_its_own(data: Any) -> None:
    data.load(10, {'a{i="1", x="y"}': [6], 'b{i="1", z="w"}': [2]})
    assert data.at("a + on (i) b", 0) == {'{i="1"}': 8}
    assert data.at("a + ignoring (x, z) b", 0) == {'{i="1"}': 8}
    assert data.at("a > on (i) b", 0) == {'{i="1"}': 6}
    assert data.at("a + b", 0) == {}


def test_many_series_on_one_side_need_group_left(data: Any) -> None:
    data.load(10, {'cpu{i="1", m="x"}': [1], 'cpu{i="1", m="y"}': [3], 'info{i="1", role="db"}': [10]})
    assert data.at("cpu * on (i) group_left (role) info", 0) == {
        '{i="1", m="x", role="db"}': 10,
        '{i="1", m="y", role="db"}': 30,
    }
    assert data.at("info - on (i) group_right () cpu", 0) == {'{i="1", m="x"}': 9, '{i="1", m="y"}': 7}
    with pytest.raises(QueryError) as caught:
        data.at("cpu * on (i) info", 0)
    message = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
    assert str(caught.value) == message


def test_many_to_one_without_a_group_is_an_error_even_when_the_comparison_keeps_nothing(data: Any) -> None:
    data.load(10, {'a{m="x"}': [1], 'a{m="y"}': [2], "b": [10]})
    with pytest.raises(QueryError, match="many-to-one matching must be explicit"):
        data.at("a > on () b", 0)


def test_many_to_many_is_an_error_that_names_the_group_and_two_series(data: Any) -> None:
    data.load(10, {'a{i="1"}': [1], 'b{i="1", x="1"}': [2], 'b{i="1", x="2"}': [2]})
    with pytest.raises(QueryError) as caught:
        data.at("a + on (i) b", 0)
    assert str(caught.value) == (
        'found duplicate series for the match group {i="1"} on the right hand-side of the operation: '
        '[{__name__="b", i="1", x="1"}, {__name__="b", i="1", x="2"}];'
        "many-to-many matching not allowed: matching labels must be unique on one side"
    )
    with pytest.raises(QueryError, match="on the left hand-side"):
        data.at("b + on (i) group_right () a", 0)


def test_series_that_replace_each_other_may_share_a_match_group(data: Any) -> None:
    data.load(600, {"a": [1, 1], 'b{pod="x"}': [10, None], 'b{pod="y"}': [None, 20]})
    assert data.over("a + on () b", 0, 600, 600) == {"{}": [11, 21]}
    assert data.over("a * on () group_left (pod) b", 0, 600, 600) == {'{pod="x"}': [10, None], '{pod="y"}': [None, 20]}


def test_results_that_a_lent_label_makes_equal_are_an_error(data: Any) -> None:
    data.load(10, {'a{i="1", role="x"}': [1], 'a{i="1", role="y"}': [2], 'b{i="1", role="z"}': [5]})
    with pytest.raises(QueryError, match="grouping labels must ensure unique matches"):
        data.at("a * on (i) group_left (role) b", 0)


def test_set_operators(data: Any) -> None:
    data.load(10, {'a{i="1"}': [1], 'a{i="2"}': [2], 'b{i="2"}': [20], 'b{i="3"}': [30]})
    assert data.at("a and b", 0) == {'a{i="2"}': 2}
    assert data.at("a unless b", 0) == {'a{i="1"}': 1}
    assert data.at("a or b", 0) == {'a{i="1"}': 1, 'a{i="2"}': 2, 'b{i="3"}': 30}
    assert data.at("a and on () vector(1)", 0) == {'a{i="1"}': 1, 'a{i="2"}': 2}
    assert data.at("a unless on () vector(1)", 0) == {}


def test_set_operators_decide_at_each_step(data: Any) -> None:
    data.load(600, {"a": [1, None, 3], "b": [None, 20, 30]})
    assert data.over("a or b", 0, 1200, 600) == {"a": [1, None, 3], "b": [None, 20, None]}
    assert data.over("-a or -b", 0, 1200, 600) == {"{}": [-1, -20, -3]}
    assert data.over("a and b", 0, 1200, 600) == {"a": [None, None, 3]}
    assert data.over("a unless b", 0, 1200, 600) == {"a": [1, None, None]}


def test_aggregations_by_and_without(data: Any) -> None:
    data.load(10, {'a{g="x", i="1"}': [1], 'a{g="x", i="2"}': [3], 'a{g="y", i="1"}': [10]})
    assert data.at("sum(a)", 0) == {"{}": 14}
    assert data.at("sum by (g, none) (a)", 0) == {'{g="x"}': 4, '{g="y"}': 10}
    assert data.at("avg without (i) (a)", 0) == {'{g="x"}': 2, '{g="y"}': 10}
    assert data.at("max by (__name__) (a)", 0) == {"a": 10}
    assert data.at("count by (g) (a)", 0) == {'{g="x"}': 2, '{g="y"}': 1}
    assert data.at("group(a)", 0) == {"{}": 1}
    assert data.at("stddev by (g) (a)", 0) == {'{g="x"}': 1, '{g="y"}': 0}
    assert data.at("stdvar(a)", 0) == {"{}": pytest.approx(np.var([1, 3, 10]))}
    assert data.at("quantile(0.5, a)", 0) == {"{}": 3}


def test_an_aggregation_counts_only_what_is_there_at_each_step(data: Any) -> None:
    data.load(600, {'a{i="1"}': [1, None, 5], 'a{i="2"}': [2, None, None]})
    for name, expected in {
        "sum": [3, None, 5], "avg": [1.5, None, 5], "min": [1, None, 5], "max": [2, None, 5],
        "count": [2, None, 1], "stddev": [0.5, None, 0], "group": [1, None, 1],
    }.items():  # fmt: skip
        assert data.over(f"{name}(a)", 0, 1200, 600) == {"{}": expected}, name
    assert data.over("quantile(1, a)", 0, 1200, 600) == {"{}": [2, None, 5]}


def test_equal_values_have_no_deviation(data: Any) -> None:
    data.load(10, {f'a{{i="{i}"}}': [1.33 * 7] for i in range(3)})
    assert data.at("stddev(a)", 0) == {"{}": 0}


def test_sums_of_many_series_do_not_lose_small_values(data: Any) -> None:
    values = [1e17, *[1.0] * 200, -1e17]
    data.load(10, {f'a{{i="{i:03}"}}': [value] for i, value in enumerate(values)})
    assert data.at("sum(a)", 0) == {"{}": 200}


def test_topk_keeps_series_and_puts_nan_last(data: Any) -> None:
    data.load(10, {'a{i="1"}': [1], 'a{i="2"}': [3], 'a{i="3"}': [math.nan], 'a{i="4"}': [2]})
    assert list(data.at("topk(2, a)", 0).items()) == [('a{i="2"}', 3), ('a{i="4"}', 2)]
    assert list(data.at("bottomk(3, a)", 0)) == ['a{i="1"}', 'a{i="4"}', 'a{i="2"}']
    assert list(data.at("topk(9, a)", 0))[-1] == 'a{i="3"}'
    assert data.at("topk(0, a)", 0) == {}
    with pytest.raises(QueryError, match="Parameter value is NaN"):
        data.at("topk(NaN, a)", 0)


def test_topk_may_ask_for_another_number_at_each_step(data: Any) -> None:
    data.load(10, {'a{i="1"}': [1, 1], 'a{i="2"}': [3, 3], "k": [1, 2]})
    assert data.over("topk(scalar(k), a)", 0, 10, 10) == {'a{i="1"}': [None, 1], 'a{i="2"}': [3, 3]}


def test_count_values_makes_values_labels(data: Any) -> None:
    data.load(10, {'a{i="1"}': [1.5], 'a{i="2"}': [1.5], 'a{i="3"}': [1e9]})
    assert data.at('count_values("v", a)', 0) == {'{v="1.5"}': 2, '{v="1000000000"}': 1}


def test_limits_choose_some_series_and_the_same_each_time(data: Any) -> None:
    data.load(10, {f'a{{i="{i}"}}': [1] for i in range(200)})
    assert len(data.at("limitk(3, a)", 0)) == 3
    some = set(data.at("limit_ratio(0.3, a)", 0))
    assert 30 <= len(some) <= 90
    rest = set(data.at("limit_ratio(-0.7, a)", 0))
    assert some.isdisjoint(rest)
    assert len(some | rest) == 200


def test_an_answer_says_its_times_and_leaves_out_empty_rows(data: Any) -> None:
    data.load(10, {'a{i="1"}': [1, 1], 'a{i="2"}': [0, 0]})
    result = data.query("a > 0", 0, 10, 5)
    assert isinstance(result, Vector)
    assert result.labels == (Labels({"__name__": "a", "i": "1"}),)
    assert result.times_ms.tolist() == [0, 5000, 10_000]
    assert result.values.shape == result.present.shape == (1, 3)


def test_pairs_that_would_not_fit_into_memory_are_refused() -> None:
    size = 400
    # Each series has a sample at a step of its own, so that nothing but their number forbids the match.
    columns = Columns(
        labels=tuple(Labels({"__name__": "a", "i": f"{i:05}"}) for i in range(size)),
        offsets=np.arange(size + 1),
        times_ms=np.arange(size) * 600_000,
        values=np.zeros(size),
    )
    times = {"start_ms": 0, "end_ms": 600_000 * (size - 1), "step_ms": 600_000}
    with pytest.raises(QueryError, match="more than 50000000 samples"):
        evaluate(parse("a + on () group_left () a"), lambda _: columns, **times)
