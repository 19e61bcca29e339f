"""Puts the routes together and listens."""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import hdrs, web
from prometheus_client.exposition import choose_encoder

from healer import telemetry
from healer.web import api, guarding, hooks, streaming
from healer.web.keys import SITE, Site

STATIC: Final = {"console.js": "text/javascript", "console.css": "text/css", "favicon.svg": "image/svg+xml"}
SHUTDOWN_SECONDS: Final = 2.0


async def healthz(_: web.Request) -> web.Response:
    """The process lives and its loop turns."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """200 when alerts can be taken and judged; else 503 with what is missing, a line each."""
    missing = request.app[SITE].ready()
    return web.Response(text="\n".join(missing or ["ok"]) + "\n", status=503 if missing else 200)


async def metrics(request: web.Request) -> web.Response:
    """OpenMetrics or the older text format, as the Accept header asks; the older where it makes no sense."""
    accept = ",".join(request.headers.getall(hdrs.ACCEPT, []))
    try:
        encode, kind = choose_encoder(accept)
    except (TypeError, ValueError):
        encode, kind = choose_encoder("")
    response = web.Response(body=encode(telemetry.REGISTRY), headers={hdrs.CONTENT_TYPE: kind})
    response.enable_compression()
    return response


async def page(_: web.Request) -> web.Response:
    return web.Response(text=_static("console.html"), content_type="text/html", charset="utf-8")


async def static(request: web.Request) -> web.Response:
    name = request.match_info["file"]
    if name not in STATIC:
        raise web.HTTPNotFound
    return web.Response(text=_static(name), content_type=STATIC[name], charset="utf-8")


@functools.cache
def _static(name: str) -> str:
    return (importlib.resources.files("healer.web") / "static" / name).read_text(encoding="utf-8")


def application(site: Site, *, extra_routes: Sequence[web.RouteDef] = ()) -> web.Application:
    """The whole site. `extra_routes` are not covered by the tokens unless they begin with /api/."""
    app = web.Application(middlewares=[guarding.guard], client_max_size=site.body_limit_bytes)
    app[SITE] = site
    app.on_response_prepare.append(guarding.dress)
    streaming.attach(app, streaming.Hub(site.operator, functools.partial(api.status_of, site)))
    app.add_routes(
        [
            web.get("/", page),
            web.get("/static/{file}", static),
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", metrics),
            *extra_routes,
            web.post(guarding.HOOK_ROUTE, hooks.hook),
            web.get("/api/v1/status", api.status),
            web.get("/api/v1/events", api.events),
            web.get("/api/v1/incidents", api.incidents),
            web.get("/api/v1/incidents/{id}", api.incident),
            web.post(r"/api/v1/incidents/{id}/{verb:approve|deny|cancel}", api.answer),
            web.post("/api/v1/pause", api.pausing),
            web.post("/api/v1/resume", api.pausing),
            web.get("/api/v1/why/{subject:.+}", api.why),
        ]
    )
    return app


@contextlib.asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """Serve `app`; gives its address, with the port that was free when `port` is 0."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        found = runner.addresses[0]
        shown = f"[{found[0]}]" if ":" in found[0] else found[0]
        yield f"http://{shown}:{found[1]}"
    finally:
        await runner.cleanup()
