"""One request to the API server and its answer: bounds, counting, contact, errors. Knows nothing of kinds."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from healer import telemetry
from healer.clock import Clock
from healer.errors import OutcomeUnknown, Retryable, SourceError, Unreachable
from healer.kube import answers
from healer.kube.contact import Contact
from healer.kube.transport import Request, Response, Stream, Transport

JSON = dict[str, Any]

_CONNECT_SECONDS: Final = 10.0
_JSON_TYPE: Final = "application/json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to ask. `doing` is for messages; `reading`: nothing can change by it; `namespace` is for budgets in a refusal."""

    method: str
    path: str
    doing: str
    reading: bool
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: Any = None
    content_type: str = _JSON_TYPE
    namespace: str = ""
    check: Callable[[], None] | None = None

    def request(self) -> Request:
        headers = {"accept": _JSON_TYPE}
        if self.body is None:
            return Request(method=self.method, path=self.path, query=self.query, headers=headers, check=self.check)
        headers["content-type"] = self.content_type
        return Request(
            method=self.method,
            path=self.path,
            query=self.query,
            headers=headers,
            body=msgspec.json.encode(self.body),
            check=self.check,
        )


class Caller:
    """Sends calls over a transport. `cluster` labels the metrics."""

    def __init__(self, transport: Transport, *, cluster: str, clock: Clock) -> None:
        self._transport = transport
        self._cluster = cluster
        self._clock = clock
        self.contact = Contact(clock)

    async def send(self, call: Call, *, timeout_seconds: float) -> bytes:
        """The body of an answer that says yes; else one of the errors that `ports.Kube` names."""
        if call.check:
            call.check()
        with self._failures(call):
            response = await self._transport.request(call.request(), timeout_seconds=timeout_seconds)
        return self._judge(call, response)

    async def ask(self, call: Call, *, timeout_seconds: float) -> JSON:
        """The same, decoded."""
        body = await self.send(call, timeout_seconds=timeout_seconds)
        try:
            return msgspec.json.decode(body, type=JSON)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            text = f"{call.doing}: the answer is not a JSON object: {error}"
            raise (Retryable(text) if call.reading else OutcomeUnknown(text)) from error

    @contextlib.asynccontextmanager
    async def follow(self, call: Call, *, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer that goes on, empty ones left out."""
        begun = False
        with self._failures(call, matters=lambda: not begun):
            async with self._transport.stream(
                call.request(), connect_seconds=_CONNECT_SECONDS, idle_seconds=idle_seconds
            ) as stream:
                if stream.status != 200:
                    body = b"\n".join([line async for line in stream.lines])
                    self._judge(call, Response(status=stream.status, headers=stream.headers, body=body))
                begun = True
                self._count(call, str(stream.status))
                self.contact.answered()
                async with contextlib.aclosing(self._lines(stream)) as lines:
                    yield lines

    async def _lines(self, stream: Stream) -> AsyncGenerator[bytes, None]:
        async for line in stream.lines:
            self.contact.answered()
            if line:
                yield line

    def _judge(self, call: Call, response: Response) -> bytes:
        self._count(call, str(response.status))
        if answers.is_answer(response):
            self.contact.answered()
        else:
            self.contact.failed()
        return answers.check_response(
            response, doing=call.doing, reading=call.reading, now=self._clock.now(), namespace=call.namespace
        )

    @contextlib.contextmanager
    def _failures(self, call: Call, *, matters: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """What a transport raises becomes what `ports.Kube` promises.

        `matters`: whether a failure now says something about the server. The end of a long answer does not: a quiet
        watch may be cut by anything on the way; the next request shows.
        """
        try:
            yield
        except (SourceError, TimeoutError) as error:
            status, meaning = _failure(call, error)
            self._count(call, status)
            if matters():
                self.contact.failed()
            raise meaning from error

    def _count(self, call: Call, status: str) -> None:
        telemetry.KUBE_REQUESTS.labels(self._cluster, call.method, status).inc()


def _failure(call: Call, error: SourceError | TimeoutError) -> tuple[str, Retryable | OutcomeUnknown]:
    """Its name in the metrics, and what it means to the caller."""
    if isinstance(error, Unreachable):
        return "unreachable", Retryable(f"{call.doing}: {error}")
    status = "timeout" if isinstance(error, TimeoutError) else "broken"
    text = f"{call.doing}: {str(error) or 'no answer in time'}"
    return status, (Retryable(text) if call.reading else OutcomeUnknown(text))
