"""Pods as a machine knows them, and why their containers die."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime

from healer.sim.objects import JSON, Key


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Containers that fit die again and again, `after_seconds` after each start."""

    fits: Callable[[JSON], bool]
    after_seconds: float = 2.0
    reason: str = "Error"
    exit_code: int = 1


@dataclasses.dataclass(slots=True, kw_only=True)
class Sandbox:
    """One pod as the machine knows it."""

    uid: str
    key: Key
    created_at: datetime
    started_at: datetime | None = None
    ready: bool = False
    restarts: int = 0
    crashes_in_row: int = 0
    stopping: bool = False
    waits_for_volumes: bool = False
    run: int = 0
    """Counts the starts, so that a timer of an earlier life does nothing."""
