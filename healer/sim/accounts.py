"""What ties the cloud to the cluster: booted machines get a kubelet, terminated ones lose their node; and static autoscalers."""

from __future__ import annotations

from healer.model.fencing import MachineState
from healer.sim import objects
from healer.sim.cloud import Instance
from healer.sim.core import Core
from healer.sim.kubelets import Kubelets
from healer.sim.objects import JSON, Key


class CloudController:
    """Follows the machines."""

    def __init__(self, core: Core, kubelets: Kubelets) -> None:
        self.core = core
        self.kubelets = kubelets
        self._states: dict[str, MachineState] = {}

    def run(self) -> None:
        self.core.cloud.advance(self.core.now)
        for machine in self.core.cloud.machines.values():
            if self._states.get(machine.id) is not machine.state:
                self._became(machine)

    def _became(self, machine: Instance) -> None:
        before, self._states[machine.id] = self._states.get(machine.id), machine.state
        if before is not None or machine.state is not MachineState.RUNNING:
            self.core.note(f"machine {machine.id} ({machine.node_name}) is {machine.state}")
        if machine.state is MachineState.RUNNING and before is not MachineState.STOPPING:
            self.kubelets.start(machine)
        elif machine.state is MachineState.TERMINATED:
            seconds = self.core.options.node_delete_seconds
            if seconds >= 0:
                self.core.after(seconds, lambda: self._delete_node(machine))

    def _delete_node(self, machine: Instance) -> None:
        node = self.core.storage.get("nodes", "", machine.node_name)
        if node is not None and node["spec"].get("providerID") == machine.provider_id:
            self.core.event(
                node,
                "Node",
                "DeletingNode",
                f"Deleting node {machine.node_name} because it does not exist in the cloud provider",
                component="cloud-node-lifecycle-controller",
            )
            self.core.storage.remove("nodes", "", machine.node_name)
            self.core.note(f"node {machine.node_name} is deleted: its machine {machine.id} is terminated")


class NodeRemains:
    """Takes away the lease of a node that was deleted."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._gone: list[tuple[str, str]] = []
        core.view.hear("nodes", self._heard)

    def run(self) -> None:
        while self._gone:
            name, uid = self._gone.pop()
            lease = self.core.storage.get("leases", objects.LEASE_NAMESPACE, name)
            owners = lease["metadata"].get("ownerReferences", ()) if lease else ()
            if any(owner["uid"] == uid for owner in owners):
                self.core.storage.remove("leases", objects.LEASE_NAMESPACE, name)

    def _heard(self, old: JSON | None, new: JSON | None) -> None:
        if new is None and old is not None:
            self._gone.append((old["metadata"]["name"], objects.uid_of(old)))


class Autoscalers:
    """HorizontalPodAutoscalers that only report: they never scale by themselves."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._dirty: dict[Key, None] = {}
        core.view.hear("horizontalpodautoscalers", self._heard)
        for resource in ("deployments", "statefulsets"):
            core.view.hear(resource, self._heard_target)

    def run(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            self._write(key)

    def _heard(self, _old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self._dirty[objects.key_of(new)] = None

    def _heard_target(self, _old: JSON | None, new: JSON | None) -> None:
        if new is None:
            return
        for key, scaler in self.core.view.all["horizontalpodautoscalers"].items():
            target = scaler["spec"]["scaleTargetRef"]
            if key[0] == new["metadata"]["namespace"] and target["name"] == new["metadata"]["name"]:
                self._dirty[key] = None

    def _write(self, key: Key) -> None:
        scaler = self.core.storage.get("horizontalpodautoscalers", *key)
        if scaler is None:
            return
        spec = scaler["spec"]
        target = spec["scaleTargetRef"]
        held = self.core.storage.get(objects.RESOURCES.get(target["kind"], ""), key[0], target["name"])
        if held is None:
            return
        wanted = int(held["spec"].get("replicas", 1))
        limited = wanted >= int(spec["maxReplicas"])
        at = objects.stamp(self.core.now)

        def change(copy: JSON) -> None:
            status = copy.setdefault("status", {})
            status["currentReplicas"] = held.get("status", {}).get("replicas", 0)
            status["desiredReplicas"] = max(int(spec.get("minReplicas", 1)), min(wanted, int(spec["maxReplicas"])))
            objects.set_condition(copy, "AbleToScale", "True", reason="ReadyForNewScale", at=at)
            objects.set_condition(copy, "ScalingActive", "True", reason="ValidMetricFound", at=at)
            reason = "TooManyReplicas" if limited else "DesiredWithinRange"
            objects.set_condition(copy, "ScalingLimited", str(limited), reason=reason, at=at)

        self.core.storage.update("horizontalpodautoscalers", *key, change, status=True)
