"""Changes to whoever watches: made and encoded once, however many watch; a slow reader misses versions, never the newest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from healer.ports import Operator
from healer.web import shapes

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 1.0
SNAPSHOT_INCIDENTS: Final = 200
CLIENTS_LIMIT: Final = 500


class Client:
    """One reader. What it has not read yet is replaced by what is newer, so that it holds one version of each thing."""

    def __init__(self) -> None:
        self._waiting: dict[str, bytes] = {}
        self._wake = asyncio.Event()
        self._over = False

    def put(self, key: str, data: bytes) -> None:
        self._waiting.pop(key, None)
        self._waiting[key] = data
        self._wake.set()

    def end(self) -> None:
        self._over = True
        self._wake.set()

    async def next(self) -> bytes:
        """Everything that waits, at least one thing; empty when it is over."""
        await self._wake.wait()
        self._wake.clear()
        if self._over:
            return b""
        data = b"".join(self._waiting.values())
        self._waiting.clear()
        return data


class Hub:
    """Run `work`. `status` gives what is shown besides incidents; its `now` alone is no change."""

    def __init__(self, operator: Operator, status: Callable[[], Mapping[str, Any]]) -> None:
        self.clients: set[Client] = set()
        self._operator = operator
        self._status = status
        self._watching = asyncio.Event()
        self._someone = asyncio.Event()
        self._snapshot = b""
        self._told = b""

    @property
    def full(self) -> bool:
        return len(self.clients) >= CLIENTS_LIMIT

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A reader that begins with everything as it is now and misses nothing after that."""
        client = Client()
        self.clients.add(client)
        self._someone.set()
        try:
            await self._watching.wait()
            client.put("snapshot", self._whole())
            yield client
        finally:
            self.clients.discard(client)

    def _whole(self) -> bytes:
        """Shared by all who come within the same second or so, e.g. after a restart."""
        if not self._snapshot:
            incidents = self._operator.incidents()[:SNAPSHOT_INCIDENTS]
            self._snapshot = shapes.event("status", self._status()) + shapes.event(
                "incidents", [shapes.brief(view) for view in incidents]
            )
        return self._snapshot

    async def work(self) -> None:
        """Never ends of itself. What cannot be shown must not end the service: it is logged and tried again."""
        while True:
            await self._someone.wait()
            try:
                await self._watch()
            except Exception:
                log.exception("showing what happens to whoever watches; their connections are ended")
                self.end()
            finally:
                self._watching.clear()
            await asyncio.sleep(AGAIN_SECONDS if self.clients else 0)

    async def _watch(self) -> None:
        """While somebody is there."""
        async with self._operator.watch() as changes, asyncio.TaskGroup() as group:
            pumping = group.create_task(self._pump(changes), name="console changes")
            self._snapshot = self._told = b""
            self._watching.set()
            while self.clients:
                await asyncio.sleep(TICK_SECONDS)
                self._tick()
            self._someone.clear()
            self._watching.clear()
            pumping.cancel()

    async def _pump(self, changes: AsyncIterator[Any]) -> None:
        async for view in changes:
            self._snapshot = b""
            self._put(f"incident {view.id}", shapes.event("incident", shapes.whole(view)))

    def _tick(self) -> None:
        """The status when it has changed, else only the time: it also shows that the line still stands."""
        self._snapshot = b""
        status = dict(self._status())
        now = status.get("now")
        data = shapes.event("status", status)
        told = shapes.event("status", status | {"now": None})
        if told != self._told:
            self._told = told
            self._put("status", data)
        else:
            self._put("tick", shapes.event("tick", {"now": now}))

    def _put(self, key: str, data: bytes) -> None:
        for client in self.clients:
            client.put(key, data)

    def end(self) -> None:
        """End every reader's connection; a browser comes back by itself."""
        for client in self.clients:
            client.end()


HUB: web.AppKey[Hub] = web.AppKey("hub", Hub)


def attach(app: web.Application, hub: Hub) -> None:
    """Let `hub` work while `app` is served, and end its readers when the serving ends."""

    async def life(_: web.Application) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(hub.work(), name="console hub")
            yield
            task.cancel()

    async def end(_: web.Application) -> None:
        hub.end()

    app[HUB] = hub
    app.cleanup_ctx.append(life)
    app.on_shutdown.append(end)
