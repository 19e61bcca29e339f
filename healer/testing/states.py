"""Builders of cluster states: a world as the core sees it, in a line or two.

state = a_cluster(*[a_node(f"n{i}") for i in range(5)], a_pod("web-1", on="n0"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from healer.model.cluster import (
    ZONE_LABEL,
    Autoscaler,
    Budget,
    ClusterState,
    Condition,
    Container,
    Freshness,
    Node,
    Owner,
    Pod,
    Workload,
)
from healer.model.targets import ObjectRef

CLUSTER: Final = "test"
FRESH: Final = Freshness(synced=True, silent_seconds=0.0, healthy_seconds=3600.0)
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


def a_ref(kind: str, name: str, namespace: str = "", *, uid: str = "", cluster: str = CLUSTER) -> ObjectRef:
    """Its UID is made from kind and name unless given."""
    return ObjectRef(
        cluster=cluster, kind=kind, name=name, namespace=namespace, uid=uid or f"{kind.lower()}-{namespace}-{name}"
    )


def a_node(
    name: str,
    *,
    ready: str = "True",
    zone: str = "a",
    pool: str = "",
    uid: str = "",
    cluster: str = CLUSTER,
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> Node:
    """`ready`: status of its condition. Everything else as in `Node`."""
    named = {ZONE_LABEL: zone} if zone else {}
    if pool:
        named["healer.dev/pool"] = pool
    conditions = {"Ready": Condition(type="Ready", status=ready), **fields.pop("conditions", {})}
    fields.setdefault("provider_id", f"sim:///{zone}/{name}")
    fields.setdefault("boot_id", f"boot-{name}")
    fields.setdefault("created_at", EPOCH)
    return Node(
        ref=a_ref("Node", name, uid=uid, cluster=cluster),
        labels={**named, **(labels or {})},
        conditions=conditions,
        **fields,
    )


def a_pod(
    name: str,
    *,
    on: str = "",
    namespace: str = "shop",
    owner: ObjectRef | None = None,
    ready: bool = True,
    uid: str = "",
    cluster: str = CLUSTER,
    **fields: Any,
) -> Pod:
    """A running pod on node `on`. Everything else as in `Pod`."""
    fields.setdefault("phase", "Running")
    fields.setdefault("containers", (Container(name="main", ready=ready),))
    return Pod(
        ref=a_ref("Pod", name, namespace, uid=uid, cluster=cluster),
        node_name=on,
        owner=Owner(kind=owner.kind, name=owner.name, uid=owner.uid) if owner else None,
        ready=ready,
        **fields,
    )


def a_workload(
    kind: str, name: str, *, namespace: str = "shop", replicas: int = 1, owner: ObjectRef | None = None, **fields: Any
) -> Workload:
    """A workload that has all it wants. Everything else as in `Workload`."""
    for counter in ("ready", "available", "updated", "current"):
        fields.setdefault(counter, replicas)
    return Workload(
        ref=a_ref(kind, name, namespace),
        replicas=replicas,
        owner=Owner(kind=owner.kind, name=owner.name, uid=owner.uid) if owner else None,
        **fields,
    )


def a_budget(name: str, *, namespace: str = "shop", allowed: int = 1, **fields: Any) -> Budget:
    """A disruption budget that covers its whole namespace unless told which labels. Everything else as in `Budget`."""
    fields.setdefault("expected_pods", 1)
    fields.setdefault("current_healthy", 1)
    return Budget(ref=a_ref("PodDisruptionBudget", name, namespace), disruptions_allowed=allowed, **fields)


def a_cluster(
    *objects: Node | Pod | Workload | Budget | Autoscaler,
    name: str = CLUSTER,
    freshness: Freshness = FRESH,
    attachments: Mapping[str, str] | None = None,
    heartbeats: Mapping[str, float] | None = None,
) -> ClusterState:
    """A state of exactly these objects."""
    nodes = {o.name: o for o in objects if isinstance(o, Node)}
    pods = {(o.ref.namespace, o.ref.name): o for o in objects if isinstance(o, Pod)}
    workloads = {(o.ref.kind, o.ref.namespace, o.ref.name): o for o in objects if isinstance(o, Workload)}
    by_node: dict[str, dict[tuple[str, str], Pod]] = {}
    pods_by_owner: dict[tuple[str, str, str], dict[tuple[str, str], Pod]] = {}
    workloads_by_owner: dict[tuple[str, str, str], dict[tuple[str, str, str], Workload]] = {}
    for key, pod in pods.items():
        by_node.setdefault(pod.node_name, {})[key] = pod
        if pod.owner:
            pods_by_owner.setdefault(pod.owner.key_in(pod.ref.namespace), {})[key] = pod
    for at, workload in workloads.items():
        if workload.owner:
            workloads_by_owner.setdefault(workload.owner.key_in(workload.ref.namespace), {})[at] = workload
    return ClusterState(
        name=name,
        freshness=freshness,
        nodes=nodes,
        pods=pods,
        workloads=workloads,
        budgets={(o.ref.namespace, o.ref.name): o for o in objects if isinstance(o, Budget)},
        autoscalers={(o.ref.namespace, o.ref.name): o for o in objects if isinstance(o, Autoscaler)},
        attachments=attachments or {},
        pods_by_node=by_node,
        pods_by_owner=pods_by_owner,
        workloads_by_owner=workloads_by_owner,
        heartbeats=heartbeats or {},
    )


def changed(state: ClusterState, **fields: Any) -> ClusterState:
    """The same state with other fields."""
    return dataclasses.replace(state, **fields)
