"""Harm, by name: what can be done to the world, when, and for how long.

Faults of the API itself (latency, 429, 500, watch lag) are not here but in `healer.sim.api_faults`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from healer.model.fencing import MachineState
from healer.sim import manifests, objects
from healer.sim.core import Core
from healer.sim.kubelet import Kubelet
from healer.sim.kubelets import Kubelets
from healer.sim.load import Loads
from healer.sim.objects import JSON
from healer.sim.pod_templates import GENERATION, HASH_LABEL
from healer.sim.sandboxes import Crash

RESTART_SECONDS: Final = 25.0
LEAK_SECONDS: Final = 20.0
LEAK_SHARE: Final = 0.9
PRESSURE_SHARE: Final = 0.7


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One named fault. `target` is a node, several with commas, `*`, a zone, `namespace/pod` or `namespace/workload`.

    Without `duration_seconds` it lasts for ever, or as its kind says. `params` differ by kind; see `KINDS`.
    """

    name: str
    target: str = ""
    duration_seconds: float | None = None
    params: Mapping[str, str] = dataclasses.field(default_factory=dict)


End = Callable[[], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a fault of this name does. `begin` returns how it ends, where it can."""

    target: str
    about: str
    begin: Callable[[Faults, Fault], End | None]
    lasts_seconds: float | None = None


class Faults:
    """Plans faults, lets them begin and end."""

    def __init__(self, core: Core, kubelets: Kubelets, loads: Loads) -> None:
        self.core = core
        self.kubelets = kubelets
        self.loads = loads
        self.leaks: list[Leak] = []

    def plan(self, fault: Fault, at: datetime) -> None:
        """Let it strike at `at`. ValueError for a name, node or zone that nobody knows."""
        kind = KINDS.get(fault.name)
        if kind is None:
            raise ValueError(f"no fault is named {fault.name!r}; known are {', '.join(sorted(KINDS))}")
        if at <= self.core.now:
            self._begin(fault, kind)
            return
        if kind.target == "node":
            self.nodes(fault)
        elif kind.target == "zone":
            self.zone(fault)
        self.core.agenda.add(at, lambda: self._begin_later(fault, kind))

    def run(self) -> None:
        self.leaks = [leak for leak in self.leaks if leak.goes_on()]

    def _begin_later(self, fault: Fault, kind: Kind) -> None:
        try:
            self._begin(fault, kind)
        except ValueError as error:
            # Its target went away since it was planned; the world goes on.
            self.core.note(f"fault {fault.name} cannot begin: {error}")

    def _begin(self, fault: Fault, kind: Kind) -> None:
        self.core.note(f"fault {fault.name} of {fault.target or 'everything'} begins")
        end = kind.begin(self, fault)
        lasts = fault.duration_seconds if fault.duration_seconds is not None else kind.lasts_seconds
        if end is not None and lasts is not None:
            self.core.after(lasts, lambda: self._end(fault, end))

    def _end(self, fault: Fault, end: End) -> None:
        self.core.note(f"fault {fault.name} of {fault.target or 'everything'} ends")
        end()

    # Who is meant

    def nodes(self, fault: Fault) -> list[Kubelet]:
        """The kubelets of the nodes that `target` names; ValueError for one that is not there."""
        if fault.target in ("", "*"):
            return list(self.kubelets.by_node.values())
        return [self._node(name.strip()) for name in fault.target.split(",")]

    def _node(self, name: str) -> Kubelet:
        kubelet = self.kubelets.by_node.get(name)
        if kubelet is None:
            raise ValueError(f"no node is named {name!r}")
        return kubelet

    def zone(self, fault: Fault) -> list[Kubelet]:
        found = [kubelet for kubelet in self.kubelets.by_node.values() if kubelet.machine.zone == fault.target]
        if not found:
            raise ValueError(f"no node is in the zone {fault.target!r}")
        return found

    def pods(self, fault: Fault) -> list[JSON]:
        """The pod of that name, or the pods of the workload."""
        namespace, _, name = fault.target.partition("/")
        pod = self.core.view.pods.get((namespace, name))
        if pod is not None:
            return [pod]
        workload = self.core.view.workload((namespace, name))
        if workload is None:
            raise ValueError(f"neither a pod nor a workload is named {fault.target!r}")
        return self.core.view.pods_below(objects.uid_of(workload))


class Leak:
    """A pod that eats the memory of its node, until somebody removes the pod."""

    def __init__(self, faults: Faults, kubelet: Kubelet, uid: str) -> None:
        self._faults = faults
        self._kubelet = kubelet
        self._uid = uid
        self._began = faults.core.now
        self._ended = False
        cpu_and_memory = manifests.CAPACITY[kubelet.machine.instance_type]
        self._node_bytes = objects.whole_bytes(cpu_and_memory[1])

    def goes_on(self) -> bool:
        """One second more; false when it is over."""
        pods = self._faults.core.view.pods_on[self._kubelet.node_name].values()
        if self._ended or all(objects.uid_of(pod) != self._uid for pod in pods):
            self.end()
            return False
        age = (self._faults.core.now - self._began).total_seconds()
        share = LEAK_SHARE * min(1.0, age / LEAK_SECONDS)
        self._faults.loads.leaks[self._uid] = share * self._node_bytes
        if share >= PRESSURE_SHARE and "MemoryPressure" not in self._kubelet.pressures:
            self._kubelet.pressures["MemoryPressure"] = "KubeletHasInsufficientMemory"
            self._kubelet.post()
        return True

    def end(self) -> None:
        self._ended = True
        self._faults.loads.leaks.pop(self._uid, None)
        if self._kubelet.pressures.pop("MemoryPressure", None):
            self._kubelet.post()


def _machine_death(faults: Faults, fault: Fault) -> None:
    says = MachineState(fault.params.get("says", MachineState.STOPPED))
    for kubelet in faults.nodes(fault):
        faults.core.cloud.crash(kubelet.machine.id, says=says)


def _machine_gone(faults: Faults, fault: Fault) -> None:
    for kubelet in faults.nodes(fault):
        faults.core.cloud.terminate(kubelet.machine.id)


def _cut(kubelets: list[Kubelet]) -> End:
    for kubelet in kubelets:
        kubelet.cut = True

    def end() -> None:
        for kubelet in kubelets:
            kubelet.cut = False
            kubelet.resume()

    return end


def _network_cut(faults: Faults, fault: Fault) -> End:
    return _cut(faults.nodes(fault))


def _zone_outage(faults: Faults, fault: Fault) -> End:
    return _cut(faults.zone(fault))


def _all_leases_stop(faults: Faults, _fault: Fault) -> End:
    kubelets = list(faults.kubelets.by_node.values())
    for kubelet in kubelets:
        kubelet.mute = True

    def end() -> None:
        for kubelet in kubelets:
            kubelet.mute = False
            kubelet.resume()

    return end


def _kubelet_stop(faults: Faults, fault: Fault) -> End:
    kubelets = faults.nodes(fault)
    for kubelet in kubelets:
        kubelet.stopped = True

    def end() -> None:
        for kubelet in kubelets:
            kubelet.stopped = False
            kubelet.resume()

    return end


def _kubelet_restart(faults: Faults, fault: Fault) -> End:
    kubelets = faults.nodes(fault)
    for kubelet in kubelets:
        kubelet.not_ready = "container runtime is down"
        kubelet.post()

    def end() -> None:
        for kubelet in kubelets:
            kubelet.become_ready()

    return end


def _oom(faults: Faults, fault: Fault) -> None:
    for pod in faults.pods(fault)[: int(fault.params.get("pods", "1"))]:
        found = faults.kubelets.sandbox(pod)
        if found is not None:
            found[0].crash(found[1], reason="OOMKilled", exit_code=137)


def _crash_loop(faults: Faults, fault: Fault) -> End:
    reason = fault.params.get("reason", "Error")
    rule = Crash(
        fits=_who_crashes(faults, fault),
        after_seconds=float(fault.params.get("after_seconds", "2")),
        reason=reason,
        exit_code=137 if reason == "OOMKilled" else 1,
    )
    faults.kubelets.crashes.append(rule)
    for kubelet in list(faults.kubelets.by_machine.values()):
        kubelet.crash_matching()
    return lambda: faults.kubelets.crashes.remove(rule)


def _who_crashes(faults: Faults, fault: Fault) -> Callable[[JSON], bool]:
    """`heals` says what helps: a `restart` of the pods, a `rollout` of another template, or nothing (`never`)."""
    pods = faults.pods(fault)
    heals = fault.params.get("heals", "restart")
    if heals == "restart":
        uids = {objects.uid_of(pod) for pod in pods}
        return lambda pod: objects.uid_of(pod) in uids
    owners = {objects.uid_of(owner) for pod in pods if (owner := faults.core.view.top_owner(pod)) is not None}
    versions = {_version(pod) for pod in pods}
    if heals not in ("rollout", "never"):
        raise ValueError(f"heals is {heals!r}; it is one of restart, rollout, never")

    def fits(pod: JSON) -> bool:
        owner = faults.core.view.top_owner(pod)
        return owner is not None and objects.uid_of(owner) in owners and (heals == "never" or _version(pod) in versions)

    return fits


def _version(pod: JSON) -> str:
    labels = objects.labels_of(pod)
    return labels.get(HASH_LABEL) or labels.get(GENERATION, "")


def _memory_pressure(faults: Faults, fault: Fault) -> End:
    leaks = []
    for kubelet in faults.nodes(fault):
        pods = faults.core.view.pods_on[kubelet.node_name]
        hog = fault.params.get("pod", "")
        named = [pod for key, pod in pods.items() if "/".join(key) == hog]
        owned = [pod for key, pod in sorted(pods.items()) if _is_of_deployment(faults, pod)]
        leaks += [Leak(faults, kubelet, objects.uid_of(pod)) for pod in (named or owned)[:1]]
    faults.leaks += leaks

    def end() -> None:
        for leak in leaks:
            leak.end()

    return end


def _is_of_deployment(faults: Faults, pod: JSON) -> bool:
    owner = faults.core.view.top_owner(pod)
    return owner is not None and owner["kind"] == "Deployment" and objects.is_active(pod)


def _disk_pressure(faults: Faults, fault: Fault) -> End:
    kubelets = faults.nodes(fault)
    for kubelet in kubelets:
        kubelet.pressures["DiskPressure"] = "KubeletHasDiskPressure"
        kubelet.post()

    def end() -> None:
        for kubelet in kubelets:
            kubelet.pressures.pop("DiskPressure", None)
            kubelet.post()

    return end


def _clock_skew(faults: Faults, fault: Fault) -> End:
    kubelets = faults.nodes(fault)
    for kubelet in kubelets:
        kubelet.skew_seconds = float(fault.params.get("seconds", "600"))

    def end() -> None:
        for kubelet in kubelets:
            kubelet.skew_seconds = 0.0

    return end


def _recreate_same_name(faults: Faults, fault: Fault) -> None:
    core = faults.core
    for kubelet in faults.nodes(fault):
        old = kubelet.machine
        core.cloud.terminate(old.id, at_once=True)
        core.storage.remove("nodes", "", old.node_name)
        core.cloud.launch(
            zone=old.zone,
            pool=old.pool,
            instance_type=old.instance_type,
            node_name=old.node_name,
            replaces=old.id,
            running=True,
        )


KINDS: Final[Mapping[str, Kind]] = {
    "machine-death": Kind(
        target="node",
        about="The machine stops dead. The provider says `says`: stopped (default) or running.",
        begin=_machine_death,
    ),
    "machine-gone": Kind(target="node", about="The provider takes the machine away.", begin=_machine_gone),
    "network-cut": Kind(
        target="node",
        about="Nothing reaches the machine; its containers run on, and the provider says running.",
        begin=_network_cut,
    ),
    "kubelet-stop": Kind(target="node", about="The kubelet ends; the containers run on.", begin=_kubelet_stop),
    "kubelet-restart": Kind(
        target="node",
        about="The kubelet restarts and is not ready for 25 s.",
        begin=_kubelet_restart,
        lasts_seconds=RESTART_SECONDS,
    ),
    "oom": Kind(target="pod or workload", about="The container is killed for its memory, once.", begin=_oom),
    "crash-loop": Kind(
        target="pod or workload",
        about="Containers die again and again; `heals` by restart (default), rollout or never; `reason`.",
        begin=_crash_loop,
    ),
    "memory-pressure": Kind(
        target="node",
        about="A pod (`pod`, or the first of a Deployment) eats the node's memory until it is removed.",
        begin=_memory_pressure,
    ),
    "disk-pressure": Kind(target="node", about="The disk is nearly full.", begin=_disk_pressure),
    "zone-outage": Kind(
        target="zone",
        about="Nothing reaches the machines of the zone; the provider says running.",
        begin=_zone_outage,
    ),
    "all-leases-stop": Kind(
        target="",
        about="No kubelet reaches the API server any more, while everything runs and we can read.",
        begin=_all_leases_stop,
    ),
    "clock-skew": Kind(target="node", about="The node's clock is `seconds` (600) ahead.", begin=_clock_skew),
    "node-recreate-same-name": Kind(
        target="node",
        about="The node is deleted, and another machine joins under the same name.",
        begin=_recreate_same_name,
    ),
}
"""Every fault by name."""
