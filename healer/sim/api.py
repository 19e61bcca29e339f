"""A Kubernetes API over a `Storage`: what a request means, and what the answer is. Knows nothing of sockets."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from healer.kube.transport import Request, Response, Stream
from healer.sim import api_routes, bodies, discovery, scaling
from healer.sim.access import Access
from healer.sim.api_errors import ApiError, expired, no_such_resource, not_allowed
from healer.sim.api_faults import BROKEN, ApiFaults, ConnectionLost, ConnectionRefused, Failure
from healer.sim.api_routes import Target
from healer.sim.reading import Reader, shaped
from healer.sim.storage import Storage
from healer.sim.watching import Watch, check_send_initial
from healer.sim.writing import Writer, translated

RECORDS_KEPT: Final = 20_000
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_JSON: Final = {"content-type": "application/json"}
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


@dataclasses.dataclass(slots=True, kw_only=True)
class RequestRecord:
    """One request as it arrived. `status` is None while it has no answer, and when it never got one."""

    at: datetime
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    status: int | None = None

    def json(self) -> Any:
        """The body, decoded; None when there was none."""
        return _decode(self.body) if self.body else None


class Api:
    """One API server. `faults` and `access` may be changed at any time; `requests` tells what has been asked of it."""

    def __init__(self, storage: Storage, *, now: Callable[[], datetime], faults: ApiFaults | None = None) -> None:
        self.storage = storage
        self.faults = ApiFaults() if faults is None else faults
        self.access = Access()
        self.requests: deque[RequestRecord] = deque(maxlen=RECORDS_KEPT)
        self._now = now
        self._reader = Reader(storage)
        self._writer = Writer(storage, self._reader, now=now)
        self.faults.on_compact(self._compact)

    def asked(self, method: str = "", path: str = "") -> list[RequestRecord]:
        """The requests so far of this method, with this text in their path."""
        return [record for record in self.requests if (not method or record.method == method) and path in record.path]

    async def handle(self, request: Request) -> Response:
        """Answer a request that is not a watch. ConnectionLost (also Refused) where the faults say that no answer comes."""
        record = self._record(request)
        failure = await self._arrive(request)
        if failure is None or failure.carried_out:
            response = self._answer(request)
            if failure is not None:
                response = self._failed(failure)
        else:
            response = self._failed(failure)
        record.status = response.status
        return response

    async def watch(self, request: Request) -> Stream:
        """Begin a watch; its lines raise ConnectionLost when it is broken. An error is a stream of one line."""
        record = self._record(request)
        failure = await self._arrive(request)
        try:
            if failure is not None:
                return _refused(record, self._failed(failure))
            watch = self._watch(request)
        except ApiError as error:
            return _refused(record, _refusal(error))
        record.status = 200
        return Stream(status=200, headers=_JSON, lines=watch.lines())

    # What comes before the answer ------------------------------------------------------------------------------------

    def _record(self, request: Request) -> RequestRecord:
        record = RequestRecord(
            at=self._now(), method=request.method, path=request.path, query=dict(request.query), body=request.body
        )
        self.requests.append(record)
        return record

    async def _arrive(self, request: Request) -> Failure | None:
        """Go through what the faults hold in store, up to how it shall fail."""
        if self.faults.down:
            raise ConnectionRefused("the API server is down")
        if self.faults.latency_seconds:
            await asyncio.sleep(self.faults.latency_seconds)
        while self.faults.hang and not self.faults.down:
            changed = asyncio.Event()
            forget = self.faults.on_change(changed.set)
            try:
                await changed.wait()
            finally:
                forget()
        if self.faults.down:
            raise ConnectionLost("the API server went down")
        return self.faults.take(request)

    def _failed(self, failure: Failure) -> Response:
        if failure.status == BROKEN:
            raise ConnectionLost(failure.message or "the connection broke")
        details = {"retryAfterSeconds": failure.retry_after} if failure.retry_after else {}
        return _refusal(ApiError(failure.status, failure.message or "injected failure", details=details))

    def _compact(self) -> None:
        self.storage.compact()
        self._reader.forget()

    # Answers ---------------------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Response:
        try:
            return self._respond(request)
        except ApiError as error:
            return _refusal(error)

    def _respond(self, request: Request) -> Response:
        if request.path in _HEALTH:
            return Response(status=200, headers={"content-type": "text/plain"}, body=b"ok")
        if request.path == _REVIEWS and request.method == "POST":
            bodies.check_content_type(request)
            return _json(201, self.access.review(bodies.mapping(request.body)))
        if request.method == "GET" and (found := discovery.answer(request.path, request.headers.get("accept", ""))):
            document, content_type = found
            return Response(status=200, headers={"content-type": content_type}, body=_encode(document))
        at, verb = self._routed(request)
        view = api_routes.view(request.headers)
        with translated(at):
            match verb:
                case "get":
                    obj = self._reader.get(at, request.query)
                    if at.subresource == "scale":
                        return _json(200, scaling.scale_of(obj))
                    include = request.query.get("includeObject", "Metadata")
                    return _json(200, shaped(at.kind, obj, view, self._now(), include))
                case "list":
                    body = self._reader.page(at, request.query, view, self._now())
                    return Response(status=200, headers=_JSON, body=body)
                case "create":
                    answer = self._writer.create(at, request)
                case "update":
                    answer = self._writer.update(at, request)
                case "patch":
                    answer = self._writer.patch(at, request)
                case "delete":
                    answer = self._writer.delete(at, request)
                case "deletecollection":
                    answer = self._writer.delete_collection(at, request)
                case _:
                    raise not_allowed()
        return _json(answer.code, answer.body)

    def _watch(self, request: Request) -> Watch:
        at, _ = self._routed(request)
        check_send_initial(request.query)
        watch = Watch(
            at,
            request.query,
            api_routes.view(request.headers),
            storage=self.storage,
            reader=self._reader,
            faults=self.faults,
            now=self._now,
        )
        if self.faults.gone_as_http and watch.is_too_old:
            raise expired("too old resource version")
        return watch

    def _routed(self, request: Request) -> tuple[Target, str]:
        if not request.path.startswith(("/api/", "/apis/")):
            raise no_such_resource()
        at = api_routes.target(request.path)
        verb = api_routes.verb(request, at)
        self.access.check(verb, at)
        return at, verb


def _json(status: int, body: Any) -> Response:
    return Response(status=status, headers=_JSON, body=_encode(body))


def _refusal(error: ApiError) -> Response:
    headers = dict(_JSON)
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    return Response(status=error.code, headers=headers, body=_encode(error.status()))


def _refused(record: RequestRecord, response: Response) -> Stream:
    record.status = response.status
    return Stream(status=response.status, headers=response.headers, lines=_once(response.body))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
