"""Checks that every expression yields what its place needs, with Prometheus' words for what is wrong."""

from __future__ import annotations

from healer.rules.promql import tree
from healer.rules.promql.errors import ParseError
from healer.rules.promql.functions import FUNCTIONS, UNSUPPORTED
from healer.rules.promql.tree import Kind

_NUMERIC = (Kind.SCALAR, Kind.VECTOR)


def check(expr: tree.Expr, text: str) -> Kind:
    """What `expr`, read from `text`, yields. Raises ParseError at the first place that does not fit."""
    match expr:
        case tree.NumberLiteral():
            return Kind.SCALAR
        case tree.StringLiteral():
            return Kind.STRING
        case tree.VectorSelector():
            return Kind.VECTOR
        case tree.MatrixSelector():
            return Kind.MATRIX
        case tree.Subquery(expr=inner):
            kind = check(inner, text)
            if kind is not Kind.VECTOR:
                raise _wrong(expr, text, f"subquery is only allowed on instant vector, got {kind} instead")
            return Kind.MATRIX
        case tree.Paren(expr=inner):
            return check(inner, text)
        case tree.Unary(expr=inner):
            kind = check(inner, text)
            if kind not in _NUMERIC:
                reason = f'unary expression only allowed on expressions of type scalar or instant vector, got "{kind}"'
                raise _wrong(expr, text, reason)
            return kind
        case tree.Binary(left=left, right=right):
            return _binary(expr, check(left, text), check(right, text), text)
        case tree.Call(args=args):
            return _call(expr, [check(arg, text) for arg in args], text)
        case tree.Aggregate(op=op, expr=inner, param=param):
            _expect(inner, check(inner, text), Kind.VECTOR, "aggregation expression", text)
            if param is not None:
                wanted = Kind.STRING if op == "count_values" else Kind.SCALAR
                _expect(param, check(param, text), wanted, "aggregation parameter", text)
            return Kind.VECTOR


def _binary(node: tree.Binary, left: Kind, right: Kind, text: str) -> Kind:
    if left not in _NUMERIC:
        raise _wrong(node.left, text, "binary expression must contain only scalar and instant vector types")
    if right not in _NUMERIC:
        raise _wrong(node.right, text, "binary expression must contain only scalar and instant vector types")
    both_scalar = left is right is Kind.SCALAR
    if both_scalar and node.op in tree.COMPARISONS and not node.returns_bool:
        raise _wrong(node, text, "comparisons between scalars must use BOOL modifier")
    if Kind.SCALAR in (left, right):
        if node.matching.labels:
            raise _wrong(node, text, "vector matching only allowed between instant vectors")
        if node.op in tree.SET_OPERATORS:
            raise _wrong(node, text, f'set operator "{node.op}" not allowed in binary scalar expression')
    return Kind.SCALAR if both_scalar else Kind.VECTOR


def _call(node: tree.Call, kinds: list[Kind], text: str) -> Kind:
    if node.name in UNSUPPORTED:
        raise _wrong(node, text, f'function "{node.name}" is not supported: {UNSUPPORTED[node.name]}')
    function = FUNCTIONS.get(node.name)
    if function is None:
        raise _wrong(node, text, f'unknown function with name "{node.name}"')
    count, wanted = len(kinds), len(function.arguments)
    if function.optional == 0 and count != wanted:
        raise _wrong(node, text, f'expected {wanted} argument(s) in call to "{node.name}", got {count}')
    if count < function.least:
        raise _wrong(
            node, text, f'expected at least {function.least} argument(s) in call to "{node.name}", got {count}'
        )
    if function.most is not None and count > function.most:
        raise _wrong(node, text, f'expected at most {function.most} argument(s) in call to "{node.name}", got {count}')
    for index, (arg, kind) in enumerate(zip(node.args, kinds, strict=True)):
        due = function.arguments[min(index, wanted - 1)]
        _expect(arg, kind, due, f'call to function "{node.name}"', text)
    return function.returns


def _expect(node: tree.Expr, kind: Kind, wanted: Kind, where: str, text: str) -> None:
    if kind is not wanted:
        raise _wrong(node, text, f"expected type {wanted} in {where}, got {kind}")


def _wrong(node: tree.Node, text: str, reason: str) -> ParseError:
    return ParseError(text, node.start, node.end, reason)


def kind_of(expr: tree.Expr) -> Kind:
    """What a tree that was checked before yields."""
    return check(expr, "")
