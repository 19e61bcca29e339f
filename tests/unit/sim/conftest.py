"""A simulated API server and a client of a few lines, on virtual time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from healer.kube.transport import Request, Response, Stream
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport
from healer.sim.storage import Storage
from healer.sim.time import VirtualTimeLoop

JSON = dict[str, Any]
EPOCH = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclasses.dataclass
class ManualNow:
    at: datetime = EPOCH

    def __call__(self) -> datetime:
        return self.at

    def later(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Client:
    """Sends requests through a SimTransport."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.transport = SimTransport(api)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = 60.0,  # noqa: ASYNC109 - the transport's own bound
        accept: str = "application/json",
        kind: str = "application/json",
        **query: str,
    ) -> Response:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"accept": accept, "content-type": kind}
        request = Request(method=method, path=path, query=query, headers=headers, body=raw)
        return await self.transport.request(request, timeout_seconds=timeout)

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> JSON:
        response = await self.send(method, path, body, **more)
        assert 200 <= response.status < 300, response.body
        return decoded(response)

    async def refused(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> JSON:
        response = await self.send(method, path, body, **more)
        assert response.status == status, response.body
        answer = decoded(response)
        assert answer["kind"] == "Status"
        assert answer["status"] == "Failure"
        assert answer["code"] == status
        return answer

    async def patch(self, path: str, body: Any, kind: str = "merge-patch+json", **query: str) -> JSON:
        return await self.ok("PATCH", path, body, kind=f"application/{kind}", **query)

    @asynccontextmanager
    async def watching(self, path: str, *, accept: str = "application/json", **query: str) -> AsyncIterator[Stream]:
        request = Request(method="GET", path=path, query={"watch": "true"} | query, headers={"accept": accept})
        async with self.transport.stream(request, connect_seconds=10, idle_seconds=7200) as stream:
            yield stream


def decoded(response: Response) -> JSON:
    found: JSON = json.loads(response.body)
    return found


@pytest.fixture
def now() -> ManualNow:
    return ManualNow()


@pytest.fixture
def storage(now: ManualNow) -> Storage:
    return Storage(now=now, seed=7)


@pytest.fixture
def api(storage: Storage, now: ManualNow) -> Api:
    return Api(storage, now=now)


@pytest.fixture
def client(api: Api) -> Client:
    return Client(api)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here that is a coroutine runs on virtual time."""
    return {"virtual": VirtualTimeLoop}


def a_node(name: str = "n1", *, ready: str = "True", **spec: Any) -> JSON:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": f"sim://{name}"} | spec,
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}]},
    }


def a_pod(
    name: str = "web-1",
    *,
    namespace: str = "shop",
    node: str = "n1",
    ready: bool = True,
    phase: str = "Running",
    labels: Mapping[str, str] | None = None,
) -> JSON:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {"app": "web"})},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web:1"}]} if node else _unplaced(),
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def _unplaced() -> JSON:
    return {"containers": [{"name": "web", "image": "web:1"}]}


def a_budget(name: str = "web", *, allowed: int = 1, healthy: int = 3, desired: int = 2, **spec: Any) -> JSON:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"minAvailable": desired, "selector": {"matchLabels": {"app": "web"}}} | spec,
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": healthy,
        },
    }


@pytest.fixture
def node() -> Callable[..., JSON]:
    return a_node


@pytest.fixture
def pod() -> Callable[..., JSON]:
    return a_pod


@pytest.fixture
def budget() -> Callable[..., JSON]:
    return a_budget
