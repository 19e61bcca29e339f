"""What is wrong with an expression's text, and where."""

from __future__ import annotations

from healer.errors import QueryError


class ParseError(QueryError):
    """Text that is not PromQL. `start` and `end` are byte offsets in UTF-8; line and column (in bytes) count from 1."""

    def __init__(self, text: str, start: int, end: int, reason: str) -> None:
        self.start = start
        self.end = max(start, end)
        self.reason = reason
        self.line, self.column = position(text, start)
        super().__init__(f"{self.line}:{self.column}: parse error: {reason}")


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of the byte `offset` of `text`."""
    before = text.encode("utf-8", "surrogatepass")[:offset]
    line_start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before) - line_start + 1
