"""The `labelSelector` and `fieldSelector` of requests: parsed once, then asked of each object."""

from __future__ import annotations

import re  # noqa: TID251 - fixed patterns of our own
from collections.abc import Callable
from typing import Final

from healer.sim import objects
from healer.sim.api_errors import bad_request
from healer.sim.objects import JSON

Matches = Callable[[JSON], bool]

_KEY: Final = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET: Final = re.compile(rf"(?P<key>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_COMPARED: Final = re.compile(rf"(?P<key>{_KEY})\s*(?P<op>==|=|!=|>|<)\s*(?P<value>{_VALUE})")
_PRESENT: Final = re.compile(rf"(?P<no>!)?\s*(?P<key>{_KEY})")
_COMMA: Final = re.compile(r",(?![^()]*\))")
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_COMPARED_FIELD: Final = re.compile(r"([^=!,]+)(==|=|!=)(.*)")

_EVERY_KIND: Final = ("metadata.name", "metadata.namespace")
_FIELDS: Final = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "replicasets": ("status.replicas",),
    "jobs": ("status.successful",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}


def labels(text: str) -> JSON:
    """A label selector of a query string, as the LabelSelector that `objects.selects` takes. 400 when it is not one."""
    terms = [_term(part.strip()) for part in _COMMA.split(text)] if text.strip() else []
    return {"matchExpressions": terms}


def _term(text: str) -> JSON:
    if found := _SET.fullmatch(text):
        values = [value.strip() for value in found["values"].split(",")]
        return {"key": found["key"], "operator": _OPERATORS[found["op"]], "values": values}
    if found := _COMPARED.fullmatch(text):
        if found["op"] in "<>" and not found["value"].isdigit():
            raise bad_request(f"unable to parse requirement: values[0][{found['key']}]: must be an integer: {text!r}")
        return {"key": found["key"], "operator": _OPERATORS[found["op"]], "values": [found["value"]]}
    if found := _PRESENT.fullmatch(text):
        return {"key": found["key"], "operator": "DoesNotExist" if found["no"] else "Exists"}
    raise bad_request(f"unable to parse requirement: found {text!r}, expected a label selector")


def fields(resource: str, text: str) -> list[tuple[str, bool, str]]:
    """(field, is equal?, value) of each term. 400 for a field that the resource cannot be selected by."""
    terms = []
    for part in text.split(","):
        if not part.strip():
            continue
        found = _COMPARED_FIELD.fullmatch(part.strip())
        if found is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        name = found[1].strip()
        if name not in _EVERY_KIND and name not in _FIELDS.get(resource, ()):
            raise bad_request(f"field label not supported: {name}")
        terms.append((_STORED_AS.get(name, name), found[2] != "!=", found[3].strip()))
    return terms


_STORED_AS: Final = {
    "regarding.kind": "involvedObject.kind",
    "regarding.namespace": "involvedObject.namespace",
    "regarding.name": "involvedObject.name",
    "regarding.uid": "involvedObject.uid",
    "source": "source.component",
    "status.successful": "status.succeeded",
}
_MEANT: Final = {"spec.unschedulable": "false", "status.replicas": "0", "spec.hostNetwork": "false"}
"""What a field that is not there stands for."""


def selection(resource: str, label_selector: str, field_selector: str) -> Matches | None:
    """Whether an object is meant; None when every one is."""
    wanted = labels(label_selector) if label_selector else None
    terms = fields(resource, field_selector)
    if wanted is None and not terms:
        return None

    def matches(obj: JSON) -> bool:
        for name, equal, value in terms:
            if (_text(obj, name) == value) is not equal:
                return False
        return wanted is None or objects.selects(wanted, objects.labels_of(obj))

    return matches


def only_name(terms: list[tuple[str, bool, str]]) -> str | None:
    """The one name that can match, when the fields say so."""
    for name, equal, value in terms:
        if name == "metadata.name" and equal:
            return value
    return None


def _text(obj: JSON, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _MEANT.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def text_of(selector: JSON | None) -> str:
    """A LabelSelector as people write it: `app=web,tier in (a,b)`."""
    if not selector:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        values = ",".join(term.get("values") or ())
        match term["operator"]:
            case "In":
                parts.append(f"{term['key']} in ({values})")
            case "NotIn":
                parts.append(f"{term['key']} notin ({values})")
            case "Exists":
                parts.append(term["key"])
            case _:
                parts.append(f"!{term['key']}")
    return ",".join(parts)
