"""The world's metrics over HTTP: `/metrics/ksm`, `/metrics/node/NAME`, `/metrics/app/NAMESPACE/DEPLOYMENT`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from aiohttp import web

from healer.sim import exposition
from healer.sim.exporters import Exporters
from healer.sim.ksm import StateMetrics
from healer.sim.world import World

SILENCE_SECONDS: Final = 3600.0


def metrics_routes(world: World, *, dead: Literal["refuse", "hang"] = "refuse") -> list[web.RouteDef]:
    """Routes for an aiohttp application. A node that cannot answer breaks the connection, or (`hang`) says nothing."""
    states = StateMetrics(world.view)
    exporters = Exporters(world)

    async def ksm(_: web.Request) -> web.Response:
        return _page(states.page())

    async def node(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in world.kubelets.by_node:
            return _no_target(f"node {name!r}")
        text = exporters.node(name)
        return _page(text) if text is not None else await _silence(request, hang=dead == "hang")

    async def app(request: web.Request) -> web.Response:
        namespace, deployment = request.match_info["namespace"], request.match_info["deployment"]
        text = exporters.app(namespace, deployment)
        return _page(text) if text is not None else _no_target(f"loaded deployment {namespace}/{deployment}")

    handlers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "/metrics/ksm": ksm,
        "/metrics/node/{name}": node,
        "/metrics/app/{namespace}/{deployment}": app,
    }
    return [web.get(path, handler) for path, handler in handlers.items()]


def _page(text: str) -> web.Response:
    return web.Response(body=text.encode(), headers={"Content-Type": exposition.CONTENT_TYPE})


def _no_target(what: str) -> web.Response:
    return web.Response(status=404, text=f"there is no {what}\n")


async def _silence(request: web.Request, *, hang: bool) -> web.Response:
    if hang:
        await asyncio.sleep(SILENCE_SECONDS)
    elif request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)
