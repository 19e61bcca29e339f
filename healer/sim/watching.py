"""Watches: the changes of one collection, line by line, as long as the client listens."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from healer.sim import events, selectors, tables
from healer.sim.api_errors import ApiError, bad_request, expired
from healer.sim.api_faults import ApiFaults, ConnectionLost
from healer.sim.api_routes import Target, View
from healer.sim.objects import JSON
from healer.sim.reading import Reader
from healer.sim.storage import Change, Expired, Storage

BOOKMARK_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 3600.0
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_encode: Final = msgspec.json.Encoder().encode


class Watch:
    """One watch. Made and checked at once; `lines` gives what happens from then on."""

    def __init__(
        self,
        at: Target,
        query: Mapping[str, str],
        view: View,
        *,
        storage: Storage,
        reader: Reader,
        faults: ApiFaults,
        now: Callable[[], datetime],
    ) -> None:
        """400, 504; 410 is told within the stream, as a real server does."""
        self._at = at
        self._query = query
        self._view = view
        self._storage = storage
        self._faults = faults
        self._now = now
        self._matches = selectors.selection(
            at.kind.resource, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        self._seconds = _seconds(query.get("timeoutSeconds", ""))
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._columns_told = False
        self._epoch = faults.watch_epoch
        self._pending: deque[tuple[float, Change]] = deque()
        self._start: list[bytes] = []
        asked = reader.check_version(query.get("resourceVersion", ""))
        send_all = query.get("sendInitialEvents") in ("true", "1")
        if send_all or not asked:
            self._version = storage.version
            if query.get("sendInitialEvents") not in ("false", "0"):
                self._start = [self._line("ADDED", obj) for obj in reader.selected(at, query)]
            if send_all and self._bookmarks:
                self._start.append(self._bookmark(initial=True))
        else:
            self._version = asked

    @property
    def is_too_old(self) -> bool:
        """Whether its first word will be that the version is forgotten."""
        try:
            self._storage.log_since(self._at.kind.resource, self._version)
        except Expired:
            return True
        return False

    async def lines(self) -> AsyncIterator[bytes]:
        """Each event as a line, until the time is up. ConnectionLost when a fault breaks it."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        with contextlib.ExitStack() as stack:
            stack.callback(self._storage.subscribe(changed.set))
            stack.callback(self._faults.on_change(changed.set))
            for line in self._start:
                yield line
            self._start.clear()
            end = loop.time() + self._seconds
            bookmark = loop.time() + BOOKMARK_SECONDS
            while True:
                changed.clear()
                self._check()
                try:
                    self._read(loop.time())
                except Expired as error:
                    yield _encode({"type": "ERROR", "object": expired(error.message).status()})
                    return
                while self._pending and self._pending[0][0] <= loop.time() and not self._faults.hang:
                    _, change = self._pending.popleft()
                    line = self._event(change)
                    if line:
                        yield line
                        self._check()
                if loop.time() >= end:
                    return
                if loop.time() >= bookmark:
                    bookmark = loop.time() + BOOKMARK_SECONDS
                    if self._bookmarks and not self._pending and not self._faults.hang:
                        yield self._bookmark()
                        continue
                await self._until(changed, min(end, bookmark))

    async def _until(self, changed: asyncio.Event, latest: float) -> None:
        if self._pending and not self._faults.hang:
            latest = min(latest, self._pending[0][0])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(latest):
                await changed.wait()

    def _check(self) -> None:
        if self._faults.down or self._faults.watch_epoch != self._epoch:
            raise ConnectionLost(f"the watch of {self._at.kind.resource} was broken")

    def _read(self, at: float) -> None:
        changes = self._storage.log_since(self._at.kind.resource, self._version)
        due = at + self._faults.watch_lag_seconds
        if self._pending:
            # What happened first is told first, also when the lag has just become shorter.
            due = max(due, self._pending[-1][0])
        self._pending.extend((due, change) for change in changes if self._is_here(change.obj))
        self._version = self._storage.version

    def _is_here(self, obj: JSON) -> bool:
        metadata = obj["metadata"]
        if self._at.namespace and metadata.get("namespace") != self._at.namespace:
            return False
        return not self._at.name or metadata["name"] == self._at.name

    def _event(self, change: Change) -> bytes:
        """The line for a change as this watch sees it: what comes to match is ADDED, what no longer does DELETED."""
        if self._matches is None:
            return self._line(change.type, change.obj)
        is_now = change.type != "DELETED" and self._matches(change.obj)
        was = change.before is not None and self._matches(change.before)
        if is_now:
            return self._line("MODIFIED" if was else "ADDED", change.obj)
        if not was or change.before is None:
            return b""
        if change.type == "DELETED":
            return self._line("DELETED", change.obj)
        # It is shown as it was when it still matched, with the version at which it ceased to.
        version = {"resourceVersion": change.obj["metadata"]["resourceVersion"]}
        return self._line("DELETED", change.before | {"metadata": change.before["metadata"] | version})

    def _line(self, type_: str, obj: JSON) -> bytes:
        return _encode({"type": type_, "object": self._shown(obj)})

    def _shown(self, obj: JSON) -> JSON:
        if self._view == "metadata":
            return tables.only_metadata(obj)
        if self._view == "object":
            return events.shown(self._at.kind, obj)
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        include = self._query.get("includeObject", "Metadata")
        shown = tables.table(self._at.kind, [obj], self._now(), version, include)
        if self._columns_told:
            shown["columnDefinitions"] = None
        self._columns_told = True
        return shown

    def _bookmark(self, *, initial: bool = False) -> bytes:
        metadata: JSON = {"resourceVersion": str(self._version), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        kind, version = self._at.kind.kind, self._at.kind.api_version
        if self._view == "metadata":
            kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
        elif self._view == "table":
            empty = tables.table(self._at.kind, [], self._now(), {"resourceVersion": str(self._version)}, "Metadata")
            row = {
                "cells": [],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
            }
            return _encode({"type": "BOOKMARK", "object": empty | {"columnDefinitions": None, "rows": [row]}})
        return _encode({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": version, "metadata": metadata}})


def _seconds(text: str) -> float:
    if not text:
        return LONGEST_SECONDS
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'timeoutSeconds: Invalid value: "{text}"')
    return min(float(text), LONGEST_SECONDS) or LONGEST_SECONDS


def check_send_initial(query: Mapping[str, str]) -> None:
    """422 for `sendInitialEvents` without the match that must come with it."""
    if query.get("sendInitialEvents") and query.get("resourceVersionMatch") != "NotOlderThan":
        raise ApiError(
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting '
            "resourceVersionMatch to NotOlderThan",
            details={},
        )
