"""A cluster as we see it: nodes, pods, workloads, budgets. Built by `healer.kube` from API objects.

`ClusterState` is a read-only view of live caches: within one synchronous call it does not change; do not keep it over
an await. Quantities are numbers: CPU in millicores, memory in bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from healer.model.targets import NodeIdentity, ObjectRef

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
MOST_OWNERS: Final = 8
"""Controllers above each other. Nobody keeps objects from naming each other as owners."""
POOL_LABELS: Final = (
    "healer.dev/pool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/pool",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A status condition. `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    heartbeat_at: datetime | None = None
    changed_at: datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    effect: str
    value: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Tolerates taints; an empty key with operator `Exists` tolerates all. `seconds` bounds NoExecute."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        return self.key == taint.key and (self.operator == "Exists" or self.value == taint.value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """CPU in millicores, memory in bytes, pods as a count."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    pods: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    ref: ObjectRef
    resource_version: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    created_at: datetime | None = None
    deleting: bool = False
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    conditions: Mapping[str, Condition] = dataclasses.field(default_factory=dict)
    provider_id: str = ""
    boot_id: str = ""
    kubelet_version: str = ""
    addresses: tuple[str, ...] = ()
    allocatable: Resources = dataclasses.field(default_factory=Resources)
    capacity: Resources = dataclasses.field(default_factory=Resources)
    lease_renewed_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def identity(self) -> NodeIdentity:
        return NodeIdentity(uid=self.ref.uid, provider_id=self.provider_id, boot_id=self.boot_id)

    @property
    def ready(self) -> bool:
        return self.condition("Ready") == "True"

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE_LABEL, "")

    @property
    def pool(self) -> str:
        """The node pool by the first pool label present; nodes without one form the pool ""."""
        return next((self.labels[label] for label in POOL_LABELS if label in self.labels), "")

    def condition(self, type_: str) -> str:
        """ "True", "False", "Unknown", or "" where the node has no such condition."""
        found = self.conditions.get(type_)
        return found.status if found else ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The controller of an object."""

    kind: str
    name: str
    uid: str

    def key_in(self, namespace: str) -> tuple[str, str, str]:
        """As `ClusterState.workloads` is keyed; an owner is in the namespace of what it owns."""
        return self.kind, namespace, self.name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    name: str
    image: str = ""
    ready: bool = False
    restarts: int = 0
    waiting_reason: str = ""
    last_exit_reason: str = ""
    requests: Resources = dataclasses.field(default_factory=Resources)
    limits: Resources = dataclasses.field(default_factory=Resources)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    ref: ObjectRef
    resource_version: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    created_at: datetime | None = None
    deleting_since: datetime | None = None
    grace_seconds: int = 30
    finalizers: tuple[str, ...] = ()
    owner: Owner | None = None
    node_name: str = ""
    phase: str = ""
    reason: str = ""
    """Why it is in its phase, where the server says (`Evicted`, `NodeLost`, …)."""
    ip: str = ""
    ready: bool = False
    containers: tuple[Container, ...] = ()
    requests: Resources = dataclasses.field(default_factory=Resources)
    priority: int = 0
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    required_node_names: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    local_volumes: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    @property
    def is_mirror(self) -> bool:
        """A static pod of the kubelet; only its reflection stands in the API."""
        return MIRROR_ANNOTATION in self.annotations

    @property
    def is_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment, StatefulSet, DaemonSet, ReplicaSet or Job.

    `replicas` is what is wanted (Job: parallelism), `current` what there is. `succeeded` and `failed` are pods of a Job.
    """

    ref: ObjectRef
    resource_version: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    owner: Owner | None = None
    replicas: int = 0
    ready: int = 0
    available: int = 0
    updated: int = 0
    current: int = 0
    generation: int = 0
    observed_generation: int = 0
    paused: bool = False
    selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    template_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    created_at: datetime | None = None
    conditions: Mapping[str, Condition] = dataclasses.field(default_factory=dict)
    misscheduled: int = 0
    succeeded: int = 0
    failed: int = 0
    started_at: datetime | None = None
    current_revision: str = ""
    update_revision: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget. `selector` is None where it uses set-based terms: `matches` then holds them."""

    ref: ObjectRef
    match_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    generation: int = 0
    observed_generation: int = 0
    always_allow_unhealthy: bool = False

    def selects(self, pod: Pod) -> bool:
        """Whether it covers `pod`; an empty selector covers every pod of the namespace (policy/v1)."""
        if pod.ref.namespace != self.ref.namespace:
            return False
        if any(pod.labels.get(name) != value for name, value in self.match_labels.items()):
            return False
        return all(_holds(pod.labels, *term) for term in self.match_expressions)


def _holds(labels: Mapping[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """A HorizontalPodAutoscaler."""

    ref: ObjectRef
    target_kind: str
    target_name: str
    min_replicas: int
    max_replicas: int
    current: int = 0
    desired: int = 0
    conditions: Mapping[str, Condition] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How much the view can be trusted. Ages in seconds on the monotonic clock.

    `synced`: every cache has been filled once. `silent_seconds`: since the API server last answered anything.
    `healthy_seconds`: how long it has answered without a break (0 while it does not).
    """

    synced: bool
    silent_seconds: float
    healthy_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterState:
    """A read-only view of one cluster. Keys: nodes by name, everything else by (namespace, name) or (kind, namespace, name)."""

    name: str
    freshness: Freshness
    nodes: Mapping[str, Node]
    pods: Mapping[tuple[str, str], Pod]
    workloads: Mapping[tuple[str, str, str], Workload]
    budgets: Mapping[tuple[str, str], Budget]
    autoscalers: Mapping[tuple[str, str], Autoscaler]
    attachments: Mapping[str, str]
    """Volume attachments: name → node name."""
    pods_by_node: Mapping[str, Mapping[tuple[str, str], Pod]]
    pods_by_owner: Mapping[tuple[str, str, str], Mapping[tuple[str, str], Pod]] = dataclasses.field(
        default_factory=dict
    )
    """By (kind, namespace, name) of their direct controller."""
    workloads_by_owner: Mapping[tuple[str, str, str], Mapping[tuple[str, str, str], Workload]] = dataclasses.field(
        default_factory=dict
    )
    heartbeats: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Node name → monotonic time at which our own clock last saw the node's lease, or the heartbeat in its Ready condition, change.

    No other machine's clock has a part in it. The first sight counts as a change, so `now - heartbeat` is the least time
    the node may have been silent. It also grows, for all nodes at once, while the API server does not answer.
    """

    def pods_on(self, node_name: str) -> Iterator[Pod]:
        return iter(self.pods_by_node.get(node_name, {}).values())

    def owner_of(self, ref: ObjectRef) -> ObjectRef:
        """The topmost controller: Pod → ReplicaSet → Deployment. An object without one owns itself."""
        found: Pod | Workload | None
        if ref.kind == "Pod":
            found = self.pods.get((ref.namespace, ref.name))
        else:
            found = self.workloads.get((ref.kind, ref.namespace, ref.name))
        top: Owner | None = None
        for _ in range(MOST_OWNERS):
            if found is None or found.owner is None or found.owner.kind == "Node":
                break
            top = found.owner
            found = self.workloads.get(top.key_in(ref.namespace))
        if top is None:
            return ref
        return ObjectRef(cluster=ref.cluster, kind=top.kind, namespace=ref.namespace, name=top.name, uid=top.uid)

    def pods_of(self, workload: ObjectRef) -> Iterator[Pod]:
        """The pods whose topmost controller is `workload`."""
        if self.owner_of(workload).key == workload.key:
            yield from self._pods_below((workload.kind, workload.namespace, workload.name), MOST_OWNERS)

    def _pods_below(self, key: tuple[str, str, str], depth: int) -> Iterator[Pod]:
        yield from self.pods_by_owner.get(key, {}).values()
        for part in self.workloads_by_owner.get(key, {}) if depth > 1 else ():
            yield from self._pods_below(part, depth - 1)

    def budgets_of(self, pod: Pod) -> tuple[Budget, ...]:
        return tuple(budget for budget in self.budgets.values() if budget.selects(pod))

    def find(self, kind: str, namespace: str, name: str) -> ObjectRef | None:
        """The object of that name as it is now, with its UID."""
        found: Node | Pod | Workload | Autoscaler | None
        match kind:
            case "Node":
                found = self.nodes.get(name)
            case "Pod":
                found = self.pods.get((namespace, name))
            case "HorizontalPodAutoscaler":
                found = self.autoscalers.get((namespace, name))
            case _:
                found = self.workloads.get((kind, namespace, name))
        return found.ref if found else None

    def named(self, kind: str, name: str) -> Iterable[ObjectRef]:
        """Every object of that kind and name, in whichever namespace."""
        match kind:
            case "Pod":
                return [pod.ref for (_, n), pod in self.pods.items() if n == name]
            case "HorizontalPodAutoscaler":
                return [scaler.ref for (_, n), scaler in self.autoscalers.items() if n == name]
            case _:
                return [w.ref for (k, _, n), w in self.workloads.items() if k == kind and n == name]
