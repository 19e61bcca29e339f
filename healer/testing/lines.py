"""One replica's way to an API server, for tests in virtual time: it can hang, be slow, and lose answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from healer.errors import SourceError
from healer.kube.transport import Request, Response, Stream
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport


class Line:
    """`healer.kube.transport.Transport` into `api`. What is asked while it hangs never arrives."""

    def __init__(self, api: Api) -> None:
        self._direct = SimTransport(api)
        self.latency_seconds = 0.0
        self.loses_answers = False
        """Changes are made, and nobody hears of it."""
        self._cut = asyncio.Event()

    @property
    def hangs(self) -> bool:
        return self._cut.is_set()

    def hang(self, *, on: bool = True) -> None:
        if on:
            self._cut.set()
        else:
            self._cut = asyncio.Event()

    async def request(self, request: Request, *, timeout_seconds: float) -> Response:
        async with asyncio.timeout(timeout_seconds):
            await asyncio.sleep(self.latency_seconds)
            await self._pass()
            answer = await self._direct.request(request, timeout_seconds=timeout_seconds)
            await self._pass()
            if self.loses_answers and request.method != "GET":
                raise SourceError("the connection broke")
            return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, *, connect_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        async with asyncio.timeout(connect_seconds):
            await self._pass()
        async with self._direct.stream(request, connect_seconds=connect_seconds, idle_seconds=idle_seconds) as stream:
            yield Stream(status=stream.status, headers=stream.headers, lines=self._lines(stream))

    async def _lines(self, stream: Stream) -> AsyncIterator[bytes]:
        async for line in stream.lines:
            await self._pass()
            yield line

    async def _pass(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is held."""
