"""Two or more replicas of Healer as its users have them: real processes, a real PostgreSQL, one simulated cluster.

Each replica reaches the API server over a line of its own, which can hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp

from healer.errors import JournalError
from healer.journal import read_journal
from healer.kube.transport import Request, Response
from healer.model.events import Event
from healer.sim.api import Api
from healer.sim.server import kubeconfig
from tests.healers import TOKEN, Running, Simulated, at_work, configured, free_port, simulated, until
from tests.postgres import Postgres


class Line:
    """Forwards a loopback port to another. While it hangs nothing passes, in either direction, on old or new connections.

    What was on its way when it began to hang arrives when that ends, as over a cable that was cut: it lies in the kernel of
    its sender until then, unless that has reset the connection.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._free = asyncio.Event()
        self._free.set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang(on=False)
        if self._server is not None:
            self._server.close()

    def hang(self, *, on: bool = True) -> None:
        if on:
            self._free.clear()
        else:
            self._free.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError, ExceptionGroup):
            await self._free.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                async with asyncio.TaskGroup() as group:
                    ways = [
                        group.create_task(self._copy(reader, back)),
                        group.create_task(self._copy(there, writer)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()
            finally:
                writer.transport.abort()
                back.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._free.wait()
            await asyncio.sleep(0)
            if source.exception() is not None:
                return
            target.write(data)
            await target.drain()


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change that the API server has made, by the replica that asked for it; `at` on the loop's clock, `body` as sent."""

    at: float
    by: str
    method: str
    path: str
    body: Any

    @property
    def is_lease(self) -> bool:
        return "/leases" in self.path


def changes(api: Api) -> list[Change]:
    """From now on, every change that replicas make, in order."""
    made: list[Change] = []
    handle = api.handle

    async def handling(request: Request) -> Response:
        answer = await handle(request)
        if request.method != "GET" and answer.status < 300 and request.query.get("dryRun") is None:
            by = request.headers.get("authorization", "").removeprefix("Bearer ")
            at = asyncio.get_running_loop().time()
            made.append(Change(at, by, request.method, request.path, json.loads(request.body or b"null")))
        return answer

    api.handle = handling  # type: ignore[method-assign]
    return made


def takeover(made: Sequence[Change], after: int = 0) -> tuple[int, str]:
    """Where in `made`, from `after` on, somebody took the lease from somebody else, and who. (-1, "") when nobody did."""
    holder = ""
    for index, change in enumerate(made):
        if change.is_lease:
            found = change.body["spec"].get("holderIdentity")
            if found and holder and change.by != holder and index >= after:
                return index, change.by
            holder = change.by if found else holder
    return -1, ""


@dataclasses.dataclass(slots=True)
class Replicas:
    """`at_work` is by name, in the order of their start. `changes`: what they have made the API server change."""

    folder: Path
    cluster: Simulated
    postgres: Postgres
    url: str
    text: str
    changes: list[Change]
    lines: dict[str, Line] = dataclasses.field(default_factory=dict)
    at_work: dict[str, Running] = dataclasses.field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def started(self, name: str, *, ready: bool = True) -> AsyncIterator[Running]:
        """`healer run` under that name."""
        place, port = self.folder / name, free_port()
        place.mkdir(exist_ok=True)
        async with Line(int(self.cluster.url.rpartition(":")[2])) as line:
            # Nobody asks for the token: it says who has sent a request.
            (place / "kubeconfig").write_text(kubeconfig(line.url, token=name), encoding="utf-8")
            config = configured(place, port, self.text)
            text = config.read_text().replace(
                f"journal: {{path: {place}/data/journal.db}}",
                f"journal: {{postgres: {{url: '{self.url}?application_name={name}'}}}}",
            )
            config.write_text(text, encoding="utf-8")
            async with at_work(config, port, ready=ready) as running:
                self.lines[name], self.at_work[name] = line, running
                try:
                    yield running
                finally:
                    self.lines.pop(name, None)
                    self.at_work.pop(name, None)

    async def leader(self) -> str:
        """The name of who leads by its own word; empty when nobody does."""
        for name, running in list(self.at_work.items()):
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with asyncio.timeout(1):
                    if await running.metric("healer_leader"):
                        return name
        return ""

    async def elected(self, *, but: Sequence[str] = (), within: float = 15.0) -> str:
        async def found() -> str:
            name = await self.leader()
            return "" if name in but else name

        name: str = await until(f"somebody else than {but} leads", found, within=within)
        return name

    async def events(self) -> list[Event]:
        """The journal, whole and well."""
        async with read_journal(self.url) as journal:
            assert (await journal.verify()).ok
            return [recorded.event async for recorded in journal.read()]

    async def count(self, kind: type[Event]) -> int:
        try:
            return sum(isinstance(event, kind) for event in await self.events())
        except JournalError:
            return 0


@contextlib.asynccontextmanager
async def replicas(
    folder: Path, postgres: Postgres, text: str, names: Sequence[str] = ("one", "two"), **world: Any
) -> AsyncIterator[Replicas]:
    """So many replicas of one configuration, ready, one of them elected."""
    async with simulated(folder, **world) as cluster, contextlib.AsyncExitStack() as stack:
        made = Replicas(folder, cluster, postgres, postgres.new_database(), text, changes(cluster.api))
        for name in names:
            await stack.enter_async_context(made.started(name))
        await made.elected()
        yield made


class Stream:
    """Alerts, one after another, each sent to a replica in turn until one has taken it: as Alertmanager does."""

    def __init__(self, found: Replicas, labels: Mapping[str, str], *, every: float) -> None:
        self._found = found
        self._labels = labels
        self._every = every
        self._numbers = itertools.count()
        self.taken: list[str] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Stream]:
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            group.create_task(self._send(stop))
            try:
                yield self
            finally:
                stop.set()

    async def _send(self, stop: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=3)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as sending:
            while not stop.is_set():
                sending.create_task(self._deliver(session, next(self._numbers)))
                await asyncio.sleep(self._every)

    async def _deliver(self, session: aiohttp.ClientSession, number: int) -> None:
        name = f"{number:05d}"
        alert = {
            "status": "firing",
            "labels": {**self._labels, "number": name},
            "startsAt": "2026-01-01T00:00:00Z",
        }
        for attempt in itertools.count(number):
            targets = list(self._found.at_work.values())
            if targets:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    url = f"{targets[attempt % len(targets)].url}/hooks/alertmanager"
                    headers = {"Authorization": f"Bearer {TOKEN}"}
                    async with session.post(url, json={"version": "4", "alerts": [alert]}, headers=headers) as answer:
                        if answer.status == 200:
                            self.taken.append(name)
                            return
            await asyncio.sleep(0.1)
