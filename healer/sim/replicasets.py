"""The ReplicaSet controller: as many pods as are wanted."""

from __future__ import annotations

from healer.sim import objects, pod_templates
from healer.sim.core import Core
from healer.sim.objects import JSON, Key


class ReplicaSets:
    """Looks after a ReplicaSet when it or one of its pods has changed."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[Key, None] = {}
        core.view.hear("replicasets", self._heard)
        core.view.hear("pods", self._heard_pod)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            held = self.core.storage.get("replicasets", *key)
            if held is not None and not objects.is_deleting(held):
                self._sync(key, held)
                self.core.view.catch_up()

    def _heard(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self._dirty[objects.key_of(new)] = None

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        pod = new or old
        owner = objects.controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner["kind"] == "ReplicaSet":
            self._dirty[pod["metadata"]["namespace"], owner["name"]] = None

    def _sync(self, key: Key, held: JSON) -> None:
        pods = list(self.core.view.pods_of[objects.uid_of(held)].values())
        active = [pod for pod in pods if objects.is_active(pod)]
        wanted = int(held["spec"].get("replicas", 1))
        for _ in range(wanted - len(active)):
            pod_templates.make_pod(self.core, held, "ReplicaSet", {})
        surplus = sorted(active, key=self._first_to_go)[: len(active) - wanted] if len(active) > wanted else ()
        for pod in surplus:
            self.core.storage.delete("pods", *objects.key_of(pod))
            message = f"Deleted pod: {pod['metadata']['name']}"
            self.core.event(held, "ReplicaSet", "SuccessfulDelete", message, component="replicaset-controller")
        self.core.view.catch_up()
        now_active = [p for p in self.core.view.pods_of[objects.uid_of(held)].values() if objects.is_active(p)]
        ready = sum(map(objects.is_ready, now_active))

        def change(copy: JSON) -> None:
            status = copy.setdefault("status", {})
            status["observedGeneration"] = held["metadata"].get("generation", 1)
            status.update(counts(len(now_active), ready, fullyLabeledReplicas=len(now_active)))

        self.core.storage.update("replicasets", *key, change, status=True)

    def _first_to_go(self, pod: JSON) -> tuple[object, ...]:
        """Unassigned before placed, not ready before ready, crowded before alone, restarted often, young before old."""
        node = objects.node_of(pod)
        owner = objects.controller_of(pod)
        crowd = sum(
            1 for other in self.core.view.pods_on[node].values() if owner and objects.controller_of(other) == owner
        )
        restarts = sum(held["restartCount"] for held in pod.get("status", {}).get("containerStatuses", ()))
        return (
            bool(node),
            objects.is_ready(pod),
            -crowd,
            -restarts,
            -objects.parse_stamp(pod["metadata"]["creationTimestamp"]).timestamp(),
            pod["metadata"]["name"],
        )


def counts(total: int, ready: int, **more: int) -> JSON:
    """The counts of a status; what is ready counts as available at once."""
    return {"replicas": total, "readyReplicas": ready, "availableReplicas": ready, **more}
