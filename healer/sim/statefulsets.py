"""The StatefulSet controller: one pod per ordinal, in order, and never a second one while the first one's object stands."""

from __future__ import annotations

from healer.sim import manifests, objects
from healer.sim.core import Core
from healer.sim.objects import JSON, Key
from healer.sim.pod_templates import GENERATION, admitted_tolerations

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSets:
    """Looks after a StatefulSet when it or one of its pods has changed."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[Key, None] = {}
        core.view.hear("pods", self._heard_pod)
        core.view.hear("statefulsets", self._heard)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            held = self.core.storage.get("statefulsets", *key)
            if held is not None and not objects.is_deleting(held):
                self._sync(key, held)
                self.core.view.catch_up()
                self._status(key, held)

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        pod = new or old
        owner = objects.controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner["kind"] == "StatefulSet":
            self._dirty[pod["metadata"]["namespace"], owner["name"]] = None

    def _heard(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self._dirty[objects.key_of(new)] = None

    def _sync(self, key: Key, held: JSON) -> None:
        spec = held["spec"]
        wanted = int(spec.get("replicas", 1))
        ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        pods = self._pods(held)
        for ordinal in range(wanted):
            pod = pods.get(ordinal)
            if pod is None:
                self._make(key, held, ordinal)
                if ordered and not self.core.instant:
                    return
                continue
            if objects.is_finished(pod) and not objects.is_deleting(pod):
                self.core.storage.delete("pods", *objects.key_of(pod))
                return
            if ordered and (objects.is_deleting(pod) or not objects.is_ready(pod)):
                # As in Kubernetes, an ordered set waits for each pod before it goes on to the next.
                return
        surplus = sorted((ordinal for ordinal in pods if ordinal >= wanted), reverse=True)
        for ordinal in surplus:
            if not objects.is_deleting(pods[ordinal]):
                self.core.storage.delete("pods", *objects.key_of(pods[ordinal]))
            if ordered:
                return
        self._roll(held, pods, wanted)

    def _roll(self, held: JSON, pods: dict[int, JSON], wanted: int) -> None:
        """Delete the last pod of an older template, when all others are well."""
        strategy = held["spec"].get("updateStrategy", {})
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        first = int(strategy.get("rollingUpdate", {}).get("partition", 0))
        revision = self._revision(held)
        for ordinal in range(wanted - 1, first - 1, -1):
            pod = pods.get(ordinal)
            if pod is None or objects.is_deleting(pod):
                return
            if objects.labels_of(pod).get(GENERATION) != revision:
                self.core.storage.delete("pods", *objects.key_of(pod))
                return
            if not objects.is_ready(pod):
                return

    def _make(self, key: Key, held: JSON, ordinal: int) -> None:
        name = f"{key[1]}-{ordinal}"
        template = held["spec"]["template"]
        spec = dict(template["spec"])
        volumes = list(spec.get("volumes") or ())
        for claim in held["spec"].get("volumeClaimTemplates") or ():
            claim_name = f"{claim['metadata']['name']}-{name}"
            volumes.append({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}})
            if self.core.storage.get("persistentvolumeclaims", key[0], claim_name) is None:
                self.core.storage.create("persistentvolumeclaims", manifests.claim(key[0], claim_name))
        if volumes:
            spec["volumes"] = volumes
        spec["hostname"] = name
        spec["tolerations"] = admitted_tolerations(spec.get("tolerations") or [], self.core.options.toleration_seconds)
        labels = {
            **template["metadata"]["labels"],
            GENERATION: self._revision(held),
            POD_NAME: name,
            POD_INDEX: str(ordinal),
        }
        pod = manifests.pod(
            key[0],
            name,
            spec=spec,
            labels=labels,
            annotations=template["metadata"].get("annotations"),
            owner=objects.owner_reference(held, "StatefulSet"),
        )
        self.core.storage.create("pods", pod)
        message = f"create Pod {name} in StatefulSet {key[1]} successful"
        self.core.event(held, "StatefulSet", "SuccessfulCreate", message, component="statefulset-controller")

    def _pods(self, held: JSON) -> dict[int, JSON]:
        pods = self.core.view.pods_of[objects.uid_of(held)]
        return {int(key[1].rpartition("-")[2]): pod for key, pod in pods.items()}

    def _revision(self, held: JSON) -> str:
        return f"{held['metadata']['name']}-{objects.template_hash(held['spec']['template'])}"

    def _status(self, key: Key, held: JSON) -> None:
        pods = [pod for pod in self._pods(held).values() if objects.is_active(pod)]
        ready = sum(map(objects.is_ready, pods))
        revision = self._revision(held)
        updated = sum(1 for pod in pods if objects.labels_of(pod).get(GENERATION) == revision)
        wanted = int(held["spec"].get("replicas", 1))

        def change(copy: JSON) -> None:
            status = copy.setdefault("status", {})
            status.update(
                observedGeneration=held["metadata"].get("generation", 1),
                replicas=len(pods),
                readyReplicas=ready,
                availableReplicas=ready,
                updatedReplicas=updated,
                updateRevision=revision,
            )
            if updated == wanted == ready or "currentRevision" not in status:
                status["currentRevision"] = revision
            current = status["currentRevision"]
            status["currentReplicas"] = sum(1 for p in pods if objects.labels_of(p).get(GENERATION) == current)

        self.core.storage.update("statefulsets", *key, change, status=True)
