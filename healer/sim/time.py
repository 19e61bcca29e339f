"""Event loops that keep their own time: as fast as the work allows (tests), or a multiple of real time (demo).

Everything that sleeps with asyncio follows. What the loop cannot see (threads, disks, other processes) is announced
with `healer.clock.external_work`, and virtual time stands still until it is over. An exchange over a loopback socket
inside one loop needs no announcement: the bytes are there before the next poll.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

GRACE_POLLS: Final = 3
"""How often the sockets are asked once more before virtual time jumps."""
GRACE_SECONDS: Final = 0.0005


class _Selector(selectors.DefaultSelector):
    """Polls for real, and tells the loop how long it would have waited."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self.loop.wait(super().select, timeout)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time jumps to the next timer as soon as there is nothing left to do."""

    def __init__(self) -> None:
        self._now = 0.0
        self._external = 0
        self._selector = _Selector()
        self._selector.loop = self
        super().__init__(self._selector)

    def time(self) -> float:
        return self._now

    def external_work_began(self) -> None:
        self._external += 1

    def external_work_ended(self) -> None:
        self._external -= 1

    def wait(
        self, select: Callable[[float | None], list[tuple[selectors.SelectorKey, int]]], timeout: float | None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Stand in for a poll of up to `timeout` virtual seconds."""
        ready = select(0)
        if ready or timeout == 0:
            return ready
        if self._external or timeout is None:
            return select(None)
        if self._has_sockets():
            for _ in range(GRACE_POLLS):
                ready = select(GRACE_SECONDS)
                if ready:
                    return ready
        self._now += timeout
        return []

    def _has_sockets(self) -> bool:
        """Whether anything but the loop's own pipe could become readable."""
        return len(self._selector.get_map()) > 1


class ScaledTimeLoop(asyncio.SelectorEventLoop):
    """Time runs `speed` times as fast as the machine's."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        selector = _ScaledSelector()
        selector.speed = speed
        super().__init__(selector)

    def time(self) -> float:
        return super().time() * self._speed


class _ScaledSelector(selectors.DefaultSelector):
    speed: float

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout / self.speed if timeout else timeout)


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = VirtualTimeLoop,
) -> T:
    """`asyncio.run` on such a loop."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())
