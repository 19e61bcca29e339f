"""Binary operators: arithmetic and comparison, between numbers, and between series that are matched by their labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from healer.errors import QueryError
from healer.model.series import METRIC_NAME, Floats, Labels, Times
from healer.rules.promql import tree
from healer.rules.promql.labelling import Key, drop_names, kept, left, merged, number_off, without_name
from healer.rules.promql.tree import Cardinality
from healer.rules.promql.values import Bools, Scalar, Vector, no_series, some
from healer.rules.promql.windows import check_size

OPERATIONS: Final[dict[str, Callable[[Floats, Floats], Floats]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
COMPARISONS: Final[dict[str, Callable[[Floats, Floats], Bools]]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}


def binary(node: tree.Binary, first: Scalar | Vector, second: Scalar | Vector) -> Scalar | Vector:
    if isinstance(first, Scalar):
        if isinstance(second, Scalar):
            return Scalar(values=_numbers(node, first.values, second.values))
        return _with_number(node, second, first.values[None, :], second.values)
    if isinstance(second, Scalar):
        return _with_number(node, first, first.values, second.values[None, :])
    if node.op in tree.SET_OPERATORS:
        return _of_sets(node, first, second)
    return _of_vectors(node, first, second)


def _numbers(node: tree.Binary, first: Floats, second: Floats) -> Floats:
    """The result as numbers: of a comparison, 1 or 0."""
    if node.op in COMPARISONS:
        return COMPARISONS[node.op](first, second).astype(np.float64)
    return OPERATIONS[node.op](first, second)


def _with_number(node: tree.Binary, vector: Vector, first: Floats, second: Floats) -> Vector:
    if node.op in COMPARISONS and not node.returns_bool:
        holds = COMPARISONS[node.op](first, second)
        return Vector(labels=vector.labels, values=vector.values, present=vector.present & holds)
    return drop_names(Vector(labels=vector.labels, values=_numbers(node, first, second), present=vector.present))


def _signature(matching: tree.Matching) -> Callable[[Labels], Key]:
    return kept(matching.labels) if matching.on else left(matching.labels)


def _grouped(matching: tree.Matching, first: Vector, second: Vector) -> tuple[Times, Times, list[Key]]:
    """The number of its match group for each series of both sides, and the groups."""
    signature = _signature(matching)
    numbers, groups = number_off([*map(signature, first.labels), *map(signature, second.labels)])
    return numbers[: len(first)], numbers[len(first) :], groups


def _any_of_group(present: Bools, numbers: Times, groups: int) -> Bools:
    """For each group and step: whether any of its series has a sample."""
    found = np.zeros((groups, present.shape[1]), dtype=np.bool_)
    np.logical_or.at(found, numbers, present)
    return found


def _of_sets(node: tree.Binary, first: Vector, second: Vector) -> Vector:
    ours, theirs, groups = _grouped(node.matching, first, second)
    if node.op == "or":
        covered = _any_of_group(first.present, ours, len(groups))
        return merged(
            Vector(
                labels=first.labels + second.labels,
                values=np.concatenate((first.values, second.values)),
                present=np.concatenate((first.present, second.present & ~covered[theirs])),
            )
        )
    met = _any_of_group(second.present, theirs, len(groups))[ours]
    return Vector(labels=first.labels, values=first.values, present=first.present & (met if node.op == "and" else ~met))


def _of_vectors(node: tree.Binary, first: Vector, second: Vector) -> Vector:
    """Every pair of series of one match group is a row; what may not meet at any one step is an error."""
    matching = node.matching
    swapped = matching.cardinality is Cardinality.ONE_TO_MANY
    many, one = (second, first) if swapped else (first, second)
    if not len(many) or not len(one):
        return no_series(many.present.shape[1])
    many_group, one_group, groups = _grouped(matching, many, one)
    _refuse_many_to_many(one, one_group, groups, some(many.present, axis=0), "left" if swapped else "right")
    many_row, one_row = _pairs(many_group, one_group, len(groups), many.present.shape[1])
    met = many.present[many_row] & one.present[one_row]
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        _refuse_many_to_one(met, many_group[many_row], len(groups))
    many_values, one_values = many.values[many_row], one.values[one_row]
    values = (one_values, many_values) if swapped else (many_values, one_values)
    labels = tuple(_result_labels(node, many.labels[m], one.labels[o]) for m, o in zip(many_row, one_row, strict=True))
    result = Vector(labels=labels, values=_numbers(node, *values), present=met)
    if matching.cardinality is not Cardinality.ONE_TO_ONE:
        _refuse_same_result(result, many_group[many_row])
    if node.op in COMPARISONS and not node.returns_bool:
        holds = met & COMPARISONS[node.op](*values)
        result = Vector(labels=labels, values=values[0], present=holds)
    return merged(result)


def _pairs(many_group: Times, one_group: Times, groups: int, steps: int) -> tuple[Times, Times]:
    """The rows of both sides for each pair within a group, in the order of the many side."""
    order = np.argsort(one_group, kind="stable")
    sizes = np.bincount(one_group, minlength=groups)
    starts = np.cumsum(sizes) - sizes
    repeats = sizes[many_group]
    check_size(int(repeats.sum()), steps)
    many_row = np.repeat(np.arange(len(many_group)), repeats)
    within = np.arange(len(many_row)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return many_row, order[starts[many_group[many_row]] + within]


def _result_labels(node: tree.Binary, many: Labels, one: Labels) -> Labels:
    matching = node.matching
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        if matching.on:
            many = Labels(kept(matching.labels)(many))
        elif matching.labels:
            many = many.without(*matching.labels)
    if node.op in OPERATIONS or node.returns_bool:
        many = without_name(many)
    if matching.include:
        many = Labels({**dict(many.pairs), **{name: one.get(name, "") for name in matching.include}})
    return many


def _counts(rows: Bools, numbers: Times, groups: int) -> Times:
    found = np.zeros((groups, rows.shape[1]), dtype=np.int64)
    np.add.at(found, numbers, rows)
    return found


def _refuse_many_to_many(one: Vector, numbers: Times, groups: list[Key], asked: Bools, side: str) -> None:
    if np.bincount(numbers).max(initial=0) <= 1:
        return
    twice = (_counts(one.present, numbers, len(groups)) > 1) & asked
    if not twice.any():
        return
    step, group = (int(index) for index in np.argwhere(twice.T)[0])
    rows = np.flatnonzero((numbers == group) & one.present[:, step])
    found = sorted(show(one.labels[row]) for row in rows)
    raise QueryError(
        f"found duplicate series for the match group {show(Labels(groups[group]))} on the {side} hand-side of the "
        f"operation: [{found[0]}, {found[1]}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def _refuse_many_to_one(met: Bools, numbers: Times, groups: int) -> None:
    if np.bincount(numbers).max(initial=0) > 1 and (_counts(met, numbers, groups) > 1).any():
        raise QueryError("multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)")


def _refuse_same_result(result: Vector, groups: Times) -> None:
    keys, distinct = number_off(list(zip(groups.tolist(), result.labels, strict=True)))
    if len(distinct) < len(keys) and (_counts(result.present, keys, len(distinct)) > 1).any():
        raise QueryError("multiple matches for labels: grouping labels must ensure unique matches")


def show(labels: Labels) -> str:
    """As Prometheus prints label sets in its errors, the name among the others."""
    return str(labels) if METRIC_NAME not in labels else "{" + ", ".join(f'{n}="{v}"' for n, v in labels.pairs) + "}"


def negated(vector: Vector) -> Vector:
    return drop_names(Vector(labels=vector.labels, values=-vector.values, present=vector.present))
