"""How pods leave nodes that are no good: NoExecute taints, and the collector of pods that no kubelet will ever end."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from healer.sim import objects
from healer.sim.core import Core
from healer.sim.objects import JSON, Key

GC_SECONDS: Final = 20.0
QUARANTINE_SECONDS: Final = 40.0


class TaintEviction:
    """Deletes pods that do not tolerate a NoExecute taint of their node, or only for so long."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._nodes: dict[str, None] = {}
        self._pods: dict[Key, None] = {}
        self._planned: dict[str, datetime] = {}
        """Pod UID → when it is to be deleted."""
        core.view.hear("nodes", self._heard_node)
        core.view.hear("pods", self._heard_pod)

    def run(self) -> None:
        nodes, self._nodes = self._nodes, {}
        pods, self._pods = self._pods, {}
        for name in nodes:
            pods.update(dict.fromkeys(self.core.view.pods_on[name]))
        for key in pods:
            pod = self.core.view.pods.get(key)
            node = self.core.view.node(objects.node_of(pod)) if pod else None
            if pod is not None and node is not None and not objects.is_deleting(pod):
                self._judge(key, pod, node)

    def _heard_node(self, old: JSON | None, new: JSON | None) -> None:
        if new is not None and _evicting(new) != (_evicting(old) if old else []):
            self._nodes[new["metadata"]["name"]] = None

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        if new is None:
            self._planned.pop(objects.uid_of(old), None) if old else None
            return
        name = objects.node_of(new)
        if name and (old is None or objects.node_of(old) != name):
            node = self.core.view.node(name)
            if node is not None and _evicting(node):
                self._pods[objects.key_of(new)] = None

    def _judge(self, key: Key, pod: JSON, node: JSON) -> None:
        taints = _evicting(node)
        uid = objects.uid_of(pod)
        if not taints:
            self._planned.pop(uid, None)
            return
        seconds = _tolerated_for(taints, pod["spec"].get("tolerations") or [])
        if seconds is None:
            self._planned.pop(uid, None)
        elif seconds <= 0:
            self._evict(key, uid)
        elif uid not in self._planned:
            due = self.core.now + timedelta(seconds=seconds)
            self._planned[uid] = due
            self.core.agenda.add(due, lambda: self._due(key, uid, due))

    def _due(self, key: Key, uid: str, due: datetime) -> None:
        if self._planned.get(uid) == due:
            self._evict(key, uid)

    def _evict(self, key: Key, uid: str) -> None:
        self._planned.pop(uid, None)
        pod = self.core.pod(key, uid)
        if pod is None or objects.is_deleting(pod):
            return
        message = f"Taint manager: deleting due to NoExecute taint on {objects.node_of(pod)}"
        at = objects.stamp(self.core.now)

        def mark(copy: JSON) -> None:
            objects.set_condition(
                copy, "DisruptionTarget", "True", reason="DeletionByTaintManager", message=message, at=at
            )

        self.core.storage.update("pods", *key, mark, uid=uid, status=True)
        self.core.event(
            pod,
            "Pod",
            "TaintManagerEviction",
            f"Marking for deletion Pod {'/'.join(key)}",
            component="taint-eviction-controller",
        )
        self.core.storage.delete("pods", *key, uid=uid)
        self.core.note(f"pod {'/'.join(key)} is evicted from {objects.node_of(pod)} by a taint")


class PodCollector:
    """Every 20 s: pods of nodes that are gone, and pods that end on a node marked out of service."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._due = core.now
        self._missing: dict[str, datetime] = {}
        self._suspects: dict[str, None] = {}
        core.view.hear("nodes", self._heard_node)
        core.view.hear("pods", self._heard_pod)

    def run(self) -> None:
        if self.core.now < self._due:
            return
        self._due = self.core.now + timedelta(seconds=GC_SECONDS)
        for name in list(self._suspects):
            node = self.core.view.node(name)
            pods = self.core.view.pods_on[name]
            if node is None:
                self._orphaned(name, pods)
                continue
            self._missing.pop(name, None)
            if not objects.has_taint(node, objects.OUT_OF_SERVICE, "NoExecute"):
                del self._suspects[name]
            elif not objects.is_ready(node):
                self._collect([key for key, pod in pods.items() if objects.is_deleting(pod)], "out of service")
        unplaced = self.core.view.unassigned.items()
        self._collect([key for key, pod in unplaced if objects.is_deleting(pod)], "never placed")

    def _orphaned(self, name: str, pods: dict[Key, JSON]) -> None:
        if not pods:
            self._missing.pop(name, None)
            del self._suspects[name]
            return
        since = self._missing.setdefault(name, self.core.now)
        if (self.core.now - since).total_seconds() >= QUARANTINE_SECONDS:
            self._collect(list(pods), "of a node that is gone")

    def _heard_node(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None and objects.has_taint(new, objects.OUT_OF_SERVICE, "NoExecute"):
            self._suspects[new["metadata"]["name"]] = None
        elif new is None and _old is not None:
            self._suspects[_old["metadata"]["name"]] = None

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        if new is not None and old is None and (name := objects.node_of(new)) and self.core.view.node(name) is None:
            self._suspects[name] = None

    def _collect(self, keys: list[Key], why: str) -> None:
        for key in keys:
            pod = self.core.storage.get("pods", *key)
            if pod is None:
                continue
            if not objects.is_finished(pod):
                self.core.storage.update("pods", *key, _fail, uid=objects.uid_of(pod), status=True)
            self.core.storage.remove("pods", *key)
            self.core.note(f"pod {'/'.join(key)} is collected: {why}")


def _fail(pod: JSON) -> None:
    pod["status"]["phase"] = "Failed"
    pod["status"]["reason"] = "DeletionByPodGC"


def _evicting(node: JSON) -> list[JSON]:
    return [taint for taint in objects.taints_of(node) if taint["effect"] == "NoExecute"]


def _tolerated_for(taints: list[JSON], tolerations: list[JSON]) -> float | None:
    """For how many seconds all `taints` are tolerated; None is for ever."""
    least: float | None = None
    for taint in taints:
        fitting = [each for each in tolerations if objects.tolerates(each, taint)]
        if not fitting:
            return 0.0
        bounded = [each["tolerationSeconds"] for each in fitting if each.get("tolerationSeconds") is not None]
        if bounded:
            least = min(bounded) if least is None else min(least, *bounded)
    return least
