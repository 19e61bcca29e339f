"""Events on objects, for `kubectl describe`: the same reason again within a while counts up, instead of one more Event."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
from datetime import datetime
from typing import Final, Protocol

from healer.clock import Clock
from healer.errors import ActionError, NotFound
from healer.kube import resources
from healer.kube.calls import JSON
from healer.model.targets import ObjectRef

_WINDOW_SECONDS: Final = 600.0
_REMEMBERED: Final = 1000
_LONGEST_MESSAGE: Final = 1024
_LONGEST_PREFIX: Final = 220
_log: Final = logging.getLogger(__name__)


class _Writes(Protocol):
    async def create(self, kind: str, namespace: str, body: JSON) -> JSON: ...

    async def patch(self, ref: ObjectRef, body: JSON) -> JSON: ...


@dataclasses.dataclass(slots=True)
class _Told:
    """An Event that is there, and how often it has been told."""

    ref: ObjectRef
    count: int
    at: float


class Recorder:
    """Puts Events on objects. It forgets the oldest when it has told of many objects."""

    def __init__(self, kube: _Writes, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._told: collections.OrderedDict[tuple[object, ...], _Told] = collections.OrderedDict()
        self._numbers = itertools.count()

    async def record(self, about: ObjectRef, *, reason: str, message: str, warning: bool) -> None:
        """Tell, or log that it could not be told."""
        try:
            await self._record(about, reason, message[:_LONGEST_MESSAGE], "Warning" if warning else "Normal")
        except ActionError as error:
            _log.info("event %s on %s was not taken: %s", reason, about, error)

    async def _record(self, about: ObjectRef, reason: str, message: str, type_: str) -> None:
        key = (about.key, about.uid, reason, type_)
        known = self._told.get(key)
        if known and self._clock.monotonic() - known.at < _WINDOW_SECONDS and await self._again(known, message):
            return
        ref = await self._first(about, reason, message, type_)
        self._told[key] = _Told(ref, 1, self._clock.monotonic())
        self._told.move_to_end(key)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    async def _again(self, known: _Told, message: str) -> bool:
        """Count up. False when the Event is no longer there."""
        known.count += 1
        known.at = self._clock.monotonic()
        body = {"count": known.count, "message": message, "lastTimestamp": _stamp(self._clock.now())}
        try:
            await self._kube.patch(known.ref, body)
        except NotFound:
            return False
        return True

    async def _first(self, about: ObjectRef, reason: str, message: str, type_: str) -> ObjectRef:
        now = self._clock.now()
        namespace = about.namespace or "default"
        number = f"{round(now.timestamp() * 1_000_000):x}{next(self._numbers):x}"
        name = f"{about.name[:_LONGEST_PREFIX]}.{number}"
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": _involved(about),
            "reason": reason,
            "message": message,
            "type": type_,
            "count": 1,
            "firstTimestamp": _stamp(now),
            "lastTimestamp": _stamp(now),
            "source": {"component": "healer"},
            "reportingComponent": "healer",
            "reportingInstance": "",
        }
        await self._kube.create("Event", namespace, body)
        return ObjectRef(cluster=about.cluster, kind="Event", namespace=namespace, name=name)


def _involved(about: ObjectRef) -> JSON:
    involved = {
        "apiVersion": resources.of(about.kind).api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    return {name: value for name, value in involved.items() if value}


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
