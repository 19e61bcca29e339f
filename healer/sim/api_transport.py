"""Carries requests straight into a simulated API server, without sockets: the same in every run on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator

from healer.errors import SourceError, Unreachable
from healer.kube.transport import Request, Response, Stream
from healer.sim import api_routes
from healer.sim.api import Api
from healer.sim.api_faults import ConnectionLost, ConnectionRefused


class SimTransport:
    """`healer.kube.transport.Transport` into one `Api`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def request(self, request: Request, *, timeout_seconds: float) -> Response:
        with _errors(request):
            async with asyncio.timeout(timeout_seconds):
                return await self._api.handle(request)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, *, connect_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        with _errors(request):
            async with asyncio.timeout(connect_seconds):
                stream = await self._open(request)
        async with contextlib.aclosing(_lines(request, stream, idle_seconds)) as lines:
            yield Stream(status=stream.status, headers=stream.headers, lines=lines)

    async def close(self) -> None:
        """Nothing is held."""

    async def _open(self, request: Request) -> Stream:
        if api_routes.is_watch(request):
            return await self._api.watch(request)
        response = await self._api.handle(request)
        return Stream(status=response.status, headers=response.headers, lines=_split(response.body))


async def _lines(request: Request, stream: Stream, idle_seconds: float) -> AsyncGenerator[bytes, None]:
    lines = stream.lines
    try:
        while True:
            with _errors(request):
                try:
                    async with asyncio.timeout(idle_seconds):
                        line = await anext(lines)
                except StopAsyncIteration:
                    return
            yield line
    finally:
        if isinstance(lines, AsyncGenerator):
            await lines.aclose()


async def _split(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines():
        yield line


@contextlib.contextmanager
def _errors(request: Request) -> Iterator[None]:
    try:
        yield
    except ConnectionRefused as error:
        raise Unreachable(f"{request.method} {request.path}: {error}") from error
    except ConnectionLost as error:
        raise SourceError(f"{request.method} {request.path}: {error}") from error
