"""What clients send: decoded, and checked against the path it was sent to."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from healer.kube.transport import Request
from healer.sim.api_errors import ApiError, bad_request
from healer.sim.api_routes import Target
from healer.sim.objects import JSON

_POLICIES: Final = ("Orphan", "Background", "Foreground")
_decode: Final = msgspec.json.Decoder().decode


def value(body: bytes) -> Any:
    """Any JSON value. 400."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def mapping(body: bytes) -> JSON:
    """A JSON object. 400."""
    found = value(body)
    if not isinstance(found, dict):
        raise bad_request(f"json: cannot unmarshal {type(found).__name__} into a Kubernetes object")
    return found


def applied(body: bytes) -> JSON:
    """The body of a server-side apply: YAML, or JSON. 400."""
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            found = YAML(typ="safe", pure=True).load(io.BytesIO(body))
        except YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("error decoding YAML: not an object")
    return found


def check_content_type(request: Request) -> None:
    """415 for what is not JSON."""
    sent = media_type(request.headers)
    if request.body and sent not in ("application/json", ""):
        raise ApiError(
            415,
            f"the body of the request was in an unknown format - accepted media types include: application/json, got {sent}",
            details={},
        )


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def manifest(at: Target, found: JSON) -> JSON:
    """An object for `at`, with its kind, namespace and (where the path has one) name filled in. 400 where they differ."""
    kind = at.kind
    for field, wanted in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        if found.setdefault(field, wanted) != wanted:
            raise bad_request(
                f"{found.get('kind')} in version {found.get('apiVersion')!r} cannot be handled as a {kind.kind}: "
                f"the {field} sent does not match the path"
            )
    metadata = found.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal metadata into an ObjectMeta")
    if kind.namespaced:
        if (metadata.get("namespace") or at.namespace) != at.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = at.namespace
    else:
        metadata.pop("namespace", None)
    if at.name and (metadata.get("name") or at.name) != at.name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({at.name})")
    if at.name:
        metadata["name"] = at.name
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    uid: str = ""
    version: str = ""
    grace_seconds: int | None = None
    dry_run: bool = False


def delete_options(found: JSON, query: Mapping[str, str]) -> DeleteOptions:
    """From the body, or an eviction's `deleteOptions`, and the query. 400, 422."""
    preconditions = found.get("preconditions") or {}
    grace = found.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    dry = found.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    policy = found.get("propagationPolicy") or query.get("propagationPolicy")
    if dry not in ([], ["All"]):
        raise ApiError(422, f'dryRun: Unsupported value: {dry}: supported values: "All"', details={})
    if policy is not None and policy not in _POLICIES:
        raise ApiError(
            422,
            f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "{policy}": supported '
            'values: "Foreground", "Background", "Orphan", "nil"',
            details={},
        )
    try:
        seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}") from None
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        # As in Kubernetes, a negative period means the shortest there is.
        grace_seconds=1 if seconds is not None and seconds < 0 else seconds,
        dry_run=bool(dry),
    )
