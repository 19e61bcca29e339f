"""The objects of the simulated cluster, as they are first written: nodes, leases, pods, workloads, budgets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from healer.sim import objects
from healer.sim.cloud import Instance
from healer.sim.objects import JSON

KUBELET_VERSION: Final = "v1.34.1"
PRESSURES: Final = (
    ("MemoryPressure", ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")),
    ("DiskPressure", ("KubeletHasNoDiskPressure", "kubelet has no disk pressure")),
    ("PIDPressure", ("KubeletHasSufficientPID", "kubelet has sufficient PID available")),
)
CAPACITY: Final[Mapping[str, tuple[str, str]]] = {
    "sim.large": ("4", "16Gi"),
    "sim.xlarge": ("8", "32Gi"),
    "sim.small": ("2", "4Gi"),
}
"""CPU and memory of the machine types."""
DAEMON_TOLERATIONS: Final = tuple(
    {"key": key, "operator": "Exists", "effect": effect}
    for key, effect in (
        (objects.NOT_READY, "NoExecute"),
        (objects.UNREACHABLE, "NoExecute"),
        (objects.DISK_PRESSURE, "NoSchedule"),
        (objects.MEMORY_PRESSURE, "NoSchedule"),
        (objects.PID_PRESSURE, "NoSchedule"),
        (objects.UNSCHEDULABLE, "NoSchedule"),
    )
)


def addresses(machine: Instance, *, uid: str = "") -> tuple[str, str]:
    """The node's address, and that of the pod with this UID."""
    number = int(machine.id.rpartition("-")[2])
    pod = int(hashlib.sha256(uid.encode()).hexdigest()[:2], 16) if uid else 0
    return f"10.0.{number // 250}.{number % 250 + 1}", f"10.{100 + number // 250}.{number % 250}.{pod}"


def node(machine: Instance, conditions: Iterable[tuple[str, str, str, str]]) -> JSON:
    """The node that the kubelet of `machine` registers."""
    cpu, memory = CAPACITY[machine.instance_type]
    size = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    ready = any((type_, status) == ("Ready", "True") for type_, status, _, _ in conditions)
    spec: JSON = {"providerID": machine.provider_id, "podCIDR": addresses(machine)[1].rpartition(".")[0] + ".0/24"}
    if not ready:
        spec["taints"] = [{"key": objects.NOT_READY, "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.node_name,
            "labels": {
                objects.HOSTNAME: machine.node_name,
                objects.ZONE: machine.zone,
                "topology.kubernetes.io/region": machine.zone.rpartition("-")[0] or machine.zone,
                objects.POOL: machine.pool,
                objects.INSTANCE_TYPE: machine.instance_type,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
            "annotations": {},
        },
        "spec": spec,
        "status": {
            "capacity": size,
            "allocatable": dict(size),
            "conditions": [],
            "addresses": [
                {"type": "InternalIP", "address": addresses(machine)[0]},
                {"type": "Hostname", "address": machine.node_name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": machine.id,
                "systemUUID": machine.id,
                "bootID": machine.boot_id,
                "kernelVersion": "6.12.0-sim",
                "osImage": "Simulated Linux 1",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [],
        },
    }


def lease(name: str, node_uid: str, seconds: int, at: str) -> JSON:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": objects.LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}],
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": at},
    }


def container(name: str, image: str, *, cpu: str = "", memory: str = "", memory_limit: str = "") -> JSON:
    resources: JSON = {}
    asked = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if asked:
        resources["requests"] = asked
    if memory_limit:
        resources["limits"] = {"memory": memory_limit}
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "resources": resources}


def pod_spec(containers: list[JSON], **more: Any) -> JSON:
    return {
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        **more,
    }


def pod(
    namespace: str,
    name: str,
    *,
    spec: JSON,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: JSON | None = None,
) -> JSON:
    metadata: JSON = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owner:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def mirror_pod(template: JSON, node_name: str, node_uid: str) -> JSON:
    """The API's reflection of a static pod."""
    static = template["metadata"]
    name = f"{static['name']}-{node_name}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return pod(
        static["namespace"],
        name,
        spec={
            **template["spec"],
            "nodeName": node_name,
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
        labels=static.get("labels"),
        annotations={
            objects.MIRROR: digest,
            "kubernetes.io/config.source": "file",
            "kubernetes.io/config.hash": digest,
        },
        owner={"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": True},
    )


def template(labels: Mapping[str, str], spec: JSON, annotations: Mapping[str, str] | None = None) -> JSON:
    metadata: JSON = {"labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": spec}


def workload(kind: str, namespace: str, name: str, labels: Mapping[str, str], spec: JSON) -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
        "status": {},
    }


def budget(namespace: str, name: str, match: Mapping[str, str], **spec: int | str) -> JSON:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": dict(match)}, **spec},
        "status": {},
    }


def autoscaler(namespace: str, name: str, kind: str, target: str, lowest: int, highest: int) -> JSON:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
            "minReplicas": lowest,
            "maxReplicas": highest,
        },
        "status": {},
    }


def claim(namespace: str, name: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "volumeName": volume_name(namespace, name),
        },
        "status": {"phase": "Bound"},
    }


def volume_name(namespace: str, claim_name: str) -> str:
    return "pvc-" + hashlib.sha256(f"{namespace}/{claim_name}".encode()).hexdigest()[:12]


def attachment_name(node_name: str, volume: str) -> str:
    return "csi-" + hashlib.sha256(f"{volume}@{node_name}".encode()).hexdigest()[:16]


def attachment(node_name: str, volume: str) -> JSON:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": attachment_name(node_name, volume)},
        "spec": {"attacher": "sim.healer.dev", "nodeName": node_name, "source": {"persistentVolumeName": volume}},
        "status": {"attached": False},
    }
