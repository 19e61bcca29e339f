"""What can be wrong with the server, who may do what, and the record of what was asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from healer.errors import SourceError, Unreachable
from healer.sim.api_faults import BROKEN, ApiFaults, Failure
from healer.sim.storage import Storage

Client = Any
Make = Any
NODE = "/api/v1/nodes/n1"


@pytest.fixture
def faults(client: Client) -> ApiFaults:
    found: ApiFaults = client.api.faults
    return found


async def test_the_next_matching_request_fails_and_the_one_after_does_not(
    client: Client, storage: Storage, node: Make, faults: ApiFaults
) -> None:
    storage.create("nodes", node("n1"))
    faults.fail_next.append(Failure(status=429, retry_after=7, method="PATCH", path="*/nodes/*"))
    await client.ok("GET", NODE)
    response = await client.send("PATCH", NODE, {}, kind="application/merge-patch+json")
    assert (response.status, response.headers["retry-after"]) == (429, "7")
    await client.patch(NODE, {"spec": {"unschedulable": True}})


async def test_failures_can_be_lasting_or_regular(
    client: Client, storage: Storage, node: Make, faults: ApiFaults
) -> None:
    storage.create("nodes", node("n1"))
    faults.fail_all.append(Failure(status=403, method="DELETE"))
    for _ in range(3):
        await client.refused(403, "DELETE", NODE)
    faults.fail_all.clear()
    faults.fail_every = 3
    statuses = [(await client.send("GET", NODE)).status for _ in range(6)]
    assert statuses == [200, 200, 500, 200, 200, 500]


async def test_an_answer_can_be_lost_after_the_work_is_done(
    client: Client, storage: Storage, node: Make, faults: ApiFaults
) -> None:
    storage.create("nodes", node("n1"))
    faults.fail_next += [Failure(status=504, carried_out=True), Failure(status=BROKEN, carried_out=True)]
    merge = "application/merge-patch+json"
    await client.refused(504, "PATCH", NODE, {"spec": {"unschedulable": True}}, kind=merge)
    assert storage.items("nodes")[0]["spec"]["unschedulable"] is True
    with pytest.raises(SourceError):
        await client.send("DELETE", NODE)
    assert storage.items("nodes") == []


async def test_a_broken_connection_does_nothing(
    client: Client, storage: Storage, node: Make, faults: ApiFaults
) -> None:
    storage.create("nodes", node("n1"))
    faults.fail_next.append(Failure(status=BROKEN))
    with pytest.raises(SourceError, match="DELETE /api/v1/nodes/n1"):
        await client.send("DELETE", NODE)
    assert len(storage.items("nodes")) == 1


async def test_a_server_that_is_down_answers_nobody(client: Client, faults: ApiFaults) -> None:
    faults.down = True
    with pytest.raises(Unreachable):
        await client.send("GET", "/readyz")
    faults.down = False
    assert (await client.send("GET", "/readyz")).status == 200


async def test_a_hanging_server_answers_when_it_goes_on_or_never(client: Client, faults: ApiFaults) -> None:
    loop = asyncio.get_running_loop()
    faults.hang = True
    with pytest.raises(TimeoutError):
        await client.send("GET", "/readyz", timeout=30)
    assert loop.time() == pytest.approx(30)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(client.send("GET", "/readyz"))
        await asyncio.sleep(5)
        faults.hang = False
        assert (await waiting).status == 200
        faults.hang = True
        broken = tasks.create_task(_is_broken(client))
        await asyncio.sleep(5)
        faults.down = True
        assert await broken


async def _is_broken(client: Client) -> bool:
    with pytest.raises(SourceError):
        await client.send("GET", "/readyz")
    return True


async def test_latency_comes_before_every_answer(client: Client, faults: ApiFaults) -> None:
    loop = asyncio.get_running_loop()
    faults.latency_seconds = 4
    await client.send("GET", "/readyz")
    assert loop.time() == pytest.approx(4)


async def test_failures_hit_watches_too(client: Client, faults: ApiFaults) -> None:
    faults.fail_next.append(Failure(status=503))
    async with client.watching("/api/v1/nodes") as stream:
        assert stream.status == 503


async def test_every_request_is_on_record_with_its_body_and_status(client: Client, storage: Storage, pod: Make) -> None:
    storage.create("pods", pod())
    path = "/api/v1/namespaces/shop/pods/web-1/eviction"
    await client.ok("POST", path, {"metadata": {"name": "web-1"}})
    await client.send("GET", "/api/v1/pods", labelSelector="a=b")
    (record,) = client.api.asked("POST", "/eviction")
    assert (record.path, record.status, record.json()) == (path, 201, {"metadata": {"name": "web-1"}})
    assert client.api.asked("GET")[0].query == {"labelSelector": "a=b"}
    assert client.api.asked("DELETE") == []


async def test_a_request_that_got_no_answer_has_no_status_on_record(client: Client, faults: ApiFaults) -> None:
    faults.down = True
    with pytest.raises(SourceError):
        await client.send("GET", NODE)
    assert [record.status for record in client.api.requests] == [None]


async def test_what_is_denied_is_forbidden_and_reviewed_so(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    client.api.access.denied |= {("patch", "nodes"), ("*", "pods/eviction")}
    await client.ok("GET", NODE)
    answer = await client.refused(403, "PATCH", NODE, {}, kind="application/merge-patch+json")
    assert answer["message"] == (
        'nodes "n1" is forbidden: User "healer" cannot patch resource "nodes" in API group "" at the cluster scope'
    )
    await client.refused(403, "POST", "/api/v1/namespaces/shop/pods/p/eviction", {})
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for attributes, allowed in (
        ({"verb": "patch", "resource": "nodes"}, False),
        ({"verb": "get", "resource": "nodes"}, True),
        ({"verb": "create", "resource": "pods", "subresource": "eviction"}, False),
    ):
        review = await client.ok("POST", path, {"spec": {"resourceAttributes": attributes}})
        assert review["status"]["allowed"] is allowed
