"""Reads numbers, strings and durations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from healer.rules.durations import parse_duration_ms
from healer.rules.promql import tree
from healer.rules.promql.cursor import Cursor
from healer.rules.promql.durations import LONGEST_SECONDS
from healer.rules.promql.lexer import Kind, Token
from healer.rules.promql.strings import unquote


class Literals(Cursor):
    def number(self) -> tree.NumberLiteral:
        token = self.take()
        is_duration = token.kind is Kind.DURATION
        value = self.duration_seconds(token) if is_duration else read_number(token.text)
        return tree.NumberLiteral(value=value, is_duration=is_duration, start=token.start, end=token.end)

    def duration_seconds(self, token: Token) -> float:
        try:
            return parse_duration_ms(token.text) / 1000
        except ValueError as error:
            raise self.wrong(token, str(error)) from error

    def string(self, token: Token) -> str:
        try:
            return unquote(token.text)
        except ValueError as error:
            raise self.wrong(token, str(error)) from error

    def duration(self) -> tree.Expr:
        """A range or a step: arithmetic on durations is allowed; a literal must be above zero."""
        expr = self.as_duration(self.duration_expression(0))
        if isinstance(expr, tree.NumberLiteral) and expr.value <= 0:
            raise self.wrong(expr, "duration must be greater than 0")
        return expr

    def as_duration(self, expr: tree.Expr) -> tree.Expr:
        """A bare number stands for seconds; what is finer than a millisecond is cut, as it has no effect."""
        self.limit_height(expr)
        if not isinstance(expr, tree.NumberLiteral):
            return expr
        if abs(expr.value) > LONGEST_SECONDS:
            raise self.wrong(expr, "duration out of range")
        value = math.trunc(round(expr.value * 1_000_000) / 1_000) / 1000
        return dataclasses.replace(expr, value=value, is_duration=True)

    def duration_expression(self, power: int) -> tree.Expr:
        self.deeper()
        left = self.signed(lambda: self.duration_expression(tree.UNARY_POWER))
        while (op := self.binary_operator()) in ("+", "-", "*", "/", "%", "^") and tree.POWERS[op] > power:
            self.take()
            right = self.duration_expression(tree.POWERS[op] - 1 if op == "^" else tree.POWERS[op])
            left = tree.Binary(op=op, left=left, right=right, start=left.start, end=right.end)
        self.depth -= 1
        return left

    def signed(self, operand: Callable[[], tree.Expr]) -> tree.Expr:
        """A single duration, or a sign and an operand."""
        if not self.at("+", "-"):
            return self.single_duration()
        sign = self.take()
        inner = operand()
        if isinstance(inner, tree.NumberLiteral):
            value = -inner.value if sign.text == "-" else inner.value
            return dataclasses.replace(inner, value=value, start=sign.start)
        return tree.Unary(op=sign.text, expr=inner, start=sign.start, end=inner.end)

    def single_duration(self) -> tree.Expr:
        token = self.token
        if token.kind in (Kind.NUMBER, Kind.DURATION):
            return self.number()
        if self.at("("):
            self.take()
            inner = self.duration_expression(0)
            return tree.Paren(expr=inner, start=token.start, end=self.expect(")", "duration").end)
        if not (self.at_word("step", "range", "min_of", "max_of") and self.followed_by("(")):
            raise self.unexpected("duration", "number or duration such as 5m")
        name = self.take().text.lower()
        self.take()
        args: tuple[tree.Expr, ...] = ()
        if name in ("min_of", "max_of"):
            first = self.duration_expression(0)
            self.expect(",", "duration")
            args = (first, self.duration_expression(0))
        end = self.expect(")", "duration").end
        return tree.Call(name=name, args=args, start=token.start, end=end)


def read_number(text: str) -> float:
    """Decimal, hexadecimal (0x1f) and octal (017) numbers, with underscores between digits."""
    digits = text.replace("_", "")
    if digits[:2] in ("0x", "0X"):
        return float(int(digits, 16))
    if len(digits) > 1 and digits[0] == "0" and set(digits) <= set("01234567"):
        return float(int(digits, 8))
    return float(digits)
