"""The disruption controller: works out how many pods of each budget may go, some time after something changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from healer.sim import objects
from healer.sim.core import Core
from healer.sim.objects import JSON, Key

DISRUPTED_SECONDS: Final = 120.0
"""How long an evicted pod counts as gone although it is still there."""


class DisruptionController:
    """Writes the status of PodDisruptionBudgets, `pdb_lag_seconds` late."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[Key, None] = {}
        self._by_namespace: dict[str, dict[Key, None]] = {}
        core.view.hear("pods", self._heard_pod)
        core.view.hear("poddisruptionbudgets", self._heard_budget)
        for resource in ("deployments", "statefulsets", "replicasets"):
            core.view.hear(resource, self._heard_owner)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        lag = 0.0 if self.core.instant else self.core.options.pdb_lag_seconds
        for key in dirty:
            if lag:
                self.core.after(lag, lambda key=key: self._write(key))  # type: ignore[misc]
            else:
                self._write(key)

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        pod = new or old
        if pod is None or (old is not None and new is not None and _matters(old) == _matters(new)):
            return
        budgets = self._by_namespace.get(pod["metadata"]["namespace"])
        for key in budgets or ():
            selector = self.core.view.all["poddisruptionbudgets"][key]["spec"].get("selector")
            if any(held is not None and objects.selects(selector, objects.labels_of(held)) for held in (old, new)):
                self._dirty[key] = None

    def _heard_budget(self, old: JSON | None, new: JSON | None) -> None:
        budget = new or old
        if budget is None:
            return
        key = objects.key_of(budget)
        held = self._by_namespace.setdefault(key[0], {})
        if new is None:
            held.pop(key, None)
            return
        held[key] = None
        if old is None or old["spec"] != new["spec"] or _evicted(old) != _evicted(new):
            self._dirty[key] = None

    def _heard_owner(self, old: JSON | None, new: JSON | None) -> None:
        if old is not None and new is not None and old["spec"].get("replicas") != new["spec"].get("replicas"):
            self._dirty.update(self._by_namespace.get(new["metadata"]["namespace"], {}))

    def _write(self, key: Key) -> None:
        budget = self.core.storage.get("poddisruptionbudgets", *key)
        if budget is None:
            return
        status = self._status(budget)
        if status != budget.get("status"):

            def change(copy: JSON) -> None:
                copy["status"] = status

            self.core.storage.update("poddisruptionbudgets", *key, change, status=True)

    def _status(self, budget: JSON) -> JSON:
        namespace = budget["metadata"]["namespace"]
        selector = budget["spec"].get("selector")
        pods = [
            pod
            for pod in self.core.view.pods_in[namespace].values()
            if objects.selects(selector, objects.labels_of(pod)) and not objects.is_finished(pod)
        ]
        evicted = self._still_evicted(budget, {pod["metadata"]["name"]: pod for pod in pods})
        healthy = sum(
            1
            for pod in pods
            if objects.is_ready(pod) and not objects.is_deleting(pod) and pod["metadata"]["name"] not in evicted
        )
        expected, desired = self._wanted(budget["spec"], pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        at = objects.stamp(self.core.now)
        status: JSON = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "conditions": list(budget.get("status", {}).get("conditions", ())),
        }
        if evicted:
            status["disruptedPods"] = evicted
        reason = "SufficientPods" if allowed else "InsufficientPods"
        holder: JSON = {"status": status}
        objects.set_condition(holder, "DisruptionAllowed", "True" if allowed else "False", reason=reason, at=at)
        return status

    def _still_evicted(self, budget: JSON, pods: dict[str, JSON]) -> dict[str, str]:
        """The entries of `disruptedPods` that still count; one that has not come true in two minutes is forgotten."""
        kept = {}
        key = objects.key_of(budget)
        for name, at in _evicted(budget).items():
            pod = pods.get(name)
            age = (self.core.now - objects.parse_stamp(at)).total_seconds()
            if pod is None or objects.is_deleting(pod) or age > DISRUPTED_SECONDS:
                continue
            kept[name] = at
            due = objects.parse_stamp(at) + timedelta(seconds=DISRUPTED_SECONDS + 1)
            self.core.agenda.add(due, lambda: self._write(key))
        return kept

    def _wanted(self, spec: JSON, pods: list[JSON]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        lowest = spec.get("minAvailable")
        if isinstance(lowest, int):
            return len(pods), lowest
        expected = self._scale(pods)
        if lowest is not None:
            return expected, objects.share(lowest, expected, up=True)
        most = objects.share(spec.get("maxUnavailable", 1), expected, up=True)
        return expected, max(0, expected - most)

    def _scale(self, pods: list[JSON]) -> int:
        """What the controllers of these pods want in all."""
        owners: dict[str, int] = {}
        for pod in pods:
            owner = objects.controller_of(pod)
            if owner is None:
                owners[objects.uid_of(pod)] = 1
                continue
            resource = objects.RESOURCES.get(owner["kind"], "")
            held = self.core.storage.get(resource, pod["metadata"]["namespace"], owner["name"]) if resource else None
            if held is not None and owner["kind"] == "ReplicaSet" and (above := objects.controller_of(held)):
                deployment = self.core.storage.get("deployments", pod["metadata"]["namespace"], above["name"])
                held = deployment or held
            if held is not None:
                owners[objects.uid_of(held)] = int(held["spec"].get("replicas", 1))
        return sum(owners.values())


def _matters(pod: JSON) -> tuple[object, ...]:
    return (
        objects.is_ready(pod),
        objects.is_deleting(pod),
        objects.is_finished(pod),
        pod["metadata"].get("labels"),
    )


def _evicted(budget: JSON) -> dict[str, str]:
    evicted: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    return evicted
