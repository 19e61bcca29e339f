"""The functions of Prometheus' templates, by name. They take values and give values; wrong ones raise `Failure`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
import math
import re  # noqa: TID251 (only for the `$1` of replacements; patterns of users go to RE2)
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import re2  # type: ignore[import-untyped,unused-ignore]

from healer.rules import go_format
from healer.rules.durations import parse_duration

MAX_OUTPUT: Final = 65_536
_NANOSECONDS: Final = 1e9
_LONGEST_NANOSECONDS: Final = 2**63 - 1


class Failure(Exception):
    """A template that cannot be rendered over these values; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One row of what `query` gives."""

    labels: Mapping[str, str]
    value: float


Query = Callable[[str], Iterable[tuple[Mapping[str, str], float]]]


def number(value: object) -> float:
    """`value` as a float, from a number or its text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Failure(f"can't convert {go_format.type_name(value)} to float")
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise Failure(f"strconv.ParseFloat: parsing {go_format.quoted(str(value)[:80])}: invalid syntax") from error


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Failure(f"wrong type for value; expected string; got {go_format.type_name(value)}")
    return value


def is_true(value: object) -> bool:
    """As `if` takes it: zero, nothing and what is empty are false."""
    if isinstance(value, Sample):
        return True
    return bool(value)


def _scaled(value: float, base: int, prefixes: Sequence[str]) -> str:
    prefix = ""
    for larger in prefixes:
        if abs(value) < base:
            break
        prefix, value = larger, value / base
    return _four_digits(value) + prefix


def _small(value: float) -> str:
    prefix = ""
    for smaller in "munpfazy":
        if abs(value) >= 1:
            break
        prefix, value = smaller, value * 1000
    return _four_digits(value) + prefix


def _four_digits(value: float) -> str:
    return go_format.float_text(value, "g", 4)


def humanize(raw: object) -> str:
    value = number(raw)
    if value == 0 or not math.isfinite(value):
        return _four_digits(value)
    return _scaled(value, 1000, "kMGTPEZY") if abs(value) >= 1 else _small(value)


def humanize1024(raw: object) -> str:
    value = number(raw)
    if abs(value) <= 1 or not math.isfinite(value):
        return _four_digits(value)
    return _scaled(value, 1024, ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"))


def humanize_duration(raw: object) -> str:
    """Seconds as days, hours, minutes and seconds."""
    value = number(raw)
    if not math.isfinite(value):
        return _four_digits(value)
    if value == 0:
        return "0s"
    if abs(value) < 1:
        return _small(value) + "s"
    sign, value = ("-", -value) if value < 0 else ("", value)
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    if minutes:
        return f"{sign}{minutes}m {seconds}s"
    return f"{sign}{_four_digits(value)}s"


def humanize_percentage(raw: object) -> str:
    return _four_digits(number(raw) * 100) + "%"


def humanize_timestamp(raw: object) -> str:
    """Seconds since the epoch as Go prints a time in UTC, to the millisecond."""
    value = number(raw)
    if not math.isfinite(value):
        return _four_digits(value)
    if abs(value * _NANOSECONDS) > _LONGEST_NANOSECONDS:
        raise Failure(f"{go_format.float_text(value)} cannot be represented as a nanoseconds timestamp")
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=int(value * 1000))
    fraction = f".{at.microsecond // 1000:03d}".rstrip("0").rstrip(".")
    return f"{at:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def title(raw: object) -> str:
    """Every word with a capital first letter, the rest as it is."""
    result, previous = [], " "
    for character in text(raw):
        is_inside = previous.isalnum() or previous == "_" or (ord(previous) > 0x7F and not previous.isspace())
        result.append(character if is_inside else character.title())
        previous = character
    return "".join(result)


def _host_and_port(address: str) -> tuple[str, str] | None:
    if address.startswith("["):
        host, bracket, port = address[1:].partition("]:")
        return (host, port) if bracket and ":" not in port else None
    host, colon, port = address.rpartition(":")
    return (host, port) if colon and ":" not in host else None


def strip_port(raw: object) -> str:
    address = text(raw)
    found = _host_and_port(address)
    return found[0] if found else address


def strip_domain(raw: object) -> str:
    address = text(raw)
    host, port = _host_and_port(address) or (address, "")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        host = host.split(".", 1)[0]
        return f"{host}:{port}" if port else host
    return address


def parse_seconds(raw: object) -> float:
    try:
        return parse_duration(text(raw))
    except ValueError as error:
        raise Failure(str(error)) from error


def _pattern(raw: object) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text(raw), options=options)
    except re2.error as error:
        raise Failure(f"error parsing regexp {go_format.quoted(str(raw)[:80])}") from error


def match(pattern: object, subject: object) -> bool:
    return bool(_pattern(pattern).search(text(subject)))


_GROUP: Final = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})")


