"""All kubelets: which machine and which node each one stands for, and what they hear of the API."""

from __future__ import annotations

from healer.sim import objects
from healer.sim.cloud import Instance
from healer.sim.core import Core
from healer.sim.kubelet import Kubelet
from healer.sim.objects import JSON, Key
from healer.sim.sandboxes import Crash, Sandbox


class Kubelets:
    """All kubelets, by machine and by the node they made."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.by_machine: dict[str, Kubelet] = {}
        self.by_node: dict[str, Kubelet] = {}
        self.crashes: list[Crash] = []
        self.static: list[JSON] = []
        self._changed: dict[str, dict[Key, None]] = {}
        core.view.hear("pods", self._heard_pod)
        core.view.hear("volumeattachments", self._heard_attachment)

    def start(self, machine: Instance) -> Kubelet:
        """The machine has booted: its kubelet comes up and joins."""
        kubelet = Kubelet(self.core, machine, self.crashes, self.static)
        if (previous := self.by_machine.get(machine.id)) is not None:
            previous.retired = True
        self.by_machine[machine.id] = self.by_node[machine.node_name] = kubelet
        self.core.after(self.core.options.join_seconds, kubelet.join)
        return kubelet

    def run(self) -> None:
        changed, self._changed = self._changed, {}
        for node, keys in changed.items():
            kubelet = self.by_node.get(node)
            if kubelet is None or not kubelet.talking:
                continue
            for key in keys:
                pod = self.core.view.pods_on[node].get(key)
                if pod is not None:
                    kubelet.sync(key, pod)

    def sandbox(self, pod: JSON) -> tuple[Kubelet, Sandbox] | None:
        """Where the pod lives, if it does."""
        kubelet = self.by_node.get(objects.node_of(pod))
        box = kubelet.sandboxes.get(objects.uid_of(pod)) if kubelet else None
        return (kubelet, box) if kubelet and box else None

    def running(self, namespace: str, name: str) -> list[str]:
        """UIDs of the pods of that name whose containers really run now: more than one is a split brain."""
        return [
            box.uid for kubelet in self.by_machine.values() for box in kubelet.running() if box.key == (namespace, name)
        ]

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        if new is None:
            if old is not None and (node := objects.node_of(old)) in self.by_node:
                self.by_node[node].removed(old)
            return
        node = objects.node_of(new)
        if (
            node
            and (old is None or objects.node_of(old) != node or objects.is_deleting(new) != objects.is_deleting(old))
        ) or (
            node
            and new["metadata"].get("deletionGracePeriodSeconds")
            != (old or new)["metadata"].get("deletionGracePeriodSeconds")
        ):
            self._changed.setdefault(node, {})[objects.key_of(new)] = None

    def _heard_attachment(self, _old: JSON | None, new: JSON | None) -> None:
        if new is None:
            return
        node = new["spec"]["nodeName"]
        kubelet = self.by_node.get(node)
        if kubelet is not None:
            waiting = (box.key for box in kubelet.sandboxes.values() if box.waits_for_volumes)
            self._changed.setdefault(node, {}).update(dict.fromkeys(waiting))
