"""GET of one object and of collections: selectors, pages of a snapshot, versions, and the shape of the answer."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from healer.sim import events, objects, selectors, tables
from healer.sim.api_errors import ApiError, bad_request, expired, not_found, too_large_version
from healer.sim.api_routes import Target, View
from healer.sim.kinds import Kind
from healer.sim.objects import JSON
from healer.sim.storage import Storage

SNAPSHOTS_KEPT: Final = 32
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new list without "
    "the continue parameter."
)
_encode: Final = msgspec.json.Encoder().encode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    items: Sequence[JSON]
    version: int
    following: str = ""
    remaining: int = 0


class Reader:
    """Reads of one storage; keeps the snapshots that half-read lists go on from."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._snapshots: OrderedDict[str, tuple[int, list[JSON]]] = OrderedDict()
        self._count = 0

    def forget(self) -> None:
        """Let every page token expire."""
        self._snapshots.clear()

    def get(self, at: Target, query: Mapping[str, str]) -> JSON:
        """The object, in the form it is stored in. 404, 504."""
        self.check_version(query.get("resourceVersion", ""))
        obj = self._storage.get(at.kind.resource, at.namespace, at.name)
        if obj is None:
            raise not_found(at.kind, at.name)
        return obj

    def page(self, at: Target, query: Mapping[str, str], view: View, now: datetime) -> bytes:
        """The encoded list, or page of it. 400, 410, 504."""
        page = self._page(at, query)
        metadata: JSON = {"resourceVersion": str(page.version)}
        if page.following:
            metadata["continue"] = page.following
            if page.remaining:
                metadata["remainingItemCount"] = page.remaining
        if view == "table":
            return _encode(tables.table(at.kind, page.items, now, metadata, query.get("includeObject", "Metadata")))
        if view == "metadata":
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            items = [tables.only_metadata(obj) for obj in page.items]
        else:
            kind, version = f"{at.kind.kind}List", at.kind.api_version
            items = [events.shown(at.kind, obj) for obj in page.items]
        return _encode({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items})

    def selected(self, at: Target, query: Mapping[str, str]) -> list[JSON]:
        """Every object that is meant, in the order of their keys."""
        resource = at.kind.resource
        label_selector, field_selector = query.get("labelSelector", ""), query.get("fieldSelector", "")
        matches = selectors.selection(resource, label_selector, field_selector)
        only = selectors.only_name(selectors.fields(resource, field_selector)) if field_selector else None
        found: list[JSON]
        if only is not None and (at.namespace or not at.kind.namespaced):
            one = self._storage.get(resource, at.namespace, only)
            found = [] if one is None else [one]
        else:
            found = self._storage.items(resource, at.namespace or None)
        if matches is not None:
            found = [obj for obj in found if matches(obj)]
        found.sort(key=objects.key_of)
        return found

    def check_version(self, text: str) -> int:
        """The version asked for, 0 for none. 400, 504 when it is yet to come."""
        if not text:
            return 0
        if not text.isascii() or not text.isdigit():
            raise ApiError(400, f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: invalid syntax')
        version = int(text)
        if version > self._storage.version:
            raise too_large_version(version, self._storage.version)
        return version

    def _page(self, at: Target, query: Mapping[str, str]) -> _Page:
        limit = _limit(query)
        token = query.get("continue", "")
        if token:
            return self._continued(token, limit)
        version = self.check_version(query.get("resourceVersion", ""))
        if query.get("resourceVersionMatch") == "Exact" and version != self._storage.version:
            raise expired(f"The provided resource version is too old: {version} ({self._storage.version})")
        found = self.selected(at, query)
        if not limit or len(found) <= limit:
            return _Page(items=found, version=self._storage.version)
        selective = bool(query.get("labelSelector") or query.get("fieldSelector"))
        self._count += 1
        snapshot = f"{'s' if selective else 'a'}{self._count}"
        self._snapshots[snapshot] = (self._storage.version, found)
        while len(self._snapshots) > SNAPSHOTS_KEPT:
            self._snapshots.popitem(last=False)
        return self._cut(snapshot, 0, limit)

    def _continued(self, token: str, limit: int) -> _Page:
        try:
            snapshot, start = base64.b64decode(token, validate=True).decode().split("/")
            begin = int(start)
        except (ValueError, binascii.Error):
            raise bad_request(f'continue key is not valid: "{token}"') from None
        if snapshot not in self._snapshots:
            raise expired(_TOO_OLD)
        return self._cut(snapshot, begin, limit)

    def _cut(self, snapshot: str, begin: int, limit: int) -> _Page:
        version, items = self._snapshots[snapshot]
        end = begin + limit if limit else len(items)
        left = max(len(items) - end, 0)
        return _Page(
            items=items[begin:end],
            version=version,
            following=base64.b64encode(f"{snapshot}/{end}".encode()).decode() if left else "",
            remaining=left if snapshot.startswith("a") else 0,
        )


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "") or "0"
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'limit: Invalid value: "{text}"')
    return int(text)


def shaped(kind: Kind, obj: JSON, view: View, now: datetime, include: str = "Metadata") -> JSON:
    """One stored object as the client wants to see it."""
    if view == "table":
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return tables.table(kind, [obj], now, version, include)
    if view == "metadata":
        return tables.only_metadata(obj)
    return events.shown(kind, obj)
