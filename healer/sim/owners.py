"""The garbage collector: what belonged to an owner that is gone is deleted in the background."""

from __future__ import annotations

from healer.sim import objects
from healer.sim.core import Core
from healer.sim.objects import JSON


class OwnerCollector:
    """Follows the deletion of owners, and notices what is made for an owner that is gone already."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._orphans: list[str] = []
        for resource in ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs"):
            core.view.hear(resource, self._heard_owner)
        for resource in ("pods", "replicasets"):
            core.view.hear(resource, self._heard_owned)

    def run(self) -> None:
        while self._orphans:
            uid = self._orphans.pop()
            for resource, key in list(self.core.view.children.get(uid, ())):
                if self.core.storage.get(resource, *key) is not None:
                    self.core.storage.delete(resource, *key)
            self.core.view.catch_up()

    def _heard_owner(self, old: JSON | None, new: JSON | None) -> None:
        if new is None and old is not None:
            self._orphans.append(objects.uid_of(old))

    def _heard_owned(self, old: JSON | None, new: JSON | None) -> None:
        owner = objects.controller_of(new) if new is not None and old is None else None
        if new is None or owner is None or owner["kind"] not in objects.RESOURCES or owner["kind"] == "Node":
            return
        held = self.core.view.all[objects.RESOURCES[owner["kind"]]].get((new["metadata"]["namespace"], owner["name"]))
        if held is None or objects.uid_of(held) != owner["uid"]:
            self._orphans.append(owner["uid"])
