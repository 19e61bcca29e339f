"""The Kubernetes client: the few verbs Healer uses, as `healer.ports.Kube` describes them. It decides nothing and never retries."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from healer.clock import Clock
from healer.errors import Gone, Permanent, Retryable, TargetGone
from healer.kube import resources
from healer.kube.calls import JSON, Call, Caller
from healer.kube.contact import Contact
from healer.kube.events import Recorder
from healer.kube.resources import Resource
from healer.kube.transport import Transport
from healer.model.targets import ObjectRef
from healer.ports import PatchKind

FIELD_MANAGER: Final = "healer"
PAGE_SIZE: Final = 500
_RELISTS: Final = 3


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Meta
    items: list[msgspec.Raw] | None = None


_decode_page: Final = msgspec.json.Decoder(_Page).decode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects of a kind, undecoded, and the resourceVersion from which a watch may go on."""

    items: Sequence[msgspec.Raw]
    resource_version: str


class KubeClient:
    """`healer.ports.Kube` over a transport. `timeout_seconds` bounds each request, also each page of a list.

    `check` is called right before each change is sent, and raises when it must not be made any more.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        cluster: str,
        clock: Clock,
        timeout_seconds: float = 10.0,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self._transport = transport
        self._caller = Caller(transport, cluster=cluster, clock=clock)
        self._timeout_seconds = timeout_seconds
        self._check = check
        self._recorder = Recorder(self, clock)

    @property
    def contact(self) -> Contact:
        """When the API server last answered."""
        return self._caller.contact

    async def close(self) -> None:
        """Let go of the transport."""
        await self._transport.close()

    async def get(self, ref: ObjectRef) -> JSON:
        found = await self._ask("GET", _path(ref), f"reading {ref}")
        uid = found.get("metadata", {}).get("uid", "")
        if ref.uid and uid != ref.uid:
            raise TargetGone(f"reading {ref}: it was made anew: its UID is {uid}, not {ref.uid}")
        return found

    async def list(
        self, kind: str, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> tuple[JSON, ...]:
        listing = await self.listing(
            kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )
        resource = resources.of(kind)
        named = {"apiVersion": resource.api_version, "kind": kind}
        return tuple({**named, **msgspec.json.decode(item, type=JSON)} for item in listing.items)

    async def listing(
        self, kind: str, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """As `list`, undecoded. A list that grew too old between two pages is begun anew, a few times (then Gone)."""
        query = _query(labelSelector=label_selector, fieldSelector=field_selector)
        for _ in range(_RELISTS - 1):
            with contextlib.suppress(Gone):
                return await self._pages(resources.of(kind), namespace, query)
        return await self._pages(resources.of(kind), namespace, query)

    @contextlib.asynccontextmanager
    async def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        server_seconds: int,
        idle_seconds: float,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The changes of a kind from `resource_version` on, one JSON text each. Gone when that is too old.

        The server ends it after `server_seconds`; `idle_seconds` without a line is Retryable.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(server_seconds),
            **_query(labelSelector=label_selector, fieldSelector=field_selector),
        }
        path = resources.collection_path(resources.of(kind), namespace)
        call = Call(method="GET", path=path, query=query, doing=f"watching {kind}", reading=True)
        async with self._caller.follow(call, idle_seconds=idle_seconds) as lines:
            yield lines

    async def patch(
        self,
        ref: ObjectRef,
        body: JSON | Sequence[JSON],
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> JSON:
        return await self._ask(
            "PATCH",
            _path(ref, subresource),
            f"patching {ref}" + (f" ({subresource})" if subresource else ""),
            query=_writing(dry_run),
            body=_guarded(ref.uid, resource_version, body, kind),
            content_type=kind.value,
            reading=dry_run,
        )

    async def create(self, kind: str, namespace: str, body: JSON, *, dry_run: bool = False) -> JSON:
        resource = resources.of(kind)
        if resource.namespaced and not namespace:
            raise Permanent(f"creating a {kind}: it needs a namespace")
        name = body.get("metadata", {}).get("name", "")
        return await self._ask(
            "POST",
            resources.collection_path(resource, namespace),
            "creating " + "/".join(filter(None, (kind.lower(), namespace, name))),
            query=_writing(dry_run),
            body={"apiVersion": resource.api_version, "kind": kind, **body},
            reading=dry_run,
        )

    async def delete(self, ref: ObjectRef, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        await self._send(
            "DELETE",
            _path(ref),
            f"deleting {ref}",
            body={"apiVersion": "v1", "kind": "DeleteOptions", **_delete_options(ref.uid, grace_seconds, dry_run)},
            reading=dry_run,
        )

    async def evict(self, pod: ObjectRef, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        await self._send(
            "POST",
            _path(pod, "eviction"),
            f"evicting {pod}",
            query=_query(dryRun="All" if dry_run else ""),
            body={
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "deleteOptions": _delete_options(pod.uid, grace_seconds, dry_run),
            },
            reading=dry_run,
            namespace=pod.namespace,
        )

    async def event(self, about: ObjectRef, *, reason: str, message: str, warning: bool = False) -> None:
        await self._recorder.record(about, reason=reason, message=message, warning=warning)

    async def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """Whether this account may do `verb` on `resource` (plural, with `/subresource`); in all namespaces if none is given."""
        plural, _, subresource = resource.partition("/")
        attributes = _query(verb=verb, group=group, resource=plural, subresource=subresource, namespace=namespace)
        review = resources.of("SelfSubjectAccessReview")
        answer = await self._ask(
            "POST",
            resources.collection_path(review),
            f"asking whether we may {verb} {resource}",
            body={
                "apiVersion": review.api_version,
                "kind": review.kind,
                "spec": {"resourceAttributes": attributes},
            },
        )
        return bool(answer.get("status", {}).get("allowed"))

    async def server_version(self) -> str:
        """Such as `v1.33.1`."""
        answer = await self._ask("GET", "/version", "asking for the server's version")
        return str(answer.get("gitVersion", ""))

    async def _pages(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> Listing:
        items: list[msgspec.Raw] = []
        token = ""
        while True:
            page = await self._page(resource, namespace, {**query, **_query(**{"continue": token})})
            items.extend(page.items or ())
            token = page.metadata.continue_
            if not token:
                return Listing(items=items, resource_version=page.metadata.resource_version)

    async def _page(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> _Page:
        path = resources.collection_path(resource, namespace)
        doing = f"listing {resource.plural}"
        body = await self._send("GET", path, doing, query={"limit": str(PAGE_SIZE), **query})
        try:
            return _decode_page(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Retryable(f"{doing}: the answer is not a list: {error}") from error

    async def _ask(self, method: str, path: str, doing: str, *, reading: bool = True, **rest: Any) -> JSON:
        call = self._call(method, path, doing, reading=reading, **rest)
        return await self._caller.ask(call, timeout_seconds=self._timeout_seconds)

    async def _send(self, method: str, path: str, doing: str, *, reading: bool = True, **rest: Any) -> bytes:
        call = self._call(method, path, doing, reading=reading, **rest)
        return await self._caller.send(call, timeout_seconds=self._timeout_seconds)

    def _call(self, method: str, path: str, doing: str, *, reading: bool, **rest: Any) -> Call:
        check = None if reading else self._check
        return Call(method=method, path=path, doing=doing, reading=reading, check=check, **rest)


def _path(ref: ObjectRef, subresource: str = "") -> str:
    return resources.object_path(resources.of(ref.kind), ref.namespace, ref.name, subresource)


def _query(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _writing(dry_run: bool) -> dict[str, str]:
    return {"fieldManager": FIELD_MANAGER, **_query(dryRun="All" if dry_run else "")}


def _delete_options(uid: str, grace_seconds: int | None, dry_run: bool) -> JSON:
    options: JSON = {}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if uid:
        options["preconditions"] = {"uid": uid}
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _guarded(uid: str, resource_version: str, body: JSON | Sequence[JSON], kind: PatchKind) -> JSON | list[JSON]:
    """`body` with the preconditions in the form that its kind of patch knows; the caller's stays as it is."""
    conditions = _query(uid=uid, resourceVersion=resource_version)
    if kind is PatchKind.JSON:
        if isinstance(body, dict):
            raise Permanent("a JSON patch is a list of operations, not an object")
        tests = [{"op": "test", "path": f"/metadata/{name}", "value": value} for name, value in conditions.items()]
        return [*tests, *body]
    if not isinstance(body, dict):
        raise Permanent(f"a patch of type {kind.value} is an object, not a list")
    return {**body, "metadata": {**body.get("metadata", {}), **conditions}} if conditions else body
