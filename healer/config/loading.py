"""From the file to a configuration, or to every mistake in it at once.

The rule files that it names are found, not read: what is in them is for `healer.app` to judge, which adds its own
problems at the places that `Loaded.problem` gives.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from pydantic import ValidationError

from healer.config import crosschecks, messages, tree
from healer.config.context import Loading, Location
from healer.config.remedies import Remedy
from healer.config.schema import Config
from healer.config.sources import More
from healer.errors import ConfigError, Problem


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration and where it came from."""

    config: Config
    path: Path
    text: str = dataclasses.field(repr=False)
    source: tree.Tree = dataclasses.field(repr=False)

    def problem(self, location: Location, message: str) -> Problem:
        """A problem at e.g. `("remedies", 0, "verify", "query")`, for checks that are made elsewhere."""
        return self.source.problem(location, message)


def load_config(path: Path) -> Config:
    """The configuration in the file at `path`. ConfigError carries every problem."""
    return load(path).config


def load(path: Path) -> Loaded:
    """As `load_config`, with the places of everything."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([_whole(path, f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([_whole(path, f"is not UTF-8 text: {error.reason} at byte {error.start}")]) from error
    return parse(text, path)


def parse(text: str, path: Path) -> Loaded:
    """As `load`, from text; `path` names it in messages, and relative paths in it start at its folder."""
    source = tree.read(text, str(path))
    loading = Loading(path.absolute().parent, source.containers)
    config: Config | None = None
    try:
        config = Config.model_validate(source.value, context=loading)
    except ValidationError as error:
        for location, message in messages.explained(error, Config):
            source.add(location, message)
    for location, message in loading.reports:
        source.add(location, message)
    for location, message in crosschecks.findings(source.value):
        source.add(location, message)
    if source.problems or config is None:
        raise ConfigError(in_order(source.problems))
    return Loaded(config=config, path=path, text=text, source=source)


def parse_more(text: str, name: str, base: Loaded, elsewhere: Collection[str]) -> tuple[tuple[Remedy, ...], tree.Tree]:
    """The remedies of a further text that goes with `base`, and where they stand. ConfigError has every problem in it.

    `elsewhere`: the names of all remedies that there are besides. Approvers and providers are those of `base`.
    """
    source = tree.read(text, name)
    loading = Loading(base.path.absolute().parent, source.containers)
    found: More | None = None
    try:
        found = More.model_validate(source.value, context=loading)
    except ValidationError as error:
        for location, message in messages.explained(error, More):
            source.add(location, message)
    for location, message in loading.reports:
        source.add(location, message)
    raw = {key: base.source.value[key] for key in ("approvers", "providers") if key in base.source.value}
    for location, message in crosschecks.findings({**raw, "remedies": source.value.get("remedies")}, elsewhere):
        source.add(location, message)
    if source.problems or found is None:
        raise ConfigError(in_order(source.problems))
    return found.remedies, source


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """From top to bottom; of several at one place and path, the first that was found."""
    once: dict[tuple[str, int, int, str], Problem] = {}
    for problem in problems:
        once.setdefault((problem.file, problem.line, problem.column, problem.path), problem)
    return sorted(once.values(), key=lambda problem: (problem.file, problem.line, problem.column))


def digest(*texts: str) -> str:
    """What identifies a configuration: of the file itself, then of every rule file."""
    found = hashlib.sha256()
    for text in texts:
        data = text.encode()
        found.update(b"%d:" % len(data) + data)
    return found.hexdigest()


def _whole(path: Path, message: str) -> Problem:
    return Problem(file=str(path), line=1, column=1, path="", message=message)
