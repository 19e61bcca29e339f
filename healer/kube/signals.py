"""Waiting for "something has changed": no queue, nothing to miss for those who look first and then wait."""

from __future__ import annotations

import asyncio


class Signal:
    """Wakes everybody who waits, each time it is given."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def give(self) -> None:
        given, self._next = self._next, asyncio.Event()
        given.set()

    async def wait(self, within_seconds: float) -> bool:
        """Until it is given the next time; False when that did not happen in time."""
        waited_for = self._next
        try:
            async with asyncio.timeout(within_seconds):
                await waited_for.wait()
        except TimeoutError:
            return waited_for.is_set()
        return True
