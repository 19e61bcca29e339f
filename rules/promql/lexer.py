"""Text into tokens. A mistake becomes an error token, so that the parser reports whichever mistake comes first."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import re  # noqa: TID251 (fixed patterns, linear in the input)
from collections.abc import Callable
from typing import Final

from healer.rules.promql.strings import quote


class Kind(enum.Enum):
    IDENTIFIER = "identifier"
    NUMBER = "number"
    DURATION = "duration"
    STRING = "string"
    OPERATOR = "operator"
    END = "end of input"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """`text` as written (for an error: what is wrong); `start` and `end` in bytes."""

    kind: Kind
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        """As an error message names it."""
        if self.kind is Kind.END:
            return "end of input"
        if self.kind is Kind.OPERATOR:
            return quote(self.text) if self.text in _PUNCTUATION else f"<op:{self.text}>"
        if self.kind is Kind.IDENTIFIER and self.text.lower() in KEYWORDS:
            word = self.text.lower()
            return f"<op:{word}>" if word in _WORD_OPERATORS else f"<{word}>"
        shown = self.text if len(self.text) <= 20 else self.text[:20] + "..."
        return f"{self.kind.value} {quote(shown)}"


_PUNCTUATION: Final = frozenset("(){}[],:=@")
_WORD_OPERATORS: Final = frozenset({"and", "or", "unless", "atan2"})
KEYWORDS: Final = _WORD_OPERATORS | {"by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)+")
_DURATION: Final = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+(?![0-9A-Za-z_])")
_HEX: Final = re.compile(r"0[xX]_?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*(?![0-9A-Za-z_])")
_NUMBER: Final = re.compile(
    r"(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_])"
)
_BAD_NUMBER: Final = re.compile(r"[0-9A-Za-z_.]+")
_METRIC: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRING: Final = {
    '"': re.compile(r'"(?:[^"\\\n]|\\[^\n])*"'),
    "'": re.compile(r"'(?:[^'\\\n]|\\[^\n])*'"),
    "`": re.compile(r"`[^`]*`"),
}
_OPERATOR: Final = re.compile(r"==|!=|=~|!~|<=|>=|[-+*/%^<>=@,:(){}\[\]]")
_MATCHING: Final = re.compile(r"=~|!~|!=|=|[,{}]")
_CLOSED_BY: Final = {"(": "parenthesis", "[": "bracket", "{": "brace"}
_OPENED_BY: Final = {")": "(", "]": "[", "}": "{"}


def byte_offsets(text: str) -> Callable[[int], int]:
    """A function from an index into `text` to the same place in its UTF-8 bytes."""
    if text.isascii():
        return lambda index: index
    sizes = (len(char.encode("utf-8", "surrogatepass")) for char in text)
    table = list(itertools.accumulate(sizes, initial=0))
    return table.__getitem__


def tokens(text: str) -> list[Token]:
    """All tokens of `text`, ending with END or with the first ERROR."""
    at_byte = byte_offsets(text)
    found: list[Token] = []
    open_at: list[tuple[str, int]] = []

    def add(kind: Kind, token: str, start: int, end: int) -> None:
        found.append(Token(kind, token, at_byte(start), at_byte(end)))

    index = 0
    while index < len(text):
        if blank := _BLANK.match(text, index):
            index = blank.end()
            continue
        kind, end = _next(text, index, open_at[-1][0] if open_at else "")
        token = text[index:end]
        if kind is Kind.ERROR:
            inside = bool(open_at) and open_at[-1][0] == "{"
            add(kind, _complaint(token, inside_braces=inside), index, end)
            return found
        if kind is Kind.OPERATOR and token in _CLOSED_BY:
            open_at.append((token, index))
        elif kind is Kind.OPERATOR and token in _OPENED_BY:
            opener = _OPENED_BY[token]
            if not open_at or open_at[-1][0] != opener:
                add(Kind.ERROR, f"unexpected right {_CLOSED_BY[opener]} {token!r}", index, end)
                return found
            open_at.pop()
        add(kind, token, index, end)
        index = end
    if open_at:
        opener, start = open_at[-1]
        add(Kind.ERROR, f"unclosed left {_CLOSED_BY[opener]}", start, start + 1)
    else:
        add(Kind.END, "", len(text), len(text))
    return found


def _next(text: str, index: int, inside: str) -> tuple[Kind, int]:
    """Kind and end of the token at `index`; a colon belongs to a name only outside of brackets and braces."""
    char = text[index]
    if char in "0123456789." and inside != "{":
        for kind, pattern in ((Kind.DURATION, _DURATION), (Kind.NUMBER, _HEX), (Kind.NUMBER, _NUMBER)):
            if number := pattern.match(text, index):
                return kind, number.end()
        bad = _BAD_NUMBER.match(text, index)
        return Kind.ERROR, bad.end() if bad else index + 1
    if char in _STRING:
        string = _STRING[char].match(text, index)
        return (Kind.STRING, string.end()) if string else (Kind.ERROR, len(text))
    if name := (_LABEL if inside in ("[", "{") else _METRIC).match(text, index):
        return Kind.IDENTIFIER, name.end()
    if operator := (_MATCHING if inside == "{" else _OPERATOR).match(text, index):
        return Kind.OPERATOR, operator.end()
    return Kind.ERROR, index + 1


def _complaint(text: str, *, inside_braces: bool) -> str:
    if text[0] in _STRING:
        return "unterminated quoted string" if text[0] != "`" else "unterminated raw string"
    if text[0] in "0123456789." and not inside_braces:
        return f"bad number or duration syntax: {quote(text)}"
    return f"unexpected character{' inside braces' if inside_braces else ''}: '{text}'"
