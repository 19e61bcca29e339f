"""pydantic's findings in the words of this project: what is wrong, with which value, and the mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from healer.config import context
from healer.config.context import Location


def explained(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Location, str]]:
    """Each finding as (where, message). `model` is the one that was validated."""
    found = error.errors(include_url=False)
    for details in found:
        place = tuple(part for part in details["loc"] if not _is_tag(part))
        if details["type"] == "too_short" and any(_is_inside(other["loc"], details["loc"]) for other in found):
            continue  # Only short because its entries are wrong.
        if details["type"] == "extra_forbidden":
            known = [field.alias or name for name, field in model.model_fields.items()] if len(place) == 1 else []
            yield place, context.unknown("key", str(place[-1]), known) if known else "unknown key"
        else:
            yield place, _message(details)


def _is_inside(place: Location, whole: Location) -> bool:
    return len(place) > len(whole) and place[: len(whole)] == whole


def _is_tag(part: int | str) -> bool:
    """Names of branches of a union, which stand in no file."""
    return isinstance(part, str) and any(mark in part for mark in "[(")


def _message(details: ErrorDetails) -> str:
    kind, given, limits = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "missing":
            return "is missing"
        case "value_error" | "assertion_error":
            return str(limits.get("error", details["msg"]))
        case "string_type":
            return _wrong("text", given, "put it in quotes" if isinstance(given, int | float) else "")
        case "string_too_short":
            return "is empty; give a value or remove the key"
        case "int_type" | "int_parsing" | "int_from_float":
            return _wrong("a whole number", given, "without quotes" if isinstance(given, str) else "")
        case "float_type" | "float_parsing":
            return _wrong("a number", given)
        case "bool_type" | "bool_parsing":
            return _wrong("true or false", given)
        case "literal_error" | "enum":
            return _choice(str(limits["expected"]), given)
        case "dict_type" | "model_type" | "model_attributes_type" | "mapping_type":
            return _wrong("a mapping (key: value)", given)
        case "tuple_type" | "list_type" | "set_type" | "frozen_set_type":
            return _wrong("a list", given)
        case "too_short":
            return "is empty; empty never means everything: name at least one, or remove the key"
        case "greater_than":
            return _wrong(f"more than {limits['gt']}", given)
        case "greater_than_equal":
            return _wrong(f"at least {limits['ge']}", given)
        case "less_than_equal":
            return _wrong(f"at most {limits['le']}", given)
        case _:
            text = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return text[:1].lower() + text[1:]


def _wrong(wanted: str, given: Any, mend: str = "") -> str:
    return f"must be {wanted}, not {context.shown(given)}" + (f"; {mend}" if mend else "")


def _choice(expected: str, given: Any) -> str:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    if len(choices) == 1:
        return f"must be {choices[0]!r}, not {context.shown(given)}"
    near = difflib.get_close_matches(str(given), choices, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"must be one of {', '.join(choices)}, not {context.shown(given)}{hint}"
