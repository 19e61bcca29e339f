"""The kinds of PATCH: JSON Patch (RFC 6902), merge patch (RFC 7396), and Kubernetes' strategic merge.

Each changes the document that it is given, which is the caller's own copy.
"""

from __future__ import annotations

from typing import Any, Final

from healer.sim.api_errors import ApiError, bad_request
from healer.sim.objects import JSON

MERGE_KEYS: Final = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "hostIPs": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists that are merged by a key, by the name of their field. Others, such as taints and tolerations, are replaced whole."""

PRIMITIVE_SETS: Final = ("finalizers", "podCIDRs")
"""Lists of plain values that are merged as sets."""

_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"
_RETAIN: Final = "$retainKeys"


def refused() -> ApiError:
    """How an API server answers a JSON patch that cannot be applied; it does not say why."""
    return ApiError(422, "the server rejected our request due to an error in our request", details={})


# Merge ---------------------------------------------------------------------------------------------------------------


def merge(document: JSON, patch: JSON) -> None:
    """RFC 7396: null removes, objects merge, all else replaces."""
    for name, value in patch.items():
        if value is None:
            document.pop(name, None)
        elif isinstance(value, dict):
            inner = document.get(name)
            if not isinstance(inner, dict):
                inner = document[name] = {}
            merge(inner, value)
        else:
            document[name] = value


# JSON Patch ----------------------------------------------------------------------------------------------------------


def apply_operations(document: JSON, operations: Any) -> JSON:
    """RFC 6902. 400 for what is no such patch, 422 for a test that fails or a path that is not there."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"error decoding patch: not an operation: {operation!r}")
        document = _operate(document, operation)
    return document


def _operate(document: JSON, operation: JSON) -> JSON:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(document, path, operation.get("value"))
        case "remove":
            _remove(document, path)
        case "replace":
            _find(document, path)
            if not path:
                return _whole(operation.get("value"))
            parent = _find(document, path[:-1])
            parent[_index(parent, path[-1])] = operation.get("value")
        case "move":
            value = _remove(document, _pointer(operation.get("from", "")))
            return _add(document, path, value)
        case "copy":
            return _add(document, path, _copied(_find(document, _pointer(operation.get("from", "")))))
        case "test":
            if _find(document, path, missing_ok=True) != operation.get("value"):
                raise refused()
        case other:
            raise bad_request(f"Unexpected kind: {other}")
    return document


def _pointer(text: str) -> list[str]:
    if not text:
        return []
    if not text.startswith("/"):
        raise refused()
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _find(document: Any, path: list[str], *, missing_ok: bool = False) -> Any:
    value = document
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif missing_ok:
            return None
        else:
            raise refused()
    return value


def _index(parent: Any, part: str) -> Any:
    if isinstance(parent, dict):
        return part
    if isinstance(parent, list) and part.isdigit() and int(part) <= len(parent):
        return int(part)
    raise refused()


def _add(document: JSON, path: list[str], value: Any) -> JSON:
    if not path:
        return _whole(value)
    parent = _find(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _index(parent, path[-1]), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise refused()
    return document


def _remove(document: JSON, path: list[str]) -> Any:
    value = _find(document, path)
    if not path:
        raise refused()
    parent = _find(document, path[:-1])
    del parent[_index(parent, path[-1])]
    return value


def _whole(value: Any) -> JSON:
    if not isinstance(value, dict):
        raise refused()
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


# Strategic merge -----------------------------------------------------------------------------------------------------


def strategic(document: JSON, patch: JSON) -> None:
    """Merge as Kubernetes does for its own kinds: lists by key where they have one, `$patch` and its like obeyed."""
    if patch.get(_DIRECTIVE) == "replace":
        document.clear()
        document.update(_plain({name: value for name, value in patch.items() if name != _DIRECTIVE}))
        return
    if _RETAIN in patch:
        for name in [name for name in document if name not in patch[_RETAIN]]:
            del document[name]
    for name, value in patch.items():
        if name in (_DIRECTIVE, _RETAIN) or name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE_PRIMITIVES):
            field = name.removeprefix(_DELETE_PRIMITIVES)
            document[field] = [item for item in document.get(field) or () if item not in value]
        else:
            _merge_field(document, name, value, patch)


def _merge_field(document: JSON, name: str, value: Any, patch: JSON) -> None:
    if value is None:
        document.pop(name, None)
    elif isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            document.pop(name, None)
            return
        inner = document.get(name)
        if not isinstance(inner, dict):
            inner = document[name] = {}
        strategic(inner, value)
    elif isinstance(value, list):
        order = patch.get(_ORDER + name)
        document[name] = _merge_list(name, document.get(name) or [], value, order)
    else:
        document[name] = value


def merge_key(name: str, items: list[Any]) -> str | None:
    """By what the list in the field `name` is merged; ports have a key of their own in services and in containers."""
    if name == "ports":
        return "containerPort" if any("containerPort" in item for item in items if isinstance(item, dict)) else "port"
    return MERGE_KEYS.get(name)


def _merge_list(name: str, old: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    if name in PRIMITIVE_SETS:
        return [*old, *(item for item in patch if item not in old)]
    key = merge_key(name, [*old, *patch])
    if key is None:
        return [_plain(item) for item in patch]
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_plain(item) for item in patch if item.get(_DIRECTIVE) != "replace"]
    merged = list(old)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        _merge_item(merged, key, item)
    if order:
        wanted = [item.get(key) for item in order if isinstance(item, dict)]
        merged.sort(key=lambda item: wanted.index(item[key]) if item[key] in wanted else len(wanted))
    return merged


def _merge_item(merged: list[Any], key: str, item: JSON) -> None:
    place = next((index for index, held in enumerate(merged) if held.get(key) == item[key]), None)
    if item.get(_DIRECTIVE) == "delete":
        if place is not None:
            del merged[place]
    elif place is None:
        merged.append(_plain(item))
    else:
        strategic(merged[place], item)


def _plain(value: Any) -> Any:
    """Without directives and nulls: what a patch adds where there was nothing to merge with."""
    if not isinstance(value, dict):
        return value
    result: JSON = {}
    strategic(result, value)
    return result
