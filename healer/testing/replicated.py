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
from healer.errors import JournalError
from healer.model.events import AnyEvent, Recorded
from healer.ports import SharedJournal
from healer.testing.journals import MemoryJournal
from healer.testing.lines import Line
from healer.testing.scenario import CLUSTER, Scenario, memory_store

JOURNAL: Final = "journal: {postgres: {url: 'postgresql://healer@not.asked/'}}\n"


class Way:
    """One replica's way to the journal, which may be `away`. Implements `ports.SharedJournal`."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal
        self.away = False

    async def append(self, events: Sequence[AnyEvent], *, term: int = 0) -> Sequence[Recorded]:
        self._check("writing to")
        return await self._journal.append(events, term=term)

    async def lead(self, term: int) -> None:
        self._check("writing to")
        await self._journal.lead(term)

    async def term(self) -> int:
        self._check("reading")
        return await self._journal.term()

    async def read(self, *, after: int = 0, incident: str = "") -> AsyncIterator[Recorded]:
        self._check("reading")
        async for recorded in self._journal.read(after=after, incident=incident):
            yield recorded

    async def close(self) -> None:
        """Another may still use it."""

    def _check(self, doing: str) -> None:
        if self.away:
            raise JournalError(f"{doing} the journal: the test says that it is away")


@dataclasses.dataclass(slots=True)
class Replica:
    """One of them at work. `line` leads to the first cluster, `way` to the journal."""

    service: Service
    task: asyncio.Task[None]
    line: Line
    way: Way

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
        line, way = Line(self.api), Way(self.journal)
        task = asyncio.get_running_loop().create_task(self._replica(line, way, started), name=f"healer {name}")
        waited: list[asyncio.Future[Any]] = [task, started]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return Replica(started.result(), task, line, way)

    async def _replica(self, line: Line, way: Way, started: asyncio.Future[Service]) -> None:
        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[SharedJournal]:
            yield way

        adapters = Adapters(
            clock=self.clock,
            transport=lambda cluster: line if cluster.name == CLUSTER else Line(self._api_of(cluster.name)),
            shared_journal=opened,
            store=memory_store(self.clock),
            providers={"simulated": self.provider},
            notifiers=self._notifiers,
            serve=False,
        )
        async with assembled(self.prepared(), adapters) as service:
            started.set_result(service)
            await service.run(asyncio.Event())

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
