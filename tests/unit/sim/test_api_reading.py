"""GET: objects, lists, pages, selectors, versions, tables, discovery."""

from __future__ import annotations

from typing import Any

import pytest

from healer.sim.storage import Storage

JSON = dict[str, Any]
Client = Any
Make = Any
Now = Any
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def names(answer: JSON) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


async def test_an_object_is_given_as_it_is_stored(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    assert await client.ok("GET", "/api/v1/nodes/n1") == storage.get("nodes", "", "n1")


async def test_a_missing_object_is_named_in_the_refusal(client: Client) -> None:
    answer = await client.refused(404, "GET", "/apis/apps/v1/namespaces/shop/deployments/web")
    assert answer["message"] == 'deployments.apps "web" not found'
    assert answer["reason"] == "NotFound"
    assert answer["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/toasters",
        "/apis/apps/v2/deployments",
        "/apis/nope/v1/nodes",
        "/api/v1/nodes/n1/log",
        "/elsewhere",
        "/api/v1/pods/web-1",
    ],
)
async def test_what_is_not_served_is_not_found(client: Client, path: str) -> None:
    answer = await client.refused(404, "GET", path)
    assert answer["message"] == "the server could not find the requested resource"


async def test_lists_are_sorted_by_namespace_and_name_and_carry_the_version(
    client: Client, storage: Storage, pod: Make
) -> None:
    for namespace, name in (("b", "z"), ("a", "y"), ("b", "x")):
        storage.create("pods", pod(name, namespace=namespace))
    everywhere = await client.ok("GET", "/api/v1/pods")
    assert names(everywhere) == ["y", "x", "z"]
    assert everywhere["kind"] == "PodList"
    assert everywhere["metadata"] == {"resourceVersion": str(storage.version)}
    assert names(await client.ok("GET", "/api/v1/namespaces/b/pods")) == ["x", "z"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["p1", "p2"]),
        ("app==web,tier=front", ["p1"]),
        ("app!=web", ["p3", "p4"]),
        ("app in (web, api)", ["p1", "p2", "p3"]),
        ("app notin (web,api)", ["p4"]),
        ("tier", ["p1", "p2"]),
        ("!tier", ["p3", "p4"]),
        ("tier,app in (web),tier!=front", ["p2"]),
        ("weight>5", ["p3"]),
        ("weight<5", ["p2"]),
        ("app=", []),
        ("", ["p1", "p2", "p3", "p4"]),
    ],
)
async def test_label_selectors_choose(
    client: Client, storage: Storage, pod: Make, selector: str, expected: list[str]
) -> None:
    labels = {
        "p1": {"app": "web", "tier": "front"},
        "p2": {"app": "web", "tier": "back", "weight": "3"},
        "p3": {"app": "api", "weight": "7"},
        "p4": {"other": "x"},
    }
    for name, its in labels.items():
        storage.create("pods", pod(name, labels=its))
    assert names(await client.ok("GET", "/api/v1/pods", labelSelector=selector)) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=p1", ["p1"]),
        ("metadata.namespace=other", ["p3"]),
        ("spec.nodeName=n1", ["p1", "p3"]),
        ("spec.nodeName!=n1", ["p2"]),
        ("spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", ["p1"]),
        ("status.phase=Failed", ["p3"]),
    ],
)
async def test_field_selectors_choose(
    client: Client, storage: Storage, pod: Make, selector: str, expected: list[str]
) -> None:
    storage.create("pods", pod("p1"))
    storage.create("pods", pod("p2", node="n2"))
    storage.create("pods", pod("p3", namespace="other", phase="Failed"))
    assert sorted(names(await client.ok("GET", "/api/v1/pods", fieldSelector=selector))) == expected


async def test_a_name_in_the_fields_finds_one_object_of_a_namespace(
    client: Client, storage: Storage, pod: Make
) -> None:
    storage.create("pods", pod("p1"))
    path = "/api/v1/namespaces/shop/pods"
    assert names(await client.ok("GET", path, fieldSelector="metadata.name=p1")) == ["p1"]
    assert names(await client.ok("GET", path, fieldSelector="metadata.name=p1,spec.nodeName=n2")) == []
    assert names(await client.ok("GET", path, fieldSelector="metadata.name=p2")) == []


