"""A simulated cluster on virtual time, seen through the real client and caches, for actions to work on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from healer.clock import LoopClock
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.model.fencing import FenceProof
from healer.sim import builders
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport
from healer.sim.driver import drive
from healer.sim.provider import SimulatedProvider
from healer.sim.time import run
from healer.sim.world import World
from healer.testing.steps import CrashAt, FakeContext, Memory


@dataclasses.dataclass(slots=True)
class Stage:
    """A world and everything through which an action sees it."""

    world: World
    api: Api
    client: KubeClient
    caches: ClusterCaches
    clock: LoopClock
    memory: Memory = dataclasses.field(default_factory=Memory)
    proof: FenceProof | None = None

    def context(
        self,
        step: str,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        crash: CrashAt | None = None,
        undo: bool = False,
        operation: str = "op-1",
    ) -> FakeContext:
        """For the object of that name as it is now."""
        target = self.caches.state().find(kind, namespace, name)
        assert target is not None
        return self.again(target, step, crash=crash, undo=undo, operation=operation)

    def again(
        self, target: Any, step: str, *, crash: CrashAt | None = None, undo: bool = False, operation: str = "op-1"
    ) -> FakeContext:
        context = FakeContext(
            target,
            kube=self.client,
            state=self.caches.state,
            clock=self.clock,
            changed=self.caches.changed,
            memory=self.memory,
            step=step,
            operation=operation,
            providers={"simulated": SimulatedProvider(self.world)},
            crash=crash,
            undo=undo,
        )
        context.proof = self.proof
        return context

    def node(self, name: str) -> Any:
        return self.world.storage.get("nodes", "", name)

    def asked(self, method: str, path: str) -> list[Any]:
        return self.api.asked(method, path)

    async def until(self, happened: Callable[[], object], within_seconds: float = 600.0) -> float:
        """Wait for it on the virtual clock; how many seconds it took."""
        began = self.clock.monotonic()
        async with asyncio.timeout(within_seconds):
            while not happened():
                await self.caches.changed(0.5)
        return self.clock.monotonic() - began


@contextlib.asynccontextmanager
async def a_stage(world: World) -> AsyncIterator[Stage]:
    clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
    api = Api(world.storage, now=lambda: world.now)
    client = KubeClient(SimTransport(api), cluster="sim", clock=clock)
    caches = ClusterCaches(client, clock)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(drive(world, clock), name="world"),
            group.create_task(caches.run(), name="caches"),
        ]
        await caches.synced()
        try:
            yield Stage(world, api, client, caches, clock)
        finally:
            for task in tasks:
                task.cancel()


@pytest.fixture
def play() -> Callable[..., None]:
    """`play(story, world)`: live through `story(stage)` on virtual time."""

    def play(story: Callable[[Stage], Awaitable[None]], world: World | None = None) -> None:
        async def main() -> None:
            async with a_stage(world or builders.a_world(6, 3, with_apps=False)) as stage:
                await story(stage)

        run(main)

    return play
