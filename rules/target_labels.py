"""What the labels of an alert say of its object, before the cluster is asked: pure, and remembered, since it is asked often."""

from __future__ import annotations

import dataclasses
import functools
import re  # noqa: TID251 (fixed patterns, linear in the input)
from collections.abc import Mapping
from typing import Final

from healer.model.series import Labels

REMEMBERED: Final = 20_000
"""Label sets, of about half a kilobyte each."""

KINDS: Final = {
    "node": "Node",
    "pod": "Pod",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
    "replicaset": "ReplicaSet",
    "job": "Job",
    "horizontalpodautoscaler": "HorizontalPodAutoscaler",
    "hpa": "HorizontalPodAutoscaler",
}
"""Kinds as they are written in `target:`."""

# Which label names an object of which kind, the most telling first: an alert about a Deployment may also carry the
# pod of whoever exported its metrics, never the other way round.
_LABELS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("HorizontalPodAutoscaler", ("horizontalpodautoscaler", "hpa")),
    ("Deployment", ("deployment", "k8s.deployment.name", "k8s_deployment_name")),
    ("StatefulSet", ("statefulset", "k8s.statefulset.name", "k8s_statefulset_name")),
    ("DaemonSet", ("daemonset", "k8s.daemonset.name", "k8s_daemonset_name")),
    ("ReplicaSet", ("replicaset", "k8s.replicaset.name", "k8s_replicaset_name")),
    ("Job", ("job_name", "k8s.job.name", "k8s_job_name")),
    ("Pod", ("pod", "pod_name", "kubernetes_pod_name", "k8s.pod.name", "k8s_pod_name")),
    ("Node", ("node", "nodename", "node_name", "kubernetes_node", "k8s.node.name", "k8s_node_name")),
)
_LEAST_TELLING: Final = 100
_NAMING: Final[Mapping[str, tuple[str, int]]] = {
    prefix + name: (kind, place - _LEAST_TELLING if prefix else place)
    for kind, names in _LABELS
    for place, name in enumerate(names)
    for prefix in ("", "exported_")
}
"""Label → the kind it names and how telling it is, the lower the more; below zero it is an `exported_` label."""
_ALTERNATIVES: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
_NAMESPACE: Final = ("namespace", "kubernetes_namespace", "k8s.namespace.name", "k8s_namespace_name")
_EXPORTED: Final = "exported_"

_PER_NODE: Final = ("node-exporter", "windows-exporter", "kubelet", "cadvisor", "kube-proxy", "kubernetes-nodes")
"""Exporters that run on each node and speak of it: their address is the node's."""
_EXPORTER: Final = re.compile(r"kube-state-metrics|(?:^|[-/])exporter(?:$|[-/])|-exporter$|pushgateway|^ksm$")
_PROXIES: Final = ("kube-rbac-proxy", "istio-proxy", "linkerd-proxy")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one label set says.

    `named`: (kind, name, whether it came from an `exported_` label), the most telling first; `alternatives`: the kinds of
    workloads among them, with their names. `exporters`: what in `job` and `container` names an exporter.
    """

    named: tuple[tuple[str, str, bool], ...]
    alternatives: tuple[tuple[str, str], ...]
    exporters: tuple[str, ...]
    speaks_of_its_node: bool
    exported_namespace: str
    any_namespace: str
    plain_namespace: str
    address: str
    pod: str
    is_about_a_node: bool

    def namespace_of(self, *, is_exported: bool) -> str:
        """Where the object's name had to give way to the exporter's, a plain namespace is the exporter's too."""
        return self.exported_namespace if self.exported_namespace or is_exported else self.any_namespace


@functools.lru_cache(maxsize=REMEMBERED)
def read(labels: Labels) -> Reading:
    """What these labels say."""
    given = dict(labels.items())
    named = tuple(_named_objects(given))
    sources = _sources(given)
    return Reading(
        named=named,
        alternatives=tuple((kind, name) for kind, name, _ in named if kind in _ALTERNATIVES),
        exporters=tuple(source.rsplit("/", 1)[-1] for source in sources if _names_exporter(source)),
        speaks_of_its_node=any(source == "node" or any(name in source for name in _PER_NODE) for source in sources),
        exported_namespace=next((given[_EXPORTED + name] for name in _NAMESPACE if given.get(_EXPORTED + name)), ""),
        any_namespace=next((given[name] for name in _NAMESPACE if given.get(name)), ""),
        plain_namespace=given.get("namespace", ""),
        address=given.get("exported_instance") or given.get("instance", ""),
        pod=given.get("pod", ""),
        is_about_a_node="condition" in given or "node" in given.get("alertname", "").lower(),
    )


@functools.lru_cache(maxsize=1024)
def exports(labelled: str, containers: tuple[str, ...]) -> bool:
    """Whether a pod with this name in its label, and these containers, does nothing but export."""
    names = [name for name in containers if not name.startswith(_PROXIES)]
    return bool(_EXPORTER.search(labelled)) or (bool(names) and all(_EXPORTER.search(name) for name in names))


def _named_objects(labels: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    best: dict[str, tuple[int, str]] = {}
    if (kind := KINDS.get(labels.get("workload_type", "").lower(), "")) and labels.get("workload"):
        best[kind] = (_LEAST_TELLING, labels["workload"])
    for label, value in labels.items():
        kind, rank = _NAMING.get(label, ("", 0))
        if kind and value and rank < best.get(kind, (_LEAST_TELLING + 1, ""))[0]:
            best[kind] = (rank, value)
    return [(kind, best[kind][1], best[kind][0] < 0) for kind, _ in _LABELS if kind in best]


def _sources(labels: Mapping[str, str]) -> tuple[str, ...]:
    values = (labels.get(name, "") for name in ("job", "container", "exported_job"))
    return tuple(value.lower().replace("_", "-") for value in values if value)


@functools.lru_cache(maxsize=1024)
def _names_exporter(source: str) -> bool:
    return _EXPORTER.search(source) is not None or any(name in source for name in _PER_NODE)
