"""Whether an object may be stored as it was sent: a small, faithful part of what a real API server checks."""

from __future__ import annotations

import re  # noqa: TID251 - fixed patterns of our own
from typing import Any, Final

from healer.sim import objects
from healer.sim.api_errors import Problems
from healer.sim.kinds import Kind
from healer.sim.objects import JSON

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SHORT_NAMED: Final = ("namespaces", "services")
_VERSION_NEEDED: Final = ("leases", "poddisruptionbudgets")
_MUTABLE_POD_FIELDS: Final = (
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
)

_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def check_new(kind: Kind, obj: JSON) -> None:
    """422 with everything that is wrong with an object that is to be created."""
    problems = Problems()
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    if name:
        _check_name(problems, kind, name, "metadata.name")
    elif metadata.get("generateName"):
        _check_name(problems, kind, metadata["generateName"].rstrip("-."), "metadata.generateName")
    else:
        problems.required("metadata.name", "name or generateName is required")
    _check_content(problems, kind, obj)
    problems.check(kind, name or metadata.get("generateName", ""))


def check_change(kind: Kind, obj: JSON, old: JSON) -> None:
    """422 with everything that is wrong with turning `old` into `obj`."""
    problems = Problems()
    metadata, before = obj["metadata"], old["metadata"]
    if metadata.get("uid", before["uid"]) != before["uid"]:
        problems.invalid("metadata.uid", metadata["uid"], "field is immutable")
    if "deletionTimestamp" in before:
        added = set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ())
        if added:
            problems.forbidden(
                "metadata.finalizers",
                f"no new finalizers can be added if the object is being deleted, found new finalizers {sorted(added)}",
            )
    _check_fixed(problems, kind, obj, old)
    _check_content(problems, kind, obj)
    problems.check(kind, before["name"])


def check_version_given(kind: Kind, obj: JSON) -> None:
    """422 for a PUT without resourceVersion, of the kinds that insist on one."""
    problems = Problems()
    if kind.resource in _VERSION_NEEDED and not obj["metadata"].get("resourceVersion"):
        problems.invalid("metadata.resourceVersion", 0, "must be specified for an update")
    problems.check(kind, obj["metadata"].get("name", ""))


def _check_name(problems: Problems, kind: Kind, name: str, field: str) -> None:
    short = kind.resource in _SHORT_NAMED
    longest = _LONGEST_LABEL if short else _LONGEST_NAME
    if len(name) > longest:
        problems.invalid(field, name, f"must be no more than {longest} bytes")
    if not (_LABEL if short else _SUBDOMAIN).fullmatch(name):
        problems.invalid(field, name, _LABEL_RULE if short else _SUBDOMAIN_RULE)


def _check_content(problems: Problems, kind: Kind, obj: JSON) -> None:
    _check_maps(problems, obj["metadata"], "metadata")
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        if spec is not None:
            problems.invalid("spec", str(spec), "must be an object")
        return
    match kind.resource:
        case "nodes":
            _check_taints(problems, spec)
        case "pods":
            _check_pod_spec(problems, spec, "spec")
        case "deployments" | "replicasets" | "statefulsets" | "daemonsets":
            _check_workload(problems, spec)
        case "poddisruptionbudgets":
            if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
                problems.invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")
        case _:
            pass


def _check_maps(problems: Problems, metadata: JSON, field: str) -> None:
    for key, value in (metadata.get("labels") or {}).items():
        _check_key(problems, key, f"{field}.labels")
        if not isinstance(value, str):
            problems.invalid(f"{field}.labels", str(value), "must be a string")
        elif len(value) > _LONGEST_LABEL:
            problems.invalid(f"{field}.labels", value, f"must be no more than {_LONGEST_LABEL} bytes")
        elif value and not _NAME.fullmatch(value):
            problems.invalid(f"{field}.labels", value, _VALUE_RULE)
    for key in metadata.get("annotations") or {}:
        _check_key(problems, key.lower(), f"{field}.annotations")


def _check_key(problems: Problems, key: str, field: str) -> None:
    prefix, _, name = key.rpartition("/")
    if "/" in key and not _SUBDOMAIN.fullmatch(prefix):
        problems.invalid(field, key, f"prefix part {_SUBDOMAIN_RULE}")
    if len(name) > _LONGEST_LABEL:
        problems.invalid(field, key, f"name part must be no more than {_LONGEST_LABEL} bytes")
    if not _NAME.fullmatch(name):
        problems.invalid(field, key, _QUALIFIED_RULE)


def _check_taints(problems: Problems, spec: JSON) -> None:
    seen = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        field = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if key:
            _check_key(problems, key, f"{field}.key")
        else:
            problems.required(f"{field}.key")
        if not effect:
            problems.required(f"{field}.effect")
        elif effect not in _EFFECTS:
            problems.unsupported(f"{field}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            problems.duplicate(field, f"{key}:{effect}")
        seen.add((key, effect))


def _check_pod_spec(problems: Problems, spec: JSON, field: str) -> None:
    containers = spec.get("containers")
    if not containers:
        problems.required(f"{field}.containers")
        return
    names = set()
    for index, container in enumerate(containers):
        place = f"{field}.containers[{index}]"
        name = container.get("name", "")
        if not name:
            problems.required(f"{place}.name")
        elif not _LABEL.fullmatch(name):
            problems.invalid(f"{place}.name", name, _LABEL_RULE)
        elif name in names:
            problems.duplicate(f"{place}.name", name)
        names.add(name)
        if not container.get("image"):
            problems.required(f"{place}.image")


def _check_workload(problems: Problems, spec: JSON) -> None:
    replicas = spec.get("replicas")
    if replicas is not None and (not isinstance(replicas, int) or replicas < 0):
        problems.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    selector = spec.get("selector")
    template = spec.get("template") or {}
    if not selector:
        problems.required("spec.selector")
    elif not objects.selects(selector, (template.get("metadata") or {}).get("labels") or {}):
        problems.invalid("spec.template.metadata.labels", "{}", "`selector` does not match template `labels`")
    _check_pod_spec(problems, template.get("spec") or {}, "spec.template.spec")


def _check_fixed(problems: Problems, kind: Kind, obj: JSON, old: JSON) -> None:
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if kind.resource in ("deployments", "replicasets", "daemonsets") and spec.get("selector") != before.get("selector"):
        problems.invalid("spec.selector", "{}", "field is immutable")
    if kind.resource == "nodes" and before.get("providerID") and spec.get("providerID") != before["providerID"]:
        problems.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    if kind.resource == "pods" and _fixed_of(spec) != _fixed_of(before):
        problems.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )


def _fixed_of(spec: JSON) -> JSON:
    fixed: dict[str, Any] = {name: value for name, value in spec.items() if name not in _MUTABLE_POD_FIELDS}
    for name in ("containers", "initContainers"):
        if fixed.get(name):
            fixed[name] = [{k: v for k, v in container.items() if k != "image"} for container in fixed[name]]
    return fixed
