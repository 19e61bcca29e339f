"""Functions that change or sort by labels."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns, linear in the input)
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from healer.errors import QueryError
from healer.model.matchers import PatternError, compile_pattern
from healer.model.series import Labels
from healer.rules.promql.calls import Implementation, Site, text, vector
from healer.rules.promql.labelling import merged, relabelled, replaced
from healer.rules.promql.strings import is_utf8, quote
from healer.rules.promql.values import Value, Vector

_REFERENCE: Final = re.compile(r"\$(?:\$|(?P<name>[A-Za-z0-9_]+)|\{(?P<braced>[A-Za-z0-9_]+)\})")
_NATURAL: Final = re.compile(r"([0-9]+)")


def label_replace(_: Site, args: Sequence[Value]) -> Vector:
    """Sets a label from the groups of a pattern that the whole of another label must match."""
    of = vector(args[0])
    target, template, source, pattern = map(text, args[1:])
    try:
        match = compile_pattern(pattern)
    except PatternError as error:
        raise QueryError(f"invalid regular expression in label_replace(): {pattern}: {error}") from error
    _check_label(target, "destination", "label_replace")
    replacements: dict[str, str | None] = {}

    def replacement(value: str) -> str | None:
        if value not in replacements:
            found = match(value) if is_utf8(value) else None
            replacements[value] = None if found is None else _expand(template, found)
        return replacements[value]

    def changed(labels: Labels) -> Labels:
        new = replacement(labels.get(source, ""))
        return labels if new is None else replaced(labels, target, new)

    return merged(relabelled(of, map(changed, of.labels)))


def _expand(template: str, found: re.Match[str]) -> str:
    """`template` with $1, ${1}, $name and $$ as Go expands them; a group that is not there is empty."""

    def group(reference: re.Match[str]) -> str:
        name = reference["name"] or reference["braced"]
        if name is None:
            return "$"
        try:
            return found.group(int(name) if name.isdigit() else name) or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(group, template)


def label_join(_: Site, args: Sequence[Value]) -> Vector:
    of = vector(args[0])
    target, separator, *sources = map(text, args[1:])
    _check_label(target, "destination", "label_join")
    for source in sources:
        _check_label(source, "source", "label_join")

    def changed(labels: Labels) -> Labels:
        return replaced(labels, target, separator.join(labels.get(source, "") for source in sources))

    return merged(relabelled(of, map(changed, of.labels)))


def _check_label(name: str, role: str, function: str) -> None:
    if not name or not is_utf8(name):
        raise QueryError(f"invalid {role} label name in {function}(): {quote(name)}")


def sort(*, downwards: bool) -> Implementation:
    """By value, NaN last; only an instant query has an order."""

    def call(site: Site, args: Sequence[Value]) -> Vector:
        of = vector(args[0])
        if site.steps != 1:
            return of
        values = of.values[:, 0]
        return _reordered(of, np.lexsort((-values if downwards else values, np.isnan(values))).tolist())

    return call


def sort_by_label(*, downwards: bool) -> Implementation:
    """By labels in turn, numbers within them by their value; then by all labels."""

    def call(site: Site, args: Sequence[Value]) -> Vector:
        of = vector(args[0])
        if site.steps != 1:
            return of
        names = [text(arg) for arg in args[1:]]
        key = _by_labels(names)
        return _reordered(of, sorted(range(len(of)), key=lambda i: key(of.labels[i]), reverse=downwards))

    return call


def _by_labels(names: list[str]) -> Callable[[Labels], tuple[object, ...]]:
    return lambda labels: (*(_natural(labels.get(name, "")) for name in names), labels)


def _natural(value: str) -> list[tuple[int, int, str]]:
    parts = _NATURAL.split(value)
    return [(0, int(part), part) if part.isdigit() else (1, 0, part) for part in parts if part]


def _reordered(of: Vector, rows: list[int]) -> Vector:
    return Vector(labels=tuple(of.labels[row] for row in rows), values=of.values[rows], present=of.present[rows])
