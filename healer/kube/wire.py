"""The parts of API objects that we read, as msgspec Structs: what is not named here is skipped, and costs next to nothing.

Everything may be missing or null. Structs hold no cycles, so that the garbage collector need not look at them.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

Quantities = dict[str, str | int | float]


class OwnerReference(msgspec.Struct, gc=False, rename="camel"):
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class Object(msgspec.Struct, gc=False):
    """What every object has."""

    metadata: Metadata


class Condition(msgspec.Struct, gc=False, rename="camel"):
    type: str
    status: str = "Unknown"
    reason: str | None = None
    message: str | None = None
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class Term(msgspec.Struct, gc=False):
    """A term of a selector by sets."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Selector(msgspec.Struct, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Term] | None = None


# Nodes ---------------------------------------------------------------------------------------------------------------


class Taint(msgspec.Struct, gc=False):
    key: str
    effect: str = ""
    value: str | None = None


class NodeSpec(msgspec.Struct, gc=False, rename="camel"):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class Address(msgspec.Struct, gc=False):
    type: str = ""
    address: str = ""


class NodeInfo(msgspec.Struct, gc=False, rename="camel"):
    boot_id: str = msgspec.field(default="", name="bootID")
    kubelet_version: str = ""


class NodeStatus(msgspec.Struct, gc=False, rename="camel"):
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None
    node_info: NodeInfo | None = None
    allocatable: Quantities | None = None
    capacity: Quantities | None = None


class Node(Object, gc=False):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class LeaseSpec(msgspec.Struct, gc=False, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None


class Lease(Object, gc=False):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class AttachmentSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class VolumeAttachment(Object, gc=False):
    spec: AttachmentSpec = msgspec.field(default_factory=AttachmentSpec)


# Pods ----------------------------------------------------------------------------------------------------------------


class ContainerResources(msgspec.Struct, gc=False):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerSpec(msgspec.Struct, gc=False, rename="camel"):
    name: str
    image: str | None = None
    resources: ContainerResources | None = None
    restart_policy: str | None = None


class Toleration(msgspec.Struct, gc=False, rename="camel"):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class EmptyDir(msgspec.Struct, gc=False):
    medium: str | None = None


class Claim(msgspec.Struct, gc=False, rename="camel"):
    claim_name: str = ""


class Anything(msgspec.Struct, gc=False):
    """Only that it is there matters."""


class Volume(msgspec.Struct, gc=False, rename="camel"):
    name: str
    empty_dir: EmptyDir | None = None
    host_path: Anything | None = None
    persistent_volume_claim: Claim | None = None
    ephemeral: Anything | None = None


class NodeSelectorTerm(msgspec.Struct, gc=False, rename="camel"):
    match_fields: list[Term] | None = None
    match_expressions: list[Term] | None = None


class NodeSelector(msgspec.Struct, gc=False, rename="camel"):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(msgspec.Struct, gc=False):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(msgspec.Struct, gc=False, rename="camel"):
    node_affinity: NodeAffinity | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
    overhead: Quantities | None = None
    priority: int | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    volumes: list[Volume] | None = None
    termination_grace_period_seconds: int | None = None


class Reasoned(msgspec.Struct, gc=False):
    reason: str | None = None


class ContainerState(msgspec.Struct, gc=False):
    waiting: Reasoned | None = None
    terminated: Reasoned | None = None


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Object, gc=False):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


# Workloads -----------------------------------------------------------------------------------------------------------


class TemplateMetadata(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class Template(msgspec.Struct, gc=False):
    metadata: TemplateMetadata | None = None


class WorkloadSpec(msgspec.Struct, gc=False, rename="camel"):
    """Of every kind of workload: each uses its own fields."""

    replicas: int | None = None
    parallelism: int | None = None
    paused: bool | None = None
    suspend: bool | None = None
    selector: Selector | None = None
    template: Template | None = None


class WorkloadStatus(msgspec.Struct, gc=False, rename="camel"):
    """Of every kind of workload: each uses its own fields."""

    observed_generation: int = 0
    conditions: list[Condition] | None = None
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str | None = None
    update_revision: str | None = None
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_misscheduled: int = 0
    active: int | None = None
    ready: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    start_time: datetime | None = None


class Workload(Object, gc=False):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class BudgetSpec(msgspec.Struct, gc=False, rename="camel"):
    selector: Selector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(msgspec.Struct, gc=False, rename="camel"):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class Budget(Object, gc=False):
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class ScaleTarget(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(msgspec.Struct, gc=False, rename="camel"):
    scale_target_ref: ScaleTarget = msgspec.field(default_factory=ScaleTarget)
    min_replicas: int | None = None
    max_replicas: int = 0


class AutoscalerStatus(msgspec.Struct, gc=False, rename="camel"):
    current_replicas: int | None = None
    desired_replicas: int = 0
    conditions: list[Condition] | None = None


class Autoscaler(Object, gc=False):
    spec: AutoscalerSpec = msgspec.field(default_factory=AutoscalerSpec)
    status: AutoscalerStatus = msgspec.field(default_factory=AutoscalerStatus)


# Events --------------------------------------------------------------------------------------------------------------


class Involved(msgspec.Struct, gc=False):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(msgspec.Struct, gc=False, rename="camel"):
    count: int = 0
    last_observed_time: datetime | None = None


class Event(Object, gc=False, rename="camel"):
    involved_object: Involved = msgspec.field(default_factory=Involved)
    type: str = ""
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None


class ConfigMap(Object):
    data: dict[str, str] | None = None


class PrometheusRule(Object):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
