"""A `healer.ports.Kube` that passes everything on and keeps what was asked: which permissions, how many changes."""

from __future__ import annotations

from collections.abc import Sequence

from healer.kube import resources
from healer.model.targets import ObjectRef
from healer.ports import JSON, Kube, PatchKind, Verb


class WatchedKube:
    """`used`: every permission that was needed. `changes`: what was asked to change, in order, as `verb object`."""

    def __init__(self, kube: Kube) -> None:
        self.cluster = kube.cluster
        self.used: set[Verb] = set()
        self.changes: list[str] = []
        self._kube = kube

    async def get(self, ref: ObjectRef) -> JSON:
        self._note("get", ref.kind)
        return await self._kube.get(ref)

    async def list(
        self, kind: str, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> tuple[JSON, ...]:
        self._note("list", kind)
        return await self._kube.list(
            kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )

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
        self._note("patch", ref.kind, subresource, changed=str(ref))
        return await self._kube.patch(
            ref, body, kind=kind, subresource=subresource, resource_version=resource_version, dry_run=dry_run
        )

    async def create(self, kind: str, namespace: str, body: JSON, *, dry_run: bool = False) -> JSON:
        self._note("create", kind, changed=f"{kind.lower()}/{namespace}")
        return await self._kube.create(kind, namespace, body, dry_run=dry_run)

    async def delete(self, ref: ObjectRef, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        self._note("delete", ref.kind, changed=str(ref))
        await self._kube.delete(ref, grace_seconds=grace_seconds, dry_run=dry_run)

    async def evict(self, pod: ObjectRef, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        self._note("create", pod.kind, "eviction", changed=str(pod))
        await self._kube.evict(pod, grace_seconds=grace_seconds, dry_run=dry_run)

    async def event(self, about: ObjectRef, *, reason: str, message: str, warning: bool = False) -> None:
        await self._kube.event(about, reason=reason, message=message, warning=warning)

    def _note(self, verb: str, kind: str, subresource: str = "", *, changed: str = "") -> None:
        resource = resources.of(kind)
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self.used.add(Verb(group=resource.group, resource=name, verb=verb))
        if changed:
            self.changes.append(f"{verb} {changed}")
