"""Durations as Prometheus writes them: `5m`, `1h30m`, `1d`, `0`."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern, linear in the input)
from typing import Final

_UNITS: Final = (("y", 31_536_000_000), ("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000))
_SMALL_UNITS: Final = (("m", 60_000), ("s", 1_000), ("ms", 1))
_PATTERN: Final = re.compile("".join(rf"(?:([0-9]+){unit})?" for unit, _ in _UNITS + _SMALL_UNITS))
_LONGEST_MS: Final = 2**63 // 1_000_000


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `text`. ValueError says what is wrong and what it should look like."""
    if text == "0":
        return 0
    found = _PATTERN.fullmatch(text) if text.isascii() and len(text) < 64 else None
    if not text or found is None:
        raise ValueError(f"not a valid duration: {text[:64]!r}; write a number and a unit, e.g. 30s, 5m or 1h30m")
    total = sum(
        int(number) * size for number, (_, size) in zip(found.groups(), _UNITS + _SMALL_UNITS, strict=True) if number
    )
    if total > _LONGEST_MS:
        raise ValueError(f"duration out of range: {text!r}")
    return total


def parse_duration(text: str) -> float:
    """Seconds of `text`. ValueError as `parse_duration_ms`."""
    return parse_duration_ms(text) / 1000


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back, e.g. `1h30m`."""
    left = round(seconds * 1000)
    if left <= 0:
        return "0s"
    parts: list[str] = []
    for unit, size in _UNITS + _SMALL_UNITS:
        # Years and weeks only where they are exact: 8d reads better than 1w1d.
        if unit in ("y", "w") and left % size:
            continue
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
