"""POST, PUT, PATCH, DELETE: what is kept, what is refused and how."""

from __future__ import annotations

from typing import Any

import pytest

from healer.sim.storage import Storage

JSON = dict[str, Any]
Client = Any
Make = Any
NODE = "/api/v1/nodes/n1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployment(name: str = "web", **spec: Any) -> JSON:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}, {"name": "side", "image": "side:1"}]},
    }
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": template} | spec}


def causes(answer: JSON) -> list[tuple[str, str]]:
    return [(cause["field"], cause["reason"]) for cause in answer["details"]["causes"]]


async def test_a_created_object_gets_kind_namespace_and_defaults(client: Client) -> None:
    made = await client.ok("POST", DEPLOYMENTS, deployment())
    assert (made["apiVersion"], made["kind"]) == ("apps/v1", "Deployment")
    assert made["metadata"]["namespace"] == "default"
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert (await client.send("POST", DEPLOYMENTS, deployment("other"))).status == 201


async def test_a_created_pod_is_pending_and_leaves_dead_nodes_after_five_minutes(client: Client) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = await client.ok("POST", "/api/v1/namespaces/default/pods", body)
    assert made["status"]["phase"] == "Pending"
    assert [(t["key"], t["tolerationSeconds"]) for t in made["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]


async def test_a_name_that_is_taken_is_refused(client: Client) -> None:
    await client.ok("POST", DEPLOYMENTS, deployment())
    answer = await client.refused(409, "POST", DEPLOYMENTS, deployment())
    assert (answer["reason"], answer["message"]) == ("AlreadyExists", 'deployments.apps "web" already exists')


async def test_a_namespace_must_be_there_and_stay(client: Client, storage: Storage) -> None:
    path = "/api/v1/namespaces/shop/configmaps"
    answer = await client.refused(404, "POST", path, {"metadata": {"name": "c"}})
    assert answer["message"] == 'namespaces "shop" not found'
    storage.create("namespaces", {"metadata": {"name": "shop", "finalizers": ["a/b"]}})
    await client.ok("POST", path, {"metadata": {"name": "c"}})
    await client.ok("DELETE", "/api/v1/namespaces/shop")
    answer = await client.refused(403, "POST", path, {"metadata": {"name": "d"}})
    assert answer["details"]["causes"][0]["reason"] == "NamespaceTerminating"


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"metadata": {"name": "Web_1"}}, "metadata.name", "FieldValueInvalid"),
        ({"metadata": {"name": "w" * 254}}, "metadata.name", "FieldValueInvalid"),
        ({"metadata": {}}, "metadata.name", "FieldValueRequired"),
        ({"metadata": {"name": "a", "labels": {"-x": "y"}}}, "metadata.labels", "FieldValueInvalid"),
        ({"metadata": {"name": "a", "labels": {"x": "y z"}}}, "metadata.labels", "FieldValueInvalid"),
        ({"spec": {"taints": [{"key": "a"}]}}, "spec.taints[0].effect", "FieldValueRequired"),
        ({"spec": {"taints": [{"key": "a", "effect": "No"}]}}, "spec.taints[0].effect", "FieldValueNotSupported"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}] * 2}}, "spec.taints[1]", "FieldValueDuplicate"),
    ],
)
async def test_what_is_invalid_is_named_by_its_field(client: Client, change: JSON, field: str, reason: str) -> None:
    body = {"metadata": {"name": "n1"}, "spec": {}} | change
    answer = await client.refused(422, "POST", "/api/v1/nodes", body)
    assert answer["reason"] == "Invalid"
    assert (field, reason) in causes(answer)


