"""Ranges, steps and offsets: literals, and the arithmetic that newer Prometheus versions allow there."""

from __future__ import annotations

import math
from typing import Final

from healer.errors import QueryError
from healer.rules.promql.tree import Binary, Call, Expr, NumberLiteral, Paren, Unary

LONGEST_SECONDS: Final = 9_223_372_036.0
"""What Prometheus can hold, in nanoseconds: 292 years."""


def milliseconds(expr: Expr | None, *, step_ms: int, range_ms: int) -> int:
    """What a duration comes to in a query with this step and this range (0 for an instant query)."""
    if expr is None:
        return 0
    seconds = _seconds(expr, step_ms / 1000, range_ms / 1000)
    if not math.isfinite(seconds) or abs(seconds) > LONGEST_SECONDS:
        raise QueryError(f"duration is out of range: {seconds} seconds")
    return math.trunc(round(seconds * 1_000_000) / 1_000)


def positive_milliseconds(expr: Expr, *, step_ms: int, range_ms: int) -> int:
    """As `milliseconds`, for a range or a subquery's step, which cannot be zero or less."""
    length = milliseconds(expr, step_ms=step_ms, range_ms=range_ms)
    if length <= 0:
        raise QueryError(f"duration must be greater than 0, but it comes to {length / 1000:g}s")
    return length


def _seconds(expr: Expr, step: float, query_range: float) -> float:
    match expr:
        case NumberLiteral(value=value):
            return value
        case Paren(expr=inner):
            return _seconds(inner, step, query_range)
        case Unary(op=op, expr=inner):
            value = _seconds(inner, step, query_range)
            return -value if op == "-" else value
        case Binary(op=op, left=left, right=right):
            return _combine(op, _seconds(left, step, query_range), _seconds(right, step, query_range))
        case Call(name="step"):
            return step
        case Call(name="range"):
            return query_range
        case Call(name=name, args=args):
            values = [_seconds(arg, step, query_range) for arg in args]
            return min(values) if name == "min_of" else max(values)
        case _:
            raise QueryError(f"not a duration: {type(expr).__name__}")


def _combine(op: str, left: float, right: float) -> float:
    try:
        match op:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case "%":
                return math.fmod(left, right)
            case _:
                power = left**right
                return power if isinstance(power, float) else math.nan
    except (ArithmeticError, ValueError) as error:
        raise QueryError(f"duration cannot be computed: {left:g} {op} {right:g}: {error}") from error
