import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from healer.kube import objects, pods, wire
from healer.model.cluster import Owner, Pod, Resources, Taint, Toleration

METADATA = {
    "name": "web-1",
    "namespace": "shop",
    "uid": "uid-1",
    "resourceVersion": "42",
    "creationTimestamp": "2026-01-05T09:00:00Z",
    "labels": {"app": "web"},
    "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{…}"},
    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u0"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True},
    ],
    "finalizers": ["example.com/hold"],
}


def read_pod(spec: Any = None, status: Any = None, **metadata: Any) -> Pod:
    text = json.dumps({"metadata": METADATA | metadata, "spec": spec or {}, "status": status or {}})
    return pods.pod(msgspec.json.decode(text, type=wire.Pod), "test")


def test_a_pod_is_read_with_its_owner_and_without_what_kubectl_keeps_for_itself() -> None:
    pod = read_pod(
        {"nodeName": "n1", "priority": 7, "containers": [{"name": "c", "image": "i:1"}]},
        {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "c",
                    "ready": True,
                    "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                }
            ],
        },
    )
    assert str(pod.ref) == "pod/shop/web-1"
    assert (pod.ref.uid, pod.resource_version, pod.node_name, pod.phase, pod.ready) == (
        "uid-1",
        "42",
        "n1",
        "Running",
        True,
    )
    assert pod.owner == Owner(kind="ReplicaSet", name="web", uid="u1")
    assert dict(pod.annotations) == {"a": "b"}
    assert pod.created_at == datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    assert (pod.finalizers, pod.priority, pod.ip) == (("example.com/hold",), 7, "10.0.0.1")
    (container,) = pod.containers
    assert (container.image, container.ready, container.restarts) == ("i:1", True, 3)
    assert (container.waiting_reason, container.last_exit_reason) == ("CrashLoopBackOff", "OOMKilled")


def test_what_is_missing_or_null_is_empty() -> None:
    pod = read_pod(
        {"containers": None, "volumes": None, "tolerations": None},
        {"conditions": None, "containerStatuses": None},
        labels=None,
        annotations=None,
        ownerReferences=None,
        finalizers=None,
        creationTimestamp=None,
    )
    assert (pod.containers, pod.owner, pod.created_at, dict(pod.labels)) == ((), None, None, {})
    assert pod.grace_seconds == 30


def test_deletion_began_before_the_grace_period_whose_end_the_api_shows() -> None:
    pod = read_pod(
        {"terminationGracePeriodSeconds": 30},
        deletionTimestamp="2026-01-05T09:10:00Z",
        deletionGracePeriodSeconds=120,
    )
    assert pod.deleting_since == datetime(2026, 1, 5, 9, 8, tzinfo=UTC)
    assert pod.grace_seconds == 120


def test_requests_are_what_the_scheduler_counts() -> None:
    def asks(cpu: str, memory: str, **rest: Any) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **rest}

    spec = {
        "initContainers": [asks("100m", "64Mi", restartPolicy="Always"), asks("2", "32Mi")],
        "containers": [asks("250m", "128Mi"), asks("1", "1Gi")],
        "overhead": {"cpu": "10m"},
    }
    # One sidecar of 100m stays; the init container beside it wants more CPU than the containers, but less memory.
    assert read_pod(spec).requests == Resources(cpu_millicores=2110, memory_bytes=(64 + 128 + 1024) * 2**20, pods=1)


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], ("n1",)),
        (
            [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}]}],
            ("n1", "n2"),
        ),
        ([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}], ()),
        (
            [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            ],
            (),
        ),
        ([], ()),
    ],
    ids=["by name", "by host name", "by zone", "by name or zone", "none"],
)
def test_nodes_that_an_affinity_names_are_the_only_places(terms: Any, names: tuple[str, ...]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert read_pod({"affinity": {"nodeAffinity": required}}).required_node_names == names


def test_data_on_the_node_is_told_from_data_elsewhere() -> None:
    pod = read_pod(
        {
            "volumes": [
                {"name": "scratch", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory"}},
                {"name": "logs", "hostPath": {"path": "/var/log"}},
                {"name": "db", "persistentVolumeClaim": {"claimName": "db-0"}},
                {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "conf", "configMap": {"name": "c"}},
            ]
        }
    )
    assert pod.local_volumes == ("scratch", "logs")
    assert pod.claims == ("db-0", "web-1-tmp")


def test_tolerations_keep_their_bounds() -> None:
    pod = read_pod(
        {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}
    )
    assert pod.tolerations == (Toleration(key="k", operator="Exists", effect="NoExecute", seconds=300),)


def test_a_node_is_read_with_conditions_taints_and_capacity() -> None:
    found = {
        "metadata": {"name": "n1", "uid": "u", "deletionTimestamp": "2026-01-05T09:00:00Z"},
        "spec": {"unschedulable": True, "providerID": "sim:///a/i-1", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"bootID": "boot-1", "kubeletVersion": "v1.33.1"},
            "allocatable": {"cpu": "3900m", "memory": "16Gi", "pods": "110"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "lastHeartbeatTime": "2026-01-05T08:59:00Z",
                    "lastTransitionTime": "2026-01-05T09:00:00Z",
                }
            ],
        },
    }
    node = objects.node(msgspec.json.decode(json.dumps(found), type=wire.Node), "test")
    assert (node.identity.uid, node.identity.provider_id, node.identity.boot_id) == ("u", "sim:///a/i-1", "boot-1")
    assert (node.deleting, node.unschedulable, node.ready) == (True, True, False)
    assert node.taints == (Taint(key="k", effect="NoSchedule"),)
    assert node.addresses == ("10.0.0.1", "n1")
    assert node.allocatable == Resources(cpu_millicores=3900, memory_bytes=16 * 2**30, pods=110)
    assert node.conditions["Ready"].heartbeat_at == datetime(2026, 1, 5, 8, 59, tzinfo=UTC)


