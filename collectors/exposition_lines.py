"""The lines of a metrics page, one at a time and strictly: series, numbers, timestamps, exemplars, comments."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns of ours, each linear in its input)
import sys
from typing import Final

from healer.model.series import METRIC_NAME, Labels

HASH: Final = ord("#")
EOF: Final = b"# EOF"

_QUOTED: Final = r'"((?:[^"\\]++|\\.)*+)"'
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PAIR: Final = re.compile(rf"[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})[ \t]*(?:=[ \t]*{_QUOTED})?[ \t]*(,|(?=\}}))")
_BRACES: Final = rb'\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\}'
_SERIES: Final = re.compile(rb"[^{ \t]*+(?:[ \t]*+" + _BRACES + rb")?")
_TEXT_REST: Final = re.compile(rb"[ \t]*([^{ \t]+)(?:[ \t]+([^ \t]+))?[ \t]*")
_OPENMETRICS_REST: Final = re.compile(rb" ([^ {]+)(?: ([^ #]+))?(?: # (" + _BRACES + rb") ([^ ]+)(?: ([^ ]+))?)?")
# Prometheus takes no hexadecimal and no underscores, and signs infinity but not NaN.
_NUMBER: Final = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)|nan", re.IGNORECASE)
_WHOLE: Final = re.compile(rb"-?[0-9]{1,18}")
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_TYPES: Final = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
_OPENMETRICS_TYPES: Final = frozenset(
    {"counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"}
)
_META: Final = re.compile(r'# (HELP|TYPE|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*|"(?:[^"\\]|\\.)+")(?: (.*))?', re.DOTALL)
_TEXT_META: Final = re.compile(
    r'#[ \t]+(HELP|TYPE)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*|"(?:[^"\\]|\\.)+")(?:[ \t]+(.*))?', re.DOTALL
)
_TEXT_META_BEGINS: Final = re.compile(r"#[ \t]+(?:HELP|TYPE)(?:[ \t]|$)")
_SHOWN: Final = 80


class Wrong(ValueError):
    """What is wrong with a line."""


def split(line: bytes, *, openmetrics: bool) -> tuple[bytes, bytes, bytes | None]:
    """A sample's line as series, number and timestamp, each still to be read. An exemplar is checked and dropped."""
    found = _SERIES.match(line)
    series = found.group() if found else b""
    if not series:
        raise Wrong(f"a metric name is missing: {_show(line)}")
    pattern = _OPENMETRICS_REST if openmetrics else _TEXT_REST
    rest = pattern.fullmatch(line, len(series))
    if rest is None:
        raise Wrong(f"not a series and a number: {_show(line)}")
    if openmetrics and rest.group(3) is not None:
        _check_exemplar(rest.group(3), rest.group(4), rest.group(5))
    return series, rest.group(1), rest.group(2)


def labels(series: bytes) -> Labels:
    """The label set that `series` (a name, a brace with labels, or both) stands for."""
    text = _decode(series)
    name = _METRIC.match(text)
    pairs: dict[str, str] = {METRIC_NAME: name.group()} if name else {}
    rest = text[name.end() if name else 0 :].lstrip(" \t")
    if rest:
        _read_pairs(rest, pairs)
    if not pairs.get(METRIC_NAME):
        raise Wrong(f"a metric name is missing: {_show(series)}")
    return Labels((sys.intern(name), sys.intern(value)) for name, value in pairs.items())


def number(token: bytes) -> float:
    """A float as Prometheus writes it."""
    if not _NUMBER.fullmatch(token):
        raise Wrong(f"not a number: {_show(token)}")
    return float(token)


def time_ms(token: bytes, *, openmetrics: bool) -> int:
    """Milliseconds since the epoch: so written in the text format, and as seconds in OpenMetrics."""
    if not openmetrics:
        if not _WHOLE.fullmatch(token):
            raise Wrong(f"not a timestamp in milliseconds: {_show(token)}")
        return int(token)
    seconds = number(token)
    if not abs(seconds) < 1e15:
        raise Wrong(f"not a timestamp in seconds: {_show(token)}")
    return round(seconds * 1000)


def check_comment(line: bytes, *, openmetrics: bool) -> None:
    """Raise Wrong for metadata that is not well-formed."""
    text = _decode(line)
    found = (_META if openmetrics else _TEXT_META).fullmatch(text)
    if found is None:
        if openmetrics and line != EOF:
            raise Wrong(f"a comment that OpenMetrics does not have: {_show(line)}")
        if not openmetrics and _TEXT_META_BEGINS.match(text):
            raise Wrong(f"metadata without a metric name: {_show(line)}")
        return
    kind, name, what = found.groups()
    known = _OPENMETRICS_TYPES if openmetrics else _TYPES | _OPENMETRICS_TYPES
    if kind == "TYPE" and (what or "").strip(" \t") not in known:
        raise Wrong(f"not a type of metric: {what!r}; known are {', '.join(sorted(known))}")
    if kind == "UNIT" and what and not name.strip('"').endswith(f"_{what}"):
        raise Wrong(f"unit {what!r} is not at the end of {name!r}")


def _read_pairs(text: str, pairs: dict[str, str]) -> None:
    if text[0] != "{":
        raise Wrong(f"not a metric name: {_show(text)}")
    position = 1
    while (found := _PAIR.match(text, position)) is not None:
        plain, quoted, value, _ = found.groups()
        name = plain if plain is not None else _unescape(quoted)
        if value is None:
            # A name that stands alone between quotes is the metric's; it comes first.
            if plain is not None or position != 1 or pairs:
                raise Wrong(f"label {name!r} has no value: {_show(text)}")
            name, value = METRIC_NAME, quoted
        if not name or name in pairs:
            raise Wrong(f"label {name!r} is given twice" if name else f"a label without a name: {_show(text)}")
        pairs[name] = _unescape(value)
        position = found.end()
    if text[position:].strip(" \t") != "}":
        raise Wrong(f"not a label: {_show(text[position:])}")


def _check_exemplar(braces: bytes, value: bytes, time: bytes | None) -> None:
    _read_pairs(_decode(braces), {METRIC_NAME: "exemplar"})
    number(value)
    if time is not None:
        time_ms(time, openmetrics=True)


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Wrong(f"not UTF-8: {_show(text)}") from None


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def _show(text: bytes | str) -> str:
    shown = text[: _SHOWN * 4].decode(errors="replace") if isinstance(text, bytes) else text
    return repr(shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…")
