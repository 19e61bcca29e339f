"""The simulated API over HTTP on a loopback port, for kubectl and for everything else that speaks to API servers."""

from __future__ import annotations

import contextlib
import hmac
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

import msgspec
from aiohttp import web

from healer.kube.transport import Request, Response
from healer.sim import api_routes
from healer.sim.api import Api
from healer.sim.api_errors import ApiError
from healer.sim.api_faults import ConnectionLost

LARGEST_BODY_BYTES: Final = 3 * 1024 * 1024
_SHUTDOWN_SECONDS: Final = 1.0


@contextlib.asynccontextmanager
async def serve(
    api: Api,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    extra: Sequence[web.AbstractRouteDef] = (),
) -> AsyncIterator[str]:
    """Serve `api` until the block is left; gives its base URL. `token`: what clients must bear, if not empty.

    Mind that kubectl keeps its credentials to itself on plain HTTP: without `tls` it can only use a server without token.
    `extra` routes (the world's metrics, its cloud) come before the API's and need no token.
    """
    application = web.Application(client_max_size=LARGEST_BODY_BYTES)
    application.add_routes(extra)
    application.router.add_route("*", "/{path:.*}", _Handler(api, token).handle)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        bound = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://{host}:{bound}"
    finally:
        await runner.cleanup()


def kubeconfig(base_url: str, token: str = "") -> str:
    """A kubeconfig that leads to a server of `serve`; JSON, which is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sim", "cluster": {"server": base_url}}],
        "users": [{"name": "sim", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim", "namespace": "default"}}],
        "current-context": "sim",
    }
    return msgspec.json.format(msgspec.json.encode(config), indent=2).decode() + "\n"


class _Handler:
    def __init__(self, api: Api, token: str) -> None:
        self._api = api
        self._expected = f"Bearer {token}".encode() if token else b""

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        if not self._is_known(incoming):
            error = ApiError(401, "Unauthorized")
            return _answer(Response(status=401, headers=_JSON, body=msgspec.json.encode(error.status())))
        request = Request(
            method=incoming.method,
            path=incoming.path.rstrip("/") or "/",
            query=dict(incoming.query),
            headers={name.lower(): value for name, value in incoming.headers.items()},
            body=await incoming.read(),
        )
        try:
            if api_routes.is_watch(request):
                return await self._watch(incoming, request)
            return _answer(await self._api.handle(request))
        except ConnectionLost:
            return _broken(incoming)

    def _is_known(self, incoming: web.Request) -> bool:
        given = incoming.headers.get("Authorization", "").encode()
        return not self._expected or hmac.compare_digest(given, self._expected)

    async def _watch(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        stream = await self._api.watch(request)
        response = web.StreamResponse(status=stream.status, headers=dict(stream.headers))
        lines = stream.lines
        try:
            await response.prepare(incoming)
            async for line in lines:
                await response.write(line + b"\n")
            await response.write_eof()
        except ConnectionResetError:
            """The client has had enough, as clients of watches do."""
        finally:
            if isinstance(lines, AsyncGenerator):
                await lines.aclose()
        return response


_JSON: Final = {"content-type": "application/json"}


def _answer(response: Response) -> web.Response:
    return web.Response(status=response.status, headers=dict(response.headers), body=response.body)


def _broken(incoming: web.Request) -> web.Response:
    """Break the connection: what is returned goes nowhere."""
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response(status=503)
