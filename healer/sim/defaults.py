"""What an API server fills in on objects that are created through it, as far as controllers and clients rely on it."""

from __future__ import annotations

from typing import Final

from healer.sim import objects
from healer.sim.kinds import Kind
from healer.sim.objects import JSON

_TOLERATION_SECONDS: Final = 300
_STATUS_KEPT: Final = ("nodes", "pods", "events")
"""Kinds that may be created with a status: nodes register so; pods of the world start with theirs."""


def fill(kind: Kind, obj: JSON) -> None:
    """Set the defaults in `obj`, which is the caller's own."""
    if kind.resource not in _STATUS_KEPT and "status" in kind.subresources:
        obj.pop("status", None)
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        if kind.resource == "namespaces":
            obj.setdefault("status", {"phase": "Active"})
        return
    match kind.resource:
        case "pods":
            _pod_spec(spec)
            _tolerate_dead_nodes(spec)
            obj.setdefault("status", {}).setdefault("phase", "Pending")
        case "deployments":
            _deployment(spec)
        case "statefulsets":
            spec.setdefault("replicas", 1)
            spec.setdefault("podManagementPolicy", "OrderedReady")
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
            _template(spec)
        case "daemonsets":
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault(
                "updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
            )
            _template(spec)
        case "replicasets":
            spec.setdefault("replicas", 1)
            _template(spec)
        case "jobs":
            spec.setdefault("parallelism", 1)
            spec.setdefault("completions", 1)
            spec.setdefault("backoffLimit", 6)
            _template(spec)
        case _:
            pass


def _deployment(spec: JSON) -> None:
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _template(spec)


def _template(spec: JSON) -> None:
    template = spec.setdefault("template", {})
    if isinstance(template.get("spec"), dict):
        _pod_spec(template["spec"])


def _pod_spec(spec: JSON) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    for container in spec.get("containers") or ():
        if isinstance(container, dict):
            container.setdefault("imagePullPolicy", "IfNotPresent")
            container.setdefault("resources", {})


def _tolerate_dead_nodes(spec: JSON) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in (objects.NOT_READY, objects.UNREACHABLE):
        taint = {"key": key, "effect": "NoExecute"}
        if not objects.is_tolerated(taint, tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )
