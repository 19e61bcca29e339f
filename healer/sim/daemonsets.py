"""The DaemonSet controller: one pod on every node that is meant for it."""

from __future__ import annotations

from collections.abc import Iterable

from healer.sim import manifests, objects, pod_templates, scheduling
from healer.sim.core import Core
from healer.sim.objects import JSON, Key
from healer.sim.pod_templates import GENERATION


class DaemonSets:
    """Looks after a DaemonSet when it or one of its pods has changed, and after all of them when a node has."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[Key, None] = {}
        core.view.hear("daemonsets", self._heard)
        core.view.hear("pods", self._heard_pod)
        core.view.hear("nodes", self._heard_node)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            daemons = self.core.storage.get("daemonsets", *key)
            if daemons is not None and not objects.is_deleting(daemons):
                self._sync(key, daemons)
                self.core.view.catch_up()

    def _heard(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self._dirty[objects.key_of(new)] = None

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        pod = new or old
        owner = objects.controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner["kind"] == "DaemonSet":
            self._dirty[pod["metadata"]["namespace"], owner["name"]] = None

    def _heard_node(self, old: JSON | None, new: JSON | None) -> None:
        if old is None or new is None or scheduling.offer(old) != scheduling.offer(new):
            self._dirty.update(dict.fromkeys(self.core.view.all["daemonsets"]))

    def _sync(self, key: Key, daemons: JSON) -> None:
        uid = objects.uid_of(daemons)
        hash_ = objects.template_hash(daemons["spec"]["template"])
        held: dict[str, list[JSON]] = {}
        for pod in self.core.view.pods_of[uid].values():
            held.setdefault(_meant_for(pod), []).append(pod)
        desired = [node for node in self.core.view.nodes.values() if self._may_run(daemons, node, stays=False)]
        staying = [node for node in self.core.view.nodes.values() if self._may_run(daemons, node, stays=True)]
        names = {node["metadata"]["name"] for node in desired}
        stay_names = {node["metadata"]["name"] for node in staying}
        for name in names:
            if not any(not objects.is_finished(pod) for pod in held.get(name, ())):
                for pod in held.get(name, ()):
                    self.core.storage.delete("pods", *objects.key_of(pod))
                self._make_daemon(daemons, name, hash_)
        for name, pods in held.items():
            if name not in stay_names:
                self._delete_all(pods)
        self._roll_daemons(daemons, held, names, hash_)
        self.core.view.catch_up()
        self._status(key, daemons, names, hash_)

    def _may_run(self, daemons: JSON, node: JSON, *, stays: bool) -> bool:
        """Whether a daemon should be started there, or (with `stays`) may stay where it runs already."""
        spec = daemons["spec"]["template"]["spec"]
        if stays:
            spec = {
                **spec,
                "tolerations": [*(spec.get("tolerations") or ()), {"operator": "Exists", "effect": "NoSchedule"}],
            }
        spec = {**spec, "tolerations": [*(spec.get("tolerations") or ()), *manifests.DAEMON_TOLERATIONS]}
        return scheduling.forbidden({"spec": spec}, node, ignore_unschedulable=True) is None

    def _make_daemon(self, daemons: JSON, node: str, hash_: str) -> None:
        spec = daemons["spec"]["template"]["spec"]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        more = {
            "affinity": {"nodeAffinity": required},
            "tolerations": [*(spec.get("tolerations") or ()), *manifests.DAEMON_TOLERATIONS],
        }
        pod_templates.make_pod(self.core, daemons, "DaemonSet", more, {GENERATION: hash_})

    def _delete_all(self, pods: Iterable[JSON]) -> None:
        for pod in pods:
            if not objects.is_deleting(pod):
                self.core.storage.delete("pods", *objects.key_of(pod))

    def _roll_daemons(self, daemons: JSON, held: dict[str, list[JSON]], names: set[str], hash_: str) -> None:
        """Replace daemons of an older template, `maxUnavailable` at a time."""
        strategy = daemons["spec"].get("updateStrategy", {})
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        most = objects.share(strategy.get("rollingUpdate", {}).get("maxUnavailable", 1), len(names), up=True)
        ready = [
            pod for name in names for pod in held.get(name, ()) if objects.is_active(pod) and objects.is_ready(pod)
        ]
        old = [
            pod
            for name in sorted(names)
            for pod in held.get(name, ())
            if objects.is_active(pod) and objects.labels_of(pod).get(GENERATION) != hash_
        ]
        budget = most - (len(names) - len(ready))
        for pod in old:
            if objects.is_ready(pod):
                if budget <= 0:
                    continue
                budget -= 1
            self.core.storage.delete("pods", *objects.key_of(pod))

    def _status(self, key: Key, daemons: JSON, names: set[str], hash_: str) -> None:
        pods = [pod for pod in self.core.view.pods_of[objects.uid_of(daemons)].values() if objects.is_active(pod)]
        placed = {objects.node_of(pod): pod for pod in pods if objects.node_of(pod)}
        right = [pod for name, pod in placed.items() if name in names]
        ready = sum(map(objects.is_ready, right))

        def change(copy: JSON) -> None:
            copy["status"] = {
                "observedGeneration": daemons["metadata"].get("generation", 1),
                "desiredNumberScheduled": len(names),
                "currentNumberScheduled": len(right),
                "numberMisscheduled": len(placed) - len(right),
                "numberReady": ready,
                "numberAvailable": ready,
                "numberUnavailable": len(names) - ready,
                "updatedNumberScheduled": sum(1 for p in right if objects.labels_of(p).get(GENERATION) == hash_),
            }

        self.core.storage.update("daemonsets", *key, change, status=True)


def _meant_for(pod: JSON) -> str:
    return objects.node_of(pod) or scheduling.only_node(pod)
