"""Pods as values of the model: what they ask for, where they must run, what would be lost with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from healer.kube import objects, wire
from healer.model.cluster import HOSTNAME_LABEL, Container, Pod, Resources, Toleration

_DEFAULT_GRACE_SECONDS: Final = 30
_NO_STATUS: Final = wire.ContainerStatus(name="")
_NOT_ASKED: Final = wire.ContainerResources()


def pod(found: wire.Pod, cluster: str) -> Pod:
    meta, spec, status = found.metadata, found.spec, found.status
    grace = _grace_seconds(meta, spec)
    return Pod(
        ref=objects.ref_of(meta, "Pod", cluster),
        resource_version=meta.resource_version,
        labels=meta.labels or objects.NONE,
        annotations=objects.annotations_of(meta),
        created_at=meta.creation_timestamp,
        deleting_since=_deleting_since(meta, grace),
        grace_seconds=grace,
        finalizers=tuple(meta.finalizers or ()),
        owner=objects.owner_of(meta),
        node_name=spec.node_name,
        phase=status.phase,
        reason=status.reason or "",
        ip=status.pod_ip or "",
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
        containers=_containers(spec, status),
        requests=_requests(spec),
        priority=spec.priority or 0,
        node_selector=spec.node_selector or objects.NONE,
        required_node_names=_required_node_names(spec.affinity),
        tolerations=tuple(_toleration(found) for found in spec.tolerations or ()),
        local_volumes=tuple(volume.name for volume in spec.volumes or () if _is_local(volume)),
        claims=tuple(_claims(meta.name, spec)),
    )


def _grace_seconds(meta: wire.Metadata, spec: wire.PodSpec) -> int:
    """What was given when it was deleted, else what it asks for."""
    if meta.deletion_grace_period_seconds is not None:
        return meta.deletion_grace_period_seconds
    asked = spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_SECONDS if asked is None else asked


def _deleting_since(meta: wire.Metadata, grace_seconds: int) -> datetime | None:
    """When it was asked to go: the deletionTimestamp of the API is the end of the grace period."""
    if meta.deletion_timestamp is None:
        return None
    return meta.deletion_timestamp - timedelta(seconds=grace_seconds)


def _containers(spec: wire.PodSpec, status: wire.PodStatus) -> tuple[Container, ...]:
    statuses = {found.name: found for found in status.container_statuses or ()}
    return tuple(_container(container, statuses.get(container.name, _NO_STATUS)) for container in spec.containers or ())


def _container(spec: wire.ContainerSpec, status: wire.ContainerStatus) -> Container:
    asked = spec.resources or _NOT_ASKED
    waiting = status.state and status.state.waiting
    last = status.last_state and status.last_state.terminated
    return Container(
        name=spec.name,
        image=spec.image or "",
        ready=status.ready,
        restarts=status.restart_count,
        waiting_reason=(waiting and waiting.reason) or "",
        last_exit_reason=(last and last.reason) or "",
        requests=objects.resources_of(asked.requests),
        limits=objects.resources_of(asked.limits),
    )


def _requests(spec: wire.PodSpec) -> Resources:
    """What the scheduler counts: containers and sidecars together, or the largest init container, and the overhead."""
    cpu = memory = peak_cpu = peak_memory = 0
    for container in spec.init_containers or ():
        asked = objects.resources_of((container.resources or _NOT_ASKED).requests)
        if container.restart_policy == "Always":
            cpu, memory = cpu + asked.cpu_millicores, memory + asked.memory_bytes
            continue
        peak_cpu = max(peak_cpu, cpu + asked.cpu_millicores)
        peak_memory = max(peak_memory, memory + asked.memory_bytes)
    for container in spec.containers or ():
        asked = objects.resources_of((container.resources or _NOT_ASKED).requests)
        cpu, memory = cpu + asked.cpu_millicores, memory + asked.memory_bytes
    overhead = objects.resources_of(spec.overhead)
    return Resources(
        cpu_millicores=max(cpu, peak_cpu) + overhead.cpu_millicores,
        memory_bytes=max(memory, peak_memory) + overhead.memory_bytes,
        pods=1,
    )


def _required_node_names(affinity: wire.Affinity | None) -> tuple[str, ...]:
    """The nodes outside which it cannot run, when its required affinity names them (as for pods of a DaemonSet)."""
    required = affinity and affinity.node_affinity and affinity.node_affinity.required
    terms = (required and required.node_selector_terms) or ()
    named = [_names(term) for term in terms]
    if not all(named):
        return ()
    return tuple(name for names in named for name in names)


def _names(term: wire.NodeSelectorTerm) -> list[str]:
    for field in term.match_fields or ():
        if field.key == "metadata.name" and field.operator == "In":
            return field.values or []
    for expression in term.match_expressions or ():
        if expression.key == HOSTNAME_LABEL and expression.operator == "In":
            return expression.values or []
    return []


def _toleration(found: wire.Toleration) -> Toleration:
    return Toleration(
        key=found.key or "",
        operator=found.operator or "Equal",
        value=found.value or "",
        effect=found.effect or "",
        seconds=found.toleration_seconds,
    )


def _is_local(volume: wire.Volume) -> bool:
    """Whether its data lies on the node's disk, and stays behind when the pod leaves."""
    if volume.host_path is not None:
        return True
    return volume.empty_dir is not None and volume.empty_dir.medium != "Memory"


def _claims(pod_name: str, spec: wire.PodSpec) -> Iterator[str]:
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod_name}-{volume.name}"
