"""The webhook provider against real HTTP on loopback: signed, bounded, and honest about what it does not know."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from healer.actions.providers.webhook import LONGEST_ANSWER_BYTES, WebhookProvider, WebhookSettings
from healer.clock import LoopClock
from healer.errors import NotFound, OutcomeUnknown, Permanent, Retryable
from healer.model.fencing import MachineState
from healer.sim import builders
from healer.sim.cloud_http import cloud_routes
from healer.testing.states import a_node

SECRET = "s" * 32
NODE = a_node("n1", provider_id="aws:///eu-1a/i-1", boot_id="b1", zone="eu-1a", pool="web")
NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
Serve = Callable[[Callable[[web.Request], Any]], Any]


def a_provider(url: object, **settings: Any) -> WebhookProvider:
    clock = LoopClock(asyncio.get_running_loop(), epoch=NOW)
    return WebhookProvider(WebhookSettings(url=str(url), secret=SecretStr(SECRET), **settings), name="dc", clock=clock)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[TestServer] = []

    async def start(answer: Callable[[web.Request], Any]) -> WebhookProvider:
        app = web.Application()
        app.router.add_post("/hook", answer)
        servers.append(server := TestServer(app))
        await server.start_server()
        return a_provider(server.make_url("/hook"), timeout=timedelta(milliseconds=300))

    yield start
    for server in servers:
        await server.close()


def says(status: int = 200, body: Any = None, **headers: str) -> Callable[[web.Request], Any]:
    async def answer(_request: web.Request) -> web.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return web.Response(status=status, body=raw, headers={name.replace("_", "-"): v for name, v in headers.items()})

    return answer


async def test_a_request_is_signed_and_says_which_node_and_key(serve: Serve) -> None:
    seen: list[tuple[Any, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.headers, await request.read()))
        return web.json_response(
            {"machine": "i-2", "state": "provisioning", "zone": "eu-1a", "request": "r1", "done": False, "more": 1}
        )

    provider = await serve(answer)
    replacement = await provider.replace(NODE, key="op-1")
    assert replacement.request == "r1"
    assert not replacement.done
    assert replacement.machine is not None
    assert replacement.machine.state is MachineState.PROVISIONING
    ((headers, body),) = seen
    timestamp = headers["X-Healer-Timestamp"]
    expected = hmac.new(SECRET.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["X-Healer-Signature"] == f"sha256={expected}"
    assert timestamp == str(int(NOW.timestamp()))
    assert json.loads(body) == {
        "operation": "replace",
        "key": "op-1",
        "node": {
            "name": "n1",
            "uid": "node--n1",
            "provider_id": "aws:///eu-1a/i-1",
            "boot_id": "b1",
            "zone": "eu-1a",
            "pool": "web",
        },
    }


@pytest.mark.parametrize(
    ("status", "reading", "changing"),
    [
        (400, Permanent, Permanent),
        (401, Permanent, Permanent),
        (404, NotFound, NotFound),
        (409, Permanent, Permanent),
        (302, Permanent, Permanent),
        (429, Retryable, Retryable),
        (503, Retryable, Retryable),
        (500, Retryable, OutcomeUnknown),
        (504, Retryable, OutcomeUnknown),
    ],
)
async def test_d12_a_status_is_what_it_means(
    serve: Serve, status: int, reading: type[Exception], changing: type[Exception]
) -> None:
    provider = await serve(says(status, b"because"))
    with pytest.raises(reading, match=f"{status} because"):
        await provider.describe(NODE)
    with pytest.raises(changing, match=f"{status} because"):
        await provider.power_off(NODE, key="k")


async def test_retry_after_is_passed_on(serve: Serve) -> None:
    provider = await serve(says(429, b"", Retry_After="17"))
    with pytest.raises(Retryable) as caught:
        await provider.replace(NODE, key="k")
    assert caught.value.delay_seconds == 17


async def test_no_answer_in_time_leaves_a_change_unknown(serve: Serve) -> None:
    released = asyncio.Event()

    async def hang(_request: web.Request) -> web.Response:
        await released.wait()
        return web.json_response({})

    provider = await serve(hang)
    try:
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            await provider.replace(NODE, key="k")
        with pytest.raises(Retryable):
            await provider.find(NODE, key="k")
    finally:
        released.set()


async def test_a_connection_that_breaks_leaves_a_change_unknown_and_one_that_is_refused_does_not(serve: Serve) -> None:
    async def abort(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    provider = await serve(abort)
    with pytest.raises(OutcomeUnknown):
        await provider.replace(NODE, key="k")
    nobody = a_provider("http://127.0.0.1:9/hook")
    with pytest.raises(Retryable):
        await nobody.replace(NODE, key="k")


async def test_a_request_nobody_has_made_is_none(serve: Serve) -> None:
    provider = await serve(says(404))
    assert await provider.find(NODE, key="k") is None


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'{"machine": 3}', b"\xff"], ids=["page", "list", "number", "bytes"]
)
async def test_an_answer_that_is_none_proves_nothing(serve: Serve, body: bytes) -> None:
    provider = await serve(says(200, body))
    with pytest.raises(Permanent, match="not one"):
        await provider.describe(NODE)
    with pytest.raises(OutcomeUnknown, match="not one"):
        await provider.power_off(NODE, key="k")


async def test_an_answer_without_a_machine_is_no_machine_and_an_unknown_state_is_unknown(serve: Serve) -> None:
    with pytest.raises(Permanent, match="names no machine"):
        await (await serve(says(200, {"state": "stopped"}))).describe(NODE)
    machine = await (await serve(says(200, {"machine": "i-1", "state": "on fire"}))).describe(NODE)
    assert machine.state is MachineState.UNKNOWN


async def test_an_endless_answer_is_cut_off(serve: Serve) -> None:
    provider = await serve(says(200, b" " * (LONGEST_ANSWER_BYTES + 1)))
    with pytest.raises(Permanent, match="longer than 1 MiB"):
        await provider.describe(NODE)


async def test_it_speaks_with_the_simulated_cloud() -> None:
    world = builders.a_world(3, 3, with_apps=False)
    app = web.Application()
    app.add_routes(cloud_routes(world, secret=SECRET))
    async with TestServer(app) as server:
        settings = WebhookSettings(url=str(server.make_url("/provider")), secret=SecretStr(SECRET))
        clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
        provider = WebhookProvider(settings, clock=clock)
        machine = next(iter(world.cloud.machines.values()))
        node = a_node(machine.node_name, provider_id=machine.provider_id, boot_id=machine.boot_id)
        assert (await provider.describe(node)).state is MachineState.RUNNING
        assert await provider.find(node, key="k1") is None
        first = await provider.replace(node, key="k1")
        assert first.machine is not None
        assert (await provider.replace(node, key="k1")).machine == first.machine
        found = await provider.find(node, key="k1")
        assert found is not None
        assert found.request == first.request
        with pytest.raises(Permanent):
            await provider.describe(a_node("ghost", provider_id="sim:///zone-a/i-9999"))
        wrong = WebhookProvider(
            WebhookSettings(url=str(server.make_url("/provider")), secret=SecretStr("x" * 32)), clock=clock
        )
        with pytest.raises(Permanent, match="401"):
            await wrong.describe(node)
