"""Label matchers, with RE2 patterns as in Prometheus: linear in the input, whatever a user wrote."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any

import re2  # type: ignore[import-untyped,unused-ignore]


class PatternError(ValueError):
    """A pattern that RE2 does not take; the text says why."""


class MatchOp(enum.StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    REGEXP = "=~"
    NOT_REGEXP = "!~"


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Callable[[str], Any]:
    """A function that tells whether the *whole* of a text matches `pattern`, as Prometheus anchors it.

    Raises PatternError.
    """
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    try:
        compiled = re2.compile(f"^(?:{pattern})$", options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"pattern {pattern!r}: {text}") from error
    except UnicodeEncodeError as error:
        raise PatternError(f"pattern {pattern!r}: invalid UTF-8") from error
    match: Callable[[str], Any] = compiled.fullmatch
    return match


@dataclasses.dataclass(frozen=True, slots=True)
class Matcher:
    """`name op value`. A label that is absent counts as an empty string, as in Prometheus."""

    name: str
    op: MatchOp
    value: str

    def __post_init__(self) -> None:
        if self.op in (MatchOp.REGEXP, MatchOp.NOT_REGEXP):
            compile_pattern(self.value)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.name, ""))

    def matches_value(self, value: str) -> bool:
        match self.op:
            case MatchOp.EQUAL:
                return value == self.value
            case MatchOp.NOT_EQUAL:
                return value != self.value
            case MatchOp.REGEXP:
                return bool(compile_pattern(self.value)(value))
            case MatchOp.NOT_REGEXP:
                return not compile_pattern(self.value)(value)

    def __str__(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        return f'{self.name}{self.op.value}"{quoted}"'
