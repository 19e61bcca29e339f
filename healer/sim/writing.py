"""Everything that changes an object through the API: create, update, patch, delete, evict, bind, scale."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from healer.kube.transport import Request
from healer.sim import api_routes, bodies, defaults, events, eviction, patches, scaling, storage, validation
from healer.sim.api_errors import (
    MODIFIED,
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
    success,
)
from healer.sim.api_routes import Target
from healer.sim.bodies import DeleteOptions
from healer.sim.kinds import KINDS, STORED
from healer.sim.objects import JSON
from healer.sim.reading import Reader
from healer.sim.storage import Storage, copied

_ALWAYS_THERE: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    body: JSON
    code: int = 200


class Writer:
    """Writes to one storage. Each method answers for one request, or raises ApiError and has changed nothing."""

    def __init__(self, store: Storage, reader: Reader, *, now: Callable[[], datetime]) -> None:
        self._storage = store
        self._reader = reader
        self._now = now

    # Making and changing ---------------------------------------------------------------------------------------------

    def create(self, at: Target, request: Request) -> Answer:
        bodies.check_content_type(request)
        if at.subresource == "eviction":
            return self._evict(at, request)
        if at.subresource == "binding":
            return self._bind(at, request)
        obj = bodies.manifest(at, bodies.mapping(request.body))
        return self._create(at, obj, dry_run=api_routes.dry_run(request.query))

    def update(self, at: Target, request: Request) -> Answer:
        bodies.check_content_type(request)
        dry_run = api_routes.dry_run(request.query)
        old = self._reader.get(at, {})
        sent = bodies.mapping(request.body)
        if at.subresource == "scale":
            return self._scale(at, old, sent, dry_run=dry_run)
        new = events.stored(at.kind, bodies.manifest(at, sent))
        metadata = new["metadata"]
        uid = metadata.get("uid") or old["metadata"]["uid"]
        self._check_preconditions(at, old, DeleteOptions(uid=uid))
        validation.check_version_given(at.kind, new)
        return self._replace(at, old, new, dry_run=dry_run)

    def patch(self, at: Target, request: Request) -> Answer:
        dry_run = api_routes.dry_run(request.query)
        kind = bodies.media_type(request.headers)
        if kind not in _PATCHES:
            raise ApiError(
                415,
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(_PATCHES),
                details={},
            )
        old = self._storage.get(at.kind.resource, at.namespace, at.name)
        if old is None:
            if kind != "application/apply-patch+yaml" or at.subresource:
                raise not_found(at.kind, at.name)
            return self._create(at, bodies.manifest(at, bodies.applied(request.body)), dry_run=dry_run)
        if at.subresource == "scale":
            scale = _patched(scaling.scale_of(old), kind, request.body)
            return self._scale(at, old, scale, dry_run=dry_run)
        shown = copied(events.shown(at.kind, old))
        new = events.stored(at.kind, bodies.manifest(at, _patched(shown, kind, request.body)))
        return self._replace(at, old, new, dry_run=dry_run)

    def _create(self, at: Target, sent: JSON, *, dry_run: bool) -> Answer:
        obj = events.stored(at.kind, sent)
        self._check_namespace(at)
        defaults.fill(at.kind, obj)
        validation.check_new(at.kind, obj)
        name = obj["metadata"].get("name", "")
        if name and self._storage.get(at.kind.resource, at.namespace, name) is not None:
            raise already_exists(at.kind, name)
        resource = at.kind.resource
        made = self._storage.prepared(resource, obj) if dry_run else self._storage.create(resource, obj)
        return Answer(body=events.shown(at.kind, made), code=201)

    def _replace(self, at: Target, old: JSON, new: JSON, *, dry_run: bool) -> Answer:
        """Put `new` in the place of `old`, as far as the path that it came by may change it."""
        metadata = new["metadata"]
        version = metadata.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(at.kind, at.name)
        on_status = at.subresource == "status"
        if not on_status:
            if "status" in at.kind.subresources:
                new.pop("status", None)
                if "status" in old:
                    new["status"] = old["status"]
            validation.check_change(at.kind, new, old)

        def change(copy: JSON) -> None:
            copy.clear()
            copy.update(new)

        return Answer(body=events.shown(at.kind, self._store(at, old, change, status=on_status, dry_run=dry_run)))

    def _store(
        self, at: Target, old: JSON, change: Callable[[JSON], None], *, status: bool = False, dry_run: bool
    ) -> JSON:
        if dry_run:
            return self._storage.changed(old, change, status=status)
        return self._storage.update(at.kind.resource, at.namespace, at.name, change, status=status)

    def _scale(self, at: Target, old: JSON, scale: JSON, *, dry_run: bool) -> Answer:
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(at.kind, at.name)
        asked = scaling.replicas(at.kind, at.name, scale)
        changed = self._store(at, old, lambda copy: copy["spec"].update(replicas=asked), dry_run=dry_run)
        return Answer(body=scaling.scale_of(changed))

    def _bind(self, at: Target, request: Request) -> Answer:
        pod = self._reader.get(at, {})
        node = (bodies.mapping(request.body).get("target") or {}).get("name", "")
        if not node:
            raise bad_request("binding has no target")
        if pod["spec"].get("nodeName"):
            raise conflict(at.kind, at.name, f'pod {at.name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if not api_routes.dry_run(request.query):
            self._storage.update("pods", at.namespace, at.name, lambda copy: copy["spec"].update(nodeName=node))
        return Answer(body=success(at.kind, pod, code=201), code=201)

    def _check_namespace(self, at: Target) -> None:
        if not at.kind.namespaced or at.namespace in _ALWAYS_THERE:
            return
        namespace = self._storage.get("namespaces", "", at.namespace)
        if namespace is None:
            raise not_found(STORED["namespaces"], at.namespace)
        if "deletionTimestamp" in namespace["metadata"]:
            why = f"unable to create new content in namespace {at.namespace} because it is being terminated"
            told = f"namespace {at.namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": told, "field": "metadata.namespace"}
            raise forbidden(at.kind, "", why, causes=[cause])

    # Removing --------------------------------------------------------------------------------------------------------

    def delete(self, at: Target, request: Request) -> Answer:
        options = bodies.delete_options(_optional(request), request.query)
        old = self._reader.get(at, {})
        gone = self._delete(at, old, options)
        if at.kind.resource == "pods" or gone["metadata"].get("finalizers"):
            return Answer(body=events.shown(at.kind, gone))
        return Answer(body=success(at.kind, old))

    def delete_collection(self, at: Target, request: Request) -> Answer:
        options = bodies.delete_options(_optional(request), request.query)
        gone = []
        for obj in self._reader.selected(at, request.query):
            metadata = obj["metadata"]
            one = dataclasses.replace(at, namespace=metadata.get("namespace", ""), name=metadata["name"])
            gone.append(events.shown(at.kind, self._delete(one, obj, options)))
        return Answer(
            body={
                "kind": f"{at.kind.kind}List",
                "apiVersion": at.kind.api_version,
                "metadata": {"resourceVersion": str(self._storage.version)},
                "items": gone,
            }
        )

    def _delete(self, at: Target, old: JSON, options: DeleteOptions) -> JSON:
        self._check_preconditions(at, old, options)
        if options.dry_run:
            return old
        if at.kind.resource == "namespaces":
            self._empty(at.name)
        return self._storage.delete(at.kind.resource, at.namespace, at.name, grace_seconds=options.grace_seconds)

    def _empty(self, namespace: str) -> None:
        """Stand in for the namespace controller, which takes the content away first."""
        for resource in dict.fromkeys(kind.resource for kind in KINDS if kind.namespaced):
            for obj in self._storage.items(resource, namespace):
                self._storage.remove(resource, namespace, obj["metadata"]["name"])

    def _evict(self, at: Target, request: Request) -> Answer:
        sent = bodies.mapping(request.body)
        named = (sent.get("metadata") or {}).get("name", at.name)
        if named != at.name:
            raise bad_request(f"name in URL does not match name in Eviction object: {at.name} != {named}")
        options = bodies.delete_options(sent.get("deleteOptions") or {}, request.query)
        pod = self._reader.get(at, {})
        self._check_preconditions(at, pod, options)
        budget = eviction.leave(self._storage, pod)
        if not options.dry_run:
            if budget is not None:
                eviction.charge(self._storage, budget, pod, self._now())
            self._delete(at, pod, options)
        return Answer(body=success(at.kind, pod, code=201), code=201)

    def _check_preconditions(self, at: Target, obj: JSON, options: DeleteOptions) -> None:
        metadata = obj["metadata"]
        for what, expected, actual in (
            ("UID", options.uid, metadata["uid"]),
            ("ResourceVersion", options.version, metadata["resourceVersion"]),
        ):
            if expected and expected != actual:
                why = f"Precondition failed: {what} in precondition: {expected}, {what} in object meta: {actual}"
                raise conflict(at.kind, at.name, why)


def _optional(request: Request) -> JSON:
    return bodies.mapping(request.body) if request.body else {}


def _patched(document: JSON, kind: str, body: bytes) -> JSON:
    match kind:
        case "application/json-patch+json":
            return patches.apply_operations(document, bodies.value(body))
        case "application/merge-patch+json":
            patches.merge(document, bodies.mapping(body))
        case "application/strategic-merge-patch+json":
            patches.strategic(document, bodies.mapping(body))
        case _:
            patches.strategic(document, bodies.applied(body))
    return document


@contextlib.contextmanager
def translated(at: Target) -> Iterator[None]:
    """Turn what the storage refuses into what the API says."""
    try:
        yield
    except storage.Missing as error:
        raise not_found(at.kind, error.name) from error
    except storage.AlreadyExists as error:
        raise already_exists(at.kind, error.name) from error
    except storage.Conflict as error:
        raise conflict(at.kind, error.name, error.message or MODIFIED) from error
