"""Requests to an API server over HTTP: the only module that knows aiohttp. It judges no status, and repeats nothing.

With one exception: a request refused with 401 was not carried out, and is sent once more if fresh credentials are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import aiohttp
import yarl
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_exceptions import ClientConnectorError

import healer
from healer.clock import Clock
from healer.errors import ActionError, SourceError, Unreachable
from healer.kube.access import Access, Certificate
from healer.kube.credentials import Credential, source_of
from healer.kube.transport import Request, Response, Stream

_READ_BUFFER: Final = 2**21
_LONGEST_LINE: Final = 2**26
_CONNECT_SECONDS: Final = 5.0
_IDLE_CONNECTION_SECONDS: Final = 20.0
_UNAUTHORIZED: Final = 401


class HttpTransport:
    """A `healer.kube.transport.Transport` to the server of `access`. Must be made inside a running event loop."""

    def __init__(self, access: Access, *, clock: Clock) -> None:
        self._access = access
        self._server = yarl.URL(access.server)
        self._source = source_of(access, clock)
        self._session: aiohttp.ClientSession | None = None
        self._certificate: Certificate | None = None
        self._retired: aiohttp.ClientSession | None = None

    async def request(self, request: Request, *, timeout_seconds: float) -> Response:
        with _translated(self._access.server):
            async with asyncio.timeout(timeout_seconds):
                async with contextlib.AsyncExitStack() as stack:
                    answer = await self._send(request, stack, aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS))
                    return Response(status=answer.status, headers=_headers(answer), body=await answer.read())

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, *, connect_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        with _translated(self._access.server):
            async with contextlib.AsyncExitStack() as stack:
                limits = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds)
                async with asyncio.timeout(connect_seconds):
                    answer = await self._send(request, stack, limits)
                async with contextlib.aclosing(_lines(answer.content)) as lines:
                    yield Stream(status=answer.status, headers=_headers(answer), lines=lines)

    async def close(self) -> None:
        for session in (self._session, self._retired):
            if session is not None:
                await session.close()
        self._session = self._retired = None

    async def _send(
        self, request: Request, stack: contextlib.AsyncExitStack, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        answer = await self._send_once(request, stack, limits)
        if answer.status == _UNAUTHORIZED and self._source.refused():
            answer.release()
            answer = await self._send_once(request, stack, limits)
        return answer

    async def _send_once(
        self, request: Request, stack: contextlib.AsyncExitStack, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credential = await self._source.current()
        session = await self._session_for(credential)
        headers = {**request.headers}
        if credential.authorization:
            headers["authorization"] = credential.authorization
        url = self._server / request.path.lstrip("/")
        body = _Checked(request.body, request.check) if request.check else request.body or None
        return await stack.enter_async_context(
            session.request(
                request.method,
                url.with_query(request.query),
                data=body,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
                server_hostname=self._access.server_name or None,
            )
        )

    async def _session_for(self, credential: Credential) -> aiohttp.ClientSession:
        """The session; a new one when the client certificate has changed.

        What is under way on the old one may end in peace: it is closed when its successor retires.
        """
        certificate = credential.certificate or self._access.certificate
        if self._session is not None and certificate == self._certificate:
            return self._session
        session = self._open(_tls(self._access, certificate))
        old, self._retired, self._session, self._certificate = self._retired, self._session, session, certificate
        if old is not None:
            await old.close()
        return session

    def _open(self, tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
        # As many connections as there are watches and calls at work, which the callers bound.
        connector = aiohttp.TCPConnector(
            ssl=tls, limit=0, keepalive_timeout=_IDLE_CONNECTION_SECONDS, socket_factory=_socket
        )
        return aiohttp.ClientSession(
            connector=connector,
            read_bufsize=_READ_BUFFER,
            headers={"user-agent": f"healer/{healer.__version__}", "accept-encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_once,),
        )


class _Checked(aiohttp.BytesPayload):
    """A body that asks `check` in the moment in which it goes to the socket, and does not go there when that raises.

    Between giving aiohttp a request and this lie a connection to be made and turns of the event loop. Without its body
    no server carries out a request.
    """

    def __init__(self, body: bytes, check: Callable[[], None]) -> None:
        super().__init__(body)
        self._check = check

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a DELETE again by itself, as it does when an idle connection turns out to be dead."""
    try:
        return await send(request)
    except ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET" or isinstance(error, TimeoutError):
            raise
        raise aiohttp.ClientConnectionError(str(error)) from error


def _headers(answer: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Lines of any length within reason; aiohttp's own `readline` gives up where its buffer ends."""
    rest: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        *ended, last = chunk.split(b"\n")
        for line in ended:
            yield b"".join((*rest, line)).rstrip(b"\r")
            rest, size = [], 0
        if last:
            rest.append(last)
            size += len(last)
        if size > _LONGEST_LINE:
            raise SourceError(f"a line of more than {_LONGEST_LINE} bytes")
    if rest:
        yield b"".join(rest)


@contextlib.contextmanager
def _translated(server: str) -> Iterator[None]:
    """The one place where errors of aiohttp, TLS and sockets become ours. TimeoutError goes through."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise Unreachable(f"connecting to {server}: no connection within {_CONNECT_SECONDS:.0f} s") from error
    except TimeoutError:
        raise
    except aiohttp.ClientConnectorCertificateError as error:
        raise Unreachable(
            f"{server} shows a certificate that cannot be trusted: {error.certificate_error}; "
            "give its authority in the kubeconfig"
        ) from error
    except ClientConnectorError as error:
        raise Unreachable(f"connecting to {server}: {error.strerror or error}") from error
    except ssl.SSLError as error:
        raise Unreachable(f"setting up TLS for {server}: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error.__cause__, ActionError):
            raise error.__cause__ from None  # what `check` has raised: nothing was sent
        raise SourceError(f"talking to {server}: {type(error).__name__}: {error}") from error


def _tls(access: Access, certificate: Certificate | None) -> ssl.SSLContext | bool:
    if not access.server.startswith("https:"):
        return True
    trusted = None if access.authority is None else access.authority.decode("ascii")
    context = ssl.create_default_context(cadata=trusted)
    if access.skip_verification:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_chain(context, certificate)
    return context


def _load_chain(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Python's ssl reads client certificates from files only: they exist for a moment, and for our user alone."""
    with tempfile.TemporaryDirectory(prefix="healer-") as folder:
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(certificate.certificate)
        key.touch(mode=0o600)
        key.write_bytes(certificate.key)
        context.load_cert_chain(chain, key)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within half a minute that the other side is gone, also while nothing is sent.

    One that we give up is reset: a change that did not get through must not arrive minutes later, when nobody waits for
    it any more and another replica may lead.
    """
    family, type_, protocol, _, _ = address
    made = socket.socket(family, type_, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
