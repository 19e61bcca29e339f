"""What a path, a method and an Accept header ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from healer.kube.transport import Request
from healer.sim import kinds
from healer.sim.api_errors import ApiError, no_such_resource, not_allowed
from healer.sim.kinds import Kind

View = Literal["object", "table", "metadata"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An object or a collection. `namespace` is empty for cluster-wide kinds and for lists over all namespaces."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """As in access rules: `pods`, `pods/eviction`."""
        return f"{self.kind.resource}/{self.subresource}" if self.subresource else self.kind.resource


def target(path: str) -> Target:
    """What a path below /api or /apis names. 404 for what is not served."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"]:
        group, version, rest = "", parts[1:2], parts[2:]
    else:
        group, version, rest = "".join(parts[1:2]), parts[2:3], parts[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not version or not rest or len(rest) > 3:
        raise no_such_resource()
    kind = kinds.find(group, version[0], rest[0])
    if kind is None or (namespace and not kind.namespaced):
        raise no_such_resource()
    name, subresource = "".join(rest[1:2]), "".join(rest[2:3])
    if subresource and subresource not in kind.subresources:
        raise no_such_resource()
    if name and kind.namespaced and not namespace:
        raise no_such_resource()
    return Target(kind=kind, namespace=namespace, name=name, subresource=subresource)


def is_watch(request: Request) -> bool:
    return request.method == "GET" and request.query.get("watch") in ("true", "1")


def verb(request: Request, at: Target) -> str:
    """The verb of access rules. 405 for a method that the target does not take."""
    if at.subresource in ("eviction", "binding"):
        if request.method != "POST":
            raise not_allowed()
        return "create"
    match request.method, bool(at.name):
        case "GET", _ if is_watch(request):
            return "watch"
        case "GET", True:
            return "get"
        case "GET", False:
            return "list"
        case "POST", False if at.namespace or not at.kind.namespaced:
            return "create"
        case "PUT", True:
            return "update"
        case "PATCH", True:
            return "patch"
        case "DELETE", True if not at.subresource:
            return "delete"
        case "DELETE", False:
            return "deletecollection"
        case _:
            raise not_allowed()


def view(headers: Mapping[str, str]) -> View:
    """In which shape the client wants its answer: the first of those it accepts that we can make. 406 for none."""
    accept = headers.get("accept", "")
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        if media in ("application/json", "application/*", "*/*", ""):
            asked = next((part.removeprefix("as=") for part in parameters if part.startswith("as=")), "")
            match asked:
                case "":
                    return "object"
                case "Table":
                    return "table"
                case "PartialObjectMetadata" | "PartialObjectMetadataList":
                    return "metadata"
                case _:
                    continue
    raise ApiError(
        406,
        "only the following media types are accepted: application/json",
        details={},
    )


def dry_run(query: Mapping[str, str]) -> bool:
    """Whether nothing is to be kept. 400 for a word that is not known."""
    asked = query.get("dryRun", "")
    if asked not in ("", "All"):
        raise ApiError(422, f'dryRun: Unsupported value: "{asked}": supported values: "All"', details={})
    return asked == "All"
