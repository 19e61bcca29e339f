"""Aggregation over series: sum, avg, topk and the others, in groups by their labels."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Final

import numpy as np

from healer.errors import QueryError
from healer.model.series import Floats, Labels, Times
from healer.rules.promql import segments, sums, tree
from healer.rules.promql.labelling import Key, kept, left, merged, number_off, replaced
from healer.rules.promql.numbers import format_value
from healer.rules.promql.segments import Segments
from healer.rules.promql.strings import is_utf8, quote
from healer.rules.promql.values import Bools, Notes, Scalar, String, Vector, no_series


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Grouped:
    """A vector with its series in the order of their groups: group i has rows `starts[i]:stops[i]`."""

    labels: tuple[Labels, ...]
    values: Floats
    present: Bools
    starts: Times
    stops: Times
    groups: tuple[Labels, ...]

    @property
    def group_of_row(self) -> Times:
        return np.repeat(np.arange(len(self.groups)), self.stops - self.starts)

    @property
    def any(self) -> Bools:
        found: Bools = np.logical_or.reduceat(self.present, self.starts, axis=0)
        return found

    def filled(self, value: float) -> Floats:
        """The values, with `value` where no sample is."""
        return self.values if self.present.all() else np.where(self.present, self.values, value)

    def counts(self) -> Times:
        found: Times = np.add.reduceat(self.present, self.starts, axis=0, dtype=np.int64)
        return found

    def cells(self) -> tuple[Segments, Times, Times]:
        """The samples of each group and step as a run; with the row and the step that each came from."""
        steps = self.present.shape[1]
        row, step = np.nonzero(self.present)
        run = self.group_of_row[row] * steps + step
        order = np.argsort(run, kind="stable")
        row, step, run = row[order], step[order], run[order]
        ids, offsets = np.unique(run, return_index=True)
        laid = Segments(
            values=self.values[row, step],
            rows=np.arange(len(row)),
            owner=np.searchsorted(ids, run),
            offsets=np.append(offsets, len(row)),
            ids=ids,
        )
        return laid, row, step


def _grouped(node: tree.Aggregate, vector: Vector) -> _Grouped:
    if not node.without and not node.labels:
        numbers, keys = np.zeros(len(vector), dtype=np.int64), list[Key]([()])
    else:
        key = left(node.labels) if node.without else kept(node.labels)
        numbers, keys = number_off(list(map(key, vector.labels)))
    sizes = np.bincount(numbers, minlength=len(keys))
    stops = np.cumsum(sizes)
    labels, values, present = vector.labels, vector.values, vector.present
    if (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        labels, values, present = tuple(labels[i] for i in order.tolist()), values[order], present[order]
    return _Grouped(
        labels=labels,
        values=values,
        present=present,
        starts=stops - sizes,
        stops=stops,
        groups=tuple(map(Labels.of_sorted, keys)),
    )


def _sum(found: _Grouped) -> Floats:
    return sums.total(found.filled(0.0), found.starts, found.stops)


def _average(found: _Grouped) -> Floats:
    if found.present.all():
        return sums.mean(found.values, found.starts, found.stops)
    return _per_cell(found, Segments.mean)


def _per_cell(found: _Grouped, statistic: Callable[[Segments], Floats]) -> Floats:
    """`statistic` of the samples of each group at each step."""
    laid, _, _ = found.cells()
    result = np.zeros(len(found.groups) * found.present.shape[1])
    if len(laid.ids):
        result[laid.ids] = statistic(laid)
    return result.reshape(len(found.groups), -1)


def _smallest(found: _Grouped) -> Floats:
    result: Floats = np.fmin.reduceat(found.filled(np.nan), found.starts, axis=0)
    return result


def _largest(found: _Grouped) -> Floats:
    result: Floats = np.fmax.reduceat(found.filled(np.nan), found.starts, axis=0)
    return result


_SIMPLE: Final[dict[str, Callable[[_Grouped], Floats]]] = {
    "sum": _sum,
    "avg": _average,
    "min": _smallest,
    "max": _largest,
    "count": lambda found: found.counts().astype(np.float64),
    "group": lambda found: np.ones((len(found.groups), found.present.shape[1])),
    "stdvar": lambda found: _per_cell(found, segments.variance),
    "stddev": lambda found: np.sqrt(_per_cell(found, segments.variance)),
}


def aggregate(node: tree.Aggregate, vector: Vector, param: Scalar | String | None, notes: Notes) -> Vector:
    if isinstance(param, String) and not (param.value and is_utf8(param.value)):
        raise QueryError(f"invalid label name {quote(param.value)}")
    if isinstance(param, Scalar):
        _check_param(node, param.values, notes)
    if not len(vector):
        return no_series(vector.present.shape[1])
    found = _grouped(node, vector)
    match param:
        case None:
            return Vector(labels=found.groups, values=_SIMPLE[node.op](found), present=found.any)
        case String(value=label):
            return _count_values(found, label)
        case Scalar(values=values) if node.op == "quantile":
            steps = np.tile(values, len(found.groups))
            result = _per_cell(found, lambda laid: segments.quantile(laid, steps[laid.ids]))
            return Vector(labels=found.groups, values=result, present=found.any)
        case Scalar(values=values) if node.op == "limit_ratio":
            return _sampled(vector, values)
        case Scalar(values=values):
            return _limited(node.op, found, values)


def _check_param(node: tree.Aggregate, values: Floats, notes: Notes) -> None:
    where = node.param or node
    if node.op == "quantile":
        for value in np.unique(values[~((values >= 0) & (values <= 1))]):
            shown = format_value(float(value))
            notes.warn(f"quantile value should be between 0 and 1, got {shown}", where.start, where.end)
        return
    if np.isnan(values).any():
        raise QueryError(f"{'Ratio' if node.op == 'limit_ratio' else 'Parameter'} value is NaN")
    if node.op == "limit_ratio":
        for value in np.unique(values[np.abs(values) > 1]):
            shown, cap = format_value(float(value)), format_value(float(np.sign(value)))
            problem = f"ratio value should be between -1 and 1, got {shown}, capping to {cap}"
            notes.warn(problem, where.start, where.end)
    elif (np.abs(values) >= 2.0**63).any():
        raise QueryError(f"Scalar value {format_value(float(values[np.argmax(np.abs(values))]))} overflows int64")


def _limited(op: str, found: _Grouped, limits: Floats) -> Vector:
    """topk, bottomk and limitk: the first `limits[step]` series of each group, with their own labels."""
    laid, row, step = found.cells()
    if op != "limitk":
        sign = -1 if op == "topk" else 1
        order = np.lexsort((sign * laid.values, np.isnan(laid.values), laid.owner))
        row, step = row[order], step[order]
    rank = np.arange(len(row)) - np.repeat(laid.offsets[:-1], laid.counts)
    chosen = rank < np.trunc(limits)[step]
    present = np.zeros_like(found.present)
    present[row[chosen], step[chosen]] = True
    if present.shape[1] != 1:
        return Vector(labels=found.labels, values=found.values, present=present)
    ranked = row[chosen]
    labels = tuple(found.labels[i] for i in ranked.tolist())
    return Vector(labels=labels, values=found.values[ranked], present=present[ranked])


def _sampled(vector: Vector, ratios: Floats) -> Vector:
    """limit_ratio: a share of the series, always the same ones; a negative ratio takes those that 1 + ratio leaves."""
    place = np.array([_place(labels) for labels in vector.labels])[:, None]
    chosen = np.where(ratios >= 0, place < ratios, place >= 1 + ratios)
    return Vector(labels=vector.labels, values=vector.values, present=vector.present & chosen)


def _place(labels: Labels) -> float:
    """A number in [0, 1) from the labels; even, and the same in every process."""
    digest = hashlib.blake2b(repr(labels.pairs).encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48


def _count_values(found: _Grouped, label: str) -> Vector:
    """How often each value occurs in a group; the value becomes a label."""
    laid, row, step = found.cells()
    group = found.group_of_row[row]
    counts: dict[Labels, Times] = {}
    for value in np.unique(laid.values):
        same = np.isnan(laid.values) if np.isnan(value) else laid.values == value
        text = format_value(float(value))
        for number in np.unique(group[same]):
            labels = replaced(found.groups[number], label, text)
            of_group = same & (group == number)
            row_counts = counts.setdefault(labels, np.zeros(found.present.shape[1], dtype=np.int64))
            row_counts += np.bincount(step[of_group], minlength=len(row_counts))
    table = np.array(list(counts.values()), dtype=np.float64).reshape(-1, found.present.shape[1])
    return merged(Vector(labels=tuple(counts), values=table, present=table > 0))
