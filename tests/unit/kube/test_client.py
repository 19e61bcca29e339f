import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest

from healer import errors
from healer.clock import LoopClock
from healer.kube.client import KubeClient
from healer.kube.transport import Request
from healer.model.targets import ObjectRef
from healer.ports import Kube, PatchKind
from healer.sim import time as sim_time

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
NODE = ObjectRef(cluster="test", kind="Node", name="n1", uid="uid-1")
POD = ObjectRef(cluster="test", kind="Pod", namespace="shop", name="web-1", uid="uid-2")
NODE_PATH = "/api/v1/nodes/n1"
POD_PATH = "/api/v1/namespaces/shop/pods/web-1"
EVENTS = "/api/v1/namespaces/shop/events"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Server(Protocol):
    """What of the scripted server these tests use."""

    requests: list[Request]

    def answers(self, method: str, path: str, body: Any = None, **rest: Any) -> None: ...

    def lists(self, path: str, items: list[dict[str, Any]], *, version: str, more: str = "") -> None: ...

    def asked(self, method: str, path: str) -> list[Request]: ...


def using(server: Any, work: Callable[[KubeClient], Awaitable[Any]]) -> Any:
    """Run `work` with a client of `server` on virtual time."""

    async def main() -> Any:
        clock = LoopClock(asyncio.get_running_loop(), epoch=START)
        client = KubeClient(server, cluster="test", clock=clock)
        port: Kube = client
        assert port.cluster == "test"
        return await work(client)

    return sim_time.run(main)


def body_of(request: Request) -> Any:
    return json.loads(request.body)


def test_a_get_is_a_fresh_read_of_that_very_object(server: Server) -> None:
    server.answers("GET", NODE_PATH, {"metadata": {"name": "n1", "uid": "uid-1"}})
    found = using(server, lambda client: client.get(NODE))
    assert found["metadata"]["name"] == "n1"


def test_an_object_made_anew_under_the_same_name_is_not_the_target(server: Server) -> None:
    server.answers("GET", NODE_PATH, {"metadata": {"name": "n1", "uid": "another"}})
    with pytest.raises(errors.TargetGone, match="its UID is another, not uid-1"):
        using(server, lambda client: client.get(NODE))


def test_a_list_is_read_page_by_page_and_its_items_carry_their_kind(server: Server) -> None:
    server.lists("/api/v1/pods", [{"metadata": {"name": "a"}}], version="7", more="token+/=")
    server.lists("/api/v1/pods", [{"metadata": {"name": "b"}}], version="7")
    found = using(server, lambda client: client.list("Pod", label_selector="app=web"))
    assert [(pod["kind"], pod["apiVersion"], pod["metadata"]["name"]) for pod in found] == [
        ("Pod", "v1", "a"),
        ("Pod", "v1", "b"),
    ]
    first, second = server.asked("GET", "/api/v1/pods")
    assert first.query == {"limit": "500", "labelSelector": "app=web"}
    assert second.query == {"limit": "500", "labelSelector": "app=web", "continue": "token+/="}


def test_a_list_that_grew_too_old_between_pages_is_begun_anew(server: Server) -> None:
    server.lists("/api/v1/pods", [{"metadata": {"name": "a"}}], version="7", more="token")
    server.answers("GET", "/api/v1/pods", {"code": 410}, status=410)
    server.lists("/api/v1/pods", [{"metadata": {"name": "b"}}], version="9")
    found = using(server, lambda client: client.list("Pod"))
    assert [pod["metadata"]["name"] for pod in found] == ["b"]


def test_a_list_that_always_grows_too_old_is_given_up(server: Server) -> None:
    server.answers("GET", "/api/v1/pods", {"code": 410}, status=410)
    with pytest.raises(errors.Gone):
        using(server, lambda client: client.list("Pod"))
    assert len(server.requests) == 3


@pytest.mark.parametrize("body", [b"", b"{", b'{"items": {}}', b"[]", b'{"metadata":{}, "items":[\xff]}'])
def test_a_list_that_cannot_be_read_is_worth_another_try(server: Server, body: bytes) -> None:
    server.answers("GET", "/api/v1/pods", body)
    with pytest.raises(errors.Retryable):
        using(server, lambda client: client.list("Pod"))


