"""Worlds in a line or two, for the demo and for tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from healer.sim import manifests, objects
from healer.sim.core import Options
from healer.sim.load import Load
from healer.sim.objects import JSON
from healer.sim.world import World

START: Final = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""A Monday morning."""
ZONES: Final = ("zone-a", "zone-b", "zone-c", "zone-d", "zone-e", "zone-f")


def empty_world(*, start: datetime = START, seed: int = 0, options: Options | None = None) -> World:
    """A world without a node: namespaces only."""
    world = World(start=start, seed=seed, options=options)
    for namespace in ("default", "kube-system", "kube-public", objects.LEASE_NAMESPACE):
        add_namespace(world, namespace)
    return world


def a_world(
    nodes: int = 12,
    zones: int = 3,
    *,
    start: datetime = START,
    seed: int = 0,
    options: Options | None = None,
    namespace_apps: str = "shop",
    with_apps: bool = True,
) -> World:
    """A cluster at rest: `nodes` nodes over `zones` zones, system pods, and (with_apps) a shop under load."""
    world = empty_world(start=start, seed=seed, options=options)
    world.kubelets.static.append(
        {
            "metadata": {"name": "kube-proxy", "namespace": "kube-system", "labels": {"k8s-app": "kube-proxy"}},
            "spec": manifests.pod_spec(
                [manifests.container("kube-proxy", "registry.example/kube-proxy:v1", cpu="50m", memory="64Mi")],
                hostNetwork=True,
                priority=2000001000,
            ),
        }
    )
    add_daemonset(world, "kube-system", "node-agent")
    for index in range(nodes):
        add_node(world, zone=ZONES[index % zones])
    if with_apps:
        _add_shop(world, namespace_apps)
    world.settle()
    return world


def _add_shop(world: World, namespace: str) -> None:
    add_namespace(world, namespace)
    for name, replicas, rate in (("cart", 6, 120.0), ("web", 8, 300.0), ("checkout", 4, 40.0)):
        add_deployment(world, namespace, name, replicas=replicas, requests_per_second=rate)
        add_pdb(world, namespace, name, max_unavailable=1)
    add_statefulset(world, namespace, "db", replicas=3)
    add_pdb(world, namespace, "db", max_unavailable=1)
    add_autoscaler(world, namespace, "web", lowest=4, highest=12)


def add_namespace(world: World, name: str) -> None:
    if world.storage.get("namespaces", "", name) is None:
        labels = {"kubernetes.io/metadata.name": name}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"finalizers": ["kubernetes"]}}
        world.storage.create("namespaces", {**body, "status": {"phase": "Active"}})


def add_node(
    world: World,
    name: str = "",
    *,
    zone: str = "zone-a",
    pool: str = "general",
    instance_type: str = "sim.large",
    labels: Mapping[str, str] | None = None,
    taints: list[JSON] | None = None,
) -> str:
    """A running machine whose node is Ready now; the node's name."""
    machine = world.cloud.launch(zone=zone, pool=pool, instance_type=instance_type, node_name=name, running=True)
    world.settle()
    if labels or taints:

        def change(node: JSON) -> None:
            node["metadata"]["labels"].update(labels or {})
            if taints:
                node["spec"]["taints"] = taints

        world.storage.update("nodes", "", machine.node_name, change)
        world.settle()
    return machine.node_name


def add_deployment(
    world: World,
    namespace: str,
    name: str,
    *,
    replicas: int = 1,
    cpu: str = "200m",
    memory: str = "256Mi",
    memory_limit: str = "512Mi",
    requests_per_second: float = 0.0,
    annotations: Mapping[str, str] | None = None,
    strategy: JSON | None = None,
    **spec: Any,
) -> JSON:
    """A Deployment; `annotations` go to its pods, `spec` into their spec. With a rate it is under load."""
    add_namespace(world, namespace)
    body = manifests.workload(
        "Deployment",
        namespace,
        name,
        {"app": name},
        {
            "replicas": replicas,
            "strategy": strategy
            or {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": _template(name, cpu, memory, memory_limit, annotations, spec),
        },
    )
    if requests_per_second:
        per_pod = requests_per_second / max(1, replicas) * 2
        world.loads.put(namespace, name, Load(requests_per_second=requests_per_second, capacity_per_pod=per_pod))
    return world.storage.create("deployments", body)


def add_statefulset(
    world: World,
    namespace: str,
    name: str,
    *,
    replicas: int = 3,
    cpu: str = "300m",
    memory: str = "512Mi",
    memory_limit: str = "1Gi",
    volume: bool = True,
    parallel: bool = False,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> JSON:
    """A StatefulSet whose pods each have a volume of their own, unless `volume` is false."""
    add_namespace(world, namespace)
    more: JSON = {}
    if volume:
        more["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    body = manifests.workload(
        "StatefulSet",
        namespace,
        name,
        {"app": name},
        {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate"},
            "template": _template(name, cpu, memory, memory_limit, annotations, spec),
            **more,
        },
    )
    return world.storage.create("statefulsets", body)


def add_daemonset(
    world: World, namespace: str, name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any
) -> JSON:
    add_namespace(world, namespace)
    body = manifests.workload(
        "DaemonSet",
        namespace,
        name,
        {"app": name},
        {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": _template(name, "50m", "64Mi", "128Mi", annotations, spec),
        },
    )
    return world.storage.create("daemonsets", body)


def add_pdb(
    world: World,
    namespace: str,
    app: str,
    *,
    name: str = "",
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    unhealthy_pod_eviction_policy: str = "",
) -> JSON:
    """A budget for the pods labelled `app`; `name` is the app's unless given."""
    add_namespace(world, namespace)
    spec: dict[str, int | str] = {}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if max_unavailable is not None:
        spec["maxUnavailable"] = max_unavailable
    if unhealthy_pod_eviction_policy:
        spec["unhealthyPodEvictionPolicy"] = unhealthy_pod_eviction_policy
    body = manifests.budget(namespace, name or app, {"app": app}, **spec)
    return world.storage.create("poddisruptionbudgets", body)


def add_autoscaler(
    world: World, namespace: str, name: str, *, kind: str = "Deployment", lowest: int = 1, highest: int = 10
) -> JSON:
    body = manifests.autoscaler(namespace, name, kind, name, lowest, highest)
    return world.storage.create("horizontalpodautoscalers", body)


def add_bare_pod(
    world: World,
    namespace: str,
    name: str,
    *,
    node: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: list[str] | None = None,
    **spec: Any,
) -> JSON:
    """A pod that nobody owns."""
    add_namespace(world, namespace)
    containers = [manifests.container("main", f"registry.example/{name}:v1", cpu="100m", memory="64Mi")]
    more = {**spec, "nodeName": node} if node else spec
    body = manifests.pod(
        namespace, name, spec=manifests.pod_spec(containers, **more), labels=labels, annotations=annotations
    )
    if finalizers:
        body["metadata"]["finalizers"] = finalizers
    return world.storage.create("pods", body)


def _template(
    app: str,
    cpu: str,
    memory: str,
    memory_limit: str,
    annotations: Mapping[str, str] | None,
    spec: Mapping[str, Any],
) -> JSON:
    containers = [
        manifests.container(app, f"registry.example/{app}:v1", cpu=cpu, memory=memory, memory_limit=memory_limit)
    ]
    return manifests.template({"app": app}, manifests.pod_spec(containers, **spec), annotations)
