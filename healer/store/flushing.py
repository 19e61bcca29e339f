"""Brings what was written onto the disk about once a second, in a thread, while the event loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from healer import clock as clocks
from healer.store.log import SegmentLog, flush

EVERY_SECONDS: Final = 1.0


class Flusher:
    """Flushes a second after the first write that was not flushed yet; an idle store wakes nobody."""

    def __init__(self, segments: SegmentLog) -> None:
        self._segments = segments
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Future[None] | None = None
        self._again = False

    def written(self) -> None:
        """Something was written."""
        if self._work is not None:
            self._again = True
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_SECONDS, self._begin)

    async def aclose(self) -> None:
        """Wait for the thread."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._again = False
        if self._work is not None:
            await self._work

    def _begin(self) -> None:
        self._timer = None
        outside = contextlib.ExitStack()
        outside.enter_context(clocks.external_work())
        loop = asyncio.get_running_loop()
        self._work = loop.run_in_executor(None, flush, self._segments.take_unflushed())
        self._work.add_done_callback(lambda _: outside.close())
        self._work.add_done_callback(self._end)

    def _end(self, _: asyncio.Future[None]) -> None:
        self._work = None
        if self._again:
            self._again = False
            self.written()
