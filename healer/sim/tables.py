"""Tables, as `kubectl get` prints them: the columns and cells that a real API server makes for the kinds served here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from healer.sim import objects, selectors
from healer.sim.ages import age, since
from healer.sim.kinds import Kind
from healer.sim.objects import JSON
from healer.sim.pod_cells import pod_cells

Cells = list[Any]
Row = Callable[[JSON, datetime], Cells]

NONE: Final = "<none>"


def only_metadata(obj: JSON) -> JSON:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def table(kind: Kind, items: Sequence[JSON], now: datetime, metadata: JSON, include: str) -> JSON:
    """A meta.k8s.io/v1 Table of stored objects. `include` is what each row carries: Metadata, Object or None."""
    columns, row = _TABLES.get(kind.resource, _GENERIC)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_column(name) for name in columns],
        "rows": [_row(obj, row(obj, now), include) for obj in items],
    }


def _column(name: str) -> JSON:
    """A trailing `*` marks the columns of `-o wide`, a `#` a number where the name alone does not say so."""
    whole = name in ("Desired", "Current", "Ready#", "Up-to-date", "Available", "Data")
    return {
        "name": name.rstrip("*#"),
        "type": "integer" if whole else "string",
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": 1 if name.endswith("*") else 0,
    }


def _row(obj: JSON, cells: Cells, include: str) -> JSON:
    row: JSON = {"cells": cells}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = only_metadata(obj)
    return row


def _name(obj: JSON) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _spec(obj: JSON) -> JSON:
    return obj.get("spec") or {}


def _status(obj: JSON) -> JSON:
    return obj.get("status") or {}


def _generic(obj: JSON, now: datetime) -> Cells:
    return [_name(obj), age(obj, now)]


def _images(obj: JSON) -> Cells:
    containers = ((_spec(obj).get("template") or {}).get("spec") or {}).get("containers") or []
    return [
        ",".join(str(container.get("name", "")) for container in containers),
        ",".join(str(container.get("image", "")) for container in containers),
    ]


def _node(obj: JSON, now: datetime) -> Cells:
    ready = objects.condition_status(obj, "Ready")
    state = {"True": "Ready", "": "Unknown"}.get(ready, "NotReady")
    if _spec(obj).get("unschedulable"):
        state += ",SchedulingDisabled"
    roles = sorted(
        label.removeprefix("node-role.kubernetes.io/")
        for label in objects.labels_of(obj)
        if label.startswith("node-role.kubernetes.io/")
    )
    info = _status(obj).get("nodeInfo") or {}
    addresses = {address["type"]: address["address"] for address in _status(obj).get("addresses") or ()}
    return [
        _name(obj),
        state,
        ",".join(roles) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _deployment(obj: JSON, now: datetime) -> Cells:
    status = _status(obj)
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{_spec(obj).get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_images(obj),
        selectors.text_of(_spec(obj).get("selector")),
    ]


def _replicaset(obj: JSON, now: datetime) -> Cells:
    status = _status(obj)
    return [
        _name(obj),
        _spec(obj).get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_images(obj),
        selectors.text_of(_spec(obj).get("selector")),
    ]


def _statefulset(obj: JSON, now: datetime) -> Cells:
    ready = f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 1)}"
    return [_name(obj), ready, age(obj, now), *_images(obj)]


def _daemonset(obj: JSON, now: datetime) -> Cells:
    status = _status(obj)
    template = (_spec(obj).get("template") or {}).get("spec") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted((template.get("nodeSelector") or {}).items()))
    return [
        _name(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        chosen or NONE,
        age(obj, now),
        *_images(obj),
        selectors.text_of(_spec(obj).get("selector")),
    ]


def _job(obj: JSON, now: datetime) -> Cells:
    status = _status(obj)
    state = "Running"
    for type_, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if objects.condition_status(obj, type_) == "True":
            state = shown
    done = f"{status.get('succeeded', 0)}/{_spec(obj).get('completions', 1)}"
    started, ended = status.get("startTime"), status.get("completionTime")
    took = since(started, objects.parse_stamp(ended) if ended else now) if started else ""
    return [_name(obj), state, done, took, age(obj, now), *_images(obj)]


def _budget(obj: JSON, now: datetime) -> Cells:
    spec = _spec(obj)
    return [
        _name(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        _status(obj).get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def _event(obj: JSON, now: datetime) -> Cells:
    about = obj.get("involvedObject") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = (obj.get("series") or {}).get("lastObservedTime") or obj.get("lastTimestamp") or first
    count = (obj.get("series") or {}).get("count") or obj.get("count") or 1
    source = obj.get("source") or {}
    origin = ", ".join(part for part in (source.get("component"), source.get("host")) if part)
    seen = since(last, now)
    return [
        seen if count <= 1 or last == first else f"{seen} (x{count} over {since(first, now)})",
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        origin or obj.get("reportingComponent", ""),
        (obj.get("message") or "").strip(),
        since(first, now),
        count,
        _name(obj),
    ]


def _service(obj: JSON, now: datetime) -> Cells:
    spec = _spec(obj)
    ports = ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ())
    chosen = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        _name(obj),
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP", NONE),
        NONE,
        ports or NONE,
        age(obj, now),
        chosen or NONE,
    ]


def _autoscaler(obj: JSON, now: datetime) -> Cells:
    spec, status = _spec(obj), _status(obj)
    scaled = spec.get("scaleTargetRef") or {}
    current = {_metric(metric): metric for metric in status.get("currentMetrics") or ()}
    targets = [_target(metric, current.get(_metric(metric))) for metric in spec.get("metrics") or ()]
    return [
        _name(obj),
        f"{scaled.get('kind', '')}/{scaled.get('name', '')}",
        ", ".join(targets) or NONE,
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _metric(metric: JSON) -> str:
    return str((metric.get("resource") or {}).get("name") or metric.get("type"))


def _target(metric: JSON, current: JSON | None) -> str:
    wanted = (metric.get("resource") or {}).get("target") or {}
    have = ((current or {}).get("resource") or {}).get("current") or {}
    if "averageUtilization" in wanted:
        shown = f"{have['averageUtilization']}%" if "averageUtilization" in have else "<unknown>"
        return f"{_metric(metric)}: {shown}/{wanted['averageUtilization']}%"
    return f"{_metric(metric)}: {have.get('averageValue', '<unknown>')}/{wanted.get('averageValue', '<unknown>')}"


def _volume(obj: JSON, now: datetime) -> Cells:
    spec = _spec(obj)
    claim = spec.get("claimRef")
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _status(obj).get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        age(obj, now),
    ]


def _claim(obj: JSON, now: datetime) -> Cells:
    spec, status = _spec(obj), _status(obj)
    return [
        _name(obj),
        status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        _modes(spec),
        spec.get("storageClassName", ""),
        age(obj, now),
    ]


def _modes(spec: JSON) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in spec.get("accessModes") or ())


def _attachment(obj: JSON, now: datetime) -> Cells:
    spec = _spec(obj)
    return [
        _name(obj),
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        str(_status(obj).get("attached", False)).lower(),
        age(obj, now),
    ]


_OF_TEMPLATE: Final = ("Containers*", "Images*", "Selector*")
_GENERIC: Final[tuple[Sequence[str], Row]] = (("Name", "Age"), _generic)
_TABLES: Final[dict[str, tuple[Sequence[str], Row]]] = {
    "nodes": (
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "Internal-IP*",
            "External-IP*",
            "OS-Image*",
            "Kernel-Version*",
            "Container-Runtime*",
        ),
        _node,
    ),
    "pods": (
        ("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"),
        pod_cells,
    ),
    "deployments": (("Name", "Ready", "Up-to-date", "Available", "Age", *_OF_TEMPLATE), _deployment),
    "replicasets": (("Name", "Desired", "Current", "Ready#", "Age", *_OF_TEMPLATE), _replicaset),
    "statefulsets": (("Name", "Ready", "Age", "Containers*", "Images*"), _statefulset),
    "daemonsets": (
        ("Name", "Desired", "Current", "Ready#", "Up-to-date", "Available", "Node Selector", "Age", *_OF_TEMPLATE),
        _daemonset,
    ),
    "jobs": (("Name", "Status", "Completions", "Duration", "Age", "Containers*", "Images*"), _job),
    "poddisruptionbudgets": (("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget),
    "events": (
        (
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "Subobject*",
            "Source*",
            "Message",
            "First Seen*",
            "Count*",
            "Name*",
        ),
        _event,
    ),
    "services": (("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"), _service),
    "horizontalpodautoscalers": (
        ("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
        _autoscaler,
    ),
    "persistentvolumes": (
        ("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "Age"),
        _volume,
    ),
    "persistentvolumeclaims": (
        ("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age"),
        _claim,
    ),
    "volumeattachments": (("Name", "Attacher", "PV", "Node", "Attached", "Age"), _attachment),
    "leases": (
        ("Name", "Holder", "Age"),
        lambda obj, now: [_name(obj), _spec(obj).get("holderIdentity", ""), age(obj, now)],
    ),
    "namespaces": (
        ("Name", "Status", "Age"),
        lambda obj, now: [_name(obj), _status(obj).get("phase", "Active"), age(obj, now)],
    ),
    "configmaps": (
        ("Name", "Data", "Age"),
        lambda obj, now: [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)],
    ),
    "secrets": (
        ("Name", "Type", "Data", "Age"),
        lambda obj, now: [_name(obj), obj.get("type", "Opaque"), len(obj.get("data") or {}), age(obj, now)],
    ),
}