def read_workload(kind: str, spec: Any, status: Any) -> Any:
    text = json.dumps({"metadata": METADATA | {"generation": 4}, "spec": spec, "status": status})
    return objects.workload(msgspec.json.decode(text, type=wire.Workload), "test", kind)


def test_a_deployment_tells_wanted_from_there() -> None:
    found = read_workload(
        "Deployment",
        {
            "replicas": 3,
            "paused": True,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"annotations": {"restartedAt": "x"}}},
        },
        {"replicas": 4, "readyReplicas": 2, "availableReplicas": 1, "updatedReplicas": 3, "observedGeneration": 3},
    )
    assert (found.replicas, found.current, found.ready, found.available, found.updated) == (3, 4, 2, 1, 3)
    assert (found.generation, found.observed_generation, found.paused) == (4, 3, True)
    assert (dict(found.selector), dict(found.template_annotations)) == ({"app": "web"}, {"restartedAt": "x"})


def test_a_daemonset_counts_nodes() -> None:
    status = {
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": 4,
        "numberReady": 3,
        "numberAvailable": 2,
        "updatedNumberScheduled": 1,
        "numberMisscheduled": 6,
    }
    found = read_workload("DaemonSet", {}, status)
    assert (found.replicas, found.current, found.ready, found.available, found.updated, found.misscheduled) == (
        5,
        4,
        3,
        2,
        1,
        6,
    )


def test_a_job_counts_its_pods_by_outcome() -> None:
    status = {
        "active": 2,
        "succeeded": 3,
        "failed": 1,
        "startTime": "2026-01-05T09:00:00Z",
        "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}],
    }
    found = read_workload("Job", {"parallelism": 4, "suspend": False}, status)
    assert (found.replicas, found.current, found.succeeded, found.failed) == (4, 2, 3, 1)
    assert found.conditions["Failed"].reason == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({}, True),
        (None, False),
    ],
    ids=["labels", "other labels", "a set", "empty", "none"],
)
def test_a_budget_covers_what_its_selector_says(selector: Any, covers: bool) -> None:
    text = json.dumps({"metadata": METADATA, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 1}})
    budget = objects.budget(msgspec.json.decode(text, type=wire.Budget), "test")
    assert budget.selects(read_pod()) is covers
    assert budget.disruptions_allowed == 1


def test_an_autoscaler_names_what_it_scales() -> None:
    found = {
        "metadata": METADATA,
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 9},
        "status": {"currentReplicas": 3, "desiredReplicas": 4},
    }
    scaler = objects.autoscaler(msgspec.json.decode(json.dumps(found), type=wire.Autoscaler), "test")
    assert (scaler.target_kind, scaler.target_name, scaler.min_replicas, scaler.max_replicas) == (
        "Deployment",
        "web",
        1,
        9,
    )
    assert (scaler.current, scaler.desired) == (3, 4)