@pytest.mark.parametrize("kind", [PatchKind.MERGE, PatchKind.STRATEGIC])
def test_a_patch_names_the_uid_that_it_is_meant_for(server: Server, kind: PatchKind) -> None:
    server.answers("PATCH", NODE_PATH, {})
    given = {"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": True}}
    using(server, lambda client: client.patch(NODE, given, kind=kind, resource_version="17"))
    (request,) = server.requests
    assert body_of(request) == {
        "metadata": {"labels": {"a": "b"}, "uid": "uid-1", "resourceVersion": "17"},
        "spec": {"unschedulable": True},
    }
    assert request.headers["content-type"] == kind.value
    assert request.query == {"fieldManager": "healer"}
    assert given["metadata"] == {"labels": {"a": "b"}}


def test_a_json_patch_tests_the_uid_first(server: Server) -> None:
    server.answers("PATCH", NODE_PATH, {})
    operations = [{"op": "replace", "path": "/spec/unschedulable", "value": True}]
    using(
        server, lambda client: client.patch(NODE, operations, kind=PatchKind.JSON, resource_version="17", dry_run=True)
    )
    (request,) = server.requests
    assert body_of(request) == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "17"},
        *operations,
    ]
    assert request.query == {"fieldManager": "healer", "dryRun": "All"}


@pytest.mark.parametrize(("kind", "body"), [(PatchKind.JSON, {}), (PatchKind.MERGE, [])])
def test_a_patch_of_the_wrong_shape_is_not_sent(server: Server, kind: PatchKind, body: Any) -> None:
    with pytest.raises(errors.Permanent, match="patch"):
        using(server, lambda client: client.patch(NODE, body, kind=kind))
    assert server.requests == []


def test_a_patch_of_a_subresource_goes_there(server: Server) -> None:
    path = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
    server.answers("PATCH", path, {})
    web = ObjectRef(cluster="test", kind="Deployment", namespace="shop", name="web", uid="uid-3")
    using(server, lambda client: client.patch(web, {"spec": {"replicas": 3}}, subresource="scale"))
    assert body_of(server.requests[0]) == {"metadata": {"uid": "uid-3"}, "spec": {"replicas": 3}}


def test_a_delete_names_uid_grace_and_dry_run_in_its_body(server: Server) -> None:
    server.answers("DELETE", POD_PATH, {})
    using(server, lambda client: client.delete(POD, grace_seconds=0, dry_run=True))
    assert body_of(server.requests[0]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "uid-2"},
        "dryRun": ["All"],
    }


def test_an_eviction_names_the_uid_of_the_pod(server: Server) -> None:
    server.answers("POST", f"{POD_PATH}/eviction", {"kind": "Status", "status": "Success"})
    using(server, lambda client: client.evict(POD, grace_seconds=20))
    assert body_of(server.requests[0]) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {"gracePeriodSeconds": 20, "preconditions": {"uid": "uid-2"}},
    }


def test_a_budget_that_holds_an_eviction_back_is_named(server: Server) -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2."}]
    server.answers("POST", f"{POD_PATH}/eviction", {"details": {"causes": causes}}, status=429)
    with pytest.raises(errors.BudgetBlocked) as caught:
        using(server, lambda client: client.evict(POD))
    assert caught.value.budgets == ("shop/web: needs 2 healthy pods and has 2",)


def test_what_is_created_says_what_it_is(server: Server) -> None:
    server.answers("POST", "/api/v1/namespaces/shop/configmaps", {"metadata": {"uid": "u"}}, status=201)
    made = using(server, lambda client: client.create("ConfigMap", "shop", {"metadata": {"name": "c"}}))
    assert made == {"metadata": {"uid": "u"}}
    assert body_of(server.requests[0]) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.mark.parametrize(
    ("failure", "reading", "writing"),
    [
        (TimeoutError(), errors.Retryable, errors.OutcomeUnknown),
        (errors.SourceError("connection reset"), errors.Retryable, errors.OutcomeUnknown),
        (errors.Unreachable("connection refused"), errors.Retryable, errors.Retryable),
    ],
    ids=["timeout", "broken", "unreachable"],
)
def test_a_change_without_an_answer_may_have_been_made(
    server: Server, failure: Exception, reading: type[Exception], writing: type[Exception]
) -> None:
    server.answers("GET", NODE_PATH, error=failure)
    server.answers("PATCH", NODE_PATH, error=failure)
    server.answers("DELETE", NODE_PATH, error=failure)
    with pytest.raises(reading, match="reading node/n1"):
        using(server, lambda client: client.get(NODE))
    with pytest.raises(writing, match="patching node/n1"):
        using(server, lambda client: client.patch(NODE, {}))
    with pytest.raises(writing):
        using(server, lambda client: client.delete(NODE))
    with pytest.raises(reading):
        using(server, lambda client: client.delete(NODE, dry_run=True))


