"""A scripted API server in place of a transport: what it answers, in order, and what it was asked."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from healer.kube.transport import Request, Response, Stream

JSON = dict[str, Any]


@dataclasses.dataclass(slots=True)
class Lines:
    """What a watch sends: objects one after the other; then it ends, breaks with an error, or stays silent."""

    events: list[JSON | bytes]
    error: Exception | None = None
    status: int = 200
    stays: bool = False


class ScriptedServer:
    """Gives the scripted answers of a (method, path) in order; the last one stays. A plain request without any is a 404."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.live: dict[str, asyncio.Queue[JSON | Exception | None]] = {}
        self._answers: dict[tuple[str, str], collections.deque[Response | Exception]] = collections.defaultdict(
            collections.deque
        )
        self._watches: dict[str, collections.deque[Lines]] = collections.defaultdict(collections.deque)

    def answers(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        error: Exception | None = None,
    ) -> None:
        encoded = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        self._answers[method, path].append(error or Response(status=status, headers=headers or {}, body=encoded))

    def lists(self, path: str, items: list[JSON], *, version: str, more: str = "") -> None:
        metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
        self.answers("GET", path, {"metadata": metadata, "items": items})

    def watches(self, path: str, lines: Lines) -> None:
        self._watches[path].append(lines)

    async def request(self, request: Request, *, timeout_seconds: float) -> Response:
        assert timeout_seconds > 0
        self.requests.append(request)
        await asyncio.sleep(0)
        scripted = self._answers[request.method, request.path]
        if not scripted:
            return Response(status=404, body=b'{"kind":"Status","message":"nothing was scripted"}')
        answer = scripted.popleft() if len(scripted) > 1 else scripted[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, *, connect_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        assert connect_seconds > 0
        self.requests.append(request)
        scripted = self._watches[request.path]
        lines = scripted.popleft() if scripted else Lines([], stays=True)
        yield Stream(status=lines.status, headers={}, lines=self._lines(lines, request.path, idle_seconds))

    async def _lines(self, lines: Lines, path: str, idle_seconds: float) -> AsyncIterator[bytes]:
        for event in lines.events:
            yield event if isinstance(event, bytes) else json.dumps(event).encode()
        if lines.error:
            raise lines.error
        queue = self.live.setdefault(path, asyncio.Queue())
        while lines.stays:
            async with asyncio.timeout(idle_seconds):
                sent = await queue.get()
            if sent is None:
                return
            if isinstance(sent, Exception):
                raise sent
            yield json.dumps(sent).encode()

    async def close(self) -> None:
        """Nothing to let go of."""

    def sends(self, path: str, event: JSON | Exception | None) -> None:
        """Over the watch that stays: an event, a failure, or its end."""
        self.live.setdefault(path, asyncio.Queue()).put_nowait(event)

    def asked(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def script_lines() -> Callable[..., Lines]:
    return Lines
