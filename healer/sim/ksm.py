"""The series that kube-state-metrics makes of API objects, with its names and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from healer.sim import exposition, objects
from healer.sim.exposition import Family, Row
from healer.sim.objects import JSON, Key
from healer.sim.view import View

_PHASES: Final = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_STATES: Final = ("true", "false", "unknown")
_UNITS: Final = {"cpu": "core", "memory": "byte", "pods": "integer", "ephemeral-storage": "byte"}


class StateMetrics:
    """Renders the page; what has not changed since the last time is not rendered again."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[str, Key], tuple[JSON, dict[str, str]]] = {}

    def page(self) -> str:
        self._view.catch_up()
        parts = []
        known = {}
        for resource, rows in _ROWS.items():
            for key, obj in self._view.all[resource].items():
                held = self._known.get((resource, key))
                if held is None or held[0] is not obj:
                    held = (obj, exposition.rendered(rows(obj)))
                known[resource, key] = held
                parts.append(held[1])
        self._known = known
        return exposition.page(FAMILIES, parts)


def _states(name: str, labels: dict[str, str], status: str, *, label: str = "status") -> Iterator[Row]:
    for state in _STATES:
        yield name, {**labels, label: state}, float(status.lower() == state)


def _created(name: str, labels: dict[str, str], obj: JSON) -> Row:
    return name, labels, objects.parse_stamp(obj["metadata"]["creationTimestamp"]).timestamp()


def _label_labels(obj: JSON) -> dict[str, str]:
    changed = str.maketrans("./-", "___")
    return {f"label_{name.translate(changed)}": value for name, value in objects.labels_of(obj).items()}


def _node(node: JSON) -> Iterator[Row]:
    name = {"node": node["metadata"]["name"]}
    spec, status = node["spec"], node["status"]
    info = status["nodeInfo"]
    about = {
        **name,
        "kernel_version": info["kernelVersion"],
        "os_image": info["osImage"],
        "container_runtime_version": info["containerRuntimeVersion"],
        "kubelet_version": info["kubeletVersion"],
        "kubeproxy_version": info["kubeProxyVersion"],
        "provider_id": spec.get("providerID", ""),
        "pod_cidr": spec.get("podCIDR", ""),
        "system_uuid": info["systemUUID"],
        "internal_ip": status["addresses"][0]["address"],
    }
    yield "kube_node_info", about, 1.0
    yield _created("kube_node_created", name, node)
    yield "kube_node_labels", {**name, **_label_labels(node)}, 1.0
    yield "kube_node_spec_unschedulable", name, float(bool(spec.get("unschedulable")))
    for taint in objects.taints_of(node):
        labels = {**name, "key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"]}
        yield "kube_node_spec_taint", labels, 1.0
    for condition in status.get("conditions", ()):
        labels = {**name, "condition": condition["type"]}
        yield from _states("kube_node_status_condition", labels, condition["status"])
    for what in ("capacity", "allocatable"):
        for resource, text in status[what].items():
            labels = {**name, "resource": resource.replace("-", "_"), "unit": _UNITS[resource]}
            yield f"kube_node_status_{what}", labels, float(objects.quantity(text))


def _lease(lease: JSON) -> Iterator[Row]:
    metadata = lease["metadata"]
    if renewed := lease["spec"].get("renewTime"):
        labels = {"lease": metadata["name"], "namespace": metadata["namespace"]}
        yield "kube_lease_renew_time", labels, objects.parse_stamp(renewed).timestamp()


