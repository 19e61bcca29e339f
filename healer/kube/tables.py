"""What the caches hold: one dict per kind, changed in place, with the indexes that others read."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Final, Generic, NamedTuple, TypeVar

from healer.clock import Clock
from healer.kube.objects import Warned
from healer.model.cluster import Autoscaler, Budget, Node, Pod, Workload
from healer.model.targets import ObjectRef

Value = Node | Pod | Workload | Budget | Autoscaler
Change = Callable[[Value | None, Value | None], None]
"""Told (before, after): (None, new) made, (old, None) gone."""

V = TypeVar("V", Node, Pod, Workload, Budget, Autoscaler)
K = TypeVar("K", bound=Hashable)
I = TypeVar("I", bound=Hashable)  # noqa: E741 — as in "index"
PodKey = tuple[str, str]
WorkloadKey = tuple[str, str, str]

_OBJECTS_WITH_WARNINGS: Final = 2000
_WARNINGS_EACH: Final = 5


class Table(Generic[K, V]):
    """The objects of one kind by key. Tells of what has really changed, also over a new list.

    `rows` may be shared with other kinds, when their keys differ.
    """

    def __init__(self, key: Callable[[V], K], changed: Change, rows: dict[K, V] | None = None) -> None:
        self.rows: dict[K, V] = {} if rows is None else rows
        self._key: Callable[[V], K] = key
        self._changed = changed
        self._keys: set[K] = set()

    def replace(self, items: Sequence[V]) -> None:
        there = {self._key(item) for item in items}
        for key in self._keys - there:
            self._drop(key)
        for item in items:
            self.put(item)

    def put(self, obj: V) -> None:
        key = self._key(obj)
        self._keys.add(key)
        old = self.rows.get(key)
        if old is not None and old.ref.uid != obj.ref.uid:
            self._drop(key)
            self._keys.add(key)
            old = None
        if old is None or not self.same(old, obj):
            self.store(key, old, obj)
            self._changed(old, obj)

    def remove(self, obj: V) -> None:
        key = self._key(obj)
        held = self.rows.get(key)
        if held is not None and held.ref.uid == obj.ref.uid:
            self._drop(key)

    def same(self, old: V, new: V) -> bool:
        return old == new

    def store(self, key: K, old: V | None, new: V | None) -> None:  # noqa: ARG002 — for tables with an index
        """Put `new` in the place of `old`."""
        if new is None:
            del self.rows[key]
        else:
            self.rows[key] = new

    def _drop(self, key: K) -> None:
        self._keys.discard(key)
        old = self.rows.get(key)
        if old is not None:
            self.store(key, old, None)
            self._changed(old, None)


class Index(Generic[I, K, V]):
    """Objects by something that several of them share. What shares nothing (None) is not in it."""

    def __init__(self, of: Callable[[V], I | None]) -> None:
        self.rows: dict[I, dict[K, V]] = {}
        self._of: Callable[[V], I | None] = of

    def store(self, key: K, old: V | None, new: V | None) -> None:
        before = None if old is None else self._of(old)
        after = None if new is None else self._of(new)
        if before is not None and before != after:
            there = self.rows[before]
            del there[key]
            if not there:
                del self.rows[before]
        if after is not None and new is not None:
            self.rows.setdefault(after, {})[key] = new


class Pods(Table[PodKey, Pod]):
    """Pods, which of them are on which node, and which belong to which controller."""

    def __init__(self, changed: Change) -> None:
        super().__init__(lambda pod: (pod.ref.namespace, pod.ref.name), changed)
        self.by_node: Index[str, PodKey, Pod] = Index(lambda pod: pod.node_name or None)
        self.by_owner: Index[WorkloadKey, PodKey, Pod] = Index(controller)

    def same(self, old: Pod, new: Pod) -> bool:
        return old.resource_version == new.resource_version if new.resource_version else old == new

    def store(self, key: PodKey, old: Pod | None, new: Pod | None) -> None:
        super().store(key, old, new)
        self.by_node.store(key, old, new)
        self.by_owner.store(key, old, new)


class Workloads(Table[WorkloadKey, Workload]):
    """Workloads of one kind. `rows` and `by_owner` are shared by all kinds."""

    def __init__(
        self,
        changed: Change,
        rows: dict[WorkloadKey, Workload],
        by_owner: Index[WorkloadKey, WorkloadKey, Workload],
    ) -> None:
        super().__init__(lambda found: (found.ref.kind, found.ref.namespace, found.ref.name), changed, rows)
        self._by_owner = by_owner

    def store(self, key: WorkloadKey, old: Workload | None, new: Workload | None) -> None:
        super().store(key, old, new)
        self._by_owner.store(key, old, new)


def controller(found: Pod | Workload) -> WorkloadKey | None:
    return found.owner.key_in(found.ref.namespace) if found.owner else None


class Beat(NamedTuple):
    """A node's lease: whose, and its renewTime, which is told by the node's clock."""

    name: str
    renewed_at: datetime | None


class Nodes(Table[str, Node]):
    """Nodes with their leases, and when each was last seen to be alive: by our clock, when what it writes changes."""

    def __init__(self, changed: Change, clock: Clock) -> None:
        super().__init__(lambda node: node.ref.name, changed)
        self.heartbeats: dict[str, float] = {}
        self.leases = _Leases(self)
        self._clock = clock

    def put(self, obj: Node) -> None:
        renewed_at = self.leases.renewed_at.get(obj.name)
        super().put(dataclasses.replace(obj, lease_renewed_at=renewed_at) if renewed_at else obj)

    def store(self, key: str, old: Node | None, new: Node | None) -> None:
        super().store(key, old, new)
        if new is None:
            self.heartbeats.pop(key, None)
        elif old is None or _ready_heartbeat(old) != _ready_heartbeat(new):
            self.beat(key)

    def beat(self, name: str) -> None:
        self.heartbeats[name] = self._clock.monotonic()

    def renewed(self, name: str, at: datetime | None) -> None:
        """The lease has changed. Nobody is told: it happens all the time, and means that nothing has happened."""
        if node := self.rows.get(name):
            self.rows[name] = dataclasses.replace(node, lease_renewed_at=at)
            self.beat(name)


class _Leases:
    """Takes leases for `Nodes`."""

    def __init__(self, nodes: Nodes) -> None:
        self.renewed_at: dict[str, datetime | None] = {}
        self._nodes = nodes

    def replace(self, items: Sequence[Beat]) -> None:
        for name in self.renewed_at.keys() - {beat.name for beat in items}:
            del self.renewed_at[name]
        for beat in items:
            self.put(beat)

    def put(self, obj: Beat) -> None:
        if obj.name not in self.renewed_at or self.renewed_at[obj.name] != obj.renewed_at:
            self.renewed_at[obj.name] = obj.renewed_at
            self._nodes.renewed(obj.name, obj.renewed_at)

    def remove(self, obj: Beat) -> None:
        self.renewed_at.pop(obj.name, None)


def _ready_heartbeat(node: Node) -> datetime | None:
    ready = node.conditions.get("Ready")
    return ready.heartbeat_at if ready else None


class Attachments:
    """Volume attachments: name → node name."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.rows: dict[str, str] = {}
        self._changed = changed

    def replace(self, items: Sequence[tuple[str, str]]) -> None:
        if self.rows != dict(items):
            self.rows.clear()
            self.rows.update(items)
            self._changed()

    def put(self, obj: tuple[str, str]) -> None:
        name, node = obj
        if self.rows.get(name) != node:
            self.rows[name] = node
            self._changed()

    def remove(self, obj: tuple[str, str]) -> None:
        if self.rows.pop(obj[0], None) is not None:
            self._changed()


