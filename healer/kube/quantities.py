"""Kubernetes quantities (`250m`, `1Gi`, `1e3`) as whole numbers, rounded up as Kubernetes does."""

from __future__ import annotations

import functools
import math
import re  # noqa: TID251 — one fixed pattern of ours
from fractions import Fraction
from typing import Final

_FORM: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@functools.lru_cache(maxsize=4096)
def _exactly(text: str) -> Fraction:
    found = _FORM.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a Kubernetes quantity")
    digits, exponent, suffix = found.groups()
    if exponent:
        return Fraction(digits) * Fraction(10) ** int(exponent[1:])
    return Fraction(digits) * _SUFFIXES.get(suffix, Fraction(1))


def whole(quantity: str | float) -> int:
    """Bytes, or a count. ValueError for what is not a quantity."""
    return math.ceil(_exactly(str(quantity)))


def millicores(quantity: str | float) -> int:
    """Thousandths of a CPU. ValueError for what is not a quantity."""
    return math.ceil(_exactly(str(quantity)) * 1000)
