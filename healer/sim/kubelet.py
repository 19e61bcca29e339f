"""A kubelet: registers its node, renews the lease, posts status, and lets pods start, crash, restart and stop.

What a machine does and what its kubelet can tell are kept apart: the containers of a node that is cut off go on
running, and a dead machine's pods stay in the API as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from healer.model.fencing import MachineState
from healer.sim import manifests, objects, podstatus
from healer.sim.cloud import Instance
from healer.sim.core import Core
from healer.sim.objects import JSON, Key
from healer.sim.sandboxes import Crash, Sandbox

BEAT_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 40
REPORT_SECONDS: Final = 300.0
BACKOFF_FIRST_SECONDS: Final = 10.0
BACKOFF_MOST_SECONDS: Final = 300.0
BACKOFF_RESET_SECONDS: Final = 600.0
REGISTER_AGAIN_SECONDS: Final = 5.0


class Kubelet:
    """The agent of one machine."""

    def __init__(self, core: Core, machine: Instance, crashes: list[Crash], static: list[JSON]) -> None:
        self.core = core
        self.machine = machine
        self.node_name = machine.node_name
        self.node_uid = ""
        self.sandboxes: dict[str, Sandbox] = {}
        self.stopped = False
        self.cut = False
        """No packet reaches or leaves the machine."""
        self.mute = False
        """It cannot reach the API server; everything else goes on."""
        self.not_ready = ""
        """Why it posts Ready=False, or empty."""
        self.skew_seconds = 0.0
        self.pressures: dict[str, str] = {}
        """Condition types that are True, with the reason."""
        self.booted_at = core.now
        self._crashes = crashes
        self._static = static
        self._reported_at: datetime | None = None
        self.retired = False
        """Another kubelet runs on this machine since."""

    # What it can do

    @property
    def working(self) -> bool:
        return self.machine.alive and not self.stopped and not self.retired

    @property
    def talking(self) -> bool:
        """Whether it can read from and write to the API server."""
        return self.working and not self.cut and not self.mute

    def running(self) -> Iterator[Sandbox]:
        """What really runs on the machine now, whatever the API says."""
        if self.machine.alive:
            yield from (box for box in self.sandboxes.values() if box.started_at is not None)

    # The node object

    def join(self) -> None:
        """Register the node; a restarted machine takes over the object it had."""
        if not self.talking or not self.machine.joins:
            return
        stored = self.core.storage.get("nodes", "", self.node_name)
        if stored is not None and stored["spec"].get("providerID") != self.machine.provider_id:
            self.core.after(REGISTER_AGAIN_SECONDS, self.join)
            return
        if not self.core.instant:
            self.not_ready = "container runtime network not ready: cni plugin not initialized"
            self.core.after(self.core.options.node_ready_seconds, self.become_ready)
        if stored is None:
            stored = self.core.storage.create("nodes", manifests.node(self.machine, self._conditions()))
            self.core.note(f"node {self.node_name} joins on {self.machine.id}")
        self.node_uid = objects.uid_of(stored)
        self._reported_at = None
        self._post_status()
        self._renew_lease()
        self._beat_in(self.core.random.random() * BEAT_SECONDS)
        self.ensure_static()
        for key, pod in list(self.core.view.pods_on[self.node_name].items()):
            self.sync(key, pod)

    def _beat_in(self, seconds: float) -> None:
        self.core.agenda.add(self.core.now + timedelta(seconds=seconds), self._beat)

    def become_ready(self) -> None:
        self.not_ready = ""
        self.post()

    def post(self) -> None:
        """Tell the API server now, if it can be reached."""
        if self.talking:
            self._post_status()
            self._renew_lease()

    def resume(self) -> None:
        """It can talk again: post, forget pods that are no longer wanted, look after the others."""
        if not self.talking:
            return
        self.post()
        pods = dict(self.core.view.pods_on[self.node_name])
        wanted = {objects.uid_of(pod) for pod in pods.values()}
        for uid in [uid for uid in self.sandboxes if uid not in wanted]:
            del self.sandboxes[uid]
        for key, pod in pods.items():
            box = self.sandboxes.get(objects.uid_of(pod))
            if box is not None and not box.stopping and not box.waits_for_volumes:
                self._take_up(box, pod)
            self.sync(key, pod)
        self.ensure_static()

    def _take_up(self, box: Sandbox, pod: JSON) -> None:
        """Go on with a pod whose timers ran out while nobody could act on them."""
        box.run += 1
        if box.started_at is None:
            self._begin(box, pod)
        elif (rule := self._rule(pod)) is not None:
            self._die_later(box, rule)
        else:
            self._timer(box, 0.0, self._become_ready)

    def _beat(self) -> None:
        if self.retired or self.machine.state is MachineState.TERMINATED:
            return
        self._beat_in(BEAT_SECONDS)
        if not self.talking:
            return
        self.post()
        for pod in list(self.core.view.pods_on[self.node_name].values()):
            box = self.sandboxes.get(objects.uid_of(pod))
            if box is not None and box.ready and not box.stopping and not objects.is_ready(pod):
                self._write(box, lambda copy: podstatus.ready(copy, self.core.now))

    def _renew_lease(self) -> None:
        at = objects.micro_stamp(self._clock())
        name = self.node_name
        if self.core.storage.get("leases", objects.LEASE_NAMESPACE, name) is None:
            if self._node() is not None:
                self.core.storage.create("leases", manifests.lease(name, self.node_uid, LEASE_SECONDS, at))
            return

        def renew(lease: JSON) -> None:
            lease["spec"]["renewTime"] = at

        self.core.storage.update("leases", objects.LEASE_NAMESPACE, name, renew)

    def _clock(self) -> datetime:
        return self.core.now + timedelta(seconds=self.skew_seconds)

    def _node(self) -> JSON | None:
        """Its own node object; another machine's node of the same name is not."""
        node = self.core.storage.get("nodes", "", self.node_name)
        return node if node is not None and objects.uid_of(node) == self.node_uid else None

    def _conditions(self) -> list[tuple[str, str, str, str]]:
        """(type, status, reason, message) as it wants them stored."""
        wanted = []
        for type_, calm in manifests.PRESSURES:
            reason = self.pressures.get(type_)
            wanted.append((type_, "True", reason, f"kubelet has {type_}") if reason else (type_, "False", *calm))
        if self.not_ready:
            wanted.append(("Ready", "False", "KubeletNotReady", self.not_ready))
        else:
            wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
        return wanted

    def _post_status(self) -> None:
        node = self._node()
        if node is None:
            return
        wanted = self._conditions()
        due = self._reported_at is None or (self.core.now - self._reported_at).total_seconds() >= REPORT_SECONDS
        same_boot = node["status"]["nodeInfo"]["bootID"] == self.machine.boot_id
        if not due and same_boot and all(_stands(node, *each) for each in wanted):
            return
        at = objects.stamp(self._clock())

        def change(copy: JSON) -> None:
            for type_, status, reason, message in wanted:
                objects.set_condition(copy, type_, status, reason=reason, message=message, at=at, beat=at)
            copy["status"]["nodeInfo"]["bootID"] = self.machine.boot_id

        self.core.storage.update("nodes", "", self.node_name, change, status=True)
        self._reported_at = self.core.now

    # Static pods

    def ensure_static(self) -> None:
        """Reflect the static pods in the API where they are missing."""
        if not self.talking or self._node() is None:
            return
        for template in self._static:
            pod = manifests.mirror_pod(template, self.node_name, self.node_uid)
            if self.core.storage.get("pods", *objects.key_of(pod)) is None:
                self.core.storage.create("pods", pod)

    # Pods

    def sync(self, key: Key, pod: JSON) -> None:
        """Bring what runs closer to what is wanted."""
        if not self.talking:
            return
        uid = objects.uid_of(pod)
        box = self.sandboxes.get(uid)
        if objects.is_deleting(pod):
            self._stop(key, pod, box)
        elif objects.is_finished(pod):
            self.sandboxes.pop(uid, None)
        elif box is None:
            box = self.sandboxes[uid] = Sandbox(uid=uid, key=key, created_at=self.core.now)
            box.waits_for_volumes = not self._volumes_ready(pod)
            if box.waits_for_volumes or not self.core.instant:
                addresses = manifests.addresses(self.machine, uid=uid)
                self._write(box, lambda copy: podstatus.creating(copy, self.core.now, addresses))
            if not box.waits_for_volumes:
                self._begin(box, pod)
        elif box.waits_for_volumes and self._volumes_ready(pod):
            box.waits_for_volumes = False
            self._begin(box, pod)

    def removed(self, pod: JSON) -> None:
        """The pod's object is gone; so is the pod, if the kubelet hears of it."""
        if self.talking:
            self.sandboxes.pop(objects.uid_of(pod), None)
            if objects.MIRROR in objects.annotations_of(pod):
                self.core.after(1.0, self.ensure_static)

    def crash_matching(self) -> None:
        """Let every running pod die now that fits a rule."""
        for box in list(self.sandboxes.values()):
            pod = self._alive(box)
            if pod is not None and (rule := self._rule(pod)) is not None:
                self.crash(box, reason=rule.reason, exit_code=rule.exit_code)

    def crash(self, box: Sandbox, *, reason: str = "Error", exit_code: int = 1) -> None:
        """The pod's first container dies now."""
        pod = self._alive(box)
        if pod is None or box.started_at is None:
            return
        lasted = (self.core.now - box.started_at).total_seconds()
        box.crashes_in_row = 0 if lasted >= BACKOFF_RESET_SECONDS else box.crashes_in_row + 1
        began, box.started_at, box.ready = box.started_at, None, False
        box.restarts += 1
        box.run += 1
        finite = pod["spec"].get("restartPolicy", "Always") == "Never"
        wait = min(BACKOFF_FIRST_SECONDS * 2 ** max(0, box.crashes_in_row - 2), BACKOFF_MOST_SECONDS)
        wait = wait if box.crashes_in_row > 1 else 1.0
        died = podstatus.Death(reason=reason, exit_code=exit_code, began=began, ended=self.core.now)
        back_off = wait if box.crashes_in_row > 1 else None
        self._write(box, lambda copy: podstatus.died(copy, self.core.now, died, box.restarts, back_off, finite=finite))
        if back_off is not None:
            container = pod["spec"]["containers"][0]["name"]
            self.core.event(
                pod,
                "Pod",
                "BackOff",
                f"Back-off restarting failed container {container} in pod {box.key[1]}",
                component="kubelet",
                warning=True,
            )
        if not finite:
            self._timer(box, wait, self._started)

    def _begin(self, box: Sandbox, pod: JSON) -> None:
        options = self.core.options
        seconds = podstatus.asked(pod, podstatus.START_SECONDS, options.start_seconds)
        jitter = 0.0 if podstatus.START_SECONDS in objects.annotations_of(pod) else options.start_jitter_seconds
        if self.core.instant:
            self._started(box)
        else:
            self._timer(box, seconds + self.core.random.random() * jitter, self._started)

    def _started(self, box: Sandbox) -> None:
        pod = self._alive(box)
        if pod is None:
            return
        box.started_at = self.core.now
        rule = self._rule(pod)
        seconds = podstatus.asked(pod, podstatus.READY_SECONDS, self.core.options.ready_seconds)
        at_once = self.core.instant or seconds == 0
        box.ready = at_once and rule is None
        addresses = manifests.addresses(self.machine, uid=box.uid)
        self._write(box, lambda copy: podstatus.running(copy, self.core.now, addresses, box.restarts, ready=box.ready))
        if rule is not None:
            self._die_later(box, rule)
        elif not at_once:
            self._timer(box, seconds, self._become_ready)

    def _rule(self, pod: JSON) -> Crash | None:
        return next((rule for rule in self._crashes if rule.fits(pod)), None)

    def _die_later(self, box: Sandbox, rule: Crash) -> None:
        self._timer(box, rule.after_seconds, lambda b: self.crash(b, reason=rule.reason, exit_code=rule.exit_code))

    def _become_ready(self, box: Sandbox) -> None:
        pod = self._alive(box)
        if pod is not None and self._rule(pod) is None:
            box.ready = True
            self._write(box, lambda copy: podstatus.ready(copy, self.core.now))

    def _stop(self, key: Key, pod: JSON, box: Sandbox | None) -> None:
        if box is None:
            self.core.storage.remove("pods", *key)
            return
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 30))
        needs = podstatus.asked(pod, podstatus.SHUTDOWN_SECONDS, self.core.options.shutdown_seconds)
        if not box.stopping:
            box.stopping = True
            box.run += 1
            container = pod["spec"]["containers"][0]["name"]
            self.core.event(pod, "Pod", "Killing", f"Stopping container {container}", component="kubelet")
        self.core.after(min(grace, needs), lambda: self._gone(box))

    def _gone(self, box: Sandbox) -> None:
        if not self.talking or self.sandboxes.get(box.uid) is not box:
            return
        pod = self.core.pod(box.key, box.uid)
        if pod is None:
            del self.sandboxes[box.uid]
        else:
            if pod["metadata"].get("finalizers"):
                box.started_at = None
                self._write(box, lambda copy: podstatus.stopped(copy, self.core.now))
            self.core.storage.remove("pods", *box.key)

    # Inside

    def _alive(self, box: Sandbox) -> JSON | None:
        """The pod of `box`, when there is still something to do for it and somebody to do it."""
        if not self.talking or self.sandboxes.get(box.uid) is not box or box.stopping:
            return None
        return self.core.pod(box.key, box.uid)

    def _timer(self, box: Sandbox, seconds: float, action: Callable[[Sandbox], None]) -> None:
        run = box.run

        def fire() -> None:
            if box.run == run:
                action(box)

        self.core.after(seconds, fire)

    def _write(self, box: Sandbox, change: Callable[[JSON], None]) -> None:
        self.core.storage.update("pods", *box.key, change, uid=box.uid, status=True)

    def _volumes_ready(self, pod: JSON) -> bool:
        claims = podstatus.claims_of(pod)
        if not claims:
            return True
        namespace = pod["metadata"]["namespace"]
        for claim in claims:
            name = manifests.attachment_name(self.node_name, manifests.volume_name(namespace, claim))
            attachment = self.core.storage.get("volumeattachments", "", name)
            if attachment is None or not attachment.get("status", {}).get("attached"):
                return False
        return True


def _stands(node: JSON, type_: str, status: str, reason: str, _message: str) -> bool:
    held = objects.condition(node, type_)
    return held is not None and held["status"] == status and held.get("reason") == reason
