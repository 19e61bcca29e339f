"""A scenario with several replicas of Healer over one journal.

with Replicated(REMEDIES) as s:
    s.alert({"alertname": "NodeBad", "node": "node-a1"})
    s.kill_at(ev.CallIntended)      # the one that leads; the other goes on
    s.run_for("10s")
    s.expect_closed("NodeBad", Reason.FIXED)
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Self

from healer.app import Adapters, Service, assembled
from healer.ports import SharedJournal
from healer.testing.lines import Line
from healer.testing.scenario import CLUSTER, Scenario, memory_store

JOURNAL: Final = "journal: {postgres: {url: 'postgresql://healer@not.asked/'}}\n"


@dataclasses.dataclass(slots=True)
class Replica:
    """One of them at work. `line` leads to the first cluster."""

    service: Service
    task: asyncio.Task[None]
    line: Line

    @property
    def leads(self) -> bool:
        return self.service.recorder.leading()


class Replicated(Scenario):
    """As Scenario. `start` starts all that do not run, `kill` kills the one that leads; `others` are the standbys."""

    def __init__(self, config: str = "", *, names: Sequence[str] = ("one", "two"), **more: Any) -> None:
        super().__init__(JOURNAL + config, apart=True, **more)
        self.names = tuple(names)
        self.replicas: dict[str, Replica] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        self.start()
        self.run_until(lambda: self.leader, within=10)
        return self

    @property
    def leader(self) -> str:
        """The name of the one that leads; empty while nobody does."""
        leading = [name for name, replica in self.replicas.items() if replica.leads]
        assert len(leading) <= 1, f"{leading} lead at once"
        return leading[0] if leading else ""

    @property
    def others(self) -> list[str]:
        return [name for name in self.replicas if name != self.leader]

    @property
    def service(self) -> Service:
        """The leader's; of whoever is there while nobody leads."""
        return self.replicas[self.leader or next(iter(self.replicas))].service

    def through(self, name: str) -> Service:
        """That replica's."""
        return self.replicas[name].service

    def kill(self) -> None:
        """End the leader at once, or whoever is left."""
        if self.replicas:
            self.kill_one(self.leader or next(iter(self.replicas)))

    def kill_one(self, name: str) -> None:
        self._runner.run(self._end_one(self.replicas.pop(name)))

    def take(self, name: str, **labels: str) -> None:
        """Let Alertmanager send an alert to that replica."""
        whole, self.replicas = self.replicas, {name: self.replicas[name]}
        try:
            self.alert(labels)
        finally:
            self.replicas = whole

    async def _start(self) -> None:
        for name in self.names:
            if name not in self.replicas:
                self.replicas[name] = await self._started(name)
        self._tasks = [replica.task for replica in self.replicas.values()]
        self._service = next(iter(self.replicas.values())).service
        for replica in self.replicas.values():
            for caches in replica.service.caches.values():
                await caches.synced()

    async def _started(self, name: str) -> Replica:
        started: asyncio.Future[Service] = asyncio.get_running_loop().create_future()
        line = Line(self.api)
        task = asyncio.get_running_loop().create_task(self._replica(line, started), name=f"healer {name}")
        waited: list[asyncio.Future[Any]] = [task, started]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return Replica(started.result(), task, line)

    async def _replica(self, line: Line, started: asyncio.Future[Service]) -> None:
        adapters = Adapters(
            clock=self.clock,
            transport=lambda cluster: line if cluster.name == CLUSTER else Line(self._api_of(cluster.name)),
            shared_journal=self._shared_journal,
            store=memory_store(self.clock),
            providers={"simulated": self.provider},
            notifiers=self._notifiers,
            serve=False,
        )
        async with assembled(self.prepared(), adapters) as service:
            started.set_result(service)
            await service.run(asyncio.Event())

    @contextlib.asynccontextmanager
    async def _shared_journal(self) -> AsyncIterator[SharedJournal]:
        yield self.journal

    async def _end_one(self, replica: Replica) -> None:
        self._tasks = [task for task in self._tasks if task is not replica.task]
        replica.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await replica.task
        if not self.replicas:
            self._service = None

    async def _end(self) -> None:
        while self.replicas:
            await self._end_one(self.replicas.popitem()[1])
