"""The syntax of Go templates, as far as alert rules use it: text in, a tree out, every mistake with its place.

Not understood, and said so: `define`, `template`, `block`, methods, complex numbers.
"""

from __future__ import annotations

import dataclasses
import re  # noqa: TID251 (fixed patterns, linear in the input)
from collections.abc import Iterator, Sequence
from typing import Final

from healer.rules.template_tokens import TemplateError, Token, error_at, scan

MAX_DEPTH: Final = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None


@dataclasses.dataclass(frozen=True, slots=True)
class Dot:
    fields: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    name: str
    fields: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    pipe: Pipe
    fields: tuple[str, ...]


Operand = Literal | Dot | Variable | Function | Nested


@dataclasses.dataclass(frozen=True, slots=True)
class Pipe:
    """`$a, $b := command | command`; `declares` names the variables, `assigns` tells `=` from `:=`."""

    commands: tuple[tuple[Operand, ...], ...]
    declares: tuple[str, ...] = ()
    assigns: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Print:
    pipe: Pipe


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """`if`, `with` or `range`, by `keyword`."""

    keyword: str
    pipe: Pipe
    body: tuple[Part, ...]
    otherwise: tuple[Part, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    keyword: str


Part = str | Print | Branch | Jump


_UNSUPPORTED: Final = frozenset({"define", "template", "block"})
_BLOCKS: Final = frozenset({"if", "with", "range"})
_CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "nil": None}
_VALUES: Final = frozenset({"string", "char", "number", "dot", "field", "variable", "word", "open"})


def parse(text: str, functions: frozenset[str], variables: frozenset[str]) -> tuple[Part, ...]:
    """The tree of `text`, whose functions must be among `functions`; `variables` (with `$`) exist from the start.

    Raises TemplateError.
    """
    return _Parser(text, functions, sorted(variables)).template()


