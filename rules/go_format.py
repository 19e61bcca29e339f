"""How Go prints values (`fmt`), for the templates that people wrote for Prometheus."""

from __future__ import annotations

import decimal
import math
import re  # noqa: TID251 (fixed patterns, linear in the input)
from collections.abc import Mapping, Sequence
from typing import Final

_VERB: Final = re.compile(r"%([-+# 0]*)(\*|[0-9]{1,6})?(?:\.(\*|[0-9]{0,6}))?(.|\Z)", re.DOTALL)
_WIDEST: Final = 1000
_SHORT_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def float_text(value: float, verb: str = "g", precision: int | None = None) -> str:
    """`value` as `strconv.FormatFloat` writes it; without a precision the shortest text that reads back the same."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if precision is not None:
        return format(value, f".{max(precision, 1) if verb in 'gG' else precision}{verb}")
    exponent = decimal.Decimal(repr(value)).adjusted() if value else 0
    digits = "".join(map(str, decimal.Decimal(repr(value)).normalize().as_tuple().digits))
    if verb in "gG" and -4 <= exponent < 6:
        verb = "f"
    if verb in "fF":
        return format(decimal.Decimal(repr(value)).normalize(), "f") if value else ("-0" if _negative(value) else "0")
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    letter = "E" if verb in "EG" else "e"
    return f"{'-' if _negative(value) else ''}{mantissa}{letter}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _negative(value: float) -> bool:
    return math.copysign(1, value) < 0


def text_of(value: object) -> str:
    """`value` as `%v` prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return float_text(value)
        case Mapping():
            return "map[" + " ".join(f"{k}:{text_of(v)}" for k, v in sorted(value.items())) + "]"
        case list() | tuple():
            return "[" + " ".join(map(text_of, value)) + "]"
        case _:
            return str(value)


def type_name(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float64"
        case str():
            return "string"
        case None:
            return "<nil>"
        case Mapping():
            return "map[string]string"
        case _:
            return "[]interface {}"


def quoted(text: str) -> str:
    """`text` as a Go string literal."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def sprint(values: Sequence[object]) -> str:
    """As `print`: spaces only between two operands of which neither is a string."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            parts.append(" ")
        parts.append(text_of(value))
    return "".join(parts)


def sprintln(values: Sequence[object]) -> str:
    return " ".join(map(text_of, values)) + "\n"


def sprintf(layout: str, values: Sequence[object]) -> str:
    """As `printf`; what does not fit is shown in the text as Go does it, never raised."""
    left = list(values)

    def number(spec: str | None) -> tuple[int | None, str]:
        if spec is None:
            return None, ""
        if spec != "*":
            wanted = int(spec or 0)
        elif left and isinstance(left[0], int):
            wanted = int(str(left.pop(0)))
        else:
            return None, "%!(BADWIDTH)"
        return min(abs(wanted), _WIDEST), ""

    def expand(found: re.Match[str]) -> str:
        flags, verb = found[1], found[4]
        width, bad_width = number(found[2])
        precision, bad_precision = number(found[3])
        bad = bad_width + bad_precision
        if verb == "%":
            return "%"
        if not verb:
            return bad + "%!(NOVERB)"
        if not left:
            return f"{bad}%!{verb}(MISSING)"
        return bad + _pad(_verb(verb, left.pop(0), flags, precision), flags, width or 0)

    result = _VERB.sub(expand, layout)
    if left:
        result += "%!(EXTRA " + ", ".join(f"{type_name(v)}={text_of(v)}" for v in left) + ")"
    return result


def _pad(text: str, flags: str, width: int) -> str:
    if "-" in flags:
        return text.ljust(width)
    if "0" in flags and text.lstrip("+-")[:1].isdigit():
        sign = text[:1] if text[:1] in "+-" else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return text.rjust(width)


def _verb(verb: str, value: object, flags: str, precision: int | None) -> str:
    found: str | None = None
    if verb == "v":
        found = _float(value, "g", flags, precision) if isinstance(value, float) else text_of(value)
    elif verb == "T":
        return type_name(value)
    elif isinstance(value, bool):
        found = text_of(value) if verb == "t" else None
    elif isinstance(value, float):
        found = _float(value, verb, flags, 6 if precision is None and verb in "feEF" else precision)
    elif isinstance(value, int):
        found = _integer(verb, value, flags)
    elif isinstance(value, str):
        found = _string(verb, value, precision)
    elif value is not None and verb == "s":
        found = text_of(value)
    return f"%!{verb}({type_name(value)}={text_of(value)})" if found is None else found


def _float(value: float, verb: str, flags: str, precision: int | None) -> str | None:
    if verb not in "feEFgG":
        return None
    text = float_text(value, verb, precision)
    if math.isinf(value) and value > 0 and "+" not in flags:
        return text
    return _signed(text, flags)


def _integer(verb: str, value: int, flags: str) -> str | None:
    forms = {"d": "d", "x": "x", "X": "X", "o": "o", "b": "b"}
    if verb in forms:
        return _signed(format(value, ("#" if "#" in flags else "") + forms[verb]), flags)
    if verb in "cqU" and 0 <= value <= 0x10FFFF:
        return {"c": chr(value), "q": f"'{chr(value)}'", "U": f"U+{value:04X}"}[verb]
    return None


def _string(verb: str, value: str, precision: int | None) -> str | None:
    cut = value if precision is None else value[:precision]
    match verb:
        case "s":
            return cut
        case "q":
            return quoted(cut)
        case "x":
            return cut.encode("utf-8", "surrogatepass").hex()
        case "X":
            return cut.encode("utf-8", "surrogatepass").hex().upper()
        case _:
            return None


def _signed(text: str, flags: str) -> str:
    if text[:1] in "+-":
        return text
    return ("+" if "+" in flags else " " if " " in flags else "") + text