def re_replace_all(pattern: object, replacement: object, subject: object) -> str:
    """Every match replaced, `$1` and `${name}` in the replacement standing for groups, `$$` for a dollar."""
    compiled, layout, source = _pattern(pattern), text(replacement), text(subject)
    parts: list[str] = []
    at = size = 0
    for found in compiled.finditer(source):
        piece = source[at : found.start()] + _GROUP.sub(lambda group: _group(found, group), layout)  # noqa: B023
        parts.append(piece)
        at, size = found.end(), size + len(piece)
        if size > MAX_OUTPUT:
            raise Failure(f"result longer than {MAX_OUTPUT} characters")
    return "".join(parts) + source[at:]


def _group(found: Any, group: re.Match[str]) -> str:
    name = group[1] or group[2]
    if name is None:
        return "$"
    try:
        return found.group(int(name) if name.isascii() and name.isdigit() else name) or ""
    except (IndexError, KeyError, re2.error):
        return ""


def _graph(tab: int) -> Callable[[object], str]:
    def link(expression: object) -> str:
        return f"/graph?g0.expr={urllib.parse.quote_plus(text(expression))}&g0.tab={tab}"

    return link


def first(vector: object) -> Sample:
    if not isinstance(vector, Sequence) or not vector or not isinstance(vector[0], Sample):
        raise Failure("first() called on vector with no elements")
    return vector[0]


def _sample(value: object) -> Sample:
    if not isinstance(value, Sample):
        raise Failure(f"expected a sample of a query; got {go_format.type_name(value)}")
    return value


def sort_by_label(name: object, vector: object) -> list[Sample]:
    label = text(name)
    rows = list(vector) if isinstance(vector, Sequence) else []
    return sorted(map(_sample, rows), key=lambda sample: sample.labels.get(label, ""))


def index(value: object, *keys: object) -> object:
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key, "")
        elif isinstance(value, Sequence) and isinstance(key, int) and 0 <= key < len(value):
            value = ord(value[key]) if isinstance(value, str) else value[key]
        else:
            raise Failure(f"index {go_format.text_of(key)[:80]} does not fit {go_format.type_name(value)}")
    return value


def length(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping | Sequence):
        return len(value)
    raise Failure(f"len of type {go_format.type_name(value)}")


def _kind(value: object) -> str:
    # Go refuses to compare 1 with 1.0; a template that says what it means should not fail for a missing ".0".
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else go_format.type_name(value)


def _comparable(left: object, right: object) -> tuple[Any, Any]:
    if _kind(left) != _kind(right):
        raise Failure("incompatible types for comparison")
    return left, right


def equal(left: object, *rest: object) -> bool:
    if not rest:
        raise Failure("missing argument for comparison")
    return any(a == b for a, b in (_comparable(left, other) for other in rest))


def less(left: object, right: object) -> bool:
    a, b = _comparable(left, right)
    if _kind(a) not in ("number", "string"):
        raise Failure("invalid type for comparison")
    return bool(a < b)


def _greater(left: object, right: object) -> bool:
    return not less(left, right) and not equal(left, right) and left == left and right == right  # noqa: PLR0124 (NaN)


def _slice(value: object, start: object = 0, end: object = None) -> str | Sequence[Any]:
    stop = length(value) if end is None else end
    if not isinstance(value, str | list) or not isinstance(start, int) or not isinstance(stop, int):
        raise Failure(f"cannot slice {go_format.type_name(value)}")
    if not 0 <= start <= stop <= len(value):
        raise Failure("slice index out of range")
    return value[start:stop]


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "args": lambda *values: {f"arg{position}": value for position, value in enumerate(values)},
    "eq": equal,
    "first": first,
    "ge": lambda left, right: _greater(left, right) or equal(left, right),
    "graphLink": _graph(0),
    "gt": _greater,
    "humanize": humanize,
    "humanize1024": humanize1024,
    "humanizeDuration": humanize_duration,
    "humanizePercentage": humanize_percentage,
    "humanizeTimestamp": humanize_timestamp,
    "index": index,
    "label": lambda name, sample: _sample(sample).labels.get(text(name), ""),
    "le": lambda left, right: less(left, right) or equal(left, right),
    "len": length,
    "lt": less,
    "match": match,
    "ne": lambda left, right: not equal(left, right),
    "not": lambda value: not is_true(value),
    "parseDuration": parse_seconds,
    "print": lambda *values: go_format.sprint(values),
    "printf": lambda layout, *values: go_format.sprintf(text(layout), values),
    "println": lambda *values: go_format.sprintln(values),
    "reReplaceAll": re_replace_all,
    "safeHtml": text,
    "slice": _slice,
    "sortByLabel": sort_by_label,
    "stripDomain": strip_domain,
    "stripPort": strip_port,
    "strvalue": lambda sample: _sample(sample).labels.get("__value__", ""),
    "tableLink": _graph(1),
    "title": title,
    "toLower": lambda value: text(value).lower(),
    "toUpper": lambda value: text(value).upper(),
    "urlQueryEscape": lambda value: urllib.parse.quote_plus(text(value)),
    "urlquery": lambda *values: urllib.parse.quote_plus(go_format.sprint(values)),
    "value": lambda sample: _sample(sample).value,
}
"""Without those that need more than their arguments: `and`, `or`, `query`, `externalURL`, `pathPrefix`."""
