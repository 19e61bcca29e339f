"""Where each kind lives in the API: one table, and the paths made from it."""

from __future__ import annotations

import dataclasses
import re  # noqa: TID251 — one fixed pattern of ours
from collections.abc import Mapping
from typing import Final

from healer.errors import Permanent

_SEGMENT: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?")
_LONGEST_NAME: Final = 253


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as the API serves it; `group` is empty for the core group."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _table(*resources: Resource) -> Mapping[str, Resource]:
    return {resource.kind: resource for resource in resources}


RESOURCES: Final = _table(
    Resource(kind="ConfigMap", plural="configmaps"),
    Resource(kind="Event", plural="events"),
    Resource(kind="Namespace", plural="namespaces", namespaced=False),
    Resource(kind="Node", plural="nodes", namespaced=False),
    Resource(kind="PersistentVolume", plural="persistentvolumes", namespaced=False),
    Resource(kind="PersistentVolumeClaim", plural="persistentvolumeclaims"),
    Resource(kind="Pod", plural="pods"),
    Resource(kind="Secret", plural="secrets"),
    Resource(kind="Service", plural="services"),
    Resource(kind="ServiceAccount", plural="serviceaccounts"),
    Resource(kind="DaemonSet", plural="daemonsets", group="apps"),
    Resource(kind="Deployment", plural="deployments", group="apps"),
    Resource(kind="ReplicaSet", plural="replicasets", group="apps"),
    Resource(kind="StatefulSet", plural="statefulsets", group="apps"),
    Resource(
        kind="SelfSubjectAccessReview",
        plural="selfsubjectaccessreviews",
        group="authorization.k8s.io",
        namespaced=False,
    ),
    Resource(kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers", group="autoscaling", version="v2"),
    Resource(kind="CronJob", plural="cronjobs", group="batch"),
    Resource(kind="Job", plural="jobs", group="batch"),
    Resource(kind="Lease", plural="leases", group="coordination.k8s.io"),
    Resource(kind="PodDisruptionBudget", plural="poddisruptionbudgets", group="policy"),
    Resource(kind="PrometheusRule", plural="prometheusrules", group="monitoring.coreos.com"),
    Resource(kind="VolumeAttachment", plural="volumeattachments", group="storage.k8s.io", namespaced=False),
)


def of(kind: str) -> Resource:
    """The resource of a kind. Permanent when it is not one that Healer deals with."""
    try:
        return RESOURCES[kind]
    except KeyError:
        raise Permanent(f"kind {kind!r} is not one of {', '.join(sorted(RESOURCES))}") from None


def collection_path(resource: Resource, namespace: str = "") -> str:
    """All objects of a kind; those of one namespace when it is given."""
    if namespace and resource.namespaced:
        return f"{resource.root}/namespaces/{_checked(namespace, 'namespace')}/{resource.plural}"
    return f"{resource.root}/{resource.plural}"


def object_path(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """One object, or a subresource of it such as `eviction` or `scale`."""
    if resource.namespaced and not namespace:
        raise Permanent(f"{resource.kind} {name!r} needs a namespace")
    path = f"{collection_path(resource, namespace)}/{_checked(name, 'name')}"
    return f"{path}/{_checked(subresource, 'subresource')}" if subresource else path


def _checked(segment: str, what: str) -> str:
    """`segment` as it stands: names may come from an alert's labels, and must not lead to another path."""
    if len(segment) > _LONGEST_NAME or not _SEGMENT.fullmatch(segment):
        raise Permanent(f"{segment[:80]!r} cannot be the {what} of a Kubernetes object")
    return segment
