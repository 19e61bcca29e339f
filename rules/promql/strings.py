"""Strings as Go writes and reads them: escapes of bytes and of code points.

A byte that is not UTF-8 is kept as a lone surrogate (Python's surrogateescape), so that nothing gets lost.
"""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns, linear in the input)
from typing import Final

_SIMPLE: Final = {
    "a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v", "\\": b"\\", "'": b"'", '"': b'"',
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<octal>[0-7]{3})|x(?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<one>.))",
    re.DOTALL,
)
_SURROGATES: Final = range(0xD800, 0xE000)
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*")
_TO_ESCAPE: Final = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}


def unquote(token: str) -> str:
    """The value of a quoted string. ValueError says which escape is wrong."""
    mark, body = token[0], token[1:-1]
    if mark == "`":
        return body.replace("\r", "")
    if "\\" not in body:
        return body
    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[end : found.start()].encode("utf-8", "surrogateescape"))
        parts.append(_unescape(found, mark))
        end = found.end()
    parts.append(body[end:].encode("utf-8", "surrogateescape"))
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _unescape(found: re.Match[str], mark: str) -> bytes:
    if (octal := found["octal"]) is not None:
        if int(octal, 8) > 0xFF:
            raise ValueError(f"octal escape above 255: {found[0]!r}")
        return bytes([int(octal, 8)])
    if found["hex"] is not None:
        return bytes([int(found["hex"], 16)])
    if (digits := found["short"] or found["long"]) is not None:
        point = int(digits, 16)
        if point > 0x10FFFF or point in _SURROGATES:
            raise ValueError(f"escape is not a Unicode code point: {found[0]!r}")
        return chr(point).encode()
    other_mark = "'" if mark == '"' else '"'
    if found["one"] not in _SIMPLE or found["one"] == other_mark:
        raise ValueError(f"unknown escape sequence {found[0]!r}")
    return _SIMPLE[found["one"]]


def is_utf8(text: str) -> bool:
    """Whether `text` came from valid UTF-8, i.e. holds no kept bytes."""
    return text.isascii() or not any(ord(char) in _SURROGATES for char in text)


def quote(text: str) -> str:
    """`text` between double quotes, as Go's strconv.Quote writes it."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char in _TO_ESCAPE:
        return _TO_ESCAPE[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
