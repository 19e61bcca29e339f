"""How bytes reach an API server: over HTTP (`healer.kube.http`), or straight into a simulated one (`healer.sim`)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. `path` is absolute and unescaped (`/api/v1/nodes/n1`); header names are lower case.

    `check` raises an ActionError when it must not be sent any more; a transport asks it in the last moment. Such a request has a body.
    """

    method: str
    path: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    check: Callable[[], None] | None = dataclasses.field(default=None, repr=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One HTTP answer, read to its end. Header names are lower case."""

    status: int
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer whose lines arrive one by one, each without its line end, until the server ends it."""

    status: int
    headers: Mapping[str, str]
    lines: AsyncIterator[bytes]


class Transport(Protocol):
    """Carries requests to one API server.

    Both methods raise TimeoutError when the bound passes, `healer.errors.Unreachable` when no connection can be made (so
    that nothing was sent), and `healer.errors.SourceError` when it breaks before the answer's end. They never retry, and
    never judge the status.
    """

    async def request(self, request: Request, *, timeout_seconds: float) -> Response:
        """Send and read the whole answer within `timeout_seconds`."""

    def stream(
        self, request: Request, *, connect_seconds: float, idle_seconds: float
    ) -> contextlib.AbstractAsyncContextManager[Stream]:
        """Send, and hand over the answer line by line; `idle_seconds` without a byte is a TimeoutError."""

    async def close(self) -> None:
        """Let go of every connection."""