async def test_events_are_found_by_what_they_are_about(client: Client, storage: Storage) -> None:
    for name, kind in (("e1", "Node"), ("e2", "Pod")):
        about = {"kind": kind, "name": "n1", "uid": f"u-{kind}"}
        storage.create("events", {"metadata": {"name": name, "namespace": "default"}, "involvedObject": about})
    found = await client.ok(
        "GET",
        "/api/v1/events",
        fieldSelector="involvedObject.kind=Node,involvedObject.name=n1,involvedObject.uid=u-Node",
    )
    assert names(found) == ["e1"]


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": "app in web"},
        {"labelSelector": "a b"},
        {"labelSelector": "weight>many"},
        {"fieldSelector": "spec.colour=red"},
        {"fieldSelector": "nonsense"},
        {"limit": "many"},
        {"continue": "!"},
        {"resourceVersion": "abc"},
    ],
    ids=lambda query: "-".join(query.values()),
)
async def test_a_query_that_makes_no_sense_is_a_bad_request(client: Client, query: JSON) -> None:
    answer = await client.refused(400, "GET", "/api/v1/pods", **query)
    assert answer["reason"] == "BadRequest"


async def test_pages_show_one_moment_however_much_happens_meanwhile(
    client: Client, storage: Storage, node: Make
) -> None:
    for count in range(5):
        storage.create("nodes", node(f"n{count}"))
    version = str(storage.version)
    first = await client.ok("GET", "/api/v1/nodes", limit="2")
    assert names(first) == ["n0", "n1"]
    assert first["metadata"]["remainingItemCount"] == 3
    storage.delete("nodes", "", "n3")
    storage.create("nodes", node("n9"))
    second = await client.ok("GET", "/api/v1/nodes", limit="2", **{"continue": first["metadata"]["continue"]})
    third = await client.ok("GET", "/api/v1/nodes", limit="2", **{"continue": second["metadata"]["continue"]})
    assert names(second) + names(third) == ["n2", "n3", "n4"]
    assert third["metadata"] == {"resourceVersion": version}


async def test_a_page_of_a_selection_does_not_say_how_many_are_left(
    client: Client, storage: Storage, pod: Make
) -> None:
    for count in range(3):
        storage.create("pods", pod(f"p{count}"))
    page = await client.ok("GET", "/api/v1/pods", limit="2", labelSelector="app=web")
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_page_token_from_before_a_compaction_has_expired(client: Client, storage: Storage, node: Make) -> None:
    for count in range(3):
        storage.create("nodes", node(f"n{count}"))
    token = (await client.ok("GET", "/api/v1/nodes", limit="1"))["metadata"]["continue"]
    client.api.faults.compact()
    answer = await client.refused(410, "GET", "/api/v1/nodes", limit="1", **{"continue": token})
    assert answer["reason"] == "Expired"


