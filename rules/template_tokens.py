"""Takes the text of a Go template apart: literal text, and the tokens of each action."""

from __future__ import annotations

import dataclasses
import re  # noqa: TID251 (fixed patterns, linear in the input)
from typing import Final

MAX_TEXT: Final = 100_000


class TemplateError(ValueError):
    """A template that cannot be compiled. `line` and `column` count from 1; `offset` from 0, in characters."""

    def __init__(self, message: str, line: int, column: int, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.offset = offset


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    offset: int


_OPEN: Final = re.compile(r"\{\{(?:-(?=\s))?")
_COMMENT: Final = re.compile(r"\s*/\*.*?\*/(?:\s+(-)|\s*)\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""
    (?P<close>\s+-\}\}|\}\})
    |(?P<space>\s+)
    |(?P<string>"(?:\\.|[^"\\\n])*"|`[^`]*`)
    |(?P<char>'(?:\\[^\n]+?|[^'\\\n])')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))
    |(?P<declare>:=)|(?P<assign>=)|(?P<pipe>\|)|(?P<comma>,)|(?P<open>\()|(?P<shut>\))
    |(?P<field>\.[^\W\d]\w*)
    |(?P<dot>\.)
    |(?P<variable>\$\w*)
    |(?P<word>[^\W\d]\w*)
    """,
    re.VERBOSE,
)


def error_at(text: str, message: str, offset: int) -> TemplateError:
    before = text[:offset]
    return TemplateError(message, before.count("\n") + 1, offset - before.rfind("\n"), offset)


def scan(text: str) -> list[Token]:
    """All tokens of `text`; those of an action stand between `begin` and `close`. Raises TemplateError."""
    if len(text) > MAX_TEXT:
        raise error_at(text, f"template longer than {MAX_TEXT} characters", 0)
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.tokens


class _Scanner:
    def __init__(self, text: str) -> None:
        self.tokens: list[Token] = []
        self._text = text

    def scan(self) -> None:
        at, trim = 0, False
        while True:
            found = _OPEN.search(self._text, at)
            literal = self._text[at : found.start() if found else len(self._text)]
            if trim:
                literal = literal.lstrip(" \t\r\n")
            if found and found[0].endswith("-"):
                literal = literal.rstrip(" \t\r\n")
            if literal:
                self.tokens.append(Token("text", literal, at))
            if found is None:
                return
            comment = _COMMENT.match(self._text, found.end())
            if comment:
                at, trim = comment.end(), comment[1] is not None
            else:
                at, trim = self._scan_action(found.start(), found.end())

    def _scan_action(self, start: int, at: int) -> tuple[int, bool]:
        self.tokens.append(Token("begin", "{{", start))
        while found := _TOKEN.match(self._text, at):
            kind = str(found.lastgroup)
            self.tokens.append(Token(kind, found[0], at))
            at = found.end()
            if kind == "close":
                return at, "-" in found[0]
        if at >= len(self._text):
            raise error_at(self._text, "action that begins here is not closed; write }}", start)
        character = self._text[at]
        if character in "\"'`":
            raise error_at(self._text, "string is not closed", at)
        raise error_at(self._text, f"unexpected {character!r} in an action", at)
