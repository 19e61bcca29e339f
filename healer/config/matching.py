"""Which alerts a remedy is for: matchers as a mapping, or as the texts Alertmanager knows."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over single values)
from collections.abc import Iterator
from typing import Annotated, Any, Final

import re2  # type: ignore[import-untyped,unused-ignore]
from pydantic import BeforeValidator, Field, InstanceOf, ValidationInfo

from healer.config import context
from healer.config.context import Location
from healer.model.matchers import Matcher, MatchOp

_TEXT: Final = re.compile(r'\s*("(?:[^"\\]|\\.)+"|[^\s"=!~{},]+)\s*(=~|!~|!=|=)\s*(.*?)\s*', re.DOTALL)
_VALUE: Final = re.compile(r"\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPES: Final = {"n": "\n", '"': '"', "\\": "\\"}


def parse_matcher(text: str) -> Matcher:
    """`name="value"` with =, !=, =~ or !~; quotes may be left out. ValueError with the mend."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(
            f"not a matcher: {context.shown(text)}; write e.g. 'alertname=\"NodeDown\"' or 'zone=~\"a|b\"'"
        )
    name, op, value = found.groups()
    if value.startswith("="):
        raise ValueError(f"{context.shown(text)}: '==' compares nothing here; write '=' once")
    return _matcher(_unquoted(name), op, _unquoted(value))


def _matchers(given: Any, info: ValidationInfo) -> Any:
    """For a remedy: what also fits an alert without any label is refused."""
    found, complete = _read(given, info, "name at least one label, or write `match: all` instead of `when`")
    if complete and all(matcher.matches_value("") for matcher in found):
        raise ValueError(
            "also matches an alert without any of these labels; add a label with a value, "
            "or write `match: all` instead of `when` if every alert is meant"
        )
    return found


def _selectors(given: Any, info: ValidationInfo) -> Any:
    """For what holds things back: wide is safe."""
    return _read(given, info, "name at least one label, or remove the key")[0]


def _read(given: Any, info: ValidationInfo, mend: str) -> tuple[tuple[Matcher, ...], bool]:
    """The matchers, and whether all of them could be read. The others are reported."""
    if not isinstance(given, dict | list):
        raise ValueError(  # noqa: TRY004 (pydantic collects only ValueError)
            f"must be a mapping of labels or a list of matchers, not {context.shown(given)}; "
            "write e.g. {alertname: NodeDown}"
        )
    if not given:
        raise ValueError(f"is empty; empty never means everything: {mend}")
    found: list[Matcher] = []
    complete = True
    for place, read in _texts(given):
        try:
            found += read()
        except ValueError as error:
            complete = False
            context.report(info, given, place, str(error))
    return tuple(found), complete


def _texts(given: dict[Any, Any] | list[Any]) -> Iterator[tuple[Location, Any]]:
    if isinstance(given, dict):
        for name, value in given.items():
            yield (name,), lambda name=name, value=value: list(_of_label(str(name), value))
    else:
        for index, text in enumerate(given):
            yield (index,), lambda text=text: [_of_text(text)]


def _of_text(text: Any) -> Matcher:
    if not isinstance(text, str):
        raise ValueError(f"must be a matcher in quotes, not {context.shown(text)}")  # noqa: TRY004
    return parse_matcher(text)


def _of_label(name: str, value: Any) -> Iterator[Matcher]:
    match value:
        case list():
            if not value:
                raise ValueError("is empty; empty never means everything: name at least one value, or remove the label")
            if not all(isinstance(choice, str) and choice for choice in value):
                raise ValueError("must be a list of texts; put numbers in quotes")
            yield _matcher(name, "=~", "|".join(re2.escape(choice) for choice in value))
        case str():
            found = _VALUE.fullmatch(value)
            op, text = found.groups() if found else ("=", value)
            yield _matcher(name, op, _unquoted(text) if found else text)
        case _:
            raise ValueError(f"must be text, not {context.shown(value)}; put it in quotes")


def _matcher(name: str, op: str, value: str) -> Matcher:
    if not value and op in ("=", "=~"):
        raise ValueError(
            f"the value of {name!r} is empty; empty never means everything: give a value, or write "
            f"'{name}!~\".+\"' for alerts without this label"
        )
    return Matcher(name, MatchOp(op), value)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        if '"' in text:
            raise ValueError(f"a quote inside of {context.shown(text)}; put all of the value in quotes")
        return text
    found = _QUOTED.fullmatch(text)
    if found is None:
        raise ValueError(f"the quotes of {context.shown(text)} do not close, or something follows them")
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), found[1], flags=re.DOTALL)


Matchers = Annotated[
    tuple[InstanceOf[Matcher], ...],
    BeforeValidator(_matchers),
    Field(json_schema_extra={"x-type": "labels, or list of matchers"}),
]
Selectors = Annotated[
    tuple[InstanceOf[Matcher], ...],
    BeforeValidator(_selectors),
    Field(json_schema_extra={"x-type": "labels, or list of matchers"}),
]
