"""Keeps the objects of a simulated cluster: one counter of versions, a log of changes per resource, no threads, no clock.

Objects are JSON dicts, by resource ("pods", "nodes", …). They are copied when written and never changed afterwards, so
that whoever holds one holds it as it was: read them, log them, stream them, but do not edit them.
"""

from __future__ import annotations

import bisect
import dataclasses
import random
import uuid
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Never

import msgspec

from healer.sim import kinds, objects
from healer.sim.objects import JSON, Key

DEFAULT_GRACE_SECONDS: Final = 30
NAME_ATTEMPTS: Final = 8
_FIXED: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class StorageError(Exception):
    """The request does not fit what is stored; nothing was changed."""

    def __init__(self, resource: str, name: str, message: str) -> None:
        super().__init__(f"{resource} {name!r}: {message}")
        self.resource = resource
        self.name = name
        self.message = message


class AlreadyExists(StorageError):
    """An object of that name is there."""


class Missing(StorageError):
    """No object of that name is there."""


class Conflict(StorageError):
    """Its uid or resourceVersion is not the expected one."""


class Expired(StorageError):
    """The log does not reach back to that version."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one object. `before` is None for ADDED; for DELETED, `obj` is the last state with the new version."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    obj: JSON
    version: int
    before: JSON | None = None


class _Log:
    """The latest changes of one resource; `floor` is the oldest version from which it can tell everything."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.floor = 0

    def add(self, change: Change, history: int) -> None:
        self.changes.append(change)
        if len(self.changes) >= 2 * history:
            self.floor = self.changes[-history - 1].version
            del self.changes[:-history]


def copied(obj: JSON) -> JSON:
    """A deep copy, by way of JSON: the fastest one here, and what could not be sent cannot be stored."""
    result: JSON = _decode(_encode(obj))
    return result


