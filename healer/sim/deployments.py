"""The Deployment controller: one ReplicaSet per template, and how pods move from one to the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from healer.sim import manifests, objects, replicasets
from healer.sim.core import Core
from healer.sim.objects import JSON, Key
from healer.sim.pod_templates import HASH_LABEL

REVISION: Final = "deployment.kubernetes.io/revision"
PROGRESS_SECONDS: Final = 600


class Deployments:
    """Looks after a Deployment when it, one of its ReplicaSets or one of their pods has changed."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[Key, None] = {}
        core.view.hear("deployments", self._heard)
        core.view.hear("replicasets", self._heard_set)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            deployment = self.core.storage.get("deployments", *key)
            if deployment is not None and not objects.is_deleting(deployment):
                self._sync(key, deployment)
                self.core.view.catch_up()

    def _heard(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self._dirty[objects.key_of(new)] = None

    def _heard_set(self, old: JSON | None, new: JSON | None) -> None:
        held = new or old
        owner = objects.controller_of(held) if held else None
        if held is not None and owner is not None and owner["kind"] == "Deployment":
            self._dirty[held["metadata"]["namespace"], owner["name"]] = None

    def _sync(self, key: Key, deployment: JSON) -> None:
        sets = self._sets_of(deployment)
        template = deployment["spec"]["template"]
        hash_ = objects.template_hash(template)
        newest = next((held for held in sets if held["metadata"]["labels"].get(HASH_LABEL) == hash_), None)
        wanted = int(deployment["spec"].get("replicas", 1))
        if newest is None:
            if deployment["spec"].get("paused"):
                self._status(key, deployment, sets, None)
                return
            newest = self._make_set(deployment, hash_, sets, wanted)
        others = [held for held in sets if held is not newest and objects.uid_of(held) != objects.uid_of(newest)]
        if deployment["spec"].get("paused") or not any(held["spec"]["replicas"] for held in others):
            self._scale_set(newest, wanted)
        elif deployment["spec"].get("strategy", {}).get("type") == "Recreate":
            self._recreate(newest, others, wanted)
        else:
            self._roll(deployment, newest, others, wanted)
        self._status(key, deployment, self._sets_of(deployment), objects.uid_of(newest))

    def _sets_of(self, deployment: JSON) -> list[JSON]:
        children = self.core.view.children[objects.uid_of(deployment)]
        found = (self.core.storage.get(resource, *key) for resource, key in children if resource == "replicasets")
        return sorted((held for held in found if held is not None), key=_revision)

    def _make_set(self, deployment: JSON, hash_: str, sets: list[JSON], wanted: int) -> JSON:
        metadata = deployment["metadata"]
        template = deployment["spec"]["template"]
        labels = {**template["metadata"]["labels"], HASH_LABEL: hash_}
        first = not any(held["spec"]["replicas"] for held in sets)
        made = manifests.workload(
            "ReplicaSet",
            metadata["namespace"],
            f"{metadata['name']}-{hash_}",
            labels,
            {
                "replicas": wanted if first else 0,
                "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
            },
        )
        made["metadata"]["ownerReferences"] = [objects.owner_reference(deployment, "Deployment")]
        revision = str(1 + max((_revision(held) for held in sets), default=0))
        made["metadata"]["annotations"] = {REVISION: revision}
        stored = self.core.storage.create("replicasets", made)

        def number(copy: JSON) -> None:
            copy["metadata"].setdefault("annotations", {})[REVISION] = revision

        self.core.storage.update("deployments", metadata["namespace"], metadata["name"], number)
        return stored

    def _roll(self, deployment: JSON, newest: JSON, others: list[JSON], wanted: int) -> None:
        """One move of a rolling update: never more than the surge, never fewer available than allowed."""
        rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate", {})
        surge = objects.share(rolling.get("maxSurge", "25%"), wanted, up=True)
        lacking = objects.share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        if not surge and not lacking:
            lacking = 1
        total = newest["spec"]["replicas"] + sum(held["spec"]["replicas"] for held in others)
        room = wanted + surge - total
        if room > 0 and newest["spec"]["replicas"] < wanted:
            self._scale_set(newest, min(wanted, newest["spec"]["replicas"] + room))
            return
        if newest["spec"]["replicas"] > wanted:
            self._scale_set(newest, wanted)
            return
        lowest = wanted - lacking
        missing_new = newest["spec"]["replicas"] - self._available(newest)
        budget = total - lowest - missing_new
        for held in others:
            dead = min(budget, held["spec"]["replicas"] - self._available(held))
            if dead > 0:
                self._scale_set(held, held["spec"]["replicas"] - dead)
                budget -= dead
        spare = self._available(newest) + sum(self._available(held) for held in others) - lowest
        for stale in others:
            held = self.core.storage.get("replicasets", *objects.key_of(stale)) or stale
            going = min(spare, budget, held["spec"]["replicas"])
            if going > 0:
                self._scale_set(held, held["spec"]["replicas"] - going)
                spare -= going
                budget -= going

    def _recreate(self, newest: JSON, others: list[JSON], wanted: int) -> None:
        for held in others:
            self._scale_set(held, 0)
        if not any(self.core.view.pods_of.get(objects.uid_of(held)) for held in others):
            self._scale_set(newest, wanted)

    def _available(self, held: JSON) -> int:
        pods = self.core.view.pods_of[objects.uid_of(held)].values()
        return sum(1 for pod in pods if objects.is_active(pod) and objects.is_ready(pod))

    def _scale_set(self, held: JSON, replicas: int) -> None:
        if held["spec"]["replicas"] == replicas:
            return

        def change(copy: JSON) -> None:
            copy["spec"]["replicas"] = replicas

        self.core.storage.update("replicasets", *objects.key_of(held), change)

    def _status(self, key: Key, deployment: JSON, sets: list[JSON], newest: str | None) -> None:
        total = ready = updated = 0
        for held in sets:
            pods = [pod for pod in self.core.view.pods_of[objects.uid_of(held)].values() if objects.is_active(pod)]
            total += len(pods)
            ready += sum(map(objects.is_ready, pods))
            if objects.uid_of(held) == newest:
                updated = len(pods)
        spec = deployment["spec"]
        wanted = int(spec.get("replicas", 1))
        lacking = objects.share(
            spec.get("strategy", {}).get("rollingUpdate", {}).get("maxUnavailable", "25%"), wanted, up=False
        )
        complete = updated == wanted == total == ready
        at = objects.stamp(self.core.now)

        def change(copy: JSON) -> None:
            status = copy.setdefault("status", {})
            progressed = {name: status.get(name) for name in ("updatedReplicas", "readyReplicas")}
            status["observedGeneration"] = deployment["metadata"].get("generation", 1)
            status.update(
                replicasets.counts(total, ready, updatedReplicas=updated, unavailableReplicas=max(0, wanted - ready))
            )
            enough = ready >= wanted - lacking
            reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
            objects.set_condition(copy, "Available", "True" if enough else "False", reason=reason, at=at)
            moved = progressed != {name: status.get(name) for name in progressed}
            self._progress(copy, complete=complete, moved=moved, at=at)

        stored = self.core.storage.update("deployments", *key, change, status=True)
        progressing = objects.condition(stored, "Progressing")
        if progressing and progressing["reason"] == "ReplicaSetUpdated":
            due = objects.parse_stamp(progressing["lastUpdateTime"]) + timedelta(seconds=PROGRESS_SECONDS + 1)
            if due > self.core.now:
                self.core.agenda.add(due, lambda: self._dirty.update({key: None}))

    def _progress(self, copy: JSON, *, complete: bool, moved: bool, at: str) -> None:
        held = objects.condition(copy, "Progressing")
        since = held.get("lastUpdateTime", at) if held and not moved else at
        late = (self.core.now - objects.parse_stamp(since)).total_seconds() > PROGRESS_SECONDS
        if complete or (held and held["reason"] == "NewReplicaSetAvailable" and not moved):
            status, reason = "True", "NewReplicaSetAvailable"
        elif late:
            status, reason = "False", "ProgressDeadlineExceeded"
        else:
            status, reason = "True", "ReplicaSetUpdated"
        objects.set_condition(copy, "Progressing", status, reason=reason, at=at)
        fresh = objects.condition(copy, "Progressing")
        if fresh is not None:
            fresh["lastUpdateTime"] = since


def _revision(held: JSON) -> int:
    return int(objects.annotations_of(held).get(REVISION, 0))
