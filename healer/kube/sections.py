"""Reads values out of a kubeconfig, and notes each mistake with the place where it stands."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from healer.errors import ConfigError, Problem
from healer.rules import yaml_positions as positions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A mapping of a file. `path` says where in it; mistakes found go to `problems`, which all sections share."""

    file: Path
    path: str
    node: positions.Mapping
    problems: list[Problem]

    def has(self, key: str) -> bool:
        found = self.node.value(key)
        return found is not None and not (isinstance(found, positions.Scalar) and found.is_null)

    def text(self, key: str) -> str:
        """A string; empty when it is not there."""
        if not self.has(key):
            return ""
        found = self.node.value(key)
        if isinstance(found, positions.Scalar):
            return found.text
        self.wrong(key, "must be text")
        return ""

    def flag(self, key: str) -> bool:
        found = self.node.value(key)
        if not self.has(key):
            return False
        value = found.boolean() if isinstance(found, positions.Scalar) else None
        if value is None:
            self.wrong(key, "must be true or false")
        return bool(value)

    def section(self, key: str) -> Section | None:
        found = self.node.value(key)
        if not self.has(key):
            return None
        if isinstance(found, positions.Mapping):
            return dataclasses.replace(self, path=self._below(key), node=found)
        self.wrong(key, "must be a mapping")
        return None

    def sections(self, key: str) -> Iterator[Section]:
        """The mappings in a list."""
        for index, item in enumerate(self._items(key)):
            path = f"{self._below(key)}.{index}"
            if isinstance(item, positions.Mapping):
                yield dataclasses.replace(self, path=path, node=item)
            else:
                self.problems.append(self._problem(item, path, "must be a mapping"))

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings in a list."""
        items = self._items(key)
        if any(not isinstance(item, positions.Scalar) for item in items):
            self.wrong(key, "must be a list of texts")
        return tuple(item.text for item in items if isinstance(item, positions.Scalar))

    def data(self, key: str) -> bytes | None:
        """What `KEY-data` holds in base64, or the file that `KEY` names, relative to this one; the former wins, as in kubectl."""
        if self.has(f"{key}-data"):
            return self._decoded(f"{key}-data")
        if not self.has(key):
            return None
        path = self.beside(self.text(key))
        try:
            return path.read_bytes()
        except OSError as error:
            self.wrong(key, f"cannot read {path}: {error.strerror}")
            return None

    def beside(self, path: str) -> Path:
        """A path relative to this file."""
        return self.file.parent / Path(path).expanduser()

    def wrong(self, key: str, message: str) -> None:
        """Note a mistake in the value of `key`, or that it is missing."""
        at = self.node.value(key) or self.node.key(key) or self.node
        self.problems.append(self._problem(at, self._below(key), message))

    def _decoded(self, key: str) -> bytes | None:
        try:
            return base64.b64decode("".join(self.text(key).split()), validate=True)
        except (binascii.Error, ValueError):
            self.wrong(key, "is not base64")
            return None

    def _items(self, key: str) -> tuple[positions.Node, ...]:
        found = self.node.value(key)
        if not self.has(key):
            return ()
        if isinstance(found, positions.Sequence):
            return found.items
        self.wrong(key, "must be a list")
        return ()

    def _below(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _problem(self, at: positions.Node, path: str, message: str) -> Problem:
        return Problem(file=str(self.file), line=at.line, column=at.column, path=path, message=message)


def read(file: Path) -> Section:
    """The whole of a file. ConfigError when it is not there, or is not YAML with a mapping at the top."""
    try:
        documents = positions.read_documents(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(file, 1, 1, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unreadable(file, 1, 1, "is not UTF-8 text") from error
    except positions.YamlProblem as error:
        raise _unreadable(file, error.line, error.column, error.message) from error
    top = documents[0] if documents else None
    if not isinstance(top, positions.Mapping):
        raise _unreadable(file, 1, 1, "is not a kubeconfig: there is no mapping at the top")
    return Section(file=file, path="", node=top, problems=[])


def _unreadable(file: Path, line: int, column: int, message: str) -> ConfigError:
    return ConfigError([Problem(file=str(file), line=line, column=column, path="", message=message)])
