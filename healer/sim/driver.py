"""Moves a world along with a clock, and at once when somebody has written to its API."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from healer.clock import Clock
from healer.sim.world import World


async def drive(world: World, clock: Clock, *, tick_seconds: float = 1.0) -> NoReturn:
    """Step `world` for ever; run it in a task of a TaskGroup, one per world.

    Between two ticks it sleeps, unless the storage changes: then the controllers answer within the same instant.
    """
    written = asyncio.Event()
    unsubscribe = world.storage.subscribe(written.set)
    try:
        while True:
            written.clear()
            world.step(clock.now())
            # What the step itself has written is no news: it has already been answered.
            written.clear()
            try:
                async with asyncio.timeout(tick_seconds):
                    await written.wait()
            except TimeoutError:
                continue
    finally:
        unsubscribe()
