"""The HTTP transport against a real server on loopback: with and without TLS, and in every way a connection can fail."""

import asyncio
import contextlib
import dataclasses
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from healer.clock import SystemClock
from healer.errors import Retryable, SourceError, Unreachable
from healer.kube.access import Access, Certificate, Token, TokenFile
from healer.kube.http import HttpTransport
from healer.kube.transport import Request

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NODES = Request(method="GET", path="/api/v1/nodes")


@dataclasses.dataclass(frozen=True, slots=True)
class Pki:
    """Self-made certificates: an authority, a server `127.0.0.1`/`kubernetes`, a client."""

    folder: Path

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    @property
    def client(self) -> Certificate:
        return Certificate(certificate=self.read("client.pem"), key=self.read("client.key"))

    def context(self, *, demand_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        if demand_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.folder / "ca.pem")
        return context


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", "req", "-x509", *curve, *arguments], cwd=folder, check=True, capture_output=True)

    openssl("-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name, alternatives in (("server", "IP:127.0.0.1,DNS:kubernetes"), ("client", "DNS:healer")):
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={alternatives}"]
        plain = ["-addext", "basicConstraints=critical,CA:FALSE"]
        openssl("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", *signed, *plain)
    return Pki(folder)


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server that answers everything with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def transport(access: Access) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(access, clock=SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def say_ok(_request: web.Request) -> web.Response:
    return web.json_response({"ok": True})


async def test_method_path_query_headers_and_body_arrive_as_they_were_given() -> None:
    arrived: list[object] = []

    async def handler(request: web.Request) -> web.Response:
        arrived.extend([request.method, request.path, dict(request.query), request.headers["content-type"]])
        arrived.append(await request.read())
        return web.Response(status=201, body=b"made", headers={"X-Thing": "y"})

    request = Request(
        method="PATCH",
        path="/api/v1/nodes/system:node",
        query={"labelSelector": "a=b,c in (d,e)", "continue": "a+b/=="},
        headers={"content-type": "application/merge-patch+json"},
        body=b"{}",
    )
    async with serving(handler) as url, transport(Access(server=f"{url}/k8s/c-1/")) as kube:
        response = await kube.request(request, timeout_seconds=5)
    assert arrived == [
        "PATCH",
        "/k8s/c-1/api/v1/nodes/system:node",
        {"labelSelector": "a=b,c in (d,e)", "continue": "a+b/=="},
        "application/merge-patch+json",
        b"{}",
    ]
    assert (response.status, response.headers["x-thing"], response.body) == (201, "y", b"made")


async def test_a_redirect_is_not_followed_with_our_token() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"location": "http://127.0.0.1:1/"})

    async with serving(handler) as url, transport(Access(server=url, credentials=Token(token="t"))) as kube:
        assert (await kube.request(NODES, timeout_seconds=5)).status == 302


async def test_a_server_with_a_known_authority_is_trusted(pki: Pki) -> None:
    async with serving(say_ok, pki.context()) as url:
        async with transport(Access(server=url, authority=pki.read("ca.pem"))) as kube:
            assert (await kube.request(NODES, timeout_seconds=5)).status == 200
        named = Access(server=url, authority=pki.read("ca.pem"), server_name="kubernetes")
        async with transport(named) as kube:
            assert (await kube.request(NODES, timeout_seconds=5)).status == 200


async def test_a_server_with_an_unknown_authority_or_another_name_is_not(pki: Pki) -> None:
    async with serving(say_ok, pki.context()) as url:
        async with transport(Access(server=url)) as kube:
            with pytest.raises(Unreachable, match=r"cannot be trusted.*give its authority"):
                await kube.request(NODES, timeout_seconds=5)
        other = Access(server=url, authority=pki.read("ca.pem"), server_name="elsewhere")
        async with transport(other) as kube:
            with pytest.raises(Unreachable, match="cannot be trusted"):
                await kube.request(NODES, timeout_seconds=5)


async def test_verification_is_left_out_only_when_that_is_asked_for(pki: Pki) -> None:
    async with serving(say_ok, pki.context()) as url, transport(Access(server=url, skip_verification=True)) as kube:
        assert (await kube.request(NODES, timeout_seconds=5)).status == 200


async def test_a_client_certificate_is_shown(pki: Pki) -> None:
    async with serving(say_ok, pki.context(demand_client=True)) as url:
        known = Access(server=url, authority=pki.read("ca.pem"), certificate=pki.client)
        async with transport(known) as kube:
            assert (await kube.request(NODES, timeout_seconds=5)).status == 200
        async with transport(Access(server=url, authority=pki.read("ca.pem"))) as kube:
            with pytest.raises(SourceError):
                await kube.request(NODES, timeout_seconds=5)


async def test_a_client_certificate_that_is_none_is_said_so(pki: Pki) -> None:
    broken = Access(server="https://127.0.0.1:1", certificate=Certificate(certificate=b"x", key=b"y"))
    async with transport(broken) as kube:
        with pytest.raises(Unreachable, match="setting up TLS"):
            await kube.request(NODES, timeout_seconds=5)


