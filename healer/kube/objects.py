"""API objects as values of the model: the common parts, nodes, workloads, budgets, autoscalers. Pods have a module of their own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from healer.kube import quantities, wire
from healer.model.cluster import Autoscaler, Budget, Condition, Node, Owner, Resources, Taint, Workload
from healer.model.targets import ObjectRef

NONE: Final[Mapping[str, str]] = MappingProxyType({})
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NOTHING: Final = (("", "Nothing", ()),)
"""A term that no pod fulfils: a budget without any selector covers no pod, one with an empty selector all."""
_NO_CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A warning Event about an object: `count` times, the last time at `at` by the reporter's clock."""

    about: ObjectRef
    reason: str
    message: str
    count: int
    at: datetime | None


def ref_of(metadata: wire.Metadata, kind: str, cluster: str) -> ObjectRef:
    return ObjectRef(cluster=cluster, kind=kind, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def owner_of(metadata: wire.Metadata) -> Owner | None:
    """The controller among the owners."""
    for owner in metadata.owner_references or ():
        if owner.controller:
            return Owner(kind=owner.kind, name=owner.name, uid=owner.uid)
    return None


def annotations_of(metadata: wire.Metadata) -> Mapping[str, str]:
    """Without what kubectl keeps for itself: it is as large as the rest of the object."""
    found = metadata.annotations
    if not found:
        return NONE
    found.pop(_LAST_APPLIED, None)
    return found


def conditions_of(found: Sequence[wire.Condition] | None) -> Mapping[str, Condition]:
    if not found:
        return _NO_CONDITIONS
    return {
        c.type: Condition(
            type=c.type,
            status=c.status,
            reason=c.reason or "",
            message=c.message or "",
            heartbeat_at=c.last_heartbeat_time,
            changed_at=c.last_transition_time,
        )
        for c in found
    }


def resources_of(found: wire.Quantities | None, *, pods: int | None = None) -> Resources:
    """`pods`: how many to count, where it is not a quantity of its own."""
    if not found:
        return _resources(0, 0, pods or 0)
    return _resources(found.get("cpu", 0), found.get("memory", 0), found.get("pods", 0) if pods is None else pods)


@functools.lru_cache(maxsize=4096)
def _resources(cpu: str | float, memory: str | float, pods: str | float) -> Resources:
    """One value for the many objects that ask for the same."""
    return Resources(
        cpu_millicores=quantities.millicores(cpu),
        memory_bytes=quantities.whole(memory),
        pods=quantities.whole(pods),
    )


def node(found: wire.Node, cluster: str) -> Node:
    meta, spec, status = found.metadata, found.spec, found.status
    info = status.node_info or wire.NodeInfo()
    addresses = sorted(status.addresses or (), key=lambda address: address.type != "InternalIP")
    return Node(
        ref=ref_of(meta, "Node", cluster),
        resource_version=meta.resource_version,
        labels=meta.labels or NONE,
        annotations=annotations_of(meta),
        created_at=meta.creation_timestamp,
        deleting=meta.deletion_timestamp is not None,
        unschedulable=bool(spec.unschedulable),
        taints=tuple(Taint(key=t.key, effect=t.effect, value=t.value or "") for t in spec.taints or ()),
        conditions=conditions_of(status.conditions),
        provider_id=spec.provider_id,
        boot_id=info.boot_id,
        kubelet_version=info.kubelet_version,
        addresses=tuple(address.address for address in addresses),
        allocatable=resources_of(status.allocatable),
        capacity=resources_of(status.capacity),
    )


def workload(found: wire.Workload, cluster: str, kind: str) -> Workload:
    meta, spec, status = found.metadata, found.spec, found.status
    template = spec.template.metadata if spec.template else None
    value = Workload(
        ref=ref_of(meta, kind, cluster),
        resource_version=meta.resource_version,
        labels=meta.labels or NONE,
        annotations=annotations_of(meta),
        owner=owner_of(meta),
        created_at=meta.creation_timestamp,
        replicas=1 if spec.replicas is None else spec.replicas,
        ready=status.ready_replicas,
        available=status.available_replicas,
        updated=status.updated_replicas,
        current=status.replicas,
        generation=meta.generation,
        observed_generation=status.observed_generation,
        paused=bool(spec.paused or spec.suspend),
        selector=(spec.selector and spec.selector.match_labels) or NONE,
        template_annotations=(template and template.annotations) or NONE,
        conditions=conditions_of(status.conditions),
        current_revision=status.current_revision or "",
        update_revision=status.update_revision or "",
    )
    match kind:
        case "DaemonSet":
            return _daemonset(value, status)
        case "Job":
            return _job(value, spec, status)
        case _:
            return value


def _daemonset(value: Workload, status: wire.WorkloadStatus) -> Workload:
    return dataclasses.replace(
        value,
        replicas=status.desired_number_scheduled,
        current=status.current_number_scheduled,
        ready=status.number_ready,
        available=status.number_available,
        updated=status.updated_number_scheduled,
        misscheduled=status.number_misscheduled,
    )


def _job(value: Workload, spec: wire.WorkloadSpec, status: wire.WorkloadStatus) -> Workload:
    return dataclasses.replace(
        value,
        replicas=1 if spec.parallelism is None else spec.parallelism,
        current=status.active or 0,
        ready=status.ready or 0,
        succeeded=status.succeeded or 0,
        failed=status.failed or 0,
        started_at=status.start_time,
    )


def budget(found: wire.Budget, cluster: str) -> Budget:
    meta, spec, status = found.metadata, found.spec, found.status
    selector = spec.selector
    terms = _NOTHING if selector is None else _terms(selector)
    return Budget(
        ref=ref_of(meta, "PodDisruptionBudget", cluster),
        match_labels=(selector and selector.match_labels) or NONE,
        match_expressions=terms,
        disruptions_allowed=status.disruptions_allowed,
        current_healthy=status.current_healthy,
        desired_healthy=status.desired_healthy,
        expected_pods=status.expected_pods,
        generation=meta.generation,
        observed_generation=status.observed_generation,
        always_allow_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def _terms(selector: wire.Selector) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    return tuple((term.key, term.operator, tuple(term.values or ())) for term in selector.match_expressions or ())


def autoscaler(found: wire.Autoscaler, cluster: str) -> Autoscaler:
    spec, status = found.spec, found.status
    return Autoscaler(
        ref=ref_of(found.metadata, "HorizontalPodAutoscaler", cluster),
        target_kind=spec.scale_target_ref.kind,
        target_name=spec.scale_target_ref.name,
        min_replicas=1 if spec.min_replicas is None else spec.min_replicas,
        max_replicas=spec.max_replicas,
        current=status.current_replicas or 0,
        desired=status.desired_replicas,
        conditions=conditions_of(status.conditions),
    )


def warned(found: wire.Event, cluster: str) -> Warned:
    about, series = found.involved_object, found.series
    return Warned(
        about=ObjectRef(cluster=cluster, kind=about.kind, namespace=about.namespace, name=about.name, uid=about.uid),
        reason=found.reason or "",
        message=found.message or "",
        count=max(found.count or 1, series.count if series else 0),
        at=(series and series.last_observed_time) or found.last_timestamp or found.event_time,
    )
