"""The one table of PromQL functions: name, arguments, result, implementation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from healer.errors import QueryError
from healer.rules.promql import absence, elementwise, histograms, over_time, rates, relabel
from healer.rules.promql.calls import (
    Function,
    Implementation,
    Site,
    each,
    from_cells,
    numbers,
    over,
    scalars,
    widened,
    window,
)
from healer.rules.promql.numbers import format_value
from healer.rules.promql.strings import quote
from healer.rules.promql.tree import Kind
from healer.rules.promql.values import Value, Vector, Windows, no_series

_SCALAR, _STRING, _VECTOR, _MATRIX = Kind.SCALAR, Kind.STRING, Kind.VECTOR, Kind.MATRIX
_COUNTER_SUFFIXES: Final = ("_total", "_sum", "_count", "_bucket")


def _counter_rate(*, per_second: bool) -> Implementation:
    inner = over(lambda found: rates.extrapolated(found, is_counter=True, per_second=per_second))

    def call(site: Site, args: Sequence[Value]) -> Value:
        found = window(args[0])
        if len(found.values):
            used = np.flatnonzero((found.counts > 0).any(axis=1)).tolist()
            for name in dict.fromkeys(found.labels[row].metric for row in used):
                if name and not name.endswith(_COUNTER_SUFFIXES):
                    ends = "/".join(_COUNTER_SUFFIXES)
                    site.inform(f"metric might not be a counter, name does not end in {ends}: {quote(name)}", 0)
        return inner(site, args)

    return call


def _quantile_over_time(site: Site, args: Sequence[Value]) -> Vector:
    q = numbers(args[0])
    for value in np.unique(q[~((q >= 0) & (q <= 1))]):
        site.warn(f"quantile value should be between 0 and 1, got {format_value(float(value))}", 0)
    return _per_step(site, window(args[1]), lambda found: over_time.quantile(found, q))


def _predict_linear(site: Site, args: Sequence[Value]) -> Vector:
    ahead = numbers(args[1])
    return _per_step(site, window(args[0]), lambda found: rates.predicted(found, site.times_ms, ahead))


def _double_exponential_smoothing(site: Site, args: Sequence[Value]) -> Vector:
    smoothing, trend = numbers(args[1]), numbers(args[2])
    for name, factor in (("smoothing", smoothing), ("trend", trend)):
        if not ((factor > 0) & (factor < 1)).all():
            raise QueryError(f"invalid {name} factor. Expected: 0 < factor < 1, got: {factor[0]:f}")
    return _per_step(site, window(args[0]), lambda found: rates.smoothed(found, smoothing, trend))


def _per_step(site: Site, found: Windows, function: Callable[[Windows], over_time.Cells]) -> Vector:
    if not len(found.values):
        return no_series(site.steps)
    found = widened(found, site.steps)
    return from_cells(site, found, function(found))


def _of_vector(name: str, function: Callable[..., Any], *more: Kind) -> Function:
    return Function(name=name, arguments=(_VECTOR, *more), call=each(function))


def _of_range(name: str, function: Callable[[Windows], over_time.Cells], *, keeps_name: bool = False) -> Function:
    return Function(name=name, arguments=(_MATRIX,), call=over(function, keeps_name=keeps_name))


def _of_time(name: str, field: Callable[..., Any]) -> Function:
    return Function(name=name, arguments=(_VECTOR,), optional=1, call=elementwise.calendar(field))


def _of_scalars(name: str, arguments: int, call: Implementation) -> Function:
    return Function(name=name, arguments=(_SCALAR,) * arguments, returns=_SCALAR, call=call)


_TABLE: Final = (
    # Values
    _of_vector("abs", np.abs),
    _of_vector("ceil", np.ceil),
    _of_vector("floor", np.floor),
    _of_vector("exp", np.exp),
    _of_vector("sqrt", np.sqrt),
    _of_vector("ln", np.log),
    _of_vector("log2", np.log2),
    _of_vector("log10", np.log10),
    _of_vector("sgn", np.sign),
    _of_vector("sin", np.sin),
    _of_vector("cos", np.cos),
    _of_vector("tan", np.tan),
    _of_vector("asin", np.arcsin),
    _of_vector("acos", np.arccos),
    _of_vector("atan", np.arctan),
    _of_vector("sinh", np.sinh),
    _of_vector("cosh", np.cosh),
    _of_vector("tanh", np.tanh),
    _of_vector("asinh", np.arcsinh),
    _of_vector("acosh", np.arccosh),
    _of_vector("atanh", np.arctanh),
    _of_vector("deg", lambda values: values * 180 / math.pi),
    _of_vector("rad", lambda values: values * math.pi / 180),
    _of_vector("clamp_min", np.maximum, _SCALAR),
    _of_vector("clamp_max", np.minimum, _SCALAR),
    Function(name="clamp", arguments=(_VECTOR, _SCALAR, _SCALAR), call=elementwise.clamp),
    Function(name="round", arguments=(_VECTOR, _SCALAR), optional=1, call=elementwise.round_to),
    # Scalars and vectors
    Function(name="scalar", arguments=(_VECTOR,), returns=_SCALAR, call=elementwise.scalar),
    Function(name="vector", arguments=(_SCALAR,), call=elementwise.to_vector),
    _of_scalars("pi", 0, lambda site, _: elementwise.constant(site, math.pi)),
    _of_scalars("min_of", 2, scalars(np.minimum)),
    _of_scalars("max_of", 2, scalars(np.maximum)),
    _of_scalars("time", 0, elementwise.time),
    _of_scalars("start", 0, elementwise.query_number(lambda site: site.query.start_ms)),
    _of_scalars("end", 0, elementwise.query_number(lambda site: site.query.end_ms)),
    _of_scalars("step", 0, elementwise.query_number(lambda site: site.query.grid.step_ms)),
    _of_scalars("range", 0, elementwise.query_number(lambda site: site.query.end_ms - site.query.start_ms)),
    # The calendar
    _of_time("year", elementwise.year),
    _of_time("month", elementwise.month),
    _of_time("day_of_month", elementwise.day_of_month),
    _of_time("day_of_year", elementwise.day_of_year),
    _of_time("day_of_week", elementwise.day_of_week),
    _of_time("days_in_month", elementwise.days_in_month),
    _of_time("hour", elementwise.hour),
    _of_time("minute", elementwise.minute),
    # Counters and trends
    Function(name="rate", arguments=(_MATRIX,), call=_counter_rate(per_second=True)),
    Function(name="increase", arguments=(_MATRIX,), call=_counter_rate(per_second=False)),
    _of_range("delta", lambda found: rates.extrapolated(found, is_counter=False, per_second=False)),
    _of_range("irate", lambda found: rates.instant_change(found, is_counter=True)),
    _of_range("idelta", lambda found: rates.instant_change(found, is_counter=False)),
    _of_range("deriv", rates.slope),
    Function(name="predict_linear", arguments=(_MATRIX, _SCALAR), call=_predict_linear),
    Function(
        name="double_exponential_smoothing",
        arguments=(_MATRIX, _SCALAR, _SCALAR),
        call=_double_exponential_smoothing,
    ),
    _of_range("changes", lambda found: rates.count_between(found, rates.changed(found.values))),
    _of_range("resets", lambda found: rates.count_between(found, rates.falls(found.values))),
    # Over time
    _of_range("sum_over_time", over_time.total),
    _of_range("avg_over_time", over_time.average),
    _of_range("min_over_time", over_time.smallest),
    _of_range("max_over_time", over_time.largest),
    _of_range("count_over_time", over_time.number),
    _of_range("present_over_time", over_time.presence),
    _of_range("last_over_time", over_time.newest, keeps_name=True),
    _of_range("first_over_time", over_time.oldest, keeps_name=True),
    _of_range("stddev_over_time", over_time.deviation),
    _of_range("stdvar_over_time", over_time.variance),
    _of_range("mad_over_time", over_time.median_deviation),
    _of_range("ts_of_last_over_time", over_time.time_of_newest),
    _of_range("ts_of_first_over_time", over_time.time_of_oldest),
    _of_range("ts_of_min_over_time", over_time.time_of_smallest),
    _of_range("ts_of_max_over_time", over_time.time_of_largest),
    Function(name="quantile_over_time", arguments=(_SCALAR, _MATRIX), call=_quantile_over_time),
    # Absence
    Function(name="absent", arguments=(_VECTOR,), call=absence.absent),
    Function(name="absent_over_time", arguments=(_MATRIX,), call=absence.absent_over_time),
    # Labels and order
    Function(name="label_replace", arguments=(_VECTOR, *[_STRING] * 4), call=relabel.label_replace),
    Function(name="label_join", arguments=(_VECTOR, *[_STRING] * 3), optional=-1, call=relabel.label_join),
    Function(name="sort", arguments=(_VECTOR,), call=relabel.sort(downwards=False)),
    Function(name="sort_desc", arguments=(_VECTOR,), call=relabel.sort(downwards=True)),
    Function(
        name="sort_by_label",
        arguments=(_VECTOR, _STRING),
        optional=-1,
        call=relabel.sort_by_label(downwards=False),
    ),
    Function(
        name="sort_by_label_desc",
        arguments=(_VECTOR, _STRING),
        optional=-1,
        call=relabel.sort_by_label(downwards=True),
    ),
    # Times of samples: a plain selector as argument is looked up by the engine, with the times of its samples
    Function(name="timestamp", arguments=(_VECTOR,), call=elementwise.timestamp),
    # Classic histograms
    Function(name="histogram_quantile", arguments=(_SCALAR, _VECTOR), call=histograms.histogram_quantile),
    Function(
        name="histogram_quantiles",
        arguments=(_VECTOR, _STRING, _SCALAR),
        optional=10,
        call=histograms.histogram_quantiles,
    ),
    Function(name="histogram_fraction", arguments=(_SCALAR, _SCALAR, _VECTOR), call=histograms.histogram_fraction),
)

FUNCTIONS: Final = {function.name: function for function in _TABLE}

_NATIVE: Final = "native histograms are not stored"
UNSUPPORTED: Final = {
    "histogram_avg": _NATIVE,
    "histogram_count": _NATIVE,
    "histogram_sum": _NATIVE,
    "histogram_stddev": _NATIVE,
    "histogram_stdvar": _NATIVE,
    "info": "it is experimental; write `* on (job, instance) group_left (label) target_info`",
    "holt_winters": "it was renamed; write double_exponential_smoothing",
}
"""Functions of Prometheus that are refused when an expression is read, and why."""
