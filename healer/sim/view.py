"""What the controllers know: indexes over the storage, kept up to date from its changes, and who wants to hear of them.

Reading an index costs nothing however large the cluster is; no part of the world ever goes through all pods because one
of them changed.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from healer.sim import objects
from healer.sim.objects import JSON, Key
from healer.sim.storage import Expired, Storage

Heard = Callable[[JSON | None, JSON | None], None]
"""Called with an object before and after a change: (None, new) made, (old, None) removed."""

# Owners come before what they own, so that nothing looks like an orphan on the way.
FOLLOWED: Final = (
    "nodes",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "pods",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "volumeattachments",
    "leases",
)


@dataclasses.dataclass(slots=True)
class Used:
    """What the pods on a node have asked for."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0


class View:
    """Indexes of one storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.all: dict[str, dict[Key, JSON]] = {resource: {} for resource in FOLLOWED}
        self.pods_on: defaultdict[str, dict[Key, JSON]] = defaultdict(dict)
        self.pods_in: defaultdict[str, dict[Key, JSON]] = defaultdict(dict)
        self.pods_of: defaultdict[str, dict[Key, JSON]] = defaultdict(dict)
        self.children: defaultdict[str, dict[tuple[str, Key], None]] = defaultdict(dict)
        self.unassigned: dict[Key, JSON] = {}
        self.used: defaultdict[str, Used] = defaultdict(Used)
        self._seen = 0
        self._heard: defaultdict[str, list[Heard]] = defaultdict(list)

    def hear(self, resource: str, heard: Heard) -> None:
        """Call `heard` on every change of `resource`."""
        self._heard[resource].append(heard)

    def node(self, name: str) -> JSON | None:
        return self.all["nodes"].get(("", name))

    @property
    def nodes(self) -> dict[Key, JSON]:
        return self.all["nodes"]

    @property
    def pods(self) -> dict[Key, JSON]:
        return self.all["pods"]

    def workload(self, key: Key) -> JSON | None:
        """The Deployment, StatefulSet or DaemonSet of that name, in this order."""
        found = (self.all[resource].get(key) for resource in ("deployments", "statefulsets", "daemonsets"))
        return next((held for held in found if held is not None), None)

    def pods_below(self, uid: str) -> list[JSON]:
        """The pods of a workload, also those of the ReplicaSets of a Deployment."""
        found = list(self.pods_of[uid].values())
        for resource, child in self.children[uid]:
            held = self.all[resource].get(child) if resource != "pods" else None
            if held is not None:
                found.extend(self.pods_of[objects.uid_of(held)].values())
        return found

    def top_owner(self, obj: JSON) -> JSON | None:
        """The topmost controller of an object that is still there."""
        owner = objects.controller_of(obj)
        if owner is None or owner["kind"] not in objects.RESOURCES:
            return None
        key = (obj["metadata"].get("namespace", ""), owner["name"])
        held = self.all[objects.RESOURCES[owner["kind"]]].get(key)
        if held is None or objects.uid_of(held) != owner["uid"]:
            return None
        return self.top_owner(held) or held

    @property
    def is_behind(self) -> bool:
        """Whether something was written since it last caught up."""
        return self._seen != self.storage.version

    def catch_up(self) -> None:
        """Take in every change since the last time."""
        version, seen = self.storage.version, self._seen
        if version == seen:
            return
        self._seen = version
        for resource in FOLLOWED:
            try:
                changes = self.storage.log_since(resource, seen)
            except Expired:
                self._list_again(resource)
                continue
            for change in changes:
                gone = change.type == "DELETED"
                self._apply(resource, objects.key_of(change.obj), None if gone else change.obj)

    def _list_again(self, resource: str) -> None:
        stored = {objects.key_of(obj): obj for obj in self.storage.items(resource)}
        for key in [key for key in self.all[resource] if key not in stored]:
            self._apply(resource, key, None)
        for key, obj in stored.items():
            self._apply(resource, key, obj)

    def _apply(self, resource: str, key: Key, new: JSON | None) -> None:
        held = self.all[resource]
        old = held.get(key)
        if new is old:
            return
        if new is None:
            del held[key]
        elif old is not None and objects.uid_of(old) != objects.uid_of(new):
            self._apply(resource, key, None)
            old = None
            held[key] = new
        else:
            held[key] = new
        if resource == "pods":
            self._index_pod(key, old, new)
        if resource != "leases":
            self._index_owner(resource, key, old, new)
        for heard in self._heard[resource]:
            heard(old, new)

    def _index_pod(self, key: Key, old: JSON | None, new: JSON | None) -> None:
        if old is not None:
            self._forget_pod(key, old)
        if new is None:
            self.pods_in[key[0]].pop(key, None)
            return
        self.pods_in[key[0]][key] = new
        node = objects.node_of(new)
        if not node:
            self.unassigned[key] = new
            return
        self.pods_on[node][key] = new
        if not objects.is_finished(new):
            self._count(node, new, 1)

    def _forget_pod(self, key: Key, old: JSON) -> None:
        node = objects.node_of(old)
        if not node:
            self.unassigned.pop(key, None)
            return
        self.pods_on[node].pop(key, None)
        if not objects.is_finished(old):
            self._count(node, old, -1)

    def _count(self, node: str, pod: JSON, sign: int) -> None:
        cpu, memory = objects.requests_of(pod)
        used = self.used[node]
        used.cpu += sign * cpu
        used.memory += sign * memory
        used.pods += sign

    def _index_owner(self, resource: str, key: Key, old: JSON | None, new: JSON | None) -> None:
        if old is not None and (owner := objects.controller_of(old)):
            self.children[owner["uid"]].pop((resource, key), None)
            if resource == "pods":
                self.pods_of[owner["uid"]].pop(key, None)
        if new is not None and (owner := objects.controller_of(new)):
            self.children[owner["uid"]][resource, key] = None
            if resource == "pods":
                self.pods_of[owner["uid"]][key] = new
