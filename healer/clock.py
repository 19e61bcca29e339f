"""The only module that asks what time it is.

Wall time is for people and records; monotonic time is for durations, leases and cooldowns, so that a step of the wall
clock moves none of them. Both come from the running event loop where there is one that keeps its own time
(`healer.sim.time`): a test can then live through a day in a second, and a demo can run ten times as fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is."""

    def now(self) -> datetime:
        """Wall time, aware, UTC. May step, forwards or backwards."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. The same scale as `asyncio.sleep`."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class LoopClock:
    """Wall and monotonic time of an event loop that keeps its own; `wall_offset_seconds` lets a test step the wall."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, epoch: datetime) -> None:
        self._loop = loop
        self._start = loop.time()
        self._epoch_seconds = epoch.timestamp()
        self.wall_offset_seconds = 0.0

    def now(self) -> datetime:
        elapsed = self._loop.time() - self._start
        return datetime.fromtimestamp(self._epoch_seconds + elapsed + self.wall_offset_seconds, UTC)

    def monotonic(self) -> float:
        return self._loop.time()


def milliseconds(at: datetime) -> int:
    """Milliseconds since the Unix epoch, the time of samples."""
    return round(at.timestamp() * 1000)


@contextlib.contextmanager
def external_work() -> Iterator[None]:
    """Say that the caller now waits for something outside this event loop: a thread, a disk, another process.

    A loop with virtual time does not jump ahead meanwhile. On an ordinary loop it does nothing.
    """
    loop = asyncio.get_running_loop()
    busy = getattr(loop, "external_work_began", None)
    if busy is None:
        yield
        return
    busy()
    try:
        yield
    finally:
        loop.external_work_ended()  # type: ignore[attr-defined]
