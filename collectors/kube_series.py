"""What kube-state-metrics says of an object: the same names, labels and values, from values of the model. Pure.

Where kube-state-metrics keeps a row of zeros for reasons that do not hold, only the one that holds is given here: to
`> 0` and `== 1` that is the same, and it saves half the series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from healer.model.cluster import Autoscaler, Budget, Condition, Container, Node, Owner, Pod, Resources, Workload
from healer.model.series import METRIC_NAME, Labels

Pair = tuple[str, str]
Row = tuple[Labels, float]
Value = Node | Pod | Workload | Budget | Autoscaler

PHASES: Final = tuple(("phase", phase) for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"))
_READINESS: Final = (("condition", "true"), ("condition", "false"), ("condition", "unknown"))
_STATUSES: Final = (
    (("status", "true"), "True"),
    (("status", "false"), "False"),
    (("status", "unknown"), "Unknown"),
)
_CPU: Final = (("resource", "cpu"), ("unit", "core"))
_MEMORY: Final = (("resource", "memory"), ("unit", "byte"))
_PODS: Final = (("resource", "pods"), ("unit", "integer"))
_ROLE: Final = "node-role.kubernetes.io/"
_SHOWN_LABELS: Final = {
    "topology.kubernetes.io/zone": "label_topology_kubernetes_io_zone",
    "topology.kubernetes.io/region": "label_topology_kubernetes_io_region",
    "node.kubernetes.io/instance-type": "label_node_kubernetes_io_instance_type",
}
_names: Final[dict[str, Pair]] = {}


class Series:
    """Makes the rows of an object; `common` labels (job, cluster) stand on all of them."""

    def __init__(self, common: Mapping[str, str]) -> None:
        self._common = tuple(common.items())

    def of(self, found: Value) -> list[Row]:
        match found:
            case Node():
                return list(self._node(found))
            case Pod():
                return list(self._pod(found))
            case Budget():
                return list(self._budget(found))
            case Autoscaler():
                return list(self._autoscaler(found))
            case Workload():
                return list(self._workload(found))

    def one(self, name: str, value: float, *pairs: Pair) -> Row:
        """One row. Pairs are kept as they are, so that the many rows of an object share them."""
        metric = _names.get(name) or _names.setdefault(name, (METRIC_NAME, name))
        return Labels((metric, *self._common, *pairs)), value

    def _node(self, node: Node) -> Iterator[Row]:
        on = ("node", node.name)
        yield self.one(
            "kube_node_info",
            1,
            on,
            ("kubelet_version", node.kubelet_version),
            ("provider_id", node.provider_id),
            ("internal_ip", node.addresses[0] if node.addresses else ""),
        )
        shown = [(name, node.labels[label]) for label, name in _SHOWN_LABELS.items() if label in node.labels]
        yield self.one("kube_node_labels", 1, on, *shown)
        for label in node.labels:
            if label.startswith(_ROLE):
                yield self.one("kube_node_role", 1, on, ("role", label.removeprefix(_ROLE)))
        yield from self._time("kube_node_created", node.created_at, on)
        yield self.one("kube_node_spec_unschedulable", node.unschedulable, on)
        for taint in node.taints:
            pairs = (("key", taint.key), ("value", taint.value), ("effect", taint.effect))
            yield self.one("kube_node_spec_taint", 1, on, *pairs)
        yield from self._conditions("kube_node_status_condition", node.conditions, on)
        yield from self._amounts("kube_node_status_allocatable", node.allocatable, on)
        yield from self._amounts("kube_node_status_capacity", node.capacity, on)

    def _pod(self, pod: Pod) -> Iterator[Row]:
        on = (("namespace", pod.ref.namespace), ("pod", pod.ref.name), ("uid", pod.ref.uid))
        node = ("node", pod.node_name)
        created_by: tuple[Pair, ...] = ()
        if pod.owner:
            created_by = (("created_by_kind", pod.owner.kind), ("created_by_name", pod.owner.name))
        yield self.one("kube_pod_info", 1, *on, node, ("pod_ip", pod.ip), *created_by)
        yield self.one("kube_pod_owner", 1, *on, *_owner(pod.owner))
        yield from self._time("kube_pod_created", pod.created_at, *on)
        if pod.deleting_since:
            yield self.one("kube_pod_deletion_timestamp", pod.deleting_since.timestamp() + pod.grace_seconds, *on)
        for phase in PHASES:
            yield self.one("kube_pod_status_phase", phase[1] == pod.phase, *on, phase)
        for condition, holds in zip(_READINESS, (pod.ready, not pod.ready, False), strict=True):
            yield self.one("kube_pod_status_ready", holds, *on, condition)
        if pod.reason:
            yield self.one("kube_pod_status_reason", 1, *on, ("reason", pod.reason))
        for container in pod.containers:
            yield from self._container(container, (*on, ("container", container.name)), node)

    def _container(self, container: Container, on: tuple[Pair, ...], node: Pair) -> Iterator[Row]:
        yield self.one("kube_pod_container_info", 1, *on, ("image", container.image))
        yield self.one("kube_pod_container_status_ready", container.ready, *on)
        yield self.one("kube_pod_container_status_restarts_total", container.restarts, *on)
        yield self.one("kube_pod_container_status_waiting", bool(container.waiting_reason), *on)
        if container.waiting_reason:
            yield self.one("kube_pod_container_status_waiting_reason", 1, *on, ("reason", container.waiting_reason))
        if container.last_exit_reason:
            reason = ("reason", container.last_exit_reason)
            yield self.one("kube_pod_container_status_last_terminated_reason", 1, *on, reason)
        yield from self._amounts("kube_pod_container_resource_requests", container.requests, *on, node)
        yield from self._amounts("kube_pod_container_resource_limits", container.limits, *on, node)

    def _workload(self, found: Workload) -> Iterator[Row]:
        namespace, name = ("namespace", found.ref.namespace), found.ref.name
        match found.ref.kind:
            case "Deployment":
                yield from self._deployment(found, namespace, ("deployment", name))
            case "StatefulSet":
                yield from self._statefulset(found, namespace, ("statefulset", name))
            case "DaemonSet":
                yield from self._daemonset(found, namespace, ("daemonset", name))
            case "ReplicaSet":
                yield from self._replicaset(found, namespace, ("replicaset", name))
            case "Job":
                yield from self._job(found, namespace, ("job_name", name))
            case _:
                pass

    def _deployment(self, found: Workload, *on: Pair) -> Iterator[Row]:
        yield from self._time("kube_deployment_created", found.created_at, *on)
        yield self.one("kube_deployment_spec_replicas", found.replicas, *on)
        yield self.one("kube_deployment_spec_paused", found.paused, *on)
        yield self.one("kube_deployment_status_replicas", found.current, *on)
        yield self.one("kube_deployment_status_replicas_ready", found.ready, *on)
        yield self.one("kube_deployment_status_replicas_available", found.available, *on)
        yield self.one("kube_deployment_status_replicas_unavailable", max(found.current - found.available, 0), *on)
        yield self.one("kube_deployment_status_replicas_updated", found.updated, *on)
        yield self.one("kube_deployment_metadata_generation", found.generation, *on)
        yield self.one("kube_deployment_status_observed_generation", found.observed_generation, *on)
        yield from self._conditions("kube_deployment_status_condition", found.conditions, *on)

    def _statefulset(self, found: Workload, *on: Pair) -> Iterator[Row]:
        yield from self._time("kube_statefulset_created", found.created_at, *on)
        yield self.one("kube_statefulset_replicas", found.replicas, *on)
        yield self.one("kube_statefulset_status_replicas", found.current, *on)
        yield self.one("kube_statefulset_status_replicas_ready", found.ready, *on)
        yield self.one("kube_statefulset_status_replicas_available", found.available, *on)
        yield self.one("kube_statefulset_status_replicas_updated", found.updated, *on)
        yield self.one("kube_statefulset_metadata_generation", found.generation, *on)
        yield self.one("kube_statefulset_status_observed_generation", found.observed_generation, *on)
        for which, revision in (("current", found.current_revision), ("update", found.update_revision)):
            if revision:
                yield self.one(f"kube_statefulset_status_{which}_revision", 1, *on, ("revision", revision))

    def _daemonset(self, found: Workload, *on: Pair) -> Iterator[Row]:
        yield from self._time("kube_daemonset_created", found.created_at, *on)
        yield self.one("kube_daemonset_status_desired_number_scheduled", found.replicas, *on)
        yield self.one("kube_daemonset_status_current_number_scheduled", found.current, *on)
        yield self.one("kube_daemonset_status_number_ready", found.ready, *on)
        yield self.one("kube_daemonset_status_number_available", found.available, *on)
        yield self.one("kube_daemonset_status_number_unavailable", max(found.replicas - found.available, 0), *on)
        yield self.one("kube_daemonset_status_number_misscheduled", found.misscheduled, *on)
        yield self.one("kube_daemonset_status_updated_number_scheduled", found.updated, *on)
        yield self.one("kube_daemonset_metadata_generation", found.generation, *on)
        yield self.one("kube_daemonset_status_observed_generation", found.observed_generation, *on)

    def _replicaset(self, found: Workload, *on: Pair) -> Iterator[Row]:
        yield from self._time("kube_replicaset_created", found.created_at, *on)
        yield self.one("kube_replicaset_owner", 1, *on, *_owner(found.owner))
        yield self.one("kube_replicaset_spec_replicas", found.replicas, *on)
        yield self.one("kube_replicaset_status_replicas", found.current, *on)
        yield self.one("kube_replicaset_status_ready_replicas", found.ready, *on)
        yield self.one("kube_replicaset_metadata_generation", found.generation, *on)
        yield self.one("kube_replicaset_status_observed_generation", found.observed_generation, *on)

    def _job(self, found: Workload, *on: Pair) -> Iterator[Row]:
        yield from self._time("kube_job_created", found.created_at, *on)
        yield self.one("kube_job_owner", 1, *on, *_owner(found.owner))
        yield self.one("kube_job_spec_parallelism", found.replicas, *on)
        yield self.one("kube_job_status_active", found.current, *on)
        yield self.one("kube_job_status_succeeded", found.succeeded, *on)
        yield self.one("kube_job_status_failed", found.failed, *on)
        yield from self._time("kube_job_status_start_time", found.started_at, *on)
        for name, type_ in (("kube_job_failed", "Failed"), ("kube_job_complete", "Complete")):
            if condition := found.conditions.get(type_):
                for pair, status in zip(_READINESS, ("True", "False", "Unknown"), strict=True):
                    yield self.one(name, condition.status == status, *on, pair)

    def _budget(self, found: Budget) -> Iterator[Row]:
        on = (("namespace", found.ref.namespace), ("poddisruptionbudget", found.ref.name))
        yield self.one("kube_poddisruptionbudget_status_current_healthy", found.current_healthy, *on)
        yield self.one("kube_poddisruptionbudget_status_desired_healthy", found.desired_healthy, *on)
        yield self.one("kube_poddisruptionbudget_status_pod_disruptions_allowed", found.disruptions_allowed, *on)
        yield self.one("kube_poddisruptionbudget_status_expected_pods", found.expected_pods, *on)
        yield self.one("kube_poddisruptionbudget_status_observed_generation", found.observed_generation, *on)

    def _autoscaler(self, found: Autoscaler) -> Iterator[Row]:
        on = (("namespace", found.ref.namespace), ("horizontalpodautoscaler", found.ref.name))
        target = (("scaletargetref_kind", found.target_kind), ("scaletargetref_name", found.target_name))
        yield self.one("kube_horizontalpodautoscaler_info", 1, *on, *target)
        yield self.one("kube_horizontalpodautoscaler_spec_min_replicas", found.min_replicas, *on)
        yield self.one("kube_horizontalpodautoscaler_spec_max_replicas", found.max_replicas, *on)
        yield self.one("kube_horizontalpodautoscaler_status_current_replicas", found.current, *on)
        yield self.one("kube_horizontalpodautoscaler_status_desired_replicas", found.desired, *on)
        yield from self._conditions("kube_horizontalpodautoscaler_status_condition", found.conditions, *on)

    def _time(self, name: str, at: datetime | None, *on: Pair) -> Iterator[Row]:
        if at:
            yield self.one(name, at.timestamp(), *on)

    def _conditions(self, name: str, conditions: Mapping[str, Condition], *on: Pair) -> Iterator[Row]:
        for condition in conditions.values():
            which = ("condition", condition.type)
            for pair, status in _STATUSES:
                yield self.one(name, condition.status == status, *on, which, pair)

    def _amounts(self, name: str, amounts: Resources, *on: Pair) -> Iterator[Row]:
        """Those that are set."""
        if amounts.cpu_millicores:
            yield self.one(name, amounts.cpu_millicores / 1000, *on, *_CPU)
        if amounts.memory_bytes:
            yield self.one(name, amounts.memory_bytes, *on, *_MEMORY)
        if amounts.pods:
            yield self.one(name, amounts.pods, *on, *_PODS)


def _owner(owner: Owner | None) -> tuple[Pair, ...]:
    if owner is None:
        return ()
    return (("owner_kind", owner.kind), ("owner_name", owner.name), ("owner_is_controller", "true"))
