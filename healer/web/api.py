"""The JSON API: what the console, the command line and scripts use. Values are as in `healer.model.incidents`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from aiohttp import web

from healer.errors import JournalError
from healer.model.cluster import ClusterState
from healer.model.decisions import Reason
from healer.model.incidents import IncidentView
from healer.web.guarding import problem
from healer.web.keys import SITE

HEARTBEAT_SECONDS: Final = 15.0
STATUS_OF_REASON: Final = {Reason.OK: 200, Reason.TARGET_NOT_FOUND: 404, Reason.NOT_ALLOWED: 403}


def encoded(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def incidents(request: web.Request) -> web.Response:
    """GET /api/v1/incidents?open=1&limit=100: newest first, without timelines."""
    open_only = request.query.get("open", "") in ("1", "true")
    limit = int(request.query["limit"]) if request.query.get("limit", "").isdecimal() else 100
    found = request.app[SITE].operator.incidents(open_only=open_only)[:limit]
    return encoded([brief(view) for view in found])


def brief(view: IncidentView) -> dict[str, Any]:
    """An incident without its timeline."""
    built: dict[str, Any] = msgspec.to_builtins(view)
    del built["timeline"]
    return full_plan(built, view)


def full_plan(built: dict[str, Any], view: IncidentView) -> dict[str, Any]:
    """With what a plan computes from itself."""
    if view.plan is not None:
        built["plan"]["blast_radius"] = dict(view.plan.blast_radius)
    return built


def whole(view: IncidentView) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(view)
    return full_plan(built, view)


async def incident(request: web.Request) -> web.Response:
    """GET /api/v1/incidents/{id}"""
    view = request.app[SITE].operator.incident(request.match_info["id"])
    if view is None:
        return problem(404, f"there is no incident {request.match_info['id']!r} in memory; ask 'healer why'")
    return encoded(whole(view))


async def _who(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body, if there is one."""
    with contextlib.suppress(msgspec.DecodeError):
        asked = msgspec.json.decode(await request.read() or b"{}")
        if isinstance(asked, dict):
            return asked
    raise web.HTTPBadRequest(reason="the body must be a JSON object")


def _text(asked: dict[str, Any], name: str, default: str) -> str:
    return str(asked.get(name) or default)[:200]


async def answer(request: web.Request) -> web.Response:
    """POST /api/v1/incidents/{id}/approve|deny|cancel {"by": …, "digest": …}"""
    asked = await _who(request)
    operator = request.app[SITE].operator
    id_, verb = request.match_info["id"], request.match_info["verb"]
    by, via = _text(asked, "by", "console"), _text(asked, "via", "console")
    try:
        if verb == "cancel":
            reason = await operator.cancel(id_, by=by)
        else:
            reason = await operator.answer(
                id_, approve=verb == "approve", by=by, via=via, digest=_text(asked, "digest", "")
            )
    except JournalError as error:
        return problem(503, f"the answer could not be journalled: {error}")
    status = STATUS_OF_REASON.get(reason, 409)
    return web.json_response({"reason": reason, "ok": reason is Reason.OK}, status=status)


async def pausing(request: web.Request) -> web.Response:
    """POST /api/v1/pause|resume {"by": …, "why": …}"""
    asked = await _who(request)
    operator = request.app[SITE].operator
    by, why = _text(asked, "by", "console"), _text(asked, "why", "")
    try:
        if request.path.endswith("/pause"):
            await operator.pause(by=by, why=why)
        else:
            await operator.resume(by=by, why=why)
    except JournalError as error:
        return problem(503, f"it could not be journalled: {error}")
    return web.json_response({"paused": operator.paused()})


async def status(request: web.Request) -> web.Response:
    """GET /api/v1/status"""
    return encoded(_status(request.app))


def _status(app: web.Application) -> dict[str, Any]:
    site = app[SITE]
    return {
        "version": site.version,
        "paused": site.operator.paused(),
        "not_ready": list(site.ready()),
        "clusters": [cluster(state) for state in site.operator.cluster_states()],
        **site.extra(),
    }


def cluster(state: ClusterState) -> dict[str, Any]:
    """A cluster for the map: each node with its health and how full it is."""
    return {
        "name": state.name,
        "synced": state.freshness.synced,
        "nodes": [
            {
                "name": node.name,
                "zone": node.zone,
                "pool": node.pool,
                "ready": node.condition("Ready"),
                "unschedulable": node.unschedulable,
                "taints": [f"{taint.key}:{taint.effect}" for taint in node.taints],
                "pods": len(state.pods_by_node.get(node.name, {})),
                "pods_not_ready": sum(1 for pod in state.pods_on(node.name) if not pod.ready and not pod.is_finished),
            }
            for node in sorted(state.nodes.values(), key=lambda n: (n.zone, n.name))
        ],
    }


async def why(request: web.Request) -> web.Response:
    """GET /api/v1/why/{subject}: every decision about an alert, node, pod or incident."""
    return encoded(list(request.app[SITE].why(request.match_info["subject"])))


async def events(request: web.Request) -> web.StreamResponse:
    """GET /api/v1/events: server-sent events, `incident` with a whole incident, `status` now and then."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    operator = request.app[SITE].operator
    async with operator.watch() as changes:
        await _send(response, "status", _status(request.app))
        pending = aiter(changes)
        with contextlib.suppress(ConnectionError):
            async for name, value in _with_heartbeat(pending, request.app):
                await _send(response, name, value)
    return response


async def _with_heartbeat(changes: AsyncIterator[IncidentView], app: web.Application) -> AsyncIterator[tuple[str, Any]]:
    """Each change; the status beside it at most once a second, and when nothing happens, so that a lost line shows."""
    queue: asyncio.Queue[IncidentView] = asyncio.Queue(maxsize=256)

    async def pump() -> None:
        async for view in changes:
            await queue.put(view)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(pump(), name="console events")
        try:
            while True:
                view = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        view = await queue.get()
                if view is not None:
                    yield "incident", whole(view)
                else:
                    yield "status", _status(app)
        finally:
            task.cancel()


async def _send(response: web.StreamResponse, name: str, value: Any) -> None:
    await response.write(b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n")