async def test_workloads_without_containers_or_with_a_foreign_selector_are_invalid(client: Client) -> None:
    body = deployment(replicas=-1, selector={"matchLabels": {"app": "other"}})
    body["spec"]["template"]["spec"]["containers"] = []
    answer = await client.refused(422, "POST", DEPLOYMENTS, body)
    assert [field for field, _ in causes(answer)] == [
        "spec.replicas",
        "spec.template.metadata.labels",
        "spec.template.spec.containers",
    ]


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", {"kind": "Pod"}, {"apiVersion": "v2"}, {"metadata": {"namespace": "elsewhere", "name": "c"}}],
    ids=["broken", "no-object", "kind", "version", "namespace"],
)
async def test_a_body_that_does_not_fit_its_path_is_a_bad_request(client: Client, body: Any) -> None:
    await client.refused(400, "POST", "/api/v1/namespaces/default/configmaps", body)


async def test_only_json_is_taken(client: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await client.refused(415, "POST", path, b"k8s\x00", kind="application/vnd.kubernetes.protobuf")
    await client.refused(415, "PATCH", f"{path}/c", {}, kind="application/json")


async def test_a_put_replaces_all_but_the_status(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    body = await client.ok("GET", NODE)
    body["metadata"]["labels"] = {"only": "one"}
    body["status"] = {"conditions": []}
    after = await client.ok("PUT", NODE, body)
    assert after["metadata"]["labels"] == {"only": "one"}
    assert after["status"]["conditions"][0]["type"] == "Ready"


async def test_a_put_from_an_old_read_is_a_conflict(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    body = await client.ok("GET", NODE)
    await client.patch(NODE, {"spec": {"unschedulable": True}})
    answer = await client.refused(409, "PUT", NODE, body)
    assert answer["reason"] == "Conflict"
    assert answer["message"] == (
        'Operation cannot be fulfilled on nodes "n1": the object has been modified; please apply your changes to the '
        "latest version and try again"
    )


async def test_leases_are_only_replaced_from_a_known_version(client: Client, storage: Storage) -> None:
    storage.create("leases", {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "a"}})
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    await client.refused(422, "PUT", path, {"spec": {"holderIdentity": "b"}})
    lease = await client.ok("GET", path)
    lease["spec"]["holderIdentity"] = "b"
    assert (await client.ok("PUT", path, lease))["spec"]["holderIdentity"] == "b"


async def test_the_status_is_changed_on_its_own_path_only(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    both = {"spec": {"unschedulable": True}, "status": {"phase": "odd"}}
    main = await client.patch(NODE, both)
    assert (main["spec"].get("unschedulable"), main["status"].get("phase")) == (True, None)
    below = await client.patch(f"{NODE}/status", {"spec": {"unschedulable": None}, "status": {"phase": "odd"}})
    assert (below["spec"].get("unschedulable"), below["status"].get("phase")) == (True, "odd")


async def test_conditions_are_merged_by_type_in_a_strategic_patch(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    body = {
        "status": {"conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "False"}]}
    }
    after = await client.patch(f"{NODE}/status", body, "strategic-merge-patch+json")
    assert [(c["type"], c["status"], c.get("reason")) for c in after["status"]["conditions"]] == [
        ("Ready", "False", "KubeletReady"),
        ("DiskPressure", "True", None),
    ]


async def test_containers_are_merged_by_name_and_merge_patches_replace_them(client: Client) -> None:
    await client.ok("POST", DEPLOYMENTS, deployment())
    body = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    after = await client.patch(f"{DEPLOYMENTS}/web", body, "strategic-merge-patch+json")
    images = [container["image"] for container in after["spec"]["template"]["spec"]["containers"]]
    assert images == ["web:2", "side:1"]
    after = await client.patch(f"{DEPLOYMENTS}/web", body)
    assert [container["image"] for container in after["spec"]["template"]["spec"]["containers"]] == ["web:2"]
    assert after["metadata"]["generation"] == 3


async def test_a_json_patch_acts_in_order_and_whole_or_not_at_all(client: Client, storage: Storage, node: Make) -> None:
    uid = storage.create("nodes", node("n1"))["metadata"]["uid"]
    good = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/spec/taints", "value": []},
        {"op": "add", "path": "/spec/taints/-", "value": {"key": "a", "effect": "NoSchedule"}},
        {"op": "replace", "path": "/metadata/labels/kubernetes.io~1hostname", "value": "other"},
    ]
    after = await client.patch(NODE, good, "json-patch+json")
    assert after["spec"]["taints"] == [{"key": "a", "effect": "NoSchedule"}]
    assert after["metadata"]["labels"] == {"kubernetes.io/hostname": "other"}
    bad = [
        {"op": "add", "path": "/spec/unschedulable", "value": True},
        {"op": "test", "path": "/metadata/uid", "value": "x"},
    ]
    answer = await client.refused(422, "PATCH", NODE, bad, kind="application/json-patch+json")
    assert answer["reason"] == "Invalid"
    assert "unschedulable" not in (await client.ok("GET", NODE))["spec"]


@pytest.mark.parametrize(
    ("metadata", "status"),
    [({"resourceVersion": "1000"}, 409), ({"uid": "other"}, 422), ({"name": "n2"}, 400)],
    ids=["version", "uid", "name"],
)
async def test_a_patch_of_another_object_than_this_is_refused(
    client: Client, storage: Storage, node: Make, metadata: JSON, status: int
) -> None:
    storage.create("nodes", node("n1"))
    body = {"metadata": metadata, "spec": {"unschedulable": True}}
    await client.refused(status, "PATCH", NODE, body, kind="application/merge-patch+json")
    assert "unschedulable" not in (await client.ok("GET", NODE))["spec"]


async def test_what_may_not_change_does_not(client: Client, storage: Storage, node: Make, pod: Make) -> None:
    storage.create("nodes", node("n1"))
    storage.create("pods", pod())
    await client.ok("POST", DEPLOYMENTS, deployment())
    merge = "application/merge-patch+json"
    answer = await client.refused(422, "PATCH", NODE, {"spec": {"providerID": "sim://n2"}}, kind=merge)
    assert causes(answer) == [("spec.providerID", "FieldValueForbidden")]
    path = "/api/v1/namespaces/shop/pods/web-1"
    answer = await client.refused(422, "PATCH", path, {"spec": {"nodeName": "n2"}}, kind=merge)
    assert causes(answer) == [("spec", "FieldValueForbidden")]
    selector = {"spec": {"selector": {"matchLabels": {"app": "x"}}}}
    answer = await client.refused(422, "PATCH", f"{DEPLOYMENTS}/web", selector, kind=merge)
    assert ("spec.selector", "FieldValueInvalid") in causes(answer)


async def test_a_server_side_apply_makes_what_is_not_there_and_merges_what_is(client: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps/c"
    yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"
    response = await client.send("PATCH", path, yaml, kind="application/apply-patch+yaml", fieldManager="t")
    assert response.status == 201
    after = await client.patch(path, {"data": {"b": "2"}}, "apply-patch+yaml")
    assert after["data"] == {"a": "1", "b": "2"}


async def test_scale_reads_and_writes_the_replicas(client: Client) -> None:
    await client.ok("POST", DEPLOYMENTS, deployment(replicas=2))
    path = f"{DEPLOYMENTS}/web/scale"
    scale = await client.ok("GET", path)
    assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["selector"]) == ("Scale", 2, "app=web")
    scale["spec"]["replicas"] = 5
    assert (await client.ok("PUT", path, scale))["spec"]["replicas"] == 5
    await client.refused(409, "PUT", path, scale)
    assert (await client.patch(path, {"spec": {"replicas": 1}}))["spec"]["replicas"] == 1
    await client.refused(422, "PATCH", path, {"spec": {"replicas": -1}}, kind="application/merge-patch+json")
    assert (await client.ok("GET", f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 1


async def test_a_dry_run_answers_as_if_and_keeps_nothing(client: Client, storage: Storage, pod: Make) -> None:
    storage.create("pods", pod())
    await client.ok("POST", DEPLOYMENTS, deployment())
    before = storage.version
    made = await client.ok("POST", DEPLOYMENTS, deployment("dry"), dryRun="All")
    assert made["metadata"]["uid"]
    await client.refused(409, "POST", DEPLOYMENTS, deployment(), dryRun="All")
    await client.refused(422, "POST", DEPLOYMENTS, deployment("No"), dryRun="All")
    patched = await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 9}}, dryRun="All")
    assert (patched["spec"]["replicas"], patched["metadata"]["generation"]) == (9, 2)
    assert (await client.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 9}}, dryRun="All"))["spec"][
        "replicas"
    ] == 9
    path = "/api/v1/namespaces/shop/pods/web-1"
    await client.ok("DELETE", path, dryRun="All")
    await client.ok("DELETE", path, {"dryRun": ["All"]})
    await client.ok("POST", f"{path}/eviction", {"deleteOptions": {"dryRun": ["All"]}})
    await client.refused(422, "DELETE", path, dryRun="Some")
    assert storage.version == before


