"""The shape of a page that is the same each time but for its numbers, and the quickest way to read them.

Every byte of the page is still compared: what is not a number must be exactly what it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from healer.model.series import Floats

_PLAIN: Final = b"0123456789.+-eENaInf\n"
"""In numbers of these characters only, Python and Prometheus differ in nothing but a signed NaN."""
_SIGNED_NAN: Final = (b"+N", b"-N", b"+n", b"-n")


def floats(numbers: Sequence[bytes]) -> Floats | None:
    """All of `numbers`, or None when one of them is not, or perhaps not, written as Prometheus writes it."""
    text = b"\n".join(numbers)
    if text.translate(None, _PLAIN) or any(sign in text for sign in _SIGNED_NAN):
        return None
    try:
        return np.array(list(map(float, numbers)), dtype=np.float64)
    except ValueError:
        return None


class Layout:
    """What stands before the number in each line; the whole line where there is none."""

    def __init__(self, lines: Sequence[bytes], series: Sequence[bytes]) -> None:
        """`series`: those of the samples' lines, in order; the other lines are comments or empty."""
        left: Iterator[bytes] = iter(series)
        self._is_sample = [bool(line) and line[:1] != b"#" for line in lines]
        self._is_other = [not sample for sample in self._is_sample]
        self._prefixes = [
            next(left) + b" " if sample else line for line, sample in zip(lines, self._is_sample, strict=True)
        ]
        self._fixed_bytes = sum(map(len, self._prefixes)) + len(lines) - 1

    def read(self, body: bytes) -> Floats | None:
        """The numbers of a page of this layout; None for any other page."""
        lines = body.split(b"\n")
        if len(lines) != len(self._prefixes):
            return None
        rests = list(map(bytes.removeprefix, lines, self._prefixes))
        # A prefix that does not match is left where it is, and then the rests are longer than they should be.
        if sum(map(len, rests)) != len(body) - self._fixed_bytes:
            return None
        if any(itertools.compress(rests, self._is_other)):
            return None
        return floats(list(itertools.compress(rests, self._is_sample)))
