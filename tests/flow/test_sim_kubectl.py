"""The real kubectl against the simulated API server: what an engineer types must do what it does on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from healer.clock import SystemClock
from healer.sim.api import Api
from healer.sim.server import kubeconfig, serve
from healer.sim.storage import Storage

JSON = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
READY = {"type": "Ready", "status": "True", "reason": "Here", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.fixture(scope="session")
def kubectl_path() -> Path:
    """The real kubectl, fetched the first time it is needed."""
    fetch = [sys.executable, str(ROOT / "tests" / "tools" / "fetch_kubectl.py")]
    folder = subprocess.run(fetch, check=True, capture_output=True, text=True).stdout.strip()
    return Path(folder) / "kubectl"


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, path: Path, folder: Path, url: str) -> None:
        self._path = path
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(url))
        self._environment = os.environ | {
            "KUBECONFIG": str(config),
            "KUBECACHEDIR": str(folder / "cache"),
            "HOME": str(folder),
        }

    async def __call__(self, *arguments: str, sent: str = "", code: int = 0) -> str:
        """What it prints; fails the test when it does not exit with `code`."""
        process = await asyncio.create_subprocess_exec(
            self._path,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate(sent.encode())
        text = out.decode()
        assert process.returncode == code, f"kubectl {' '.join(arguments)}: {text}"
        return text


def a_node(name: str) -> JSON:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": f"sim://{name}"},
        "status": {
            "conditions": [READY],
            "allocatable": {"cpu": "4", "memory": "8Gi"},
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }


def a_pod(name: str, node: str, owner: JSON, kind: str = "ReplicaSet") -> JSON:
    metadata = owner["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    containers = [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]
    return {
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [reference | {"controller": True}]},
        "spec": {"nodeName": node, "containers": containers},
        "status": {
            "phase": "Running",
            "conditions": [READY],
            "containerStatuses": [{"name": "web", "ready": True, "restartCount": 2, "state": {"running": {}}}],
        },
    }


@pytest.fixture
def storage() -> Storage:
    """Two nodes; a Deployment with three pods and a budget that lets one go; a DaemonSet's pod."""
    storage = Storage(now=SystemClock().now)
    for name in ("n1", "n2"):
        storage.create("nodes", a_node(name))
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 3, "selector": selector, "template": template}
    status = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
    storage.create("deployments", {"metadata": {"name": "web"}, "spec": spec, "status": status})
    owner = storage.create("replicasets", {"metadata": {"name": "web-1"}, "spec": spec})
    agent = storage.create("daemonsets", {"metadata": {"name": "agent"}, "spec": {"template": template}})
    for name in ("web-a", "web-b"):
        storage.create("pods", a_pod(name, "n1", owner))
    storage.create("pods", a_pod("web-c", "n2", owner))
    pod = a_pod("agent-a", "n1", agent, kind="DaemonSet")
    pod["metadata"]["labels"] = {"app": "agent"}
    storage.create("pods", pod)
    budget = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}
    storage.create(
        "poddisruptionbudgets",
        {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": selector}, "status": budget},
    )
    return storage


@pytest.fixture
def api(storage: Storage) -> Api:
    return Api(storage, now=SystemClock().now)


@pytest.fixture
async def kubectl(api: Api, kubectl_path: Path, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with serve(api) as url:
        yield Kubectl(kubectl_path, tmp_path, url)


@contextmanager
def kubelets(storage: Storage) -> Iterator[None]:
    """Stand in for the kubelets and the disruption controller: what is marked goes, and the budget recovers."""
    loop = asyncio.get_running_loop()

    def work() -> None:
        for pod in storage.items("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                storage.remove("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        storage.update(
            "poddisruptionbudgets", "default", "web", lambda copy: copy["status"].update(disruptionsAllowed=1)
        )

    unsubscribe = storage.subscribe(lambda: loop.call_soon(work))
    try:
        yield
    finally:
        unsubscribe()


def names(storage: Storage, resource: str) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in storage.items(resource))


async def test_get_shows_the_tables_that_engineers_know(kubectl: Kubectl) -> None:
    lines = (await kubectl("get", "nodes")).splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert lines[1].split()[:3] == ["n1", "Ready", "<none>"]
    wide = await kubectl("get", "pods", "-o", "wide", "-l", "app in (web)", "--field-selector", "spec.nodeName=n1")
    assert [line.split()[:4] for line in wide.splitlines()[1:]] == [
        ["web-a", "1/1", "Running", "2"],
        ["web-b", "1/1", "Running", "2"],
    ]
    assert "3/3" in await kubectl("get", "deploy,rs,ds,pdb,events,leases", "-A")


async def test_every_resource_can_be_listed_by_name_and_short_name(kubectl: Kubectl) -> None:
    listed = await kubectl("api-resources", "--verbs=list", "-o", "name")
    for name in listed.split():
        await kubectl("get", name, "-A")
    await kubectl("get", "no,po,pdb,hpa,sts,pvc,pv,cj,ns")
    assert "v1.36.3" in await kubectl("version")


async def test_a_missing_object_is_told_as_always(kubectl: Kubectl) -> None:
    assert await kubectl("get", "pod", "gone", code=1) == 'Error from server (NotFound): pods "gone" not found\n'


async def test_describe_shows_a_node_with_its_pods_and_events(kubectl: Kubectl, storage: Storage) -> None:
    about = {"kind": "Node", "name": "n1", "uid": "n1"}
    event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about, "type": "Normal"}
    when = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
    storage.create("events", event | when | {"reason": "Watched", "message": "it is watched"})
    text = await kubectl("describe", "node", "n1")
    for part in ("Unschedulable:      false", "(3 in total)", "web-a", "750m (18%)", "it is watched"):
        assert part in text
    assert "Controlled By:  ReplicaSet/web-1" in await kubectl("describe", "pod", "web-a")
    assert "3 desired | 3 updated | 3 total | 3 available" in await kubectl("describe", "deploy", "web")
    assert "Allowed disruptions:  1" in await kubectl("describe", "pdb", "web")


async def test_cordon_and_uncordon_are_one_patch_each(kubectl: Kubectl, storage: Storage, api: Api) -> None:
    assert await kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert "Ready,SchedulingDisabled" in await kubectl("get", "node", "n1")
    assert await kubectl("cordon", "n1") == "node/n1 already cordoned\n"
    assert await kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    assert len(api.asked("PATCH", "/nodes/n1")) == 2
    assert [node["spec"].get("unschedulable") for node in storage.items("nodes")] == [None, None]


async def test_drain_evicts_within_the_budget_and_leaves_daemons(kubectl: Kubectl, storage: Storage, api: Api) -> None:
    assert "cannot delete DaemonSet-managed Pods" in await kubectl("drain", "n1", code=1)
    with kubelets(storage):
        text = await kubectl("drain", "n1", "--ignore-daemonsets", "--timeout=30s")
    assert "node/n1 drained" in text
    assert names(storage, "pods") == ["agent-a", "web-c"]
    assert len([record for record in api.asked("POST", "/eviction") if record.status == 201]) == 2


async def test_drain_waits_while_the_budget_says_no(kubectl: Kubectl, storage: Storage, api: Api) -> None:
    storage.update("poddisruptionbudgets", "default", "web", lambda copy: copy["status"].update(disruptionsAllowed=0))
    text = await kubectl("drain", "n1", "--ignore-daemonsets", "--timeout=1s", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in text
    assert {record.status for record in api.asked("POST", "/eviction")} == {429}
    assert names(storage, "pods") == ["agent-a", "web-a", "web-b", "web-c"]


async def test_a_drain_as_dry_run_on_the_server_changes_nothing(kubectl: Kubectl, storage: Storage) -> None:
    before = storage.version
    text = await kubectl("drain", "n1", "--ignore-daemonsets", "--dry-run=server")
    assert "node/n1 drained (server dry run)" in text
    assert storage.version == before


async def test_delete_waits_until_the_pod_is_gone(kubectl: Kubectl, storage: Storage) -> None:
    with kubelets(storage):
        assert 'pod "web-a" deleted' in await kubectl("delete", "pod", "web-a")
    assert "web-a" not in names(storage, "pods")
    await kubectl("delete", "pod", "web-b", "--grace-period=0", "--force")
    assert "web-b" not in names(storage, "pods")
    await kubectl("delete", "node", "n2")
    assert names(storage, "nodes") == ["n1"]


async def test_scale_and_rollout_restart_change_the_deployment(kubectl: Kubectl, storage: Storage) -> None:
    assert await kubectl("scale", "deploy", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert await kubectl("rollout", "restart", "deploy", "web") == "deployment.apps/web restarted\n"
    (web_,) = storage.items("deployments")
    assert web_["spec"]["replicas"] == 5
    assert "kubectl.kubernetes.io/restartedAt" in web_["spec"]["template"]["metadata"]["annotations"]
    assert web_["metadata"]["generation"] == 3
    status = {"observedGeneration": 3, "replicas": 5, "updatedReplicas": 5, "readyReplicas": 5, "availableReplicas": 5}
    storage.update("deployments", "default", "web", lambda copy: copy.update(status=status), status=True)
    assert "successfully rolled out" in await kubectl("rollout", "status", "deploy", "web", "--timeout=10s")


async def test_wait_hears_of_the_condition_by_watch(
    kubectl: Kubectl, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe, watched = storage.subscribe, asyncio.Event()

    def subscribed(wake: Callable[[], object]) -> Callable[[], None]:
        watched.set()
        return subscribe(wake)

    monkeypatch.setattr(storage, "subscribe", subscribed)

    def unready(copy: JSON) -> None:
        copy["status"]["conditions"] = [READY | {"status": "False"}]

    def ready(copy: JSON) -> None:
        copy["status"]["conditions"] = [READY]

    storage.update("nodes", "", "n1", unready, status=True)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(kubectl("wait", "--for=condition=Ready", "node/n1", "--timeout=20s"))
        await watched.wait()
        storage.update("nodes", "", "n1", ready, status=True)
        assert await waiting == "node/n1 condition met\n"


async def test_patches_labels_and_taints_of_every_kind(kubectl: Kubectl, storage: Storage) -> None:
    await kubectl("patch", "node", "n1", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    await kubectl("patch", "node", "n1", "-p", '{"spec":{"unschedulable":true}}')
    await kubectl("patch", "node", "n1", "--type=json", "-p", '[{"op":"remove","path":"/spec/unschedulable"}]')
    refused = '[{"op":"test","path":"/metadata/uid","value":"x"}]'
    assert "The request is invalid" in await kubectl("patch", "node", "n1", "--type=json", "-p", refused, code=1)
    patch = '{"status":{"conditions":[{"type":"Extra","status":"True"}]}}'
    await kubectl("patch", "node", "n1", "--subresource=status", "-p", patch)
    await kubectl("label", "node", "n1", "c=d")
    await kubectl("annotate", "node", "n1", "e=f")
    await kubectl("taint", "node", "n1", "k=v:NoExecute")
    assert "is invalid: metadata.labels" in await kubectl(
        "patch", "node", "n1", "-p", '{"metadata":{"labels":{"a":"no good"}}}', code=1
    )
    node = storage.get("nodes", "", "n1")
    assert node is not None
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "n1", "a": "b", "c": "d"}
    assert node["spec"] == {
        "providerID": "sim://n1",
        "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}],
    }
    assert sorted(condition["type"] for condition in node["status"]["conditions"]) == ["Extra", "Ready"]


async def test_apply_creates_changes_and_only_pretends_in_a_dry_run(kubectl: Kubectl, storage: Storage) -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"
    changed = manifest.replace("a: '1'", "b: '2'")
    assert (
        await kubectl("apply", "--dry-run=server", "-f", "-", sent=manifest) == "configmap/c created (server dry run)\n"
    )
    assert names(storage, "configmaps") == []
    assert await kubectl("apply", "-f", "-", sent=manifest) == "configmap/c created\n"
    assert await kubectl("apply", "-f", "-", sent=manifest) == "configmap/c unchanged\n"
    assert await kubectl("apply", "-f", "-", sent=changed) == "configmap/c configured\n"
    assert storage.items("configmaps")[0]["data"] == {"b": "2"}
    server_side = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert await kubectl(*server_side, sent=manifest) == "configmap/c serverside-applied\n"
    assert json.loads(await kubectl("get", "cm", "c", "-o", "json"))["data"] == {"a": "1", "b": "2"}


async def test_a_bearer_token_is_asked_for_where_there_is_one(api: Api) -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text="up 1\n")

    extra = [web.get("/metrics", metrics)]
    async with serve(api, token="secret", extra=extra) as url, aiohttp.ClientSession() as session:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer no"}, 401),
            ({"Authorization": "Bearer secret"}, 200),
        ):
            async with session.get(f"{url}/api/v1/nodes", headers=headers) as response:
                assert response.status == status
        async with session.get(f"{url}/metrics") as response:
            assert await response.text() == "up 1\n"


async def test_over_http_a_server_that_is_down_breaks_connections_and_watches(api: Api) -> None:
    async with serve(api) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/api/v1/nodes", params={"watch": "true"}) as response:
            assert json.loads(await response.content.readline())["type"] == "ADDED"
            assert json.loads(await response.content.readline())["type"] == "ADDED"
            api.faults.down = True
            with pytest.raises(aiohttp.ClientError):
                await response.content.readline()
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{url}/api/v1/nodes", json={})
        api.faults.down = False
        async with session.get(f"{url}/readyz") as response:
            assert response.status == 200