def _pod(pod: JSON) -> Iterator[Row]:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    name = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}
    owner = objects.controller_of(pod) or {}
    about = {
        **name,
        "host_ip": status.get("hostIP", ""),
        "pod_ip": status.get("podIP", ""),
        "node": objects.node_of(pod),
        "created_by_kind": owner.get("kind", ""),
        "created_by_name": owner.get("name", ""),
        "priority_class": spec.get("priorityClassName", ""),
        "host_network": str(bool(spec.get("hostNetwork"))).lower(),
    }
    yield "kube_pod_info", about, 1.0
    owned = {"owner_kind": owner.get("kind", ""), "owner_name": owner.get("name", "")}
    yield "kube_pod_owner", {**name, **owned, "owner_is_controller": "true" if owner else ""}, 1.0
    yield _created("kube_pod_created", name, pod)
    yield "kube_pod_labels", {**name, **_label_labels(pod)}, 1.0
    if started := status.get("startTime"):
        yield "kube_pod_start_time", name, objects.parse_stamp(started).timestamp()
    if deleted := metadata.get("deletionTimestamp"):
        yield "kube_pod_deletion_timestamp", name, objects.parse_stamp(deleted).timestamp()
    for phase in _PHASES:
        yield "kube_pod_status_phase", {**name, "phase": phase}, float(status.get("phase") == phase)
    for type_, family in (("Ready", "kube_pod_status_ready"), ("PodScheduled", "kube_pod_status_scheduled")):
        if held := objects.condition_status(pod, type_):
            yield from _states(family, name, held, label="condition")
    scheduled = objects.condition(pod, "PodScheduled")
    if scheduled and scheduled["status"] == "False" and scheduled["reason"] == "Unschedulable":
        yield "kube_pod_status_unschedulable", name, 1.0
    for container in spec["containers"]:
        yield from _resources(name, objects.node_of(pod), container)
    for container in status.get("containerStatuses", ()):
        yield from _container(name, container)


def _resources(pod: dict[str, str], node: str, container: JSON) -> Iterator[Row]:
    for what in ("requests", "limits"):
        for resource, text in ((container.get("resources") or {}).get(what) or {}).items():
            labels = {**pod, "container": container["name"], "node": node, "resource": resource}
            unit = _UNITS.get(resource, "integer")
            yield f"kube_pod_container_resource_{what}", {**labels, "unit": unit}, float(objects.quantity(text))


def _container(pod: dict[str, str], container: JSON) -> Iterator[Row]:
    name = {**pod, "container": container["name"]}
    about = {**name, "image": container["image"], "image_spec": container["image"], "image_id": container["imageID"]}
    yield "kube_pod_container_info", about, 1.0
    state, last = container["state"], container.get("lastState") or {}
    family = "kube_pod_container_status"
    yield f"{family}_ready", name, float(container["ready"])
    yield f"{family}_running", name, float("running" in state)
    yield f"{family}_waiting", name, float("waiting" in state)
    yield f"{family}_terminated", name, float("terminated" in state)
    yield f"{family}_restarts_total", name, float(container["restartCount"])
    if "waiting" in state:
        yield f"{family}_waiting_reason", {**name, "reason": state["waiting"]["reason"]}, 1.0
    if "terminated" in state:
        yield f"{family}_terminated_reason", {**name, "reason": state["terminated"]["reason"]}, 1.0
    if "terminated" in last:
        ended = last["terminated"]
        yield f"{family}_last_terminated_reason", {**name, "reason": ended["reason"]}, 1.0
        yield f"{family}_last_terminated_exitcode", name, float(ended["exitCode"])
        at = objects.parse_stamp(ended["finishedAt"]).timestamp()
        yield f"{family}_last_terminated_timestamp", name, at


def _numbers(family: str, labels: dict[str, str], status: JSON, fields: Iterable[tuple[str, str]]) -> Iterator[Row]:
    for series, field in fields:
        yield f"{family}_{series}", labels, float(status.get(field, 0))


def _generation(family: str, labels: dict[str, str], obj: JSON) -> Iterator[Row]:
    yield _created(f"{family}_created", labels, obj)
    yield f"{family}_metadata_generation", labels, float(obj["metadata"].get("generation", 0))


def _deployment(held: JSON) -> Iterator[Row]:
    name = {"namespace": held["metadata"]["namespace"], "deployment": held["metadata"]["name"]}
    spec, status = held["spec"], held.get("status", {})
    yield from _generation("kube_deployment", name, held)
    yield "kube_deployment_labels", {**name, **_label_labels(held)}, 1.0
    yield "kube_deployment_spec_replicas", name, float(spec.get("replicas", 1))
    yield "kube_deployment_spec_paused", name, float(bool(spec.get("paused")))
    yield from _numbers("kube_deployment", name, status, _DEPLOYMENT)
    for condition in status.get("conditions", ()):
        labels = {**name, "condition": condition["type"]}
        yield from _states("kube_deployment_status_condition", labels, condition["status"])


