"""A tree as text, in the one form that Prometheus prints: what was read and printed reads back as the same tree."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern, linear in the input)
from collections.abc import Iterable
from typing import Final

from healer.model.matchers import Matcher
from healer.rules.durations import format_duration
from healer.rules.promql import tree
from healer.rules.promql.numbers import format_value
from healer.rules.promql.strings import quote

_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METRIC: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_READ_AS_NUMBER: Final = frozenset({"inf", "nan"})


def print_expr(expr: tree.Expr) -> str:
    """`expr` in its canonical form."""
    match expr:
        case tree.NumberLiteral(value=value, is_duration=is_duration):
            return print_duration(value) if is_duration else format_value(value)
        case tree.StringLiteral(value=text):
            return quote(text)
        case tree.VectorSelector():
            return _selector(expr) + _modifiers(expr)
        case tree.MatrixSelector(selector=selector, range=length):
            return f"{_selector(selector)}[{print_expr(length)}]{_modifiers(selector)}"
        case tree.Subquery(expr=inner, range=length, step=step):
            every = "" if step is None else print_expr(step)
            return f"{print_expr(inner)}[{print_expr(length)}:{every}]{_modifiers(expr)}"
        case tree.Paren(expr=inner):
            return f"({print_expr(inner)})"
        case tree.Unary(op=op, expr=inner):
            return op + print_expr(inner)
        case tree.Binary(op=op, left=left, right=right, returns_bool=returns_bool, matching=matching):
            operator = op + (" bool" if returns_bool else "") + _matching(matching)
            return f"{print_expr(left)} {operator} {print_expr(right)}"
        case tree.Call(name=name, args=args):
            return f"{name}({', '.join(map(print_expr, args))})"
        case tree.Aggregate(op=op, expr=inner, param=param):
            first = "" if param is None else print_expr(param) + ", "
            return f"{op}{_grouping(expr)}({first}{print_expr(inner)})"


def print_duration(seconds: float) -> str:
    return ("-" if seconds < 0 else "") + format_duration(abs(seconds))


def print_matcher(matcher: Matcher) -> str:
    name = matcher.name if _LABEL.fullmatch(matcher.name) else quote(matcher.name)
    return f"{name}{matcher.op.value}{quote(matcher.value)}"


def _selector(node: tree.VectorSelector) -> str:
    plain = _METRIC.fullmatch(node.name) is not None and node.name.lower() not in _READ_AS_NUMBER
    entries = [] if plain or not node.name else [quote(node.name)]
    entries.extend(map(print_matcher, node.matchers))
    name = node.name if plain else ""
    return f"{name}{{{','.join(entries)}}}" if entries or not name else name


def _modifiers(node: tree.VectorSelector | tree.Subquery) -> str:
    text = ""
    if isinstance(node.at, tree.Anchor):
        text += f" @ {node.at}"
    elif node.at is not None:
        text += f" @ {'-' if node.at < 0 else ''}{abs(node.at) // 1000}.{abs(node.at) % 1000:03}"
    if node.offset is not None:
        text += f" offset {print_expr(node.offset)}"
    return text


def _labels(names: Iterable[str]) -> str:
    return ", ".join(name if _LABEL.fullmatch(name) else quote(name) for name in names)


def _matching(matching: tree.Matching) -> str:
    grouped = matching.cardinality in (tree.Cardinality.MANY_TO_ONE, tree.Cardinality.ONE_TO_MANY)
    if not (matching.labels or matching.on or grouped):
        return ""
    text = f" {'on' if matching.on else 'ignoring'} ({_labels(matching.labels)})"
    if grouped:
        side = "left" if matching.cardinality is tree.Cardinality.MANY_TO_ONE else "right"
        text += f" group_{side} ({_labels(matching.include)})"
    return text


def _grouping(node: tree.Aggregate) -> str:
    if node.without:
        return f" without ({_labels(node.labels)}) "
    return f" by ({_labels(node.labels)}) " if node.labels else ""
