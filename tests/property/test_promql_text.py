"""Any text is read or refused; any tree is printed so that it reads back as the same tree."""

from __future__ import annotations

import math
import string

from hypothesis import given
from hypothesis import strategies as st

from healer.model.matchers import Matcher, MatchOp
from healer.rules.promql import ParseError, parse, print_expr
from healer.rules.promql.printer import print_matcher
from healer.rules.promql.tree import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregate,
    Anchor,
    Binary,
    Call,
    Cardinality,
    Expr,
    Matching,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
    bare,
)

PIECES = (
    "sum by (a) (", "rate(", "a", "b:c", "{", "}", "(", ")", "[5m]", "[1h:5m]", "[", "]", " offset -5m", " @ 5", " @ end()",
    " + ", " - ", "-", " ^ ", " and on (x) ", " * ignoring () group_left (y) ", " > bool ", " == ", "1", "1.5e3", "0x1f",
    "Inf", "NaN", "5m", '"x"', "'\\n'", "`r`", '"\\xff"', 'x="y"', 'x=~"y|z"', 'x=~"("', '"q.r"', ",", ":", "#c\n", "é", "topk(2, ",
    "1_0", "\x00", "\ud800",
)  # fmt: skip


def read(text: str) -> Expr | ParseError:
    try:
        return parse(text)
    except ParseError as error:
        return error


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    found = read(text)
    if isinstance(found, ParseError):
        assert 0 <= found.start <= found.end <= len(text.encode("utf-8", "surrogatepass"))
        assert found.line >= 1
        assert found.column >= 1
        return
    printed = print_expr(found)
    assert parse(printed) == found
    assert print_expr(parse(printed)) == printed


names = st.text(string.ascii_letters + "_", min_size=1, max_size=6).filter(
    lambda name: name.lower() not in ("inf", "nan")
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = (st.floats(min_value=0) | st.just(math.nan)).map(lambda value: NumberLiteral(value=value))
seconds = st.integers(1, 10**9).map(lambda ms: NumberLiteral(value=ms / 1000, is_duration=True))
offsets = st.none() | seconds | seconds.map(lambda length: NumberLiteral(value=-length.value, is_duration=True))
times = st.none() | st.integers(-(10**12), 10**12) | st.sampled_from(Anchor)
matchers = st.lists(
    st.builds(
        Matcher,
        names.filter(lambda name: name != "__name__"),
        st.sampled_from([MatchOp.EQUAL, MatchOp.NOT_EQUAL]),
        texts,
    ),
    max_size=3,
).map(lambda found: tuple(sorted(found, key=print_matcher)))
selectors = st.builds(VectorSelector, name=names | texts.filter(bool), matchers=matchers, offset=offsets, at=times)
ranges = st.builds(MatrixSelector, selector=selectors, range=seconds)
label_lists = st.lists(names, max_size=3, unique=True).map(tuple)


def operand(expr: Expr) -> Expr:
    """What stands beside an operator: anything that binds less tightly is put into parentheses."""
    plain = isinstance(expr, VectorSelector | Call | Aggregate | Paren | StringLiteral | NumberLiteral)
    return expr if plain else Paren(expr=expr)


@st.composite
def binaries(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Expr:
    op = draw(st.sampled_from([*COMPARISONS, *SET_OPERATORS, "+", "-", "*", "/", "%", "^", "atan2"]))
    if op in SET_OPERATORS:
        cardinality = Cardinality.MANY_TO_MANY
    else:
        cardinality = draw(st.sampled_from([Cardinality.ONE_TO_ONE, Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY]))
    grouped = cardinality in (Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY)
    labels = draw(label_lists)
    on = draw(st.booleans())
    include = draw(label_lists) if grouped else ()
    return Binary(
        op=op,
        left=operand(draw(inner)),
        right=operand(draw(inner)),
        returns_bool=op in COMPARISONS and draw(st.booleans()),
        matching=Matching(
            cardinality=cardinality,
            labels=labels,
            on=on,
            include=tuple(name for name in include if not on or name not in labels),
        ),
    )


@st.composite
def aggregations(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Expr:
    op = draw(st.sampled_from(["sum", "max", "topk", "quantile", "count_values"]))
    param: Expr | None = None
    if op == "count_values":
        param = StringLiteral(value=draw(texts))
    elif op in ("topk", "quantile"):
        param = draw(numbers)
    return Aggregate(op=op, expr=draw(inner), param=param, labels=draw(label_lists), without=draw(st.booleans()))


def extended(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return (
        st.builds(lambda expr: Paren(expr=expr), inner)
        | st.builds(lambda op, expr: Unary(op=op, expr=operand(expr)), st.sampled_from("+-"), inner)
        | st.builds(lambda name, expr: Call(name=name, args=(expr,)), st.sampled_from(["abs", "absent", "sort"]), inner)
        | st.builds(lambda name, found: Call(name=name, args=(found,)), st.sampled_from(["rate", "delta"]), ranges)
        | st.builds(
            lambda expr, length, step, offset, at: Call(
                name="max_over_time",
                args=(Subquery(expr=operand(expr), range=length, step=step, offset=offset, at=at),),
            ),
            inner,
            seconds,
            st.none() | seconds,
            offsets,
            times,
        )
        | binaries(inner)
        | aggregations(inner)
    )


@given(st.recursive(selectors, extended, max_leaves=8))
def test_what_is_printed_reads_back_as_the_same_tree(expr: Expr) -> None:
    printed = print_expr(expr)
    again = parse(printed)
    assert again == expr
    assert print_expr(again) == printed
    assert bare(parse(f"({printed})")) == bare(expr)
