"""The tree of an expression. Nodes are values: equal when they mean the same, wherever they stood in the text."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Final

from healer.model.matchers import Matcher, MatchOp
from healer.model.series import METRIC_NAME


class Kind(enum.StrEnum):
    """What an expression yields, in the words that Prometheus uses in its errors."""

    SCALAR = "scalar"
    STRING = "string"
    VECTOR = "instant vector"
    MATRIX = "range vector"


class Anchor(enum.StrEnum):
    """A time of the whole query, as `@` can name it."""

    START = "start()"
    END = "end()"


class Cardinality(enum.StrEnum):
    """How many series of the left side may meet how many of the right."""

    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "many-to-one"
    ONE_TO_MANY = "one-to-many"
    MANY_TO_MANY = "many-to-many"


COMPARISONS: Final = frozenset({"==", "!=", "<", ">", "<=", ">="})
SET_OPERATORS: Final = frozenset({"and", "or", "unless"})
POWERS: Final = {
    "or": 1,
    "and": 2,
    "unless": 2,
    **dict.fromkeys(COMPARISONS, 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
    "atan2": 5,
    "^": 6,
}
"""How tightly each binary operator binds; a sign binds as tightly as `*`."""
UNARY_POWER: Final = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`start` and `end`: the bytes of the text that this node was read from."""

    start: int = dataclasses.field(default=0, compare=False, repr=False)
    end: int = dataclasses.field(default=0, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberLiteral(Node):
    """A number; `is_duration` when it was written with units, or stands where a duration is due (then in seconds)."""

    value: float
    is_duration: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumberLiteral) or self.is_duration != other.is_duration:
            return False
        return self.value == other.value or (math.isnan(self.value) and math.isnan(other.value))

    def __hash__(self) -> int:
        return hash((self.is_duration, 0.0 if math.isnan(self.value) else self.value))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StringLiteral(Node):
    value: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VectorSelector(Node):
    """`matchers` are sorted as they are printed, without the one that `name` stands for."""

    name: str = ""
    matchers: tuple[Matcher, ...] = ()
    offset: Expr | None = None
    at: int | Anchor | None = None

    @property
    def all_matchers(self) -> tuple[Matcher, ...]:
        if not self.name:
            return self.matchers
        return (Matcher(METRIC_NAME, MatchOp.EQUAL, self.name), *self.matchers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MatrixSelector(Node):
    selector: VectorSelector
    range: Expr


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subquery(Node):
    expr: Expr
    range: Expr
    step: Expr | None = None
    offset: Expr | None = None
    at: int | Anchor | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paren(Node):
    expr: Expr


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    op: str
    expr: Expr


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Which labels two series must share, and which labels the "one" side lends to the result."""

    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    labels: tuple[str, ...] = ()
    on: bool = False
    include: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    op: str
    left: Expr
    right: Expr
    returns_bool: bool = False
    matching: Matching = Matching()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    name: str
    args: tuple[Expr, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Node):
    op: str
    expr: Expr
    param: Expr | None = None
    labels: tuple[str, ...] = ()
    without: bool = False


Expr = (
    NumberLiteral
    | StringLiteral
    | VectorSelector
    | MatrixSelector
    | Subquery
    | Paren
    | Unary
    | Binary
    | Call
    | Aggregate
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below `expr`, in the order of the text; durations are not expressions of their own."""
    match expr:
        case NumberLiteral() | StringLiteral() | VectorSelector():
            return ()
        case MatrixSelector(selector=selector):
            return (selector,)
        case Subquery(expr=inner) | Paren(expr=inner) | Unary(expr=inner):
            return (inner,)
        case Binary(left=left, right=right):
            return (left, right)
        case Call(args=args):
            return args
        case Aggregate(expr=inner, param=param):
            return (inner,) if param is None else (param, inner)


def bare(expr: Expr) -> Expr:
    """`expr` without the parentheses around it."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr
