"""Text to tree: precedence, literals, names, modifiers, positions; and back to canonical text."""

from __future__ import annotations

import math

import pytest

from healer.model.matchers import Matcher, MatchOp
from healer.rules.promql import Kind, kind_of, parse, print_expr
from healer.rules.promql.tree import (
    Aggregate,
    Anchor,
    Binary,
    Call,
    Cardinality,
    MatrixSelector,
    NumberLiteral,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("5.5e-3", 0.0055),
        ("1_000_000", 1e6),
        ("0x1F", 31.0),
        ("0x_1_f", 31.0),
        ("0755", 493.0),
        ("0789", 789.0),
        ("+Inf", math.inf),
        ("-inf", -math.inf),
        ("--3", 3.0),
        ("1h30m", 5400.0),
        ("1y2w3d4h5m6s7ms", 33_019_506.007),
    ],
)
def test_number_literals_are_read_as_prometheus_reads_them(text: str, value: float) -> None:
    node = parse(text)
    assert isinstance(node, NumberLiteral)
    assert node.value == value


def test_nan_equals_itself_as_a_literal() -> None:
    assert parse("NaN") == parse("nan")
    assert hash(parse("NaN")) == hash(parse("nan"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\"b"', 'a"b'),
        (r"'a\'b'", "a'b"),
        (r'"\a\b\f\n\r\t\v\\"', "\a\b\f\n\r\t\v\\"),
        (r'"\x41\101\u00e9\U0001F600"', "AAé😀"),
        (r"`raw \n`", r"raw \n"),
        (r'"\xc3\xa9"', "é"),
        ('"# not a comment"', "# not a comment"),
    ],
)
def test_strings_know_all_escapes_of_go(text: str, value: str) -> None:
    assert parse(text) == StringLiteral(value=value)


