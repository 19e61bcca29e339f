"""Keeps the process from standing still: whoever waits for an answer waits for the slowest moment.

Python's collector of reference cycles looks through every object there is when many new ones have survived: a tenth of a
second in a busy hour, in the middle of whatever is going on. Hardly anything of ours lies in cycles, so it is called for
that in quiet moments instead. Young objects are collected as ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Final

YOUNG: Final = 2_000
"""Objects made, less those freed, before the young are looked through; a few of these make the middle-aged."""
MIDDLE: Final = 5
NEVER: Final = 1_000_000
LOOK_SECONDS: Final = 60.0
QUIET_AFTER_SECONDS: Final = 600.0
LATEST_SECONDS: Final = 3600.0
SWITCH_SECONDS: Final = 0.0005
"""How soon a thread that waits for the interpreter gets it: the journal's thread would wait for 5 ms each time it was on the disk."""


@contextlib.contextmanager
def steady() -> Iterator[None]:
    """Settings of the interpreter while the service runs; as they were afterwards."""
    thresholds, switch = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch)


async def collect_when_quiet(progress: Callable[[], int]) -> None:
    """Look through everything when nothing has happened for a while, or when that has been put off for long. Never ends.

    `progress` is some number that grows with the work done.
    """
    clock = asyncio.get_running_loop()
    last, before = clock.time(), progress()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now, done = clock.time(), progress()
        wait = QUIET_AFTER_SECONDS if done == before else LATEST_SECONDS
        before = done
        if now - last >= wait:
            gc.collect()
            last = now
