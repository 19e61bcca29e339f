"""Text that is not PromQL: what is said about it, and where."""

from __future__ import annotations

import pytest

from healer.errors import QueryError
from healer.rules.promql import ParseError, parse, print_expr

MISPLACED = "must be preceded by an instant vector selector or range vector selector or a subquery"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: parse error: no expression found in input"),
        ("# only a comment", "1:1: parse error: no expression found in input"),
        ("1 +", "1:4: parse error: unexpected end of input"),
        ("1 /\n  *", "2:3: parse error: unexpected <op:*>"),
        ("a b", '1:3: parse error: unexpected identifier "b"'),
        ("(a", "1:1: parse error: unclosed left parenthesis"),
        ("a)", "1:2: parse error: unexpected right parenthesis ')'"),
        ("a[5m", "1:2: parse error: unclosed left bracket"),
        ('a{b="c', "1:5: parse error: unterminated quoted string"),
        ("a{b:c}", "1:4: parse error: unexpected character inside braces: ':'"),
        ("a{b}", '1:4: parse error: unexpected "}" in label matching, expected label matching operator'),
        ("a{b=c}", '1:5: parse error: unexpected identifier "c" in label matching, expected string'),
        ("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ('{a=~".*"}', "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ('a{__name__="b"}', '1:1: parse error: metric name must not be set twice: "a" or "b"'),
        ('{"a", "b"}', '1:7: parse error: metric name must not be set twice: "a" or "b"'),
        ("5mm", '1:1: parse error: bad number or duration syntax: "5mm"'),
        ("a ; b", "1:3: parse error: unexpected character: ';'"),
        ("a[0s]", "1:3: parse error: duration must be greater than 0"),
        ("a[1m:0]", "1:6: parse error: duration must be greater than 0"),
        ("a offset 5m [1m]", "1:13: parse error: no offset modifiers allowed before range"),
        ("a @ 5 [1m]", "1:7: parse error: no @ modifiers allowed before range"),
        ("(a + b)[5m]", "1:8: parse error: ranges only allowed for vector selectors"),
        ("a offset 1m offset 2m", "1:13: parse error: offset may not be set multiple times"),
        ("a @ 1 @ 2", "1:7: parse error: @ <timestamp> may not be set multiple times"),
        ("a offset 1e10", "1:10: parse error: duration out of range"),
        ('a{b=~"\\xff"}', r"1:6: parse error: error parsing regexp: pattern '\udcff': invalid UTF-8"),
        ("a @ inf", "1:5: parse error: timestamp out of bounds for @ modifier: +Inf"),
        ("sum(a) offset 1m", f"1:1: parse error: offset modifier {MISPLACED}"),
        ("sum()", "1:1: parse error: no arguments for aggregate expression provided"),
        (
            "topk(a)",
            "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, got 1",
        ),
        ("sum by (1) (a)", '1:9: parse error: unexpected number "1" in grouping opts, expected label'),
        ("sum(a) by (b) by (c)", "1:15: parse error: unexpected <by>"),
        ("a and on(b) group_left c", '1:13: parse error: no grouping allowed for "and" operation'),
        ("a + on(b) group_left(b) c", '1:11: parse error: label "b" must not occur in ON and GROUP clause at once'),
        ("a + bool b", "1:5: parse error: bool modifier can only be used on comparison operators"),
        (r'"\q"', r"1:1: parse error: unknown escape sequence '\\q'"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rate(a)", 'expected type range vector in call to function "rate", got instant vector'),
        ("abs(1)", 'expected type instant vector in call to function "abs", got scalar'),
        ("vector(a)", 'expected type scalar in call to function "vector", got instant vector'),
        ("abs(a, b)", 'expected 1 argument(s) in call to "abs", got 2'),
        ("round()", 'expected at least 1 argument(s) in call to "round", got 0'),
        ("round(a, 1, 2)", 'expected at most 2 argument(s) in call to "round", got 3'),
        ("label_join(a, 'x')", 'expected at least 3 argument(s) in call to "label_join", got 2'),
        ("nope(a)", 'unknown function with name "nope"'),
        ("sum(1)", "expected type instant vector in aggregation expression, got scalar"),
        ("topk(a, b)", "expected type scalar in aggregation parameter, got instant vector"),
        ("count_values(1, a)", "expected type string in aggregation parameter, got scalar"),
        ("1 == 1", "comparisons between scalars must use BOOL modifier"),
        ("1 and a", 'set operator "and" not allowed in binary scalar expression'),
        ("a + on(b) 1", "vector matching only allowed between instant vectors"),
        ("'x' + 1", "binary expression must contain only scalar and instant vector types"),
        ("-'x'", 'unary expression only allowed on expressions of type scalar or instant vector, got "string"'),
        ("1[5m:]", "subquery is only allowed on instant vector, got scalar instead"),
        ("histogram_sum(a)", 'function "histogram_sum" is not supported: native histograms are not stored'),
        ("rate(a[5m] smoothed)", "the modifier smoothed is experimental and not supported; write a plain range"),
        ("a + fill(0) b", "the modifier fill is experimental and not supported; write `a or b * 0`"),
    ],
)
def test_what_does_not_fit_is_said_as_prometheus_says_it(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.reason == reason


def test_the_place_counts_bytes_and_lines() -> None:
    with pytest.raises(ParseError) as caught:
        parse('{"é"} +\n  rate(b)')
    error = caught.value
    assert (error.line, error.column) == (2, 8)
    assert (error.start, error.end) == (16, 17)
    assert isinstance(error, QueryError)


def test_a_pattern_that_re2_does_not_take_is_an_error_at_its_place() -> None:
    with pytest.raises(ParseError, match=r"^1:6: parse error: error parsing regexp"):
        parse('a{b=~"("}')


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "-" * 10_000 + "1",
        "sum(" * 10_000 + "a" + ")" * 10_000,
        "abs(" * 10_000,
        "a + " * 10_000 + "a",
        "a ^ " * 10_000 + "a",
        "a[" + "1m + " * 10_000 + "1m]",
        "a[" + "(" * 10_000,
        "a offset (" + "1m - " * 10_000 + "1m)",
        "a" * 100_001,
    ],
    ids=lambda text: text[:8],
)
def test_too_deep_or_too_long_is_an_error_and_never_a_crash(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_the_deepest_tree_that_is_allowed_can_be_printed_compared_and_shown() -> None:
    for text in ("(" * 99 + "a" + ")" * 99, "a + " * 199 + "a", "sum(" * 99 + "a" + ")" * 99):
        node = parse(text)
        assert parse(print_expr(node)) == node
        assert hash(node) == hash(parse(text))
        assert "VectorSelector" in repr(node)