def _replica_set(held: JSON) -> Iterator[Row]:
    name = {"namespace": held["metadata"]["namespace"], "replicaset": held["metadata"]["name"]}
    owner = objects.controller_of(held) or {}
    owned = {"owner_kind": owner.get("kind", ""), "owner_name": owner.get("name", "")}
    yield from _generation("kube_replicaset", name, held)
    yield "kube_replicaset_owner", {**name, **owned, "owner_is_controller": "true" if owner else ""}, 1.0
    yield "kube_replicaset_spec_replicas", name, float(held["spec"].get("replicas", 1))
    yield from _numbers("kube_replicaset", name, held.get("status", {}), _REPLICA_SET)


def _stateful_set(held: JSON) -> Iterator[Row]:
    name = {"namespace": held["metadata"]["namespace"], "statefulset": held["metadata"]["name"]}
    status = held.get("status", {})
    yield from _generation("kube_statefulset", name, held)
    yield "kube_statefulset_labels", {**name, **_label_labels(held)}, 1.0
    yield "kube_statefulset_replicas", name, float(held["spec"].get("replicas", 1))
    yield from _numbers("kube_statefulset", name, status, _STATEFUL_SET)
    for which in ("current", "update"):
        if revision := status.get(f"{which}Revision"):
            yield f"kube_statefulset_status_{which}_revision", {**name, "revision": revision}, 1.0


def _daemon_set(held: JSON) -> Iterator[Row]:
    name = {"namespace": held["metadata"]["namespace"], "daemonset": held["metadata"]["name"]}
    yield from _generation("kube_daemonset", name, held)
    yield "kube_daemonset_labels", {**name, **_label_labels(held)}, 1.0
    yield from _numbers("kube_daemonset", name, held.get("status", {}), _DAEMON_SET)


def _budget(held: JSON) -> Iterator[Row]:
    name = {"namespace": held["metadata"]["namespace"], "poddisruptionbudget": held["metadata"]["name"]}
    yield _created("kube_poddisruptionbudget_created", name, held)
    yield from _numbers("kube_poddisruptionbudget", name, held.get("status", {}), _BUDGET)


def _autoscaler(held: JSON) -> Iterator[Row]:
    name = {"namespace": held["metadata"]["namespace"], "horizontalpodautoscaler": held["metadata"]["name"]}
    spec, status = held["spec"], held.get("status", {})
    target = spec["scaleTargetRef"]
    aimed = {"scaletargetref_kind": target["kind"], "scaletargetref_name": target["name"]}
    yield "kube_horizontalpodautoscaler_info", {**name, **aimed}, 1.0
    yield "kube_horizontalpodautoscaler_spec_max_replicas", name, float(spec["maxReplicas"])
    yield "kube_horizontalpodautoscaler_spec_min_replicas", name, float(spec.get("minReplicas", 1))
    yield from _numbers("kube_horizontalpodautoscaler", name, status, _AUTOSCALER)
    for condition in status.get("conditions", ()):
        labels = {**name, "condition": condition["type"]}
        yield from _states("kube_horizontalpodautoscaler_status_condition", labels, condition["status"])