async def test_deletion_keeps_to_its_preconditions_and_grace(client: Client, storage: Storage, pod: Make) -> None:
    made = storage.create("pods", pod())
    path = "/api/v1/namespaces/shop/pods/web-1"
    answer = await client.refused(409, "DELETE", path, {"preconditions": {"uid": "other"}})
    assert "Precondition failed: UID in precondition: other" in answer["message"]
    await client.refused(409, "DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    uid = made["metadata"]["uid"]
    marked = await client.ok("DELETE", path, {"preconditions": {"uid": uid}, "gracePeriodSeconds": 7})
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    await client.ok("DELETE", path, gracePeriodSeconds="0")
    await client.refused(404, "DELETE", path)


async def test_the_deletion_of_other_kinds_is_answered_with_a_status(
    client: Client, storage: Storage, node: Make
) -> None:
    uid = storage.create("nodes", node("n1"))["metadata"]["uid"]
    answer = await client.ok("DELETE", NODE, {"propagationPolicy": "Background"})
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "n1", "kind": "nodes", "uid": uid}
    await client.refused(422, "DELETE", NODE, {"propagationPolicy": "Whatever"})


async def test_a_collection_is_deleted_by_its_selectors(client: Client, storage: Storage, pod: Make) -> None:
    for count in range(3):
        storage.create("pods", pod(f"p{count}", node="", labels={"n": str(count)}))
    gone = await client.ok("DELETE", "/api/v1/namespaces/shop/pods", labelSelector="n in (0,2)")
    assert [item["metadata"]["name"] for item in gone["items"]] == ["p0", "p2"]
    assert [obj["metadata"]["name"] for obj in storage.items("pods")] == ["p1"]


async def test_a_namespace_takes_its_content_with_it(client: Client, storage: Storage, pod: Make) -> None:
    storage.create("pods", pod(namespace="shop"))
    storage.create("pods", pod(namespace="other"))
    await client.ok("DELETE", "/api/v1/namespaces/shop")
    assert [obj["metadata"]["namespace"] for obj in storage.items("pods")] == ["other"]


async def test_a_binding_places_a_pod_once(client: Client, storage: Storage, pod: Make) -> None:
    storage.create("pods", pod(node=""))
    path = "/api/v1/namespaces/shop/pods/web-1/binding"
    await client.ok("POST", path, {"target": {"kind": "Node", "name": "n1"}})
    assert storage.items("pods")[0]["spec"]["nodeName"] == "n1"
    await client.refused(409, "POST", path, {"target": {"name": "n2"}})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("POST", NODE),
        ("PUT", "/api/v1/nodes"),
        ("DELETE", f"{NODE}/status"),
        ("GET", "/api/v1/namespaces/shop/pods/web-1/eviction"),
        ("OPTIONS", NODE),
    ],
)
async def test_methods_that_a_path_does_not_take_are_not_allowed(client: Client, method: str, path: str) -> None:
    await client.refused(405, method, path)