async def test_a_refused_token_is_read_again_and_the_request_sent_once_more(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    shown: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        shown.append(request.headers["authorization"])
        return web.Response(status=200 if shown[-1] == "Bearer new" else 401)

    access = TokenFile(path=file)
    async with serving(handler) as url, transport(Access(server=url, credentials=access)) as kube:
        assert (await kube.request(NODES, timeout_seconds=5)).status == 401
        assert (await kube.request(NODES, timeout_seconds=5)).status == 401
        file.write_text("new")
        assert (await kube.request(NODES, timeout_seconds=5)).status == 200
        assert (await kube.request(NODES, timeout_seconds=5)).status == 200
    assert shown == ["Bearer old", "Bearer old", "Bearer old", "Bearer new", "Bearer new"]


async def test_a_refused_connection_means_that_nothing_was_done() -> None:
    async with serving(say_ok) as url:
        pass
    async with transport(Access(server=url)) as kube:
        with pytest.raises(Unreachable, match="connecting to"):
            await kube.request(Request(method="DELETE", path="/x"), timeout_seconds=5)


async def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    async def handler(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        with pytest.raises(TimeoutError):
            await kube.request(NODES, timeout_seconds=0.1)


async def test_a_body_that_does_not_end_is_a_timeout() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.01)
        return response

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        with pytest.raises(TimeoutError):
            await kube.request(NODES, timeout_seconds=0.2)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
async def test_a_connection_that_breaks_is_a_source_error_and_a_change_is_not_sent_twice(method: str) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.method)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        with pytest.raises(SourceError) as caught:
            await kube.request(Request(method=method, path="/x"), timeout_seconds=5)
    assert not isinstance(caught.value, Unreachable)
    assert len(seen) == (2 if method == "GET" else 1)


async def test_lines_arrive_one_by_one_and_may_be_longer_than_any_buffer() -> None:
    long = b"x" * 5_000_000

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"one\ntw", b"o\r\n\n", long, b"\n", b"no end"):
            await response.write(part)
        return response

    async with (
        serving(handler) as url,
        transport(Access(server=url)) as kube,
        kube.stream(NODES, connect_seconds=5, idle_seconds=5) as stream,
    ):
        lines = [line async for line in stream.lines]
    assert stream.status == 200
    assert lines == [b"one", b"two", b"", long, b"no end"]


async def test_a_silent_stream_is_a_timeout_and_a_busy_one_is_not() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(6):
            await response.write(b"tick\n")
            await asyncio.sleep(0.1)
        await asyncio.Event().wait()
        return response

    lines: list[bytes] = []

    async def listen(kube: HttpTransport) -> None:
        async with kube.stream(NODES, connect_seconds=5, idle_seconds=0.4) as stream:
            async for line in stream.lines:
                lines.append(line)  # noqa: PERF401 — what came before the failure counts

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        with pytest.raises(TimeoutError):
            await listen(kube)
    assert lines == [b"tick"] * 6


async def test_a_stream_that_breaks_is_a_source_error() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        with pytest.raises(SourceError):
            async with kube.stream(NODES, connect_seconds=5, idle_seconds=5) as stream:
                assert [line async for line in stream.lines] == [b"one"]


async def test_a_stream_whose_answer_does_not_begin_is_a_timeout() -> None:
    async def handler(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        with pytest.raises(TimeoutError):
            async with kube.stream(NODES, connect_seconds=0.1, idle_seconds=60):
                raise AssertionError("the stream began")


async def test_a_stream_that_is_left_lets_its_connection_go() -> None:
    gone = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"tick\n")
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            gone.set()
            raise

    async with serving(handler) as url, transport(Access(server=url)) as kube:
        async with kube.stream(NODES, connect_seconds=5, idle_seconds=5) as stream:
            async for _ in stream.lines:
                break
        async with asyncio.timeout(5):
            await gone.wait()


async def test_a_change_that_is_given_up_leaves_a_connection_that_is_reset() -> None:
    """What lies in our kernel must not arrive later, when the line is back and another replica leads."""
    began, ended = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        began.set()
        try:
            ended.set_result(await reader.read())
        except ConnectionResetError as error:
            ended.set_result(error)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, transport(Access(server=url)) as kube, asyncio.TaskGroup() as group:
        change = group.create_task(kube.request(Request(method="DELETE", path="/x"), timeout_seconds=30))
        await began.wait()
        change.cancel()
        assert isinstance(await ended, ConnectionResetError)


async def test_a_request_is_asked_about_in_the_last_moment_before_it_is_sent() -> None:
    """Long after it was handed over: also on a connection that is used again, and after others had their turn."""
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.method)
        return web.json_response(await request.json() if request.can_read_body else {})

    async with serving(handler) as url, transport(Access(server=url)) as kube, asyncio.TaskGroup() as group:
        for _ in range(2):
            allowed = [True]

            def check(allowed: list[bool] = allowed) -> None:
                if not allowed[0]:
                    raise Retryable("not any more")

            refused = Request(method="PATCH", path="/x", body=b"{}", check=check)
            change = group.create_task(_outcome(kube, refused))
            await asyncio.sleep(0)
            allowed[0] = False
            assert await change == "not any more"
            await kube.request(Request(method="GET", path="/x"), timeout_seconds=5)
        sent = Request(method="PATCH", path="/x", body=b'{"a": 1}', check=lambda: None)
        assert (await kube.request(sent, timeout_seconds=5)).body == b'{"a": 1}'
    assert seen == ["GET", "GET", "PATCH"]


async def _outcome(kube: HttpTransport, request: Request) -> str:
    try:
        await kube.request(request, timeout_seconds=5)
    except Retryable as error:
        return str(error)
    return "sent"