_DEPLOYMENT: Final = (
    ("status_replicas", "replicas"),
    ("status_replicas_ready", "readyReplicas"),
    ("status_replicas_available", "availableReplicas"),
    ("status_replicas_unavailable", "unavailableReplicas"),
    ("status_replicas_updated", "updatedReplicas"),
    ("status_observed_generation", "observedGeneration"),
)
_REPLICA_SET: Final = (
    ("status_replicas", "replicas"),
    ("status_ready_replicas", "readyReplicas"),
    ("status_observed_generation", "observedGeneration"),
)
_STATEFUL_SET: Final = (
    ("status_replicas", "replicas"),
    ("status_replicas_ready", "readyReplicas"),
    ("status_replicas_available", "availableReplicas"),
    ("status_replicas_current", "currentReplicas"),
    ("status_replicas_updated", "updatedReplicas"),
    ("status_observed_generation", "observedGeneration"),
)
_DAEMON_SET: Final = (
    ("status_current_number_scheduled", "currentNumberScheduled"),
    ("status_desired_number_scheduled", "desiredNumberScheduled"),
    ("status_number_available", "numberAvailable"),
    ("status_number_misscheduled", "numberMisscheduled"),
    ("status_number_ready", "numberReady"),
    ("status_number_unavailable", "numberUnavailable"),
    ("status_updated_number_scheduled", "updatedNumberScheduled"),
    ("status_observed_generation", "observedGeneration"),
)
_BUDGET: Final = (
    ("status_current_healthy", "currentHealthy"),
    ("status_desired_healthy", "desiredHealthy"),
    ("status_pod_disruptions_allowed", "disruptionsAllowed"),
    ("status_expected_pods", "expectedPods"),
    ("status_observed_generation", "observedGeneration"),
)
_AUTOSCALER: Final = (
    ("status_current_replicas", "currentReplicas"),
    ("status_desired_replicas", "desiredReplicas"),
)

_ROWS: Final[dict[str, Callable[[JSON], Iterator[Row]]]] = {
    "nodes": _node,
    "leases": _lease,
    "pods": _pod,
    "deployments": _deployment,
    "replicasets": _replica_set,
    "statefulsets": _stateful_set,
    "daemonsets": _daemon_set,
    "poddisruptionbudgets": _budget,
    "horizontalpodautoscalers": _autoscaler,
}


def _families() -> Iterator[Family]:
    for name in (
        "kube_node_info",
        "kube_node_created",
        "kube_node_labels",
        "kube_node_spec_unschedulable",
        "kube_node_spec_taint",
        "kube_node_status_condition",
        "kube_node_status_capacity",
        "kube_node_status_allocatable",
        "kube_lease_renew_time",
        "kube_pod_info",
        "kube_pod_owner",
        "kube_pod_created",
        "kube_pod_labels",
        "kube_pod_start_time",
        "kube_pod_deletion_timestamp",
        "kube_pod_status_phase",
        "kube_pod_status_ready",
        "kube_pod_status_scheduled",
        "kube_pod_status_unschedulable",
        "kube_pod_container_info",
        "kube_pod_container_resource_requests",
        "kube_pod_container_resource_limits",
        "kube_deployment_labels",
        "kube_deployment_spec_replicas",
        "kube_deployment_spec_paused",
        "kube_deployment_status_condition",
        "kube_replicaset_owner",
        "kube_replicaset_spec_replicas",
        "kube_statefulset_labels",
        "kube_statefulset_replicas",
        "kube_statefulset_status_current_revision",
        "kube_statefulset_status_update_revision",
        "kube_daemonset_labels",
        "kube_poddisruptionbudget_created",
        "kube_horizontalpodautoscaler_info",
        "kube_horizontalpodautoscaler_spec_max_replicas",
        "kube_horizontalpodautoscaler_spec_min_replicas",
        "kube_horizontalpodautoscaler_status_condition",
    ):
        yield Family(name, "gauge", _help(name))
    for suffix in (
        "ready",
        "running",
        "waiting",
        "waiting_reason",
        "terminated",
        "terminated_reason",
        "last_terminated_reason",
        "last_terminated_exitcode",
        "last_terminated_timestamp",
    ):
        yield Family(f"kube_pod_container_status_{suffix}", "gauge", _help(suffix))
    yield Family(
        "kube_pod_container_status_restarts_total", "counter", "The number of container restarts per container."
    )
    for kind, fields in (
        ("deployment", _DEPLOYMENT),
        ("replicaset", _REPLICA_SET),
        ("statefulset", _STATEFUL_SET),
        ("daemonset", _DAEMON_SET),
        ("poddisruptionbudget", _BUDGET),
        ("horizontalpodautoscaler", _AUTOSCALER),
    ):
        if kind not in ("poddisruptionbudget", "horizontalpodautoscaler"):
            for suffix in ("created", "metadata_generation"):
                yield Family(f"kube_{kind}_{suffix}", "gauge", _help(suffix))
        for series, _ in fields:
            yield Family(f"kube_{kind}_{series}", "gauge", _help(series))


def _help(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}."


FAMILIES: Final = tuple(_families())
