"""Keeps a copy of all objects of one kind up to date: list once, then follow the changes, and list again when that is lost.

The server ends every watch after some minutes, forgets old versions (410), breaks down and comes back: none of it is an
error here. A kind that this account may not read, or that the server does not serve, is asked for again now and then.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from healer import telemetry
from healer.clock import Clock
from healer.errors import ActionError, Forbidden, Gone, NotFound, Permanent, Retryable
from healer.kube import answers, wire
from healer.kube.client import KubeClient
from healer.kube.signals import Signal

_log: Final = logging.getLogger(__name__)

W = TypeVar("W", bound=wire.Object)
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_SERVER_SECONDS: Final = 240
_JITTER_SECONDS: Final = 60
_IDLE_SECONDS: Final = 150.0
"""A healthy server sends a bookmark about every minute, so a longer silence means that nobody is there any more."""
_SHORTEST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_SHORT_LIFE_SECONDS: Final = 5.0
_SHORTEST_UNAVAILABLE_SECONDS: Final = 5.0
_LONGEST_UNAVAILABLE_SECONDS: Final = 60.0
_AT_ONCE: Final = 200
"""Objects of a list that are read before others get their turn."""


class Handler(Protocol[T_contra]):
    """Takes what the reflector brings. Calls never overlap; they must not wait."""

    def replace(self, items: Sequence[T_contra]) -> None:
        """These are all there are."""

    def put(self, obj: T_contra) -> None:
        """It is new, or has changed."""

    def remove(self, obj: T_contra) -> None:
        """It is gone; `obj` is its last state."""


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_line: Final = msgspec.json.Decoder(_Line).decode


class _Bookmark(msgspec.Struct):
    class Metadata(msgspec.Struct, rename="camel"):
        resource_version: str = ""

    metadata: Metadata


_decode_bookmark: Final = msgspec.json.Decoder(_Bookmark).decode


class Reflector(Generic[W, T]):
    """Follows one kind. `form` is what to read of each object, `convert` makes the value for `handler` from it.

    An object that cannot be read is logged and left out; it never stops the others.
    """

    def __init__(
        self,
        client: KubeClient,
        kind: str,
        form: type[W],
        convert: Callable[[W], T],
        handler: Handler[T],
        *,
        clock: Clock,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        chance: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.resource_version = ""
        """Everything up to this version has been handed over; empty before the first list."""
        self.unavailable = ""
        """Why this kind cannot be followed at all, where the server says so."""
        self.settled = asyncio.Event()
        """Set once the kind has been listed, or has turned out to be unavailable."""
        self.progress = Signal()
        self._client = client
        self._decode = msgspec.json.Decoder(form).decode
        self._convert = convert
        self._handler = handler
        self._clock = clock
        self._where = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        self._chance = chance or random.Random(f"{client.cluster}/{kind}")  # noqa: S311 — jitter
        self._failures = 0
        self._stale = True
        self._moved = False

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            pause = await self._round()
            if pause:
                await asyncio.sleep(pause)

    async def _round(self) -> float:
        """One list if needed, and one watch; the seconds to wait before the next."""
        began = self._clock.monotonic()
        try:
            if self._stale:
                await self._list()
            await self._watch()
        except Gone:
            self._stale = True
            return self._restart("gone", began)
        except (Forbidden, NotFound) as error:
            return self._give_up(error)
        except Retryable as error:
            return max(self._restart("failed", began), error.delay_seconds if error.delay_seconds > 1.0 else 0.0)
        except ActionError as error:
            _log.warning("watching %s: %s", self.kind, error)
            self._stale = True
            return self._restart("refused", began)
        return self._restart("ended", began)

    def _restart(self, reason: str, began: float) -> float:
        """Count, and pause for longer and longer while rounds end early; a round that lasted is followed at once."""
        telemetry.KUBE_WATCH_RESTARTS.labels(self._client.cluster, self.kind, reason).inc()
        lasted = self._clock.monotonic() - began >= _SHORT_LIFE_SECONDS
        if lasted or self._moved:
            self._failures = 0
        self._moved = False
        if lasted and reason in ("ended", "gone"):
            return 0.0
        self._failures += 1
        longest = min(_SHORTEST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE_SECONDS)
        return longest * self._chance.uniform(0.5, 1.0)

    def _give_up(self, error: Permanent) -> float:
        """Say so, and pause for long: rights and served kinds change by hand."""
        if not self.unavailable:
            _log.warning("%s of cluster %s cannot be watched: %s", self.kind, self._client.cluster, error)
        telemetry.KUBE_WATCH_RESTARTS.labels(self._client.cluster, self.kind, "unavailable").inc()
        self.unavailable = str(error)
        self._stale = True
        self._failures += 1
        self.settled.set()
        return min(_SHORTEST_UNAVAILABLE_SECONDS * 2.0 ** min(self._failures - 1, 10), _LONGEST_UNAVAILABLE_SECONDS)

    async def _list(self) -> None:
        listing = await self._client.listing(self.kind, **self._where)
        values = []
        for number, item in enumerate(listing.items, start=1):
            if found := self._read(item):
                values.append(found[1])
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        self._handler.replace(values)
        self._stale = False
        self.unavailable = ""
        self._reached(listing.resource_version)
        self._moved = False
        self.settled.set()

    async def _watch(self) -> None:
        server_seconds = _SERVER_SECONDS + self._chance.randrange(_JITTER_SECONDS)
        async with self._client.watch(
            self.kind,
            resource_version=self.resource_version,
            server_seconds=server_seconds,
            idle_seconds=min(_IDLE_SECONDS, server_seconds + 30.0),
            **self._where,
        ) as lines:
            async for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = _decode_line(line)
            bookmark = _decode_bookmark(event.object) if event.type == "BOOKMARK" else None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Retryable(f"watching {self.kind}: a line that is not an event: {error}") from error
        if bookmark:
            self._reached(bookmark.metadata.resource_version)
            return
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                self._change(event)
            case "ERROR":
                status = answers.status_of(bytes(event.object))
                raise answers.error_of(status.code, status, doing=f"watching {self.kind}", reading=True)
            case _:
                _log.warning("watching %s: an event of type %r was passed over", self.kind, event.type)

    def _change(self, event: _Line) -> None:
        read = self._read(event.object)
        if read is None:
            return
        found, value = read
        if event.type == "DELETED":
            self._handler.remove(value)
        else:
            self._handler.put(value)
        self._reached(found.metadata.resource_version)

    def _read(self, item: msgspec.Raw) -> tuple[W, T] | None:
        try:
            found = self._decode(item)
            return found, self._convert(found)
        except (msgspec.MsgspecError, ValueError) as error:
            _log.warning(
                "a %s of cluster %s cannot be read and is left out: %s", self.kind, self._client.cluster, error
            )
            return None

    def _reached(self, resource_version: str) -> None:
        if resource_version:
            self.resource_version = resource_version
        self._moved = True
        self.progress.give()
