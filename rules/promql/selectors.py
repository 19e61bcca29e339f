"""Reads selectors with their matchers, and what may follow an expression: ranges, subqueries, `offset` and `@`."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from healer.model.matchers import Matcher, MatchOp, PatternError
from healer.rules.promql import printer, tree
from healer.rules.promql.errors import ParseError
from healer.rules.promql.lexer import Kind
from healer.rules.promql.literals import Literals
from healer.rules.promql.numbers import format_value
from healer.rules.promql.strings import is_utf8

_MISPLACED: Final = "must be preceded by an instant vector selector or range vector selector or a subquery"


class Selectors(Literals):
    def selector(self, name: str, start: int) -> tree.VectorSelector:
        matchers: list[Matcher] = []
        if self.at("{"):
            self.take()
            while not self.at("}"):
                name = self.matcher(name, matchers)
                if not self.at(","):
                    break
                self.take()
            self.expect("}", "label matching", '"," or "}"')
        node = tree.VectorSelector(
            name=name, matchers=tuple(sorted(matchers, key=printer.print_matcher)), start=start, end=self.last_end
        )
        for matcher in matchers:
            if name and matcher.name == "__name__" and matcher.op is MatchOp.EQUAL:
                reason = f'metric name must not be set twice: "{name}" or "{matcher.value}"'
                raise self.wrong(node, reason)
        if not name and all(matcher.matches_value("") for matcher in matchers):
            raise self.wrong(node, "vector selector must contain at least one non-empty matcher")
        return node

    def matcher(self, name: str, matchers: list[Matcher]) -> str:
        """Reads one entry between braces: a matcher, or the quoted name of the metric, which is returned."""
        token = self.token
        if token.kind not in (Kind.IDENTIFIER, Kind.STRING):
            raise self.unexpected("label matching", 'identifier or "}"')
        self.take()
        label = self.string(token) if token.kind is Kind.STRING else token.text
        if token.kind is Kind.STRING and self.at(",", "}"):
            if name:
                raise self.wrong(token, f'metric name must not be set twice: "{name}" or "{label}"')
            return label
        if not self.at("=", "!=", "=~", "!~"):
            raise self.unexpected("label matching", "label matching operator")
        op = MatchOp(self.take().text)
        value = self.token
        if value.kind is not Kind.STRING:
            raise self.unexpected("label matching", "string")
        self.take()
        try:
            matchers.append(Matcher(label, op, self.string(value)))
        except PatternError as error:
            raise self.wrong(value, f"error parsing regexp: {error}") from error
        return name

    def postfixes(self, expr: tree.Expr) -> tree.Expr:
        while True:
            if self.at("["):
                expr = self.bracket(expr)
            elif self.at_word("offset"):
                expr = self.offset(expr)
            elif self.at("@"):
                expr = self.at_modifier(expr)
            else:
                if self.at_word("anchored", "smoothed"):
                    word = self.token.text.lower()
                    reason = f"the modifier {word} is experimental and not supported; write a plain range"
                    raise self.wrong(self.token, reason)
                return expr

    def bracket(self, expr: tree.Expr) -> tree.Expr:
        opening = self.take()
        length = self.duration()
        if self.at(":"):
            self.take()
            step = None if self.at("]") else self.duration()
            end = self.expect("]", "subquery selector").end
            return tree.Subquery(expr=expr, range=length, step=step, start=expr.start, end=end)
        end = self.expect("]", "matrix selector").end
        if not isinstance(expr, tree.VectorSelector):
            raise ParseError(self.text, opening.start, end, "ranges only allowed for vector selectors")
        if expr.offset is not None:
            raise ParseError(self.text, opening.start, end, "no offset modifiers allowed before range")
        if expr.at is not None:
            raise ParseError(self.text, opening.start, end, "no @ modifiers allowed before range")
        return tree.MatrixSelector(selector=expr, range=length, start=expr.start, end=end)

    def offset(self, expr: tree.Expr) -> tree.Expr:
        token = self.take()
        holder = _modified(expr)
        if holder is None:
            reason = f"offset modifier {_MISPLACED}"
            raise self.wrong(expr, reason)
        if holder.offset is not None:
            raise self.wrong(token, "offset may not be set multiple times")
        length = self.as_duration(self.signed(self.single_duration))
        if isinstance(length, tree.NumberLiteral) and length.value == 0:
            return dataclasses.replace(expr, end=self.last_end)
        return self.modify(expr, dataclasses.replace(holder, offset=length))

    def at_modifier(self, expr: tree.Expr) -> tree.Expr:
        token = self.take()
        holder = _modified(expr)
        if holder is None:
            reason = f"@ modifier {_MISPLACED}"
            raise self.wrong(expr, reason)
        if holder.at is not None:
            raise self.wrong(token, "@ <timestamp> may not be set multiple times")
        return self.modify(expr, dataclasses.replace(holder, at=self.timestamp()))

    def modify(self, expr: tree.Expr, holder: tree.VectorSelector | tree.Subquery) -> tree.Expr:
        if isinstance(expr, tree.MatrixSelector) and isinstance(holder, tree.VectorSelector):
            return dataclasses.replace(expr, selector=holder, end=self.last_end)
        return dataclasses.replace(holder, end=self.last_end)

    def timestamp(self) -> int | tree.Anchor:
        if self.at_word("start", "end"):
            word = self.take().text.lower()
            self.expect("(", "@ modifier")
            self.expect(")", "@ modifier")
            return tree.Anchor.START if word == "start" else tree.Anchor.END
        sign = self.take().text if self.at("+", "-") else "+"
        token = self.token
        if token.kind in (Kind.NUMBER, Kind.DURATION):
            value = self.number().value
        elif self.at_word("inf", "nan"):
            value = float(self.take().text)
        else:
            raise self.unexpected("@", "timestamp")
        if not math.isfinite(value) or value >= 2**63 / 1000:
            raise self.wrong(token, f"timestamp out of bounds for @ modifier: {format_value(value)}")
        return round(-value * 1000 if sign == "-" else value * 1000)

    def label_names(self) -> tuple[str, ...]:
        self.expect("(", "grouping opts")
        names: list[str] = []
        while not self.at(")"):
            token = self.token
            if token.kind not in (Kind.IDENTIFIER, Kind.STRING):
                raise self.unexpected("grouping opts", "label")
            self.take()
            name = self.string(token) if token.kind is Kind.STRING else token.text
            if not name or not is_utf8(name) or (token.kind is Kind.IDENTIFIER and ":" in name):
                raise self.wrong(token, f"invalid label name for grouping: {token.text!r}")
            names.append(name)
            if not self.at(","):
                break
            self.take()
        self.expect(")", "grouping opts")
        return tuple(names)


def _modified(expr: tree.Expr) -> tree.VectorSelector | tree.Subquery | None:
    """The node that holds the modifiers of `expr`, if it can have any."""
    match expr:
        case tree.MatrixSelector(selector=selector):
            return selector
        case tree.VectorSelector() | tree.Subquery():
            return expr
        case _:
            return None
