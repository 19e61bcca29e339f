"""The clusters of a scenario: how they live, and what was asked of those beside the first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from healer.clock import LoopClock
from healer.sim.api import Api, RequestRecord
from healer.sim.api_faults import ApiFaults
from healer.sim.driver import drive
from healer.sim.world import World


class Beside:
    """A further cluster: its world, its API with the record of what was asked of it, and that API's troubles."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.api_faults = ApiFaults()
        self.api = Api(world.storage, now=lambda: world.now, faults=self.api_faults)

    def cordons(self) -> list[RequestRecord]:
        """Requests that cordoned nodes of this cluster."""
        return [record for record in self.api.asked("PATCH", "/nodes/") if b'"unschedulable":true' in record.body]


class Steady:
    """The time of everybody else: a step of Healer's wall clock stops no kubelet, and no Alertmanager."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now() - timedelta(seconds=self._clock.wall_offset_seconds)

    def monotonic(self) -> float:
        return self._clock.monotonic()


async def driven(worlds: Sequence[World], clock: Steady) -> None:
    """Let all of these worlds live, for ever."""
    async with asyncio.TaskGroup() as group:
        for world in worlds:
            group.create_task(drive(world, clock))


async def joined(task: asyncio.Task[Any]) -> None:
    """Until a cancelled task has ended."""
    with contextlib.suppress(asyncio.CancelledError):
        await task
