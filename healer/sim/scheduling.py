"""The scheduler: gives pods a node that they fit on and may run on, spread over zones and hosts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

from healer.sim import objects
from healer.sim.core import Core
from healer.sim.objects import JSON, Key

ENOUGH_NODES: Final = 50
"""How many nodes that fit are compared; with more nodes than that, each pod starts looking where the last one ended."""


@dataclasses.dataclass(slots=True)
class _Room:
    """What a node offers in all. Worked out once per version of the node."""

    cpu: int
    memory: int
    pods: int
    zone: str


class Scheduler:
    """Binds pending pods in the order of priority and age."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._rooms: dict[str, tuple[JSON, _Room]] = {}
        self._next = 0
        self._changed = False
        self._retry: dict[Key, None] = {}
        """Pods that did not fit; they are looked at again once something has changed."""
        core.view.hear("pods", self._heard_pod)
        core.view.hear("nodes", self._heard_node)

    def run(self) -> None:
        view = self.core.view
        changed, self._changed = self._changed, False
        if changed:
            self._retry.clear()
        waiting = [(key, pod) for key, pod in view.unassigned.items() if key not in self._retry]
        waiting.sort(key=lambda item: -int(item[1]["spec"].get("priority", 0)))
        for key, pod in waiting:
            if objects.is_deleting(pod) or objects.is_finished(pod) or pod["spec"].get("schedulingGates"):
                continue
            self._schedule(key, pod)
            view.catch_up()

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        freed = old is not None and bool(objects.node_of(old)) and (new is None or objects.is_finished(new))
        if freed:
            self._changed = True
        if new is None and old is not None:
            self._retry.pop(objects.key_of(old), None)

    def _heard_node(self, old: JSON | None, new: JSON | None) -> None:
        if new is not None and (old is None or offer(old) != offer(new)):
            self._changed = True
        if new is None and old is not None:
            self._rooms.pop(old["metadata"]["name"], None)

    def _schedule(self, key: Key, pod: JSON) -> None:
        refusals: Counter[str] = Counter()
        best = self._choose(pod, refusals)
        if best is None:
            self._retry[key] = None
            self._refused(key, pod, refusals)
            return
        at = objects.stamp(self.core.now)

        def bind(copy: JSON) -> None:
            copy["spec"]["nodeName"] = best
            objects.set_condition(copy, "PodScheduled", "True", reason="", at=at)

        bound = self.core.storage.update("pods", *key, bind, uid=objects.uid_of(pod))
        message = f"Successfully assigned {'/'.join(key)} to {best}"
        self.core.event(bound, "Pod", "Scheduled", message, component="default-scheduler")

    def _choose(self, pod: JSON, refusals: Counter[str]) -> str | None:
        view = self.core.view
        cpu, memory = objects.requests_of(pod)
        zones, hosts = self._siblings(pod)
        bound_to = only_node(pod)
        names = [bound_to] if bound_to else [key[1] for key in view.nodes]
        start = self._next % len(names) if len(names) > ENOUGH_NODES else 0
        best: str | None = None
        best_score = (float("inf"), float("inf"), float("inf"))
        fitting = 0
        for offset in range(len(names)):
            name = names[(start + offset) % len(names)]
            node = view.node(name)
            if node is None:
                refusals["node(s) were not found"] += 1
                continue
            room = self._room(node)
            if (why := self._refusal(pod, node, room, cpu, memory)) is not None:
                refusals[why] += 1
                continue
            used = view.used[name]
            load = max((used.cpu + cpu) / room.cpu, (used.memory + memory) / room.memory)
            score = (zones[room.zone], hosts[name], load)
            if score < best_score:
                best, best_score = name, score
            fitting += 1
            if fitting >= ENOUGH_NODES:
                self._next = start + offset + 1
                break
        return best

    def _refusal(self, pod: JSON, node: JSON, room: _Room, cpu: int, memory: int) -> str | None:
        """Why the pod may not run there; None where it may."""
        spec = pod["spec"]
        if (why := forbidden(pod, node)) is not None:
            return why
        used = self.core.view.used[node["metadata"]["name"]]
        if used.pods + 1 > room.pods:
            return "Too many pods"
        if cpu and used.cpu + cpu > room.cpu:
            return "Insufficient cpu"
        if memory and used.memory + memory > room.memory:
            return "Insufficient memory"
        if _needs_own_host(spec) and self._has_sibling(pod, node["metadata"]["name"]):
            return "node(s) didn't match pod anti-affinity rules"
        return None

    def _siblings(self, pod: JSON) -> tuple[Counter[str], Counter[str]]:
        """How many pods of the same controller each zone and each host has."""
        zones: Counter[str] = Counter()
        hosts: Counter[str] = Counter()
        owner = objects.controller_of(pod)
        for sibling in self.core.view.pods_of[owner["uid"]].values() if owner else ():
            name = objects.node_of(sibling)
            node = self.core.view.node(name) if name and objects.is_active(sibling) else None
            if node is not None:
                hosts[name] += 1
                zones[self._room(node).zone] += 1
        return zones, hosts

    def _has_sibling(self, pod: JSON, node: str) -> bool:
        owner = objects.controller_of(pod)
        uid = owner["uid"] if owner else None
        others = self.core.view.pods_on[node].values()
        return any((other := objects.controller_of(held)) is not None and other["uid"] == uid for held in others)

    def _room(self, node: JSON) -> _Room:
        name = node["metadata"]["name"]
        known = self._rooms.get(name)
        if known is None or known[0] is not node:
            allocatable = node["status"]["allocatable"]
            room = _Room(
                cpu=objects.millicores(allocatable["cpu"]),
                memory=objects.whole_bytes(allocatable["memory"]),
                pods=int(allocatable["pods"]),
                zone=objects.labels_of(node).get(objects.ZONE, ""),
            )
            known = self._rooms[name] = (node, room)
        return known[1]

    def _refused(self, key: Key, pod: JSON, refusals: Counter[str]) -> None:
        total = len(self.core.view.nodes)
        parts = ", ".join(f"{count} {why}" for why, count in sorted(refusals.items()))
        message = f"0/{total} nodes are available: {parts or 'no nodes'}."
        at = objects.stamp(self.core.now)

        def mark(copy: JSON) -> None:
            objects.set_condition(copy, "PodScheduled", "False", reason="Unschedulable", message=message, at=at)

        self.core.storage.update("pods", *key, mark, uid=objects.uid_of(pod), status=True)
        self.core.event(pod, "Pod", "FailedScheduling", message, component="default-scheduler", warning=True)