async def test_a_version_yet_to_come_is_too_large(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    for path in ("/api/v1/nodes", "/api/v1/nodes/n1"):
        answer = await client.refused(504, "GET", path, resourceVersion="99")
        assert answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        assert (await client.ok("GET", path, resourceVersion="0"))["metadata"]


async def test_nodes_are_tabled_as_kubectl_shows_them(client: Client, storage: Storage, node: Make, now: Now) -> None:
    storage.create("nodes", node("n1", unschedulable=True))
    storage.create("nodes", node("n2", ready="Unknown"))
    now.later(3 * 86400 + 7200)
    table = await client.ok("GET", "/api/v1/nodes", accept=TABLE)
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]][:5] == [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
    ]
    assert [row["cells"][:4] for row in table["rows"]] == [
        ["n1", "Ready,SchedulingDisabled", "<none>", "3d2h"],
        ["n2", "NotReady", "<none>", "3d2h"],
    ]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, "CrashLoopBackOff"),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}, "OOMKilled"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}, "ExitCode:2"),
        ({"containerStatuses": [{"ready": True, "state": {"running": {}}}]}, "Running"),
        ({"initContainerStatuses": [{"state": {"running": {}}}]}, "Init:0/1"),
        ({"initContainerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}, "Init:Error"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_the_status_of_a_pod_is_one_word(
    client: Client, storage: Storage, pod: Make, status: JSON, word: str
) -> None:
    made = pod("p1")
    made["status"] |= status
    made["spec"]["initContainers"] = [{"name": "i", "image": "i"}]
    storage.create("pods", made)
    table = await client.ok("GET", "/api/v1/namespaces/shop/pods/p1", accept=TABLE)
    assert table["rows"][0]["cells"][2] == word
    storage.delete("pods", "shop", "p1")
    if storage.items("pods"):
        table = await client.ok("GET", "/api/v1/namespaces/shop/pods/p1", accept=TABLE)
        assert table["rows"][0]["cells"][2] == ("Terminating" if status.get("phase") != "Failed" else word)


async def test_every_kind_has_a_table(client: Client, storage: Storage) -> None:
    served = await client.ok("GET", "/apis")
    paths = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in served["groups"])]
    for path in paths:
        for resource in (await client.ok("GET", path))["resources"]:
            if "list" not in resource["verbs"]:
                continue
            storage.create(resource["name"], {"metadata": {"name": f"o-{len(path)}"}, "spec": {}})
            table = await client.ok("GET", f"{path}/{resource['name']}", accept=TABLE)
            for row in table["rows"]:
                assert len(row["cells"]) == len(table["columnDefinitions"])
                assert row["object"]["metadata"]["name"] == f"o-{len(path)}" or resource["name"] in (
                    "namespaces",
                    "events",
                )


async def test_a_client_may_want_only_metadata(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    answer = await client.ok("GET", "/api/v1/nodes", accept=METADATA)
    assert answer["kind"] == "PartialObjectMetadataList"
    assert set(answer["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_a_client_that_takes_no_json_is_told_so(client: Client) -> None:
    answer = await client.refused(406, "GET", "/api/v1/nodes", accept="application/vnd.kubernetes.protobuf")
    assert answer["reason"] == "NotAcceptable"


async def test_the_server_says_its_version_and_that_it_is_well(client: Client) -> None:
    assert (await client.ok("GET", "/version"))["gitVersion"] == "v1.36.3"
    assert (await client.send("GET", "/readyz")).body == b"ok"


async def test_discovery_lists_resources_in_both_forms(client: Client) -> None:
    plain = await client.ok("GET", "/api/v1")
    listed = {resource["name"]: resource for resource in plain["resources"]}
    assert listed["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "kind": "Eviction",
        "group": "policy",
        "version": "v1",
        "verbs": ["create"],
    }
    assert listed["nodes"]["shortNames"] == ["no"]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    response = await client.send("GET", "/apis", accept=accept)
    assert response.headers["content-type"].endswith("as=APIGroupDiscoveryList")
    assert b'"resource":"deployments"' in response.body


async def test_events_show_their_other_face_in_their_own_group(client: Client, storage: Storage) -> None:
    body = {
        "metadata": {"name": "e1"},
        "regarding": {"kind": "Node", "name": "n1"},
        "note": "hello",
        "reason": "Cordoned",
        "type": "Normal",
        "reportingController": "healer",
    }
    made = await client.ok("POST", "/apis/events.k8s.io/v1/namespaces/default/events", body)
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
    core = await client.ok("GET", "/api/v1/namespaces/default/events/e1")
    assert (core["apiVersion"], core["message"], core["reportingComponent"]) == ("v1", "hello", "healer")
    assert core["involvedObject"] == {"kind": "Node", "name": "n1"}
    listed = await client.ok("GET", "/apis/events.k8s.io/v1/events", fieldSelector="regarding.name=n1")
    assert listed["items"][0]["regarding"]["name"] == "n1"
