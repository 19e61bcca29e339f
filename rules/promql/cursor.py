"""A place in the tokens of a text, and the errors that name it."""

from __future__ import annotations

from typing import Final

from healer.rules.promql import tree
from healer.rules.promql.errors import ParseError
from healer.rules.promql.lexer import Kind, Token, tokens

DEEPEST_NESTING: Final = 100
"""Levels of parentheses, calls and signs; each costs the parser up to six frames of Python's stack (of 1,000)."""
TALLEST_TREE: Final = 200
"""Levels of the tree; each costs the walkers two frames of Python's stack (of 1,000)."""


class Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next token; raises when it is one that could not be read."""
        token = self.tokens[self.index]
        if token.kind is Kind.ERROR:
            raise ParseError(self.text, token.start, token.end, token.text)
        return token

    @property
    def last_end(self) -> int:
        return self.tokens[self.index - 1].end

    def take(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self.index += 1
        return token

    def at(self, *operators: str) -> bool:
        return self.token.kind is Kind.OPERATOR and self.token.text in operators

    def at_word(self, *words: str) -> bool:
        return self.token.kind is Kind.IDENTIFIER and self.token.text.lower() in words

    def followed_by(self, operator: str) -> bool:
        """Whether `operator` comes after the next token."""
        after = self.tokens[min(self.index + 1, len(self.tokens) - 1)]
        return after.kind is Kind.OPERATOR and after.text == operator

    def binary_operator(self) -> str:
        token = self.token
        if token.kind is Kind.OPERATOR:
            return token.text if token.text in tree.POWERS else ""
        word = token.text.lower()
        return word if token.kind is Kind.IDENTIFIER and word in tree.POWERS else ""

    def expect(self, operator: str, where: str, expected: str = "") -> Token:
        if not self.at(operator):
            raise self.unexpected(where, expected or f'"{operator}"')
        return self.take()

    def unexpected(self, where: str, expected: str = "") -> ParseError:
        token = self.token
        reason = f"unexpected {token}" + (f" in {where}" if where else "")
        return ParseError(self.text, token.start, token.end, reason + (f", expected {expected}" if expected else ""))

    def wrong(self, node: tree.Node | Token, reason: str) -> ParseError:
        return ParseError(self.text, node.start, node.end, reason)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            token = self.tokens[self.index]
            reason = f"expression is nested more than {DEEPEST_NESTING} levels deep"
            raise ParseError(self.text, token.start, token.end, reason)

    def limit_height(self, expr: tree.Expr) -> None:
        """Long chains such as `a or b or c …` nest too, to the left, without nesting in the text."""
        level: list[tree.Expr] = [expr]
        for _ in range(TALLEST_TREE):
            level = [child for node in level for child in tree.children(node)]
            if not level:
                return
        reason = f"expression has a chain or nesting of more than {TALLEST_TREE} levels; put parentheses around parts"
        raise self.wrong(level[0], reason)
