"""What the API server says of itself: version, groups, resources, and as much OpenAPI as kubectl insists on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from healer.sim.api_errors import no_such_resource
from healer.sim.kinds import KINDS, Kind
from healer.sim.objects import JSON

VERSION: Final = "v1.36.3"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ON_STATUS: Final = ("get", "patch", "update")
_RESPONSES: Final = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
}
_REVIEW: Final = Kind(
    resource="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    group="authorization.k8s.io",
    namespaced=False,
)
_EVERY: Final = (*KINDS, _REVIEW)


def answer(path: str, accept: str) -> tuple[JSON, str] | None:
    """The document at `path` and its content type; None when the path is none of discovery's. 404."""
    parts = [part for part in path.split("/") if part]
    aggregated = "apidiscovery.k8s.io" in accept and "v=v2;" in accept.replace(" ", "") + ";"
    match parts:
        case ["version"]:
            return _version(), "application/json"
        case ["api"] if aggregated:
            return _aggregated([""]), AGGREGATED
        case ["apis"] if aggregated:
            return _aggregated(_groups()), AGGREGATED
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, "application/json"
        case ["apis"]:
            groups = [_group(group) for group in _groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}, "application/json"
        case ["api", version]:
            return _resources("", version), "application/json"
        case ["apis", group]:
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group), "application/json"
        case ["apis", group, version]:
            return _resources(group, version), "application/json"
        case ["openapi", "v3"]:
            return _openapi_index(), "application/json"
        case ["openapi", "v3", *place]:
            return _openapi("/".join(place)), "application/json"
        case _:
            return None


def _version() -> JSON:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "simulated/healer",
    }


def _groups() -> list[str]:
    return list(dict.fromkeys(kind.group for kind in _EVERY if kind.group))


def _versions(group: str) -> list[str]:
    return list(dict.fromkeys(kind.version for kind in _EVERY if kind.group == group))


def _of(group: str, version: str) -> list[Kind]:
    return [kind for kind in _EVERY if (kind.group, kind.version) == (group, version)]


def _group(group: str) -> JSON:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in _versions(group)]
    if not versions:
        raise no_such_resource()
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _verbs(kind: Kind) -> list[str]:
    return ["create"] if kind is _REVIEW else list(_VERBS)


def _subresource(kind: Kind, name: str) -> tuple[tuple[str, str, str], list[str]]:
    """What it answers with, and the verbs it takes."""
    if name == "status":
        return (kind.group, kind.version, kind.kind), list(_ON_STATUS)
    return _RESPONSES[name], list(_ON_STATUS) if name == "scale" else ["create"]


def _resources(group: str, version: str) -> JSON:
    found = _of(group, version)
    if not found:
        raise no_such_resource()
    listed: list[JSON] = []
    for kind in found:
        entry: JSON = {
            "name": kind.resource,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _verbs(kind),
        }
        if kind.short:
            entry["shortNames"] = list(kind.short)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        listed.append(entry)
        for name in kind.subresources:
            (of_group, of_version, of_kind), verbs = _subresource(kind, name)
            below: JSON = {
                "name": f"{kind.resource}/{name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": of_kind,
                "verbs": verbs,
            }
            if name != "status":
                below |= {"group": of_group, "version": of_version}
            listed.append(below)
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _aggregated(groups: Iterable[str]) -> JSON:
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(kind) for kind in _of(group, version)],
                }
                for version in _versions(group)
            ],
        }
        for group in groups
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(kind: Kind) -> JSON:
    entry: JSON = {
        "resource": kind.resource,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    below = []
    for name in kind.subresources:
        (group, version, of_kind), verbs = _subresource(kind, name)
        response = {"group": group, "version": version, "kind": of_kind}
        below.append({"subresource": name, "responseKind": response, "verbs": verbs})
    if below:
        entry["subresources"] = below
    return entry


# OpenAPI -------------------------------------------------------------------------------------------------------------
# kubectl looks there whether PATCH takes `fieldValidation`; where it does, it leaves validation to the server.


def _place(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def _openapi_index() -> JSON:
    places = dict.fromkeys(_place(kind) for kind in _EVERY)
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}}


def _openapi(place: str) -> JSON:
    found = [kind for kind in _EVERY if _place(kind) == place]
    if not found:
        raise no_such_resource()
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    paths = {}
    for kind in found:
        scope = "namespaces/{namespace}/" if kind.namespaced else ""
        operation = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        }
        paths[f"/{place}/{scope}{kind.resource}/{{name}}"] = {"patch": operation}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": {}},
    }