class Warnings:
    """The latest warning Events, a few per object; the objects that were warned of longest ago are forgotten."""

    def __init__(self) -> None:
        self._by_object: collections.OrderedDict[tuple[str, str, str], dict[tuple[str, str], Warned]] = (
            collections.OrderedDict()
        )

    def about(self, ref: ObjectRef) -> tuple[Warned, ...]:
        """The latest last; those of an earlier object of the same name are left out."""
        found = self._by_object.get((ref.kind, ref.namespace, ref.name), {})
        return tuple(w for w in found.values() if not (ref.uid and w.about.uid) or w.about.uid in (ref.uid, ref.name))

    def replace(self, items: Sequence[Warned]) -> None:
        self._by_object.clear()
        for warned in sorted(items, key=_when):
            self.put(warned)

    def put(self, obj: Warned) -> None:
        key = (obj.about.kind, obj.about.namespace, obj.about.name)
        each = self._by_object.setdefault(key, {})
        self._by_object.move_to_end(key)
        each.pop((obj.reason, obj.message), None)
        each[obj.reason, obj.message] = obj
        while len(each) > _WARNINGS_EACH:
            del each[next(iter(each))]
        while len(self._by_object) > _OBJECTS_WITH_WARNINGS:
            self._by_object.popitem(last=False)

    def remove(self, obj: Warned) -> None:
        """Kept: that the server forgets an Event after an hour does not make it untrue."""


def _when(warned: Warned) -> float:
    return warned.at.timestamp() if warned.at else 0.0