def test_a_byte_that_is_not_utf8_survives_reading_and_printing() -> None:
    node = parse(r'"\xff"')
    assert print_expr(node) == r'"\xff"'
    assert parse(print_expr(node)) == node


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a ^ b ^ c", "a ^ (b ^ c)"),
        ("a or b and c", "a or (b and c)"),
        ("a and b unless c", "(a and b) unless c"),
        ("a > b + c", "a > (b + c)"),
        ("a == b and c", "(a == b) and c"),
        ("a atan2 b + c", "(a atan2 b) + c"),
        ("-a ^ b", "-(a ^ b)"),
        ("-a * b", "(-a) * b"),
        ("a ^ -b * c", "(a ^ (-b)) * c"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    def bare(node: object) -> object:
        match node:
            case Binary(op=op, left=left, right=right):
                return (op, bare(left), bare(right))
            case Unary(op=op, expr=expr):
                return (op, bare(expr))
            case VectorSelector(name=name):
                return name
            case _:
                return bare(node.expr)  # type: ignore[attr-defined]

    assert bare(parse(text)) == bare(parse(same))


def test_words_of_the_language_can_be_metric_names() -> None:
    for word in ("sum", "by", "on", "offset", "bool", "start", "end", "step", "group_left", "and"):
        assert parse(word) == VectorSelector(name=word)
    assert parse("sum{a='b'}") == VectorSelector(name="sum", matchers=(Matcher("a", MatchOp.EQUAL, "b"),))


def test_words_of_the_language_can_be_labels() -> None:
    node = parse("sum by (by, on, sum, offset) (a{and='1', bool!='2'})")
    assert isinstance(node, Aggregate)
    assert node.labels == ("by", "on", "sum", "offset")


def test_words_are_read_in_any_case() -> None:
    assert parse("SUM(a) BY (b) OR c OFFSET 5m") == parse("sum by (b) (a) or c offset 5m")


def test_a_metric_name_in_quotes_is_the_same_as_a_plain_one() -> None:
    assert parse('{"up", job="a"}') == parse('up{job="a"}')
    assert parse('{"http.requests", "le.x"="1"}') == VectorSelector(
        name="http.requests", matchers=(Matcher("le.x", MatchOp.EQUAL, "1"),)
    )


def test_the_order_of_matchers_does_not_matter() -> None:
    assert parse('a{b="1",c!="2"}') == parse('a{c!="2",b="1"}')


def test_grouping_stands_before_or_after_the_arguments() -> None:
    assert parse("topk by (a) (3, b)") == parse("topk(3, b) by (a)")


def test_modifiers_in_any_order() -> None:
    assert parse("a[5m] @ 10 offset 1m") == parse("a[5m] offset 1m @ 10")
    node = parse("a @ end() offset -1h")
    assert isinstance(node, VectorSelector)
    assert node.at is Anchor.END
    assert print_expr(node) == "a @ end() offset -1h"


def test_a_modifier_binds_tighter_than_any_operator() -> None:
    node = parse("-a ^ b offset 5m")
    assert isinstance(node, Unary)
    assert isinstance(node.expr, Binary)
    assert node.expr.right == parse("b offset 5m")


def test_a_plain_number_is_a_duration_in_seconds() -> None:
    assert parse("a[300]") == parse("a[5m]")
    assert parse("a offset 90") == parse("a offset 1m30s")
    assert print_expr(parse("a[0.5]")) == "a[500ms]"


def test_an_offset_of_zero_is_none() -> None:
    assert parse("a offset 0s") == parse("a")


def test_a_subquery_with_and_without_a_step() -> None:
    assert parse("a[1h:5m]") == Subquery(
        expr=VectorSelector(name="a"),
        range=NumberLiteral(value=3600, is_duration=True),
        step=NumberLiteral(value=300, is_duration=True),
    )
    node = parse("rate(a[1m])[1h:]")
    assert isinstance(node, Subquery)
    assert node.step is None


def test_a_colon_belongs_to_a_name_outside_of_brackets() -> None:
    assert parse("job:up:sum") == VectorSelector(name="job:up:sum")
    assert parse("a[5m:1m]") != parse("a[5m]")


def test_matching_modifiers() -> None:
    node = parse("a * on (x, y) group_left (z) b")
    assert isinstance(node, Binary)
    assert node.matching.on
    assert node.matching.labels == ("x", "y")
    assert node.matching.include == ("z",)
    assert node.matching.cardinality is Cardinality.MANY_TO_ONE


def test_comments_and_blanks_are_skipped() -> None:
    assert parse("# first\na # then\n\t+\r\n b") == parse("a + b")


def test_nodes_know_the_bytes_they_were_read_from() -> None:
    text = '{"é"} + rate(b[5m])'
    node = parse(text)
    assert isinstance(node, Binary)
    assert isinstance(node.right, Call)
    data = text.encode()
    assert data[node.left.start : node.left.end].decode() == '{"é"}'
    assert data[node.right.start : node.right.end] == b"rate(b[5m])"
    argument = node.right.args[0]
    assert isinstance(argument, MatrixSelector)
    assert data[argument.start : argument.end] == b"b[5m]"
    assert data[argument.range.start : argument.range.end] == b"5m"


def test_trees_are_equal_wherever_they_stood() -> None:
    assert parse("a+b") == parse("  a   +\n b")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 + 1", Kind.SCALAR),
        ("time()", Kind.SCALAR),
        ("'x'", Kind.STRING),
        ("a + 1", Kind.VECTOR),
        ("1 > bool 2", Kind.SCALAR),
        ("a[5m]", Kind.MATRIX),
        ("a[5m:]", Kind.MATRIX),
        ("sum(a)", Kind.VECTOR),
    ],
)
def test_what_an_expression_yields(text: str, kind: Kind) -> None:
    assert kind_of(parse(text)) is kind


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("sum(a)by(c,b)", "sum by (c, b) (a)"),
        ("sum by () (a)", "sum(a)"),
        ("sum without () (a)", "sum without () (a)"),
        ("topk(5,a)without(b)", "topk without (b) (5, a)"),
        ("a+on(b)group_left c", "a + on (b) group_left () c"),
        ("a and ignoring(b)c", "a and ignoring (b) c"),
        ("a+ignoring()c", "a + c"),
        ("a and on()c", "a and on () c"),
        ("a>bool 5", "a > bool 5"),
        ("a{c='d',b=~\"x\\\\.y\"}[90s]", 'a{b=~"x\\\\.y",c="d"}[1m30s]'),
        ("{__name__='a'}", '{__name__="a"}'),
        ("{'a.b'}", '{"a.b"}'),
        ("a@1.5", "a @ 1.500"),
        ("a@-0.5", "a @ -0.500"),
        ("a @ start()", "a @ start()"),
        ("1e9", "1000000000"),
        ("0.00001", "0.00001"),
        ("5m", "5m"),
        ("a[8d]", "a[8d]"),
        ("a[2w]", "a[2w]"),
        ("-(1)", "-(1)"),
        ("a[5m+2*1m]", "a[5m + 2 * 1m]"),
        ("a offset -(step()*2)", "a offset -(step() * 2)"),
        ("sum by ('a.b') (c)", 'sum by ("a.b") (c)'),
    ],
)
def test_the_canonical_form(text: str, printed: str) -> None:
    assert print_expr(parse(text)) == printed
    assert parse(printed) == parse(text)
