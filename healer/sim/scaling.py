"""The scale subresource: a workload's replicas, as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from healer.sim import selectors
from healer.sim.api_errors import Problems
from healer.sim.kinds import Kind
from healer.sim.objects import JSON


def scale_of(obj: JSON) -> JSON:
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": obj["spec"].get("replicas", 0)},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": selectors.text_of(obj["spec"].get("selector")),
        },
    }


def replicas(kind: Kind, name: str, scale: JSON) -> int:
    """What a Scale that was sent asks for. 422."""
    asked: Any = (scale.get("spec") or {}).get("replicas", 0)
    problems = Problems()
    if not isinstance(asked, int) or asked < 0:
        problems.invalid("spec.replicas", asked, "must be greater than or equal to 0")
    problems.check(kind, name)
    return int(asked)
