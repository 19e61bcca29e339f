"""How long ago, in the short form of kubectl: 45s, 3m20s, 5h, 2d4h."""

from __future__ import annotations

from datetime import datetime

from healer.sim import objects
from healer.sim.objects import JSON


def age(obj: JSON, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(stamp: str | None, now: datetime) -> str:
    if not stamp:
        return "<unknown>"
    return short((now - objects.parse_stamp(stamp)).total_seconds())


def short(seconds: float) -> str:
    """apimachinery's HumanDuration."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d" if days < 8 * 365 and days % 365 else f"{days // 365}y"