def forbidden(pod: JSON, node: JSON, *, ignore_unschedulable: bool = False) -> str | None:
    """Why this node is not meant for this pod, whatever room it has; None where it is."""
    spec = pod["spec"]
    labels = objects.labels_of(node)
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity and not objects.matches_terms(labels, node["metadata"]["name"], affinity["nodeSelectorTerms"]):
        return "node(s) didn't match Pod's node affinity/selector"
    tolerations = spec.get("tolerations") or ()
    if node["spec"].get("unschedulable") and not ignore_unschedulable:
        taint = {"key": objects.UNSCHEDULABLE, "effect": "NoSchedule"}
        if not objects.is_tolerated(taint, tolerations):
            return "node(s) were unschedulable"
    for taint in objects.taints_of(node):
        if taint["effect"] == "PreferNoSchedule":
            continue
        if not objects.is_tolerated(taint, tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    return None


def offer(node: JSON) -> tuple[object, ...]:
    """What decides about placement: a heartbeat is not news."""
    spec = node["spec"]
    return (
        spec.get("taints"),
        spec.get("unschedulable"),
        node["metadata"].get("labels"),
        node["status"].get("allocatable"),
    )


def only_node(pod: JSON) -> str:
    """The one node that a daemon's pod is made for."""
    node_affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    names = [
        field["values"]
        for term in required.get("nodeSelectorTerms", ())
        for field in term.get("matchFields") or ()
        if field["key"] == "metadata.name"
    ]
    return str(names[0][0]) if len(names) == 1 and len(names[0]) == 1 else ""


def _needs_own_host(spec: JSON) -> bool:
    """Whether it refuses to share a host with its siblings (the usual required anti-affinity on the hostname)."""
    terms = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or ()
    return any(term.get("topologyKey") == objects.HOSTNAME for term in terms)