class Storage:
    """Objects as JSON dicts, by resource, with one resourceVersion counter and a change log."""

    def __init__(self, *, now: Callable[[], datetime], seed: int = 0, history: int = 5000) -> None:
        self.version = 0
        self._now = now
        self._random = random.Random(seed)  # noqa: S311 - names that can be foretold, for tests
        self._history = history
        self._objects: defaultdict[str, dict[Key, JSON]] = defaultdict(dict)
        self._logs: defaultdict[str, _Log] = defaultdict(_Log)
        self._wakes: tuple[Callable[[], object], ...] = ()

    def get(self, resource: str, namespace: str, name: str) -> JSON | None:
        """The object as it is, not a copy: read only. `namespace` is empty for cluster-wide kinds."""
        return self._objects[resource].get((namespace, name))

    def items(self, resource: str, namespace: str | None = None) -> list[JSON]:
        """Every object, or those of one namespace, in the order of their creation: read only."""
        held = self._objects[resource]
        if namespace is None:
            return list(held.values())
        return [obj for (where, _), obj in held.items() if where == namespace]

    def create(self, resource: str, obj: JSON) -> JSON:
        """Keep a copy of `obj` with uid, creationTimestamp, resourceVersion and generation. AlreadyExists.

        `metadata.generateName` makes a name; apiVersion, kind and the namespace `default` are filled in. A namespace that
        is not there yet is made first.
        """
        new = self.prepared(resource, obj)
        key = objects.key_of(new)
        if key[0] and ("", key[0]) not in self._objects["namespaces"]:
            self.create("namespaces", {"metadata": {"name": key[0]}, "status": {"phase": "Active"}})
        if key in self._objects[resource]:
            raise AlreadyExists(resource, key[1], "already exists")
        self._objects[resource][key] = new
        self._record(resource, "ADDED", new, None)
        return new

    def prepared(self, resource: str, obj: JSON) -> JSON:
        """What `create` would keep, not kept."""
        new = copied(obj)
        kind = kinds.STORED.get(resource)
        metadata = new.setdefault("metadata", {})
        if kind is not None:
            new = {"apiVersion": kind.api_version, "kind": kind.kind} | new
            if kind.namespaced:
                metadata.setdefault("namespace", "default")
            if kind.counts_generations:
                metadata["generation"] = 1
        if not metadata.get("name"):
            metadata["name"] = self._name(resource, metadata.get("namespace", ""), metadata.get("generateName", ""))
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = objects.stamp(self._now())
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
            metadata.pop(name, None)
        return new

    def update(
        self,
        resource: str,
        namespace: str,
        name: str,
        change: Callable[[JSON], None],
        *,
        resource_version: str | None = None,
        uid: str | None = None,
        status: bool = False,
    ) -> JSON:
        """Let `change` edit a copy, and keep it. With `status`, only what it did to the status counts. Missing, Conflict.

        An edit that changes nothing does not move the version. An object on its way out goes when its last finalizer
        does (a pod: when its grace period has been cut to 0 as well). Name, uid and times of making and deletion stay.
        """
        old = self._expect(resource, namespace, name, uid, resource_version)
        new = self.changed(old, change, status=status)
        if new is old:
            return old
        metadata = new["metadata"]
        if (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and (resource != "pods" or not metadata.get("deletionGracePeriodSeconds"))
        ):
            return self._drop(resource, new, old)
        self._objects[resource][namespace, name] = new
        self._record(resource, "MODIFIED", new, old)
        return new

    def changed(self, old: JSON, change: Callable[[JSON], None], *, status: bool = False) -> JSON:
        """What `update` would keep, not kept: `old` itself when `change` changes nothing."""
        new = copied(old)
        change(new)
        if status:
            edited = new.get("status")
            new = copied({name: value for name, value in old.items() if name != "status"})
            if edited is not None:
                new["status"] = edited
        before, after = old["metadata"], new.setdefault("metadata", {})
        for name in (*_FIXED, "resourceVersion", "generation"):
            if name in before:
                after[name] = before[name]
            else:
                after.pop(name, None)
        if new == old:
            return old
        if "generation" in before and new.get("spec") != old.get("spec"):
            after["generation"] = before["generation"] + 1
        # Once more: what `change` put in may be shared with its caller, who may go on editing it.
        return copied(new)

    def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> JSON:
        """Remove at once, or mark with deletionTimestamp what must wait. Returns its last state. Missing, Conflict.

        What waits: a pod on a node that has not finished, for its grace period (its own, or 30 s, unless given); its
        kubelet calls `remove`. Anything with finalizers, for these. As in Kubernetes, deletionTimestamp is the moment
        at which the grace period *ends*, and a second delete can only bring it forward.
        """
        old = self._expect(resource, namespace, name, uid, resource_version)
        grace = self._grace(resource, old, grace_seconds)
        if grace == 0 and not old["metadata"].get("finalizers"):
            return self._drop(resource, old, old)
        return self._mark(resource, old, grace)

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Remove for good, however much grace is left; what has finalizers is only marked. Nothing if it is gone."""
        old = self.get(resource, namespace, name)
        if old is None:
            return
        if old["metadata"].get("finalizers"):
            self._mark(resource, old, 0)
        else:
            self._drop(resource, old, old)

    def log_since(self, resource: str, version: int) -> list[Change]:
        """Every change of `resource` after `version`, oldest first. Expired when the log does not reach so far back."""
        log = self._logs[resource]
        if version < log.floor:
            raise Expired(resource, "", f"too old resource version: {version} ({log.floor})")
        start = bisect.bisect_right(log.changes, version, key=lambda change: change.version)
        return log.changes[start:]

    def compact(self) -> None:
        """Forget every change so far: whoever has not read them must list again."""
        for log in [self._logs[resource] for resource in {*self._objects, *self._logs}]:
            log.changes.clear()
            log.floor = self.version

    def subscribe(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` after each change, at once; returns what ends that. It must not write to the storage itself."""
        self._wakes = (*self._wakes, wake)

        def unsubscribe() -> None:
            self._wakes = tuple(other for other in self._wakes if other is not wake)

        return unsubscribe

    def _name(self, resource: str, namespace: str, prefix: str) -> str:
        for _ in range(NAME_ATTEMPTS):
            name = prefix + "".join(self._random.choices(objects.SAFE, k=5))
            if prefix and (namespace, name) not in self._objects[resource]:
                return name
        raise AlreadyExists(resource, prefix, "no free name could be made of its generateName")

    def _expect(self, resource: str, namespace: str, name: str, uid: str | None, version: str | None) -> JSON:
        obj = self.get(resource, namespace, name)
        if obj is None:
            raise Missing(resource, name, "not found")
        metadata = obj["metadata"]
        if uid and metadata["uid"] != uid:
            self._differs(resource, name, "UID", uid, metadata["uid"])
        if version and metadata["resourceVersion"] != version:
            self._differs(resource, name, "ResourceVersion", version, metadata["resourceVersion"])
        return obj

    def _differs(self, resource: str, name: str, what: str, expected: str, actual: Any) -> Never:
        message = f"Precondition failed: {what} in precondition: {expected}, {what} in object meta: {actual}"
        raise Conflict(resource, name, message)

    def _grace(self, resource: str, obj: JSON, asked: int | None) -> int:
        if resource != "pods" or not objects.node_of(obj) or objects.is_finished(obj):
            return 0
        own: int = obj["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        grace = own if asked is None else max(asked, 0)
        if "deletionTimestamp" in obj["metadata"]:
            left: int = obj["metadata"].get("deletionGracePeriodSeconds", 0)
            grace = left if asked is None else min(grace, left)
        return grace

    def _mark(self, resource: str, old: JSON, grace: int) -> JSON:
        before = old["metadata"]
        metadata = before | {"deletionGracePeriodSeconds": grace}
        if "deletionTimestamp" in before:
            saved = before.get("deletionGracePeriodSeconds", 0) - grace
            if saved <= 0:
                return old
            ends = objects.parse_stamp(before["deletionTimestamp"]) - timedelta(seconds=saved)
        else:
            ends = self._now() + timedelta(seconds=grace)
        metadata["deletionTimestamp"] = objects.stamp(ends)
        if "generation" in metadata:
            metadata["generation"] += 1
        new = old | {"metadata": metadata}
        self._objects[resource][objects.key_of(new)] = new
        self._record(resource, "MODIFIED", new, old)
        return new

    def _drop(self, resource: str, last: JSON, before: JSON) -> JSON:
        gone = last | {"metadata": dict(last["metadata"])}
        del self._objects[resource][objects.key_of(gone)]
        self._record(resource, "DELETED", gone, before)
        return gone

    def _record(
        self, resource: str, type_: Literal["ADDED", "MODIFIED", "DELETED"], obj: JSON, old: JSON | None
    ) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._logs[resource].add(Change(type=type_, obj=obj, version=self.version, before=old), self._history)
        for wake in self._wakes:
            wake()
