"""Reads fields of a YAML tree as what they should be, and notes everything that is wrong, with its place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from healer.errors import Problem
from healer.model.series import METRIC_NAME
from healer.rules.durations import parse_duration
from healer.rules.templates import Template, TemplateError, compile_template
from healer.rules.yaml_positions import Mapping, Node, Scalar, Sequence

_ANOMALY: Final = "anomaly detectors cannot be defined in rule files yet; remove this section"

Value = TypeVar("Value")
Fields = dict[str, Node]


class FieldReader:
    """Collects `problems` of one file; what is wrong reads as empty."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def name(self, node: Mapping, fields: Fields, path: str, key: str, what: str) -> str:
        if key not in fields:
            self.report(node, path, f"a {what} needs '{key}'")
            return ""
        return self.text(fields[key], f"{path}.{key}") or ""

    def text(self, node: Node, path: str) -> str | None:
        if not isinstance(node, Scalar):
            self.report(node, path, "must be text")
            return None
        if node.is_null or not node.text.strip():
            self.report(node, path, "must not be empty")
            return None
        return node.text

    def duration(self, node: Node | None, path: str) -> float:
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return 0.0
        if not isinstance(node, Scalar):
            self.report(node, path, "must be a duration, e.g. 30s or 5m")
            return 0.0
        try:
            return parse_duration(node.text)
        except ValueError as error:
            self.report(node, path, str(error))
            return 0.0

    def count(self, node: Node | None, path: str) -> int:
        number = node.integer() if isinstance(node, Scalar) else None
        if node is None or (number is not None and number >= 0):
            return number or 0
        self.report(node, path, "must be a whole number, 0 for no limit")
        return 0

    def boolean(self, node: Node | None, path: str) -> bool:
        value = node.boolean() if isinstance(node, Scalar) else None
        if node is not None and value is None:
            self.report(node, path, "must be true or false")
        return bool(value)

    def labels(self, node: Node | None, path: str, convert: Callable[[Scalar, str], Value | None]) -> dict[str, Value]:
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return {}
        if not isinstance(node, Mapping):
            self.report(node, path, "must be a mapping of names to text")
            return {}
        labels: dict[str, Value] = {}
        for key, value in self.entries(node, path):
            at = f"{path}.{key.text}"
            if not key.text or key.text == METRIC_NAME or not key.text.isprintable():
                self.report(key, at, f"not a label name: {key.text!r}")
            elif not isinstance(value, Scalar):
                self.report(value, at, "must be text")
            elif (converted := convert(value, at)) is not None:
                labels[key.text] = converted
        return labels

    @staticmethod
    def as_text(node: Scalar, path: str) -> str | None:
        del path
        return "" if node.is_null else node.text

    def as_template(self, node: Scalar, path: str) -> Template | None:
        try:
            return compile_template("" if node.is_null else node.text)
        except TemplateError as error:
            line, column = node.position(error.offset)
            self.add(line, column, path, f"template: {error}")
            return None

    # Structure

    def items(self, node: Node, path: str) -> tuple[Node, ...]:
        if isinstance(node, Sequence):
            return node.items
        if not isinstance(node, Scalar) or not node.is_null:
            self.report(node, path, "must be a list")
        return ()

    def fields(self, node: Node, path: str, known: Collection[str], what: str) -> Fields:
        if not isinstance(node, Mapping):
            self.report(node, path, f"{what} must be a mapping")
            return {}
        fields: Fields = {}
        for key, value in self.entries(node, path):
            if key.text in known:
                fields[key.text] = value
            elif key.text == "anomaly":
                self.report(key, join(path, key.text), _ANOMALY)
            else:
                near = difflib.get_close_matches(key.text, known, n=1)
                mend = f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(known)}"
                self.report(key, join(path, key.text), f"unknown key '{key.text[:64]}' in {what}{mend}")
        return fields

    def entries(self, node: Mapping, path: str) -> Iterator[tuple[Scalar, Node]]:
        """Entries without repeated keys, which are reported."""
        seen: dict[str, int] = {}
        for key, value in node.entries:
            if key.text in seen:
                self.report(
                    key, join(path, key.text), f"'{key.text}' is given twice; the first is at line {seen[key.text]}"
                )
                continue
            seen[key.text] = key.line
            yield key, value

    def report(self, node: Node, path: str, message: str) -> None:
        self.add(node.line, node.column, path, message)

    def add(self, line: int, column: int, path: str, message: str) -> None:
        self.problems.append(Problem(file=self.file, line=line, column=column, path=path, message=message))


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
