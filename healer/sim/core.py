"""What every part of the simulated cluster stands on: the time, the storage, the indexes, the cloud, timers and a log."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from healer.sim import objects
from healer.sim.cloud import Cloud
from healer.sim.objects import JSON, Key
from healer.sim.storage import Storage
from healer.sim.view import View

EVENT_TTL_SECONDS: Final = 3600.0
LOG_LENGTH: Final = 20_000


@dataclasses.dataclass(slots=True, kw_only=True)
class Options:
    """How long things take in this cluster, in seconds. Change them at any time."""

    node_grace_seconds: float = 40.0
    """How long a kubelet may be silent before its node is Unknown (50 from Kubernetes 1.32)."""
    node_startup_grace_seconds: float = 60.0
    toleration_seconds: int = 300
    """How long pods stay on a node that is not ready or unreachable, unless they say otherwise."""
    pdb_lag_seconds: float = 0.0
    """How far the disruption controller is behind."""
    node_delete_seconds: float = 5.0
    """How soon a node object goes after its machine was terminated; negative: never."""
    start_seconds: float = 2.0
    start_jitter_seconds: float = 2.0
    ready_seconds: float = 1.0
    shutdown_seconds: float = 1.0
    join_seconds: float = 8.0
    node_ready_seconds: float = 5.0
    attach_seconds: float = 2.0
    force_detach_seconds: float = 360.0


@dataclasses.dataclass(frozen=True, slots=True)
class Noted:
    """One line of the world's own log: what really happened, whoever could see it."""

    at: datetime
    what: str

    def __str__(self) -> str:
        return f"{objects.stamp(self.at)} {self.what}"


class Part(Protocol):
    """A controller: does what is due at the core's `now`, and costs next to nothing when nothing is."""

    def run(self) -> None: ...


class Agenda:
    """Things to do later, in order of their time and then of their entry."""

    def __init__(self) -> None:
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def add(self, at: datetime, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at, next(self._order), action))

    def run(self, now: datetime) -> None:
        """Do everything due by `now`, also what is entered meanwhile."""
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()

    def has_due(self, now: datetime) -> bool:
        return bool(self._due) and self._due[0][0] <= now


class Core:
    """The common ground of all parts. Nothing in it knows a part."""

    def __init__(self, *, start: datetime, seed: int = 0, options: Options | None = None) -> None:
        self.now = start
        self.started = start
        self.seed = seed
        self.options = options or Options()
        self.random = random.Random(f"world-{seed}")  # noqa: S311 - a simulation has to be repeatable
        self.storage = Storage(now=lambda: self.now, seed=seed)
        self.cloud = Cloud(now=lambda: self.now, seed=seed)
        self.view = View(self.storage)
        self.agenda = Agenda()
        self.log: deque[Noted] = deque(maxlen=LOG_LENGTH)
        self.instant = False
        """While true, everything a kubelet or a disk does takes no time: how a world comes up whole at its start."""
        self._events: dict[tuple[str, str, str], str] = {}
        self._event_number = 0

    def note(self, what: str) -> None:
        self.log.append(Noted(self.now, what))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do `action` in `seconds`; at once, but not within this call, while `instant`."""
        self.agenda.add(self.now if self.instant else self.now + timedelta(seconds=seconds), action)

    def since_start(self) -> float:
        return (self.now - self.started).total_seconds()

    def pod(self, key: Key, uid: str) -> JSON | None:
        """The pod as it is stored, if it is still that one."""
        pod = self.storage.get("pods", *key)
        return pod if pod is not None and objects.uid_of(pod) == uid else None

    def event(
        self, about: JSON, kind: str, reason: str, message: str, *, component: str, warning: bool = False
    ) -> None:
        """Record a Kubernetes Event; the same once more only counts up."""
        if self.instant:
            return
        at = objects.stamp(self.now)
        identity = (objects.uid_of(about), reason, message)
        namespace = about["metadata"].get("namespace") or "default"
        name = self._events.get(identity)
        if name is not None and self.storage.get("events", namespace, name) is not None:
            self.storage.update("events", namespace, name, lambda event: _again(event, at))
            return
        self._event_number += 1
        name = f"{about['metadata']['name']}.{self._event_number:016x}"
        self._events[identity] = name
        self.storage.create("events", _event(about, kind, namespace, name, reason, message, component, warning, at))
        self.after(EVENT_TTL_SECONDS, lambda: self._forget(identity, namespace))

    def _forget(self, identity: tuple[str, str, str], namespace: str) -> None:
        name = self._events.pop(identity, "")
        if name and self.storage.get("events", namespace, name) is not None:
            self.storage.remove("events", namespace, name)


def _again(event: JSON, at: str) -> None:
    event["count"] += 1
    event["lastTimestamp"] = at


def _event(
    about: JSON, kind: str, namespace: str, name: str, reason: str, message: str, component: str, warning: bool, at: str
) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": about.get("apiVersion", "v1"),
            "kind": kind,
            "namespace": about["metadata"].get("namespace", ""),
            "name": about["metadata"]["name"],
            "uid": about["metadata"]["uid"],
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
    }
