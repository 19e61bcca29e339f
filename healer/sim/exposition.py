"""Pages of metrics in the text format, put together from parts that were rendered before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from healer.model.series import escape

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Row = tuple[str, Mapping[str, str], float]
"""Family (or a sample name within it, such as `x_bucket`), labels, value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    name: str
    type: Literal["gauge", "counter", "histogram"]
    help: str


def number(value: float) -> str:
    """As Go prints it, nearly: no needless `.0`."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {number(value)}\n" if inside else f"{name} {number(value)}\n"


def rendered(rows: Iterable[Row]) -> dict[str, str]:
    """The lines of one object, by family."""
    lines: dict[str, str] = {}
    for name, labels, value in rows:
        lines[name] = lines.get(name, "") + line(name, labels, value)
    return lines


def page(families: Iterable[Family], parts: Iterable[Mapping[str, str]]) -> str:
    """The whole page; each family stands in one piece, as the format asks."""
    collected: dict[str, list[str]] = {}
    for part in parts:
        for name, text in part.items():
            collected.setdefault(name, []).append(text)
    return "".join(_pieces(families, collected))


def _pieces(families: Iterable[Family], collected: Mapping[str, list[str]]) -> Iterator[str]:
    for family in families:
        names = [family.name]
        if family.type == "histogram":
            names = [f"{family.name}_bucket", f"{family.name}_sum", f"{family.name}_count"]
        texts = [text for name in names for text in collected.get(name, ())]
        if texts:
            yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.type}\n"
            yield from texts
