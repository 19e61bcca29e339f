"""YAML 1.2 as plain values, and where each of them stands. `NO` and `22:00` stay text, `1.0` is a number.

Built from ruamel.yaml's tree of nodes rather than from its constructors: those lose the places of plain values and stop
at the first duplicate key.
"""

from __future__ import annotations

import dataclasses
import re  # noqa: TID251 (fixed patterns over single values)
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from healer.config.context import Location, dotted
from healer.errors import ConfigError, Problem

MAX_VALUES: Final = 200_000
"""More is not a configuration but an accident, or aliases that multiply."""

_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    line: int
    column: int


@dataclasses.dataclass(slots=True)
class Tree:
    """`places` of keys and list items by path; `containers`: paths of mappings and lists by identity of their value."""

    file: str
    value: Any = None
    places: dict[Location, Place] = dataclasses.field(default_factory=dict)
    containers: dict[int, Location] = dataclasses.field(default_factory=dict)
    problems: list[Problem] = dataclasses.field(default_factory=list)

    def problem(self, location: Location, message: str) -> Problem:
        """A problem at `location`, or at what is nearest above it in the file."""
        place, depth = Place(1, 1), len(location)
        while depth and location[:depth] not in self.places:
            depth -= 1
        place = self.places.get(location[:depth], place)
        twin = (*location[:-1], f"{location[-1]}_file") if location else ()
        if depth < len(location) and twin in self.places:
            place = self.places[twin]
        return Problem(file=self.file, line=place.line, column=place.column, path=dotted(location), message=message)

    def add(self, location: Location, message: str) -> None:
        self.problems.append(self.problem(location, message))


def read(text: str, file: str) -> Tree:
    """The values of `text`. ConfigError when it is not one YAML document; other mistakes are in `problems`."""
    tree = Tree(file)
    try:
        yaml = YAML(typ="rt", pure=True)
        yaml.composer.warn_double_anchors = False  # YAML allows it: the newest one counts
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ": ".join(filter(None, (error.context, error.problem)))
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ConfigError(
            [Problem(file=file, line=line, column=column, path="", message=f"not YAML: {said}")]
        ) from error
    except (YAMLError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error).strip().splitlines()[0]
        raise ConfigError([Problem(file=file, line=1, column=1, path="", message=f"not YAML: {said}")]) from error
    if not isinstance(root, MappingNode):
        what = "the file is empty" if root is None else "the file must be a mapping (key: value)"
        raise ConfigError([Problem(file=file, line=1, column=1, path="", message=f"{what}; see docs/configuration.md")])
    _Reader(tree).read(root)
    return tree


class _Reader:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._values = 0
        self._above: list[int] = []

    def read(self, root: MappingNode) -> None:
        self._tree.value = self._value(root, ())

    def _value(self, node: Node, at: Location) -> Any:
        self._values += 1
        if self._values > MAX_VALUES or id(node) in self._above:
            why = "contains itself" if id(node) in self._above else f"more than {MAX_VALUES} values; aliases multiply"
            raise ConfigError([*self._tree.problems, self._tree.problem(at, why)])
        match node:
            case ScalarNode():
                return self._scalar(node, at)
            case SequenceNode():
                return self._list(node, at)
            case MappingNode():
                return self._mapping(node, at)
            case _:
                raise TypeError(f"unknown kind of YAML node {type(node).__name__}")

    def _scalar(self, node: ScalarNode, at: Location) -> Any:
        text = node.value
        plain = node.style not in ("'", '"', "|", ">") and not str(node.tag).endswith(":str")
        if str(node.tag).startswith("!") and str(node.tag) != "!":
            self._tree.add(at, f"tags like {node.tag} mean nothing here; remove it")
        if not plain:
            return text
        if text in _WORDS:
            if _WORDS[text] is None:
                self._tree.add(at, "is empty; give a value, write {} for a section without settings, or remove the key")
            return _WORDS[text]
        if _INTEGER.fullmatch(text) and len(text) < 19:
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) and len(text) < 40 else text

    def _list(self, node: SequenceNode, at: Location) -> list[Any]:
        found: list[Any] = []
        self._above.append(id(node))
        for index, item in enumerate(node.value):
            here = (*at, index)
            self._tree.places[here] = _place(item)
            found.append(self._value(item, here))
        self._above.pop()
        self._tree.containers[id(found)] = at
        return found

    def _mapping(self, node: MappingNode, at: Location) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._above.append(id(node))
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._tree.problems.append(
                    dataclasses.replace(
                        self._tree.problem(at, "a key must be text"), line=_place(key).line, column=_place(key).column
                    )
                )
                continue
            here = (*at, key.value)
            if key.value in found:
                self._tree.problems.append(
                    dataclasses.replace(
                        self._tree.problem(
                            here, f"is given twice, first in line {self._tree.places[here].line}; keep one"
                        ),
                        line=_place(key).line,
                        column=_place(key).column,
                    )
                )
                continue
            self._tree.places[here] = _place(key)
            found[key.value] = self._value(value, here)
        self._above.pop()
        self._tree.containers[id(found)] = at
        return found


def _place(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)
