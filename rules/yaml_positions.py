"""YAML 1.2 as a tree that knows where each node stands, so that every mistake can be shown at its line and column.

Built from the event stream instead of the composer of ruamel.yaml: depth and aliases stay bounded, duplicate keys
stay visible, and `NO` or `22:00` stay text. Lines and columns count from 1.
"""

from __future__ import annotations

import dataclasses
import re  # noqa: TID251 (fixed patterns over single scalars)
from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

MAX_DEPTH: Final = 64
MAX_NODES: Final = 500_000

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
_DOUBLE_QUOTED: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r?\n[ \t]*|.)|.", re.DOTALL)
_SINGLE_QUOTED: Final = re.compile(r"''|.", re.DOTALL)
_BLANK_ESCAPES: Final = frozenset("nt r\t LPNv_")


class YamlProblem(Exception):
    """Text that is not YAML; `line` and `column` say where."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    line: int
    column: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Node):
    """`text` is the value as written, decoded; `plain` tells whether it stood without quotes and tag."""

    text: str
    plain: bool = True
    style: str = ""
    source: str = dataclasses.field(default="", repr=False)

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in _NULL

    def boolean(self) -> bool | None:
        """True or False where YAML 1.2 reads one, else None."""
        if not self.plain or self.text not in _TRUE | _FALSE:
            return None
        return self.text in _TRUE

    def integer(self) -> int | None:
        return int(self.text) if self.plain and _INTEGER.fullmatch(self.text) else None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the file of character `offset` of the text, for every style of scalar.

        Folding changes only white space, so the place is found by counting the other characters.
        """
        body, line, column = self._body()
        blank = offset >= len(self.text) or self.text[offset].isspace()
        wanted = sum(not c.isspace() for c in self.text[:offset])
        place = after = (line, column)
        for length, is_blank in self._units(body):
            if not is_blank:
                if wanted == 0 and not blank:
                    return place
                wanted -= 1
            line, column = _advance(body, length, line, column)
            body = body[length:]
            place = (line, column)
            if not is_blank:
                after = place
                if wanted == 0 and blank:
                    return after
        return after

    def _body(self) -> tuple[str, int, int]:
        """What stands between the quotes, or below the header of a block, and where it begins."""
        if self.style in ("|", ">"):
            header, _, body = self.source.partition("\n")
            return body, self.line + (1 if len(header) < len(self.source) else 0), 1
        if self.style in ("'", '"'):
            return self.source[1:-1], self.line, self.column + 1
        return self.source, self.line, self.column

    def _units(self, body: str) -> Iterator[tuple[int, bool]]:
        """Lengths of what makes one character each, and whether that is white space."""
        if self.style == '"':
            for found in _DOUBLE_QUOTED.finditer(body):
                escaped = found[1]
                white = escaped[0] in _BLANK_ESCAPES or escaped[0] in "\r\n" if escaped else found[0].isspace()
                yield len(found[0]), white
        elif self.style == "'":
            for found in _SINGLE_QUOTED.finditer(body):
                yield len(found[0]), found[0].isspace()
        else:
            for character in body:
                yield 1, character.isspace()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sequence(Node):
    items: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mapping(Node):
    """`entries` in the order of the file, duplicates included; `value` takes the first."""

    entries: tuple[tuple[Scalar, Node], ...]

    def value(self, key: str) -> Node | None:
        return next((value for name, value in self.entries if name.text == key), None)

    def key(self, key: str) -> Scalar | None:
        return next((name for name, _ in self.entries if name.text == key), None)


def read_documents(text: str) -> tuple[Node, ...]:
    """One tree per YAML document. Raises YamlProblem."""
    try:
        return tuple(_Builder(text).documents())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, (error.context, error.problem)))
        raise YamlProblem(said, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from error
    except YAMLError as error:
        raise YamlProblem(str(error).strip().splitlines()[0], *_place_of_bad_character(text, error)) from error


def _place_of_bad_character(text: str, error: Exception) -> tuple[int, int]:
    at = getattr(error, "position", None)
    before = text[: at if isinstance(at, int) else 0]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _advance(text: str, length: int, line: int, column: int) -> tuple[int, int]:
    newline = text.rfind("\n", 0, length)
    if newline < 0:
        return line, column + length
    return line + text.count("\n", 0, length), length - newline


class _Builder:
    def __init__(self, text: str) -> None:
        self._text = text
        self._events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(text))
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                self._anchors = {}
                yield self._node(next(self._events), 0)

    def _node(self, event: Any, depth: int) -> Node:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise YamlProblem(f"nested deeper than {MAX_DEPTH} levels", line, column)
        if self._nodes > MAX_NODES:
            raise YamlProblem(f"more than {MAX_NODES} values in one file", line, column)
        match type(event).__name__:
            case "AliasEvent":
                if event.anchor not in self._anchors:
                    raise YamlProblem(f"alias *{event.anchor} names no anchor above it", line, column)
                return self._anchors[event.anchor]
            case "ScalarEvent":
                node: Node = self._scalar(event, line, column)
            case "SequenceStartEvent":
                node = Sequence(line=line, column=column, items=tuple(self._items(depth)))
            case _:
                node = Mapping(line=line, column=column, entries=self._entries(depth))
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any, line: int, column: int) -> Scalar:
        source = self._text[event.start_mark.index : event.end_mark.index]
        if event.tag or event.anchor:
            # Properties stand before the value; the value itself is what positions are about.
            shift = _length_of_properties(source)
            line, column = _advance(source, shift, line, column)
            source = source[shift:]
        plain = not event.style and event.tag is None
        return Scalar(line=line, column=column, text=event.value, plain=plain, style=event.style or "", source=source)

    def _items(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                return
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> tuple[tuple[Scalar, Node], ...]:
        own: list[tuple[Scalar, Node]] = []
        merged: list[tuple[Scalar, Node]] = []
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise YamlProblem("a key must be plain text", key.line, key.column)
            value = self._node(next(self._events), depth + 1)
            if key.text == "<<" and key.plain:
                merged.extend(_merged(value))
            else:
                own.append((key, value))
        taken = {name.text for name, _ in own}
        for name, value in merged:
            if name.text not in taken:
                taken.add(name.text)
                own.append((name, value))
        self._nodes += len(own)
        return tuple(own)


def _merged(value: Node) -> Iterator[tuple[Scalar, Node]]:
    """Entries of what `<<` points to. Not in YAML 1.2, but Prometheus reads it and rule files use it."""
    for part in value.items if isinstance(value, Sequence) else (value,):
        if not isinstance(part, Mapping):
            raise YamlProblem("<< needs a mapping, or a list of mappings", part.line, part.column)
        yield from part.entries


def _length_of_properties(source: str) -> int:
    found = re.match(r"(?:[&!][^\s]*\s+)*(?:[&!][^\s]*$)?", source)
    return found.end() if found else 0
