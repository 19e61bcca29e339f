"""Tokens into a tree, by precedence climbing (Pratt). Types are checked afterwards, in `types`."""

from __future__ import annotations

import dataclasses
from typing import Final

from healer.rules.promql import tree, types
from healer.rules.promql.errors import ParseError
from healer.rules.promql.lexer import Kind
from healer.rules.promql.selectors import Selectors

LONGEST_TEXT: Final = 100_000
"""Bytes of one expression."""

AGGREGATIONS: Final = frozenset(
    {"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile",
     "limitk", "limit_ratio"}
)  # fmt: skip
WITH_PARAMETER: Final = frozenset({"topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio"})
_GROUPS: Final = {"group_left": tree.Cardinality.MANY_TO_ONE, "group_right": tree.Cardinality.ONE_TO_MANY}


def parse(text: str) -> tree.Expr:
    """The checked tree of an expression. Raises ParseError."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LONGEST_TEXT:
        raise ParseError(text[:1], 0, 0, f"expression has {size} bytes, more than the {LONGEST_TEXT} that are allowed")
    expr = _Parser(text).whole()
    types.check(expr, text)
    return expr


class _Parser(Selectors):
    def whole(self) -> tree.Expr:
        if len(self.tokens) == 1 and self.tokens[0].kind is Kind.END:
            raise ParseError(self.text, 0, 0, "no expression found in input")
        expr = self.expression(0)
        if self.token.kind is not Kind.END:
            raise self.unexpected("")
        self.limit_height(expr)
        return expr

    def expression(self, power: int) -> tree.Expr:
        """An expression whose binary operators all bind tighter than `power`."""
        self.deeper()
        left = self.operand()
        while (op := self.binary_operator()) and tree.POWERS[op] > power:
            self.take()
            self.refuse_trimming(op)
            returns_bool = self.bool_modifier(op)
            matching = self.matching(op)
            right = self.expression(tree.POWERS[op] - 1 if op == "^" else tree.POWERS[op])
            left = tree.Binary(
                op=op,
                left=left,
                right=right,
                returns_bool=returns_bool,
                matching=matching,
                start=left.start,
                end=right.end,
            )
        self.depth -= 1
        return left

    def refuse_trimming(self, op: str) -> None:
        if op in ("<", ">") and self.at("/"):
            raise self.wrong(self.token, f'operator "{op}/" trims native histograms: native histograms are not stored')

    def bool_modifier(self, op: str) -> bool:
        if not self.at_word("bool"):
            return False
        token = self.take()
        if op not in tree.COMPARISONS:
            raise self.wrong(token, "bool modifier can only be used on comparison operators")
        return True

    def matching(self, op: str) -> tree.Matching:
        cardinality = tree.Cardinality.MANY_TO_MANY if op in tree.SET_OPERATORS else tree.Cardinality.ONE_TO_ONE
        if not (self.at_word("on", "ignoring") and self.followed_by("(")):
            self.refuse_fill()
            return tree.Matching(cardinality=cardinality)
        on = self.take().text.lower() == "on"
        labels = self.label_names()
        include: tuple[str, ...] = ()
        if self.at_word(*_GROUPS):
            group = self.take()
            if op in tree.SET_OPERATORS:
                raise self.wrong(group, f'no grouping allowed for "{op}" operation')
            cardinality = _GROUPS[group.text.lower()]
            include = self.label_names() if self.at("(") else ()
            both = sorted(set(labels) & set(include)) if on else ()
            if both:
                raise self.wrong(group, f'label "{both[0]}" must not occur in ON and GROUP clause at once')
        self.refuse_fill()
        return tree.Matching(cardinality=cardinality, labels=labels, on=on, include=include)

    def refuse_fill(self) -> None:
        if self.at_word("fill", "fill_left", "fill_right") and self.followed_by("("):
            word = self.token.text.lower()
            raise self.wrong(self.token, f"the modifier {word} is experimental and not supported; write `a or b * 0`")

    def operand(self) -> tree.Expr:
        if not self.at("+", "-"):
            return self.postfixes(self.primary())
        sign = self.take()
        expr = self.expression(tree.UNARY_POWER)
        if isinstance(expr, tree.NumberLiteral):
            value = -expr.value if sign.text == "-" else expr.value
            return dataclasses.replace(expr, value=value, start=sign.start)
        return tree.Unary(op=sign.text, expr=expr, start=sign.start, end=expr.end)

    def primary(self) -> tree.Expr:
        token = self.token
        match token.kind:
            case Kind.NUMBER | Kind.DURATION:
                return self.number()
            case Kind.STRING:
                self.take()
                return tree.StringLiteral(value=self.string(token), start=token.start, end=token.end)
            case Kind.IDENTIFIER:
                return self.named()
            case Kind.OPERATOR if token.text == "(":
                self.take()
                inner = self.expression(0)
                closing = self.expect(")", "")
                return tree.Paren(expr=inner, start=token.start, end=closing.end)
            case Kind.OPERATOR if token.text == "{":
                return self.selector("", token.start)
            case _:
                raise self.unexpected("")

    def named(self) -> tree.Expr:
        """What begins with a name: a number such as Inf, an aggregation, a call, or a selector."""
        token = self.token
        word = token.text.lower()
        if word in ("inf", "nan"):
            self.take()
            return tree.NumberLiteral(value=float(word), start=token.start, end=token.end)
        if word in AGGREGATIONS and self.begins_aggregation():
            return self.aggregation()
        self.take()
        if self.at("("):
            self.take()
            args = self.arguments()
            return tree.Call(name=token.text, args=args, start=token.start, end=self.last_end)
        return self.selector(token.text, token.start)

    def arguments(self) -> tuple[tree.Expr, ...]:
        """Expressions up to the closing parenthesis, which is taken."""
        args: list[tree.Expr] = []
        while not (not args and self.at(")")):
            args.append(self.expression(0))
            if not self.at(","):
                break
            self.take()
        self.expect(")", "function call")
        return tuple(args)

    def begins_aggregation(self) -> bool:
        after = self.tokens[min(self.index + 1, len(self.tokens) - 1)]
        if after.kind is Kind.IDENTIFIER:
            return after.text.lower() in ("by", "without")
        return after.kind is Kind.OPERATOR and after.text == "("

    def aggregation(self) -> tree.Expr:
        token = self.take()
        op = token.text.lower()
        grouping = self.grouping()
        self.expect("(", "aggregation")
        args = self.arguments()
        grouping = grouping or self.grouping() or (False, ())
        wanted = 2 if op in WITH_PARAMETER else 1
        node = tree.Node(start=token.start, end=self.last_end)
        if not args:
            raise self.wrong(node, "no arguments for aggregate expression provided")
        if len(args) != wanted:
            counts = f"expected {wanted}, got {len(args)}"
            raise self.wrong(node, f"wrong number of arguments for aggregate expression provided, {counts}")
        return tree.Aggregate(
            op=op,
            expr=args[-1],
            param=args[0] if wanted > 1 else None,
            without=grouping[0],
            labels=grouping[1],
            start=node.start,
            end=node.end,
        )

    def grouping(self) -> tuple[bool, tuple[str, ...]] | None:
        """`by (…)` or `without (…)`, if it stands here: (is it without, labels)."""
        if not self.at_word("by", "without"):
            return None
        without = self.take().text.lower() == "without"
        return without, self.label_names()
