"""What the parts of the simulated cluster need to know about API objects: times, owners, conditions, selectors, taints.

Objects are plain JSON values as an API server would give them. Nothing here changes one that is stored; the functions
that change something are meant for the copy that `Storage.update` hands to its `change`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

JSON = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-wide kinds) and name."""

MIRROR: Final = "kubernetes.io/config.mirror"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
ZONE: Final = "topology.kubernetes.io/zone"
POOL: Final = "node.kubernetes.io/pool"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
LEASE_NAMESPACE: Final = "kube-node-lease"

RESOURCES: Final = {
    "Node": "nodes",
    "Pod": "pods",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
}
"""Kinds that own or are owned, and where they are stored."""

_SUFFIXES: Final = {
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
}
_quantities: dict[str, Fraction] = {}


def stamp(at: datetime) -> str:
    """`at` as Kubernetes writes metav1.Time: whole seconds, UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(at: datetime) -> str:
    """`at` as metav1.MicroTime."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_stamp(text: str) -> datetime:
    """Either of the two, read back."""
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    return datetime.strptime(text, form).replace(tzinfo=UTC)


def key_of(obj: JSON) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def uid_of(obj: JSON) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def labels_of(obj: JSON) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


def annotations_of(obj: JSON) -> Mapping[str, str]:
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return annotations


def controller_of(obj: JSON) -> JSON | None:
    """The owner reference of the controller, if any."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            found: JSON = owner
            return found
    return None


def owner_reference(obj: JSON, kind: str, api_version: str = "apps/v1") -> JSON:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(obj: JSON) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: JSON) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_active(pod: JSON) -> bool:
    """Neither finished nor on its way out: what controllers count."""
    return not is_deleting(pod) and not is_finished(pod)


def node_of(pod: JSON) -> str:
    name: str = pod["spec"].get("nodeName", "")
    return name


def condition(obj: JSON, type_: str) -> JSON | None:
    for found in obj.get("status", {}).get("conditions", ()):
        if found["type"] == type_:
            result: JSON = found
            return result
    return None


def condition_status(obj: JSON, type_: str) -> str:
    found = condition(obj, type_)
    return found["status"] if found else ""


def is_ready(obj: JSON) -> bool:
    return condition_status(obj, "Ready") == "True"


def set_condition(
    obj: JSON, type_: str, status: str, *, reason: str, message: str = "", at: str, beat: str = ""
) -> None:
    """Set a condition of the copy `obj`; the transition time moves only when the status does. `beat`: lastHeartbeatTime."""
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    fresh: JSON = {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
    if beat:
        fresh["lastHeartbeatTime"] = beat
    for index, old in enumerate(conditions):
        if old["type"] == type_:
            if old["status"] == status:
                fresh["lastTransitionTime"] = old.get("lastTransitionTime", at)
            if not beat and "lastHeartbeatTime" in old:
                fresh["lastHeartbeatTime"] = old["lastHeartbeatTime"]
            conditions[index] = fresh
            return
    conditions.append(fresh)


def selects(selector: JSON | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches; None selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        _holds(labels, term["key"], term["operator"], term.get("values") or ())
        for term in selector.get("matchExpressions") or ()
    )


def _holds(labels: Mapping[str, str], key: str, operator: str, values: Iterable[str]) -> bool:
    value = labels.get(key)
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(next(iter(values)))
        case "Lt":
            return value is not None and int(value) < int(next(iter(values)))
        case _:
            return False


def matches_terms(labels: Mapping[str, str], name: str, terms: Iterable[JSON]) -> bool:
    """Whether a node of these labels and `name` fits any of these nodeSelectorTerms."""
    return any(
        all(_holds(labels, t["key"], t["operator"], t.get("values") or ()) for t in term.get("matchExpressions") or ())
        and all(
            _holds({"metadata.name": name}, t["key"], t["operator"], t.get("values") or ())
            for t in term.get("matchFields") or ()
        )
        for term in terms
    )


def tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    exists: bool = toleration.get("operator", "Equal") == "Exists"
    if not toleration.get("key"):
        return exists
    if toleration["key"] != taint["key"]:
        return False
    return exists or bool(toleration.get("value", "") == taint.get("value", ""))


def is_tolerated(taint: JSON, tolerations: Iterable[JSON]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def taints_of(node: JSON) -> list[JSON]:
    taints: list[JSON] = node["spec"].get("taints") or []
    return taints


def has_taint(node: JSON, key: str, effect: str) -> bool:
    return any(taint["key"] == key and taint["effect"] == effect for taint in taints_of(node))


def quantity(text: str | float) -> Fraction:
    """A Kubernetes quantity: `250m`, `128Mi`, `2`."""
    if not isinstance(text, str):
        return Fraction(text)
    known = _quantities.get(text)
    if known is None:
        digits = text.rstrip("kmKMGTi")
        known = Fraction(digits) * _SUFFIXES.get(text[len(digits) :], Fraction(1))
        _quantities[text] = known
    return known


def millicores(text: str | int) -> int:
    return int(quantity(text) * 1000)


def whole_bytes(text: str | int) -> int:
    return int(quantity(text))


def requests_of(pod: JSON) -> tuple[int, int]:
    """CPU in millicores and memory in bytes that the pod's containers ask for."""
    cpu = memory = 0
    for container in pod["spec"]["containers"]:
        asked = (container.get("resources") or {}).get("requests")
        if asked:
            cpu += millicores(asked.get("cpu", 0))
            memory += whole_bytes(asked.get("memory", 0))
    return cpu, memory


def share(value: int | str, total: int, *, up: bool) -> int:
    """An IntOrString such as 1 or "25%" of `total`."""
    if isinstance(value, int):
        return value
    exact = int(value.rstrip("%")) * total
    return -(-exact // 100) if up else exact // 100


SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes random names of: no vowels, no words."""


def template_hash(template: JSON) -> str:
    """A short name for a pod template, the same for equal templates."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(SAFE[byte % len(SAFE)] for byte in digest[:10])
