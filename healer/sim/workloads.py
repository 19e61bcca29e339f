"""Controllers of pods without an identity: Deployment, ReplicaSet and DaemonSet; and what goes when its owner goes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from healer.sim import manifests, objects, scheduling
from healer.sim.core import Core
from healer.sim.objects import JSON, Key

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
GENERATION: Final = "controller-revision-hash"
PROGRESS_SECONDS: Final = 600


class Workloads:
    """Looks after one workload when it, its pods or (for daemons) the nodes have changed."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[tuple[str, Key], None] = {}
        self._orphans: list[str] = []
        core.view.hear("pods", self._heard_pod)
        core.view.hear("nodes", self._heard_node)
        for resource in ("deployments", "replicasets", "daemonsets"):
            core.view.hear(resource, lambda old, new, r=resource: self._heard_workload(r, old, new))  # type: ignore[misc]
        for resource in ("statefulsets", "jobs"):
            core.view.hear(resource, self._heard_owner)

    def run(self) -> None:
        self._collect_orphans()
        dirty, self._dirty = self._dirty, {}
        for resource, key in dirty:
            workload = self.core.storage.get(resource, *key)
            if workload is None or objects.is_deleting(workload):
                continue
            match resource:
                case "deployments":
                    self._deployment(key, workload)
                case "replicasets":
                    self._replica_set(key, workload)
                case _:
                    self._daemon_set(key, workload)
            self.core.view.catch_up()

    # What wakes it

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        pod = new or old
        owner = objects.controller_of(pod) if pod else None
        if pod is None or owner is None or owner["kind"] not in ("ReplicaSet", "DaemonSet"):
            return
        resource = objects.RESOURCES[owner["kind"]]
        key = (pod["metadata"]["namespace"], owner["name"])
        held = self.core.view.all[resource].get(key)
        if new is not None and (held is None or objects.uid_of(held) != owner["uid"]):
            self._orphans.append(owner["uid"])
        self._dirty[resource, key] = None

    def _heard_node(self, old: JSON | None, new: JSON | None) -> None:
        if old is None or new is None or scheduling.offer(old) != scheduling.offer(new):
            self._dirty.update(dict.fromkeys(("daemonsets", key) for key in self.core.view.all["daemonsets"]))

    def _heard_workload(self, resource: str, old: JSON | None, new: JSON | None) -> None:
        self._heard_owner(old, new)
        workload = new or old
        if workload is None:
            return
        if new is not None:
            self._dirty[resource, objects.key_of(new)] = None
        owner = objects.controller_of(workload)
        if owner is not None and owner["kind"] == "Deployment":
            self._dirty["deployments", (workload["metadata"]["namespace"], owner["name"])] = None

    def _heard_owner(self, old: JSON | None, new: JSON | None) -> None:
        if new is None and old is not None:
            self._orphans.append(objects.uid_of(old))

    def _collect_orphans(self) -> None:
        """Delete in the background what belonged to an owner that is gone."""
        while self._orphans:
            uid = self._orphans.pop()
            for resource, key in list(self.core.view.children.get(uid, ())):
                if self.core.storage.get(resource, *key) is not None:
                    self.core.storage.delete(resource, *key)
            self.core.view.catch_up()

    # Deployments

    def _deployment(self, key: Key, deployment: JSON) -> None:
        sets = self._sets_of(deployment)
        template = deployment["spec"]["template"]
        hash_ = objects.template_hash(template)
        newest = next((held for held in sets if held["metadata"]["labels"].get(HASH_LABEL) == hash_), None)
        wanted = int(deployment["spec"].get("replicas", 1))
        if newest is None:
            if deployment["spec"].get("paused"):
                self._deployment_status(key, deployment, sets, None)
                return
            newest = self._make_set(deployment, hash_, sets, wanted)
        others = [held for held in sets if held is not newest and objects.uid_of(held) != objects.uid_of(newest)]
        if deployment["spec"].get("paused") or not any(held["spec"]["replicas"] for held in others):
            self._scale_set(newest, wanted)
        elif deployment["spec"].get("strategy", {}).get("type") == "Recreate":
            self._recreate(newest, others, wanted)
        else:
            self._roll(deployment, newest, others, wanted)
        self._deployment_status(key, deployment, self._sets_of(deployment), objects.uid_of(newest))

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

    def _deployment_status(self, key: Key, deployment: JSON, sets: list[JSON], newest: str | None) -> None:
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
            status.update(_counts(total, ready, updatedReplicas=updated, unavailableReplicas=max(0, wanted - ready)))
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
                self.core.agenda.add(due, lambda: self._dirty.update({("deployments", key): None}))

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

    # ReplicaSets

    def _replica_set(self, key: Key, held: JSON) -> None:
        pods = list(self.core.view.pods_of[objects.uid_of(held)].values())
        active = [pod for pod in pods if objects.is_active(pod)]
        wanted = int(held["spec"].get("replicas", 1))
        for _ in range(wanted - len(active)):
            self._make_pod(held, "ReplicaSet", f"{key[1]}-{self._suffix()}", {})
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
            status.update(_counts(len(now_active), ready, fullyLabeledReplicas=len(now_active)))

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

    def _make_pod(self, owner: JSON, kind: str, name: str, more: JSON, labels: JSON | None = None) -> None:
        template = owner["spec"]["template"]
        pod = manifests.pod(
            owner["metadata"]["namespace"],
            name,
            spec={**template["spec"], "tolerations": self._tolerations(template["spec"]), **more},
            labels={**template["metadata"]["labels"], **(labels or {})},
            annotations=template["metadata"].get("annotations"),
            owner=objects.owner_reference(owner, kind),
        )
        pod["metadata"]["generateName"] = f"{owner['metadata']['name']}-"
        self.core.storage.create("pods", pod)
        component = "replicaset-controller" if kind == "ReplicaSet" else "daemonset-controller"
        self.core.event(owner, kind, "SuccessfulCreate", f"Created pod: {name}", component=component)

    def _tolerations(self, spec: JSON) -> list[JSON]:
        return admitted_tolerations(spec.get("tolerations") or [], self.core.options.toleration_seconds)

    def _suffix(self) -> str:
        return "".join(self.core.random.choices(objects.SAFE, k=5))

    # DaemonSets

    def _daemon_set(self, key: Key, daemons: JSON) -> None:
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
                self._make_daemon(daemons, key, name, hash_)
        for name, pods in held.items():
            if name not in stay_names:
                self._delete_all(pods)
        self._roll_daemons(daemons, held, names, hash_)
        self.core.view.catch_up()
        self._daemon_status(key, daemons, names, hash_)

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

    def _make_daemon(self, daemons: JSON, key: Key, node: str, hash_: str) -> None:
        spec = daemons["spec"]["template"]["spec"]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        more = {
            "affinity": {"nodeAffinity": required},
            "tolerations": [*(spec.get("tolerations") or ()), *manifests.DAEMON_TOLERATIONS],
        }
        self._make_pod(daemons, "DaemonSet", f"{key[1]}-{self._suffix()}", more, {GENERATION: hash_})

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

    def _daemon_status(self, key: Key, daemons: JSON, names: set[str], hash_: str) -> None:
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


def admitted_tolerations(tolerations: list[JSON], seconds: int) -> list[JSON]:
    """The tolerations of a pod with the two that admission adds where the pod says nothing about them."""
    return list(tolerations) + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in (objects.NOT_READY, objects.UNREACHABLE)
        if not objects.is_tolerated({"key": key, "effect": "NoExecute"}, tolerations)
    ]


def _counts(total: int, ready: int, **more: int) -> JSON:
    return {"replicas": total, "readyReplicas": ready, "availableReplicas": ready, **more}


def _revision(held: JSON) -> int:
    return int(objects.annotations_of(held).get(REVISION, 0))


def _meant_for(pod: JSON) -> str:
    return objects.node_of(pod) or scheduling.only_node(pod)
