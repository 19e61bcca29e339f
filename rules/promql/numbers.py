"""Numbers as Go writes them."""

from __future__ import annotations

import decimal
import math


def format_value(value: float) -> str:
    """As Prometheus prints a sample: the shortest form that reads back, without an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(decimal.Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
