"""What validators know while a file is being loaded: where each value stands, and the list of what is wrong."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationInfo

Location = tuple[int | str, ...]

_ELSEWHERE: Final = {
    "condition": "when",
    "conditions": "when",
    "matchers": "when",
    "selector": "when",
    "trigger": "when",
    "actions": "steps",
    "do": "steps",
    "notifications": "notify",
    "receivers": "notify",
    "rule_files": "rules",
    "scrape_configs": "collect",
}
"""What other tools call it."""


@dataclasses.dataclass(slots=True)
class Loading:
    """`containers`: the path in the file of every mapping and list, by the identity of its value.

    Validators report here instead of raising where raising would hide other mistakes.
    """

    folder: Path
    containers: dict[int, Location] = dataclasses.field(default_factory=dict)
    reports: list[tuple[Location, str]] = dataclasses.field(default_factory=list)

    def report(self, container: object, inside: Location, message: str) -> None:
        self.reports.append((self.containers.get(id(container), ()) + inside, message))


def loading(info: ValidationInfo) -> Loading | None:
    """The file being loaded, or None when a model is made by code."""
    return info.context if isinstance(info.context, Loading) else None


def report(info: ValidationInfo, container: object, inside: Location, message: str) -> None:
    """Add a problem at `inside` of `container`; outside of loading, raise it as ValueError."""
    context = loading(info)
    if context is None:
        raise ValueError(f"{'.'.join(map(str, inside))}: {message}" if inside else message)
    context.report(container, inside, message)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`what` 'name' is not known: with the nearest known one, or all of them."""
    names = sorted(known)
    elsewhere = {word: ours for word, ours in _ELSEWHERE.items() if ours in names}
    near = difflib.get_close_matches(name, [*names, *elsewhere], n=1, cutoff=0.6)
    if near:
        return f"unknown {what} {name!r}; did you mean {elsewhere.get(near[0], near[0])!r}?"
    return f"unknown {what} {name!r}; known are {', '.join(names) or 'none'}"


def dotted(location: Location) -> str:
    """`remedies[0].steps[1]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def shown(value: Any) -> str:
    """A wrong value for a message, in words of YAML and short. Callers never pass a secret."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict() | list() | tuple():
            what = "mapping" if isinstance(value, dict) else "list"
            return f"a {what}" if value else f"an empty {what}"
        case _:
            pass
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…" + text[0]