def test_a_change_whose_answer_cannot_be_read_may_have_been_made(server: Server) -> None:
    server.answers("PATCH", NODE_PATH, b"<html>")
    with pytest.raises(errors.OutcomeUnknown, match="not a JSON object"):
        using(server, lambda client: client.patch(NODE, {}))


def test_contact_is_kept_by_answers_and_lost_by_failures(server: Server) -> None:
    server.answers("GET", "/version", {"gitVersion": "v1.33.1"})
    server.answers("GET", NODE_PATH, status=404)
    server.answers("PATCH", NODE_PATH, status=503)

    async def work(client: KubeClient) -> None:
        assert await client.server_version() == "v1.33.1"
        await asyncio.sleep(4)
        with pytest.raises(errors.NotFound):
            await client.get(NODE)
        assert (client.contact.silent_seconds, client.contact.healthy_seconds) == (0, 4)
        with pytest.raises(errors.OutcomeUnknown):
            await client.patch(NODE, {})
        assert client.contact.healthy_seconds == 0

    using(server, work)


@pytest.mark.parametrize("allowed", [True, False])
def test_an_access_review_asks_for_verb_group_resource_and_subresource(server: Server, allowed: bool) -> None:
    server.answers("POST", REVIEWS, {"status": {"allowed": allowed}}, status=201)
    assert using(server, lambda client: client.may("create", "", "pods/eviction", "shop")) is allowed
    assert body_of(server.requests[0])["spec"] == {
        "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "shop"}
    }


def test_the_same_event_again_counts_up(server: Server) -> None:
    server.answers("POST", EVENTS, {}, status=201)

    async def work(client: KubeClient) -> None:
        await client.event(POD, reason="Evicted", message="first", warning=True)
        name = body_of(server.requests[0])["metadata"]["name"]
        server.answers("PATCH", f"{EVENTS}/{name}", {})
        await asyncio.sleep(30)
        await client.event(POD, reason="Evicted", message="second", warning=True)
        await client.event(POD, reason="Other", message="first", warning=True)

    using(server, work)
    first, again, other = server.requests
    made = body_of(first)
    assert made["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-1",
        "uid": "uid-2",
    }
    assert (made["type"], made["reason"], made["count"]) == ("Warning", "Evicted", 1)
    assert made["firstTimestamp"] == "2026-01-05T09:00:00Z"
    assert body_of(again) == {"count": 2, "message": "second", "lastTimestamp": "2026-01-05T09:00:30Z"}
    assert other.method == "POST"


def test_an_event_that_is_long_past_or_gone_is_made_anew(server: Server) -> None:
    server.answers("POST", EVENTS, {}, status=201)

    async def work(client: KubeClient) -> None:
        await client.event(POD, reason="Evicted", message="m")
        await asyncio.sleep(601)
        await client.event(POD, reason="Evicted", message="m")
        await client.event(POD, reason="Evicted", message="m")  # the server no longer knows it: 404

    using(server, work)
    assert [request.method for request in server.requests] == ["POST", "POST", "PATCH", "POST"]
    assert len({body_of(request)["metadata"]["name"] for request in server.asked("POST", EVENTS)}) == 3


def test_an_event_on_a_node_lies_in_the_default_namespace(server: Server) -> None:
    server.answers("POST", "/api/v1/namespaces/default/events", {}, status=201)
    using(server, lambda client: client.event(NODE, reason="Cordoned", message="m"))
    assert "namespace" not in body_of(server.requests[0])["involvedObject"]


@pytest.mark.parametrize("status", [403, 404, 422, 429, 500])
def test_a_refused_event_stops_nothing(server: Server, status: int) -> None:
    server.answers("POST", EVENTS, status=status)
    using(server, lambda client: client.event(POD, reason="Evicted", message="m"))
    assert len(server.requests) == 1


def test_a_change_that_must_not_be_made_any_more_is_not_sent_and_reading_goes_on(server: Server) -> None:
    def refuse() -> None:
        raise errors.Retryable("another replica leads")

    server.answers("GET", NODE_PATH, {"metadata": {"name": "n1", "uid": "uid-1"}})

    async def work(free: KubeClient) -> None:
        transport, clock = free._transport, LoopClock(asyncio.get_running_loop(), epoch=START)
        client = KubeClient(transport, cluster="test", clock=clock, check=refuse)
        await client.get(NODE)
        for change in (client.patch(NODE, {"spec": {}}), client.delete(POD), client.evict(POD)):
            with pytest.raises(errors.Retryable, match="another replica leads"):
                await change
        await client.event(POD, reason="Told", message="nobody hears it")

    using(server, work)
    assert [request.method for request in server.requests] == ["GET"]
