"""The JSON API: what the console, the command line and scripts use. Values are as in `healer.model.incidents`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import msgspec
from aiohttp import web

from healer.errors import JournalError
from healer.model.decisions import Reason
from healer.web import shapes
from healer.web.guarding import problem
from healer.web.keys import SITE, Site
from healer.web.shapes import whole as whole  # noqa: PLC0414 — named here for whoever puts the service together
from healer.web.streaming import HUB

STATUS_OF_REASON: Final = {Reason.OK: 200, Reason.TARGET_NOT_FOUND: 404, Reason.NOT_ALLOWED: 403}
WAYS: Final = ("console", "cli")
"""How an answer may have come in by this API. That one came from Slack, only Slack's signature can say."""
INCIDENTS_SHOWN: Final = 100
INCIDENTS_LIMIT: Final = 2000
NAME_LIMIT: Final = 100
TEXT_LIMIT: Final = 500
WRITE_SECONDS: Final = 30.0
"""A reader who takes nothing for so long is gone."""


def encoded(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def incidents(request: web.Request) -> web.Response:
    """GET /api/v1/incidents?open=1&limit=100: newest first, without timelines."""
    open_only = request.query.get("open", "") in ("1", "true")
    asked = request.query.get("limit", "")
    if asked and not (asked.isascii() and asked.isdecimal() and len(asked) < 10):
        raise web.HTTPBadRequest(reason="'limit' must be a whole number")
    limit = min(INCIDENTS_LIMIT, int(asked or INCIDENTS_SHOWN))
    found = request.app[SITE].operator.incidents(open_only=open_only)[:limit]
    return encoded([shapes.brief(view) for view in found])


async def incident(request: web.Request) -> web.Response:
    """GET /api/v1/incidents/{id}"""
    view = request.app[SITE].operator.incident(request.match_info["id"])
    return encoded(whole(view)) if view else _unknown(request)


def _unknown(request: web.Request) -> web.Response:
    id_ = request.match_info["id"][:NAME_LIMIT]
    return problem(404, f"there is no incident {id_!r} in memory; older ones: healer audit")


async def _asked(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body, if there is one."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        asked = msgspec.json.decode(await request.read() or b"{}")
        if isinstance(asked, dict):
            return asked
    raise web.HTTPBadRequest(reason="the body must be a JSON object")


def _text(asked: dict[str, Any], name: str, default: str, *, limit: int = NAME_LIMIT) -> str:
    given = asked.get(name) or default
    if not isinstance(given, str):
        raise web.HTTPBadRequest(reason=f"{name!r} must be text")
    return given.strip()[:limit]


def _by(asked: dict[str, Any]) -> tuple[str, str]:
    """Who, and by which way. A name must not pass for `way:name`, by which approvers are known."""
    via = _text(asked, "via", "console")
    if via not in WAYS:
        raise web.HTTPBadRequest(reason=f"'via' must be {' or '.join(WAYS)}")
    by = _text(asked, "by", via)
    if ":" in by or not by.isprintable() or (by in WAYS and by != via):
        raise web.HTTPBadRequest(reason="'by' must be a plain name, without ':'")
    return by, via


async def answer(request: web.Request) -> web.Response:
    """POST /api/v1/incidents/{id}/approve|deny|cancel {"by": …, "digest": …}"""
    asked = await _asked(request)
    operator = request.app[SITE].operator
    id_, verb = request.match_info["id"], request.match_info["verb"]
    by, via = _by(asked)
    digest = _text(asked, "digest", "")
    if operator.incident(id_) is None:
        return _unknown(request)
    try:
        if verb == "cancel":
            reason = await operator.cancel(id_, by=by)
        else:
            reason = await operator.answer(id_, approve=verb == "approve", by=by, via=via, digest=digest)
    except JournalError as error:
        return problem(503, f"the answer could not be journalled and does not count: {error}", **{"Retry-After": "5"})
    status = STATUS_OF_REASON.get(reason, 409)
    return web.json_response({"reason": reason, "ok": reason is Reason.OK}, status=status)


async def pausing(request: web.Request) -> web.Response:
    """POST /api/v1/pause|resume {"by": …, "why": …}"""
    asked = await _asked(request)
    operator = request.app[SITE].operator
    by, _ = _by(asked)
    why = _text(asked, "why", "", limit=TEXT_LIMIT)
    try:
        if request.path.endswith("/pause"):
            await operator.pause(by=by, why=why)
        else:
            await operator.resume(by=by, why=why)
    except JournalError as error:
        return problem(503, f"it could not be journalled and does not count: {error}", **{"Retry-After": "5"})
    return web.json_response({"paused": operator.paused()})


async def status(request: web.Request) -> web.Response:
    """GET /api/v1/status"""
    return encoded(status_of(request.app[SITE]))


def status_of(site: Site) -> dict[str, Any]:
    return {
        "version": site.version,
        "paused": site.operator.paused(),
        "not_ready": list(site.ready()),
        "clusters": [shapes.cluster(state) for state in site.operator.cluster_states()],
        **site.extra(),
    }


async def why(request: web.Request) -> web.Response:
    """GET /api/v1/why/{subject}: every decision about an alert, node, pod or incident."""
    return encoded(list(request.app[SITE].why(request.match_info["subject"])))


async def events(request: web.Request) -> web.StreamResponse:
    """GET /api/v1/events: server-sent events.

    First `status` and `incidents` (as the list gives them), then `incident` (whole) and `status` as they change, and
    at least every second something, if only `tick`.
    """
    hub = request.app[HUB]
    if hub.full:
        return problem(503, f"{len(hub.clients)} watch already; close a few consoles", **{"Retry-After": "30"})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with hub.client() as client:
            while data := await client.next():
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(data)
    return response