class _Parser:
    def __init__(self, text: str, functions: frozenset[str], variables: Sequence[str]) -> None:
        self._text = text
        self._functions = functions
        self._scope = list(variables)
        self._tokens: list[Token] = []
        self._next = 0
        self._depth = 0
        self._loops = 0

    def template(self) -> tuple[Part, ...]:
        self._tokens = scan(self._text)
        parts, end = self._parts()
        if end is not None:
            raise self._error(f"unexpected {{{{{end.text}}}}}", end.offset)
        return parts

    # Parsing

    def _error(self, message: str, offset: int) -> TemplateError:
        return error_at(self._text, message, offset)

    def _parts(self) -> tuple[tuple[Part, ...], Token | None]:
        """Everything up to `{{end}}` or `{{else …`, and the word that ended it; its action is left open after `else`."""
        parts: list[Part] = []
        while self._next < len(self._tokens):
            token = self._take()
            if token.kind == "text":
                parts.append(token.text)
                continue
            word = self._peek()
            if word.kind == "word" and word.text in ("end", "else"):
                return tuple(parts), self._take()
            parts.append(self._action(word))
        return tuple(parts), None

    def _action(self, word: Token) -> Part:
        if word.kind == "word" and word.text in _UNSUPPORTED:
            raise self._error(f"{{{{{word.text}}}}} is not supported", word.offset)
        if word.kind == "word" and word.text in _BLOCKS:
            return self._branch(self._take())
        if word.kind == "word" and word.text in ("break", "continue"):
            self._take()
            if not self._loops:
                raise self._error(f"{{{{{word.text}}}}} outside {{{{range}}}}", word.offset)
            self._close()
            return Jump(word.text)
        pipe = self._pipe("action")
        self._close()
        return Print(pipe)

    def _branch(self, word: Token) -> Branch:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", word.offset)
        outer = len(self._scope)
        pipe = self._pipe(word.text, is_range=word.text == "range")
        self._close()
        self._loops += word.text == "range"
        body, end = self._parts()
        self._loops -= word.text == "range"
        otherwise: tuple[Part, ...] = ()
        if end and end.text == "else":
            otherwise, end = self._otherwise(word)
        else:
            self._close_end(word, end)
        del self._scope[outer:]
        self._depth -= 1
        return Branch(word.text, pipe, body, otherwise)

    def _otherwise(self, word: Token) -> tuple[tuple[Part, ...], Token | None]:
        following = self._peek()
        if following.kind == "word" and following.text in ("if", "with"):
            if following.text != word.text:
                raise self._error(f"{{{{else {following.text}}}}} does not fit {{{{{word.text}}}}}", following.offset)
            return (self._branch(self._take()),), None
        self._close()
        otherwise, end = self._parts()
        if end and end.text == "else":
            raise self._error("a second {{else}}", end.offset)
        self._close_end(word, end)
        return otherwise, end

    def _close_end(self, word: Token, end: Token | None) -> None:
        if end is None:
            raise self._error(f"{{{{{word.text}}}}} has no {{{{end}}}}", word.offset)
        self._close()

    def _pipe(self, context: str, *, is_range: bool = False) -> Pipe:
        declares, assigns = self._declaration(is_range=is_range)
        commands: list[tuple[Operand, ...]] = []
        start = self._peek().offset
        while True:
            command = tuple(self._command())
            if not command:
                raise self._error(f"missing value for {context}", self._peek().offset if commands else start)
            if commands and not isinstance(command[0], Function) and len(command) == 1:
                raise self._error("only a function can take what comes through |", self._peek().offset)
            if len(command) > 1 and not isinstance(command[0], Function):
                raise self._error("only a function takes arguments", start)
            commands.append(command)
            if self._peek().kind != "pipe":
                break
            self._take()
        if not assigns:
            self._scope.extend(declares)
        return Pipe(tuple(commands), declares, assigns)

    def _declaration(self, *, is_range: bool) -> tuple[tuple[str, ...], bool]:
        start = self._next
        names: list[Token] = []
        while self._peek().kind == "variable":
            names.append(self._take())
            operator = self._peek().kind
            if operator in ("declare", "assign"):
                self._take()
                self._check_declared(names, assigns=operator == "assign", is_range=is_range)
                return tuple(name.text for name in names), operator == "assign"
            if operator != "comma":
                break
            self._take()
        self._next = start
        return (), False

    def _check_declared(self, names: Sequence[Token], *, assigns: bool, is_range: bool) -> None:
        if len(names) > (2 if is_range else 1):
            raise self._error("too many variables in a declaration", names[-1].offset)
        for name in names:
            if assigns and name.text not in self._scope:
                raise self._undefined(name)

    def _command(self) -> Iterator[Operand]:
        while (token := self._peek()).kind in _VALUES:
            yield self._operand(token)

    def _operand(self, token: Token) -> Operand:
        self._take()
        match token.kind:
            case "string" | "char" | "number":
                return Literal(self._literal(token))
            case "dot":
                return Dot(())
            case "field":
                return Dot((token.text[1:], *self._fields()))
            case "variable":
                if token.text not in self._scope:
                    raise self._undefined(token)
                return Variable(token.text, self._fields())
            case "open":
                return self._nested(token)
            case _:
                return self._word(token)

    def _word(self, token: Token) -> Operand:
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        if token.text not in self._functions:
            raise self._error(f"function {token.text!r} is not known", token.offset)
        return Function(token.text)

    def _nested(self, token: Token) -> Nested:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", token.offset)
        pipe = self._pipe("parenthesized expression")
        if self._peek().kind != "shut":
            raise self._error("parenthesis is not closed; write )", token.offset)
        self._take()
        self._depth -= 1
        return Nested(pipe, self._fields())

    def _fields(self) -> tuple[str, ...]:
        """Fields directly behind a value; after white space they begin a new one."""
        names: list[str] = []
        while self._next < len(self._tokens) and self._tokens[self._next].kind == "field":
            names.append(self._take().text[1:])
        return tuple(names)

    def _undefined(self, token: Token) -> TemplateError:
        return self._error(f"undefined variable {token.text!r}", token.offset)

    def _literal(self, token: Token) -> str | int | float:
        text = token.text
        if text[0] == "`":
            return text[1:-1].replace("\r", "")
        if token.kind == "number":
            follower = self._text[token.offset + len(text) :][:1]
            number = None if follower.isalnum() or follower == "." else _number(text)
            if number is None:
                raise self._error(f"bad number {text + follower!r}", token.offset)
            return number
        value = _unquoted(text)
        if value is None:
            raise self._error(f"bad escape in {text}", token.offset)
        return ord(value) if token.kind == "char" and len(value) == 1 else value

    # Tokens

    def _peek(self) -> Token:
        """The next token that is not white space."""
        at = self._next
        while at < len(self._tokens) and self._tokens[at].kind == "space":
            at += 1
        return self._tokens[at]

    def _take(self) -> Token:
        token = self._tokens[self._next] if self._next < len(self._tokens) else self._tokens[-1]
        if token.kind == "space":
            self._next += 1
            return self._take()
        self._next += 1
        return token

    def _close(self) -> None:
        token = self._take()
        if token.kind != "close":
            raise self._error(f"unexpected {token.text!r} in an action", token.offset)


def _number(text: str) -> int | float | None:
    body = text.lstrip("+-").lower()
    try:
        if body.startswith(("0x", "0b", "0o")):
            return int(text, 0)
        if body.isdigit() and len(body) > 1 and body.startswith("0"):
            return int(text, 8)
        return float(text) if set(body) & set(".e") else int(text)
    except ValueError:
        return None


_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_ESCAPED: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}


def _unquoted(literal: str) -> str | None:
    """What a quoted literal means, or None where an escape is wrong."""
    wrong = False

    def decode(found: re.Match[str]) -> str:
        nonlocal wrong
        code = int(found[1] or found[2] or found[3] or "0", 16) or int(found[4] or "0", 8)
        if found[5] is None and code <= 0x10FFFF and not 0xD800 <= code < 0xE000:
            return chr(code)
        wrong |= found[5] not in _ESCAPED
        return _ESCAPED.get(found[5], "")

    text = _ESCAPE.sub(decode, literal[1:-1])
    return None if wrong else text
