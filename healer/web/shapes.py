"""Values as the JSON API gives them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from healer.model.cluster import ClusterState, Node
from healer.model.incidents import IncidentView


def brief(view: IncidentView) -> dict[str, Any]:
    """An incident without its timeline."""
    built = whole(view)
    del built["timeline"]
    return built


def whole(view: IncidentView) -> dict[str, Any]:
    """An incident, with what its plan computes from itself."""
    built: dict[str, Any] = msgspec.to_builtins(view)
    if view.plan is not None:
        built["plan"]["blast_radius"] = dict(view.plan.blast_radius)
    return built


def cluster(state: ClusterState) -> dict[str, Any]:
    """A cluster for the map: each node with its health and how full it is."""
    nodes = sorted(state.nodes.values(), key=lambda node: (node.zone, node.name))
    return {"name": state.name, "synced": state.freshness.synced, "nodes": [_node(state, node) for node in nodes]}


def _node(state: ClusterState, node: Node) -> dict[str, Any]:
    pods = list(state.pods_on(node.name))
    return {
        "name": node.name,
        "zone": node.zone,
        "pool": node.pool,
        "ready": node.condition("Ready"),
        "unschedulable": node.unschedulable,
        "taints": [f"{taint.key}:{taint.effect}" for taint in node.taints],
        "pods": len(pods),
        "pods_not_ready": sum(1 for pod in pods if not pod.ready and not pod.is_finished),
    }


def event(name: str, value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """A server-sent event. JSON has no line breaks, so that one line of data is enough."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
