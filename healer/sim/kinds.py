"""Which resources the simulated API serves: their names, groups, scope, and what can be done below them."""

from __future__ import annotations

import dataclasses
from typing import Final


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One resource. `resource` is the plural of the path; `group` is empty for the core group."""

    resource: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    counts_generations: bool = False
    """Whether `metadata.generation` counts the changes of its spec."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def qualified(self) -> str:
        """As in messages: `deployments.apps`, `pods`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def _workload(resource: str, kind: str, short: tuple[str, ...], *, scale: bool = True, group: str = "apps") -> Kind:
    return Kind(
        resource=resource,
        kind=kind,
        group=group,
        short=short,
        subresources=("status", "scale") if scale else ("status",),
        categories=("all",),
        counts_generations=True,
    )


KINDS: Final = (
    Kind(resource="configmaps", kind="ConfigMap", short=("cm",)),
    Kind(resource="endpoints", kind="Endpoints", short=("ep",)),
    Kind(resource="events", kind="Event", short=("ev",)),
    Kind(resource="namespaces", kind="Namespace", namespaced=False, short=("ns",), subresources=("status",)),
    Kind(resource="nodes", kind="Node", namespaced=False, short=("no",), subresources=("status",)),
    Kind(resource="persistentvolumeclaims", kind="PersistentVolumeClaim", short=("pvc",), subresources=("status",)),
    Kind(
        resource="persistentvolumes",
        kind="PersistentVolume",
        namespaced=False,
        short=("pv",),
        subresources=("status",),
    ),
    Kind(
        resource="pods",
        kind="Pod",
        short=("po",),
        subresources=("status", "eviction", "binding"),
        categories=("all",),
        counts_generations=True,
    ),
    Kind(resource="secrets", kind="Secret"),
    Kind(resource="serviceaccounts", kind="ServiceAccount", short=("sa",)),
    Kind(resource="services", kind="Service", short=("svc",), subresources=("status",), categories=("all",)),
    _workload("daemonsets", "DaemonSet", ("ds",), scale=False),
    _workload("deployments", "Deployment", ("deploy",)),
    _workload("replicasets", "ReplicaSet", ("rs",)),
    _workload("statefulsets", "StatefulSet", ("sts",)),
    Kind(
        resource="horizontalpodautoscalers",
        kind="HorizontalPodAutoscaler",
        group="autoscaling",
        version="v2",
        short=("hpa",),
        subresources=("status",),
        categories=("all",),
    ),
    Kind(
        resource="cronjobs",
        kind="CronJob",
        group="batch",
        short=("cj",),
        subresources=("status",),
        categories=("all",),
        counts_generations=True,
    ),
    _workload("jobs", "Job", (), scale=False, group="batch"),
    Kind(resource="leases", kind="Lease", group="coordination.k8s.io"),
    Kind(resource="events", kind="Event", group="events.k8s.io", short=("ev",)),
    Kind(
        resource="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        group="policy",
        short=("pdb",),
        subresources=("status",),
        counts_generations=True,
    ),
    Kind(resource="prometheusrules", kind="PrometheusRule", group="monitoring.coreos.com", short=("promrule",)),
    Kind(resource="priorityclasses", kind="PriorityClass", group="scheduling.k8s.io", namespaced=False, short=("pc",)),
    Kind(resource="storageclasses", kind="StorageClass", group="storage.k8s.io", namespaced=False, short=("sc",)),
    Kind(
        resource="volumeattachments",
        kind="VolumeAttachment",
        group="storage.k8s.io",
        namespaced=False,
        subresources=("status",),
    ),
)
"""Everything served. The two kinds of events are one resource in the storage, kept in the core form."""

STORED: Final = {kind.resource: kind for kind in reversed(KINDS)}
"""The form in which each resource is stored."""


def find(group: str, version: str, resource: str) -> Kind | None:
    """What the API serves under this path."""
    return _SERVED.get((group, version, resource))


_SERVED: Final = {(kind.group, kind.version, kind.resource): kind for kind in KINDS}
