"""The simulated cluster as a whole. It moves only in `step` and `settle`, and the same seed gives the same story.

Within one tick the parts run in a fixed order, again and again until nothing changes any more:
kubelets, node lifecycle, taint eviction, pod collector, owner collector, Deployments, ReplicaSets, DaemonSets,
StatefulSets, scheduler, volumes, disruption, autoscalers. Before them come the timers (faults among them) and the machines; after them, once, the load of the users.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from healer.sim.accounts import Autoscalers, CloudController, NodeRemains
from healer.sim.core import Core, Options, Part
from healer.sim.daemonsets import DaemonSets
from healer.sim.deployments import Deployments
from healer.sim.disruption import DisruptionController
from healer.sim.faults import Fault, Faults
from healer.sim.kubelet import Kubelet
from healer.sim.kubelets import Kubelets
from healer.sim.load import Loads
from healer.sim.nodes import NodeLifecycle
from healer.sim.owners import OwnerCollector
from healer.sim.pod_removal import PodCollector, TaintEviction
from healer.sim.replicasets import ReplicaSets
from healer.sim.scheduling import Scheduler
from healer.sim.statefulsets import StatefulSets
from healer.sim.volumes import VolumeController

TICK: Final = timedelta(seconds=1)
MOST_ROUNDS: Final = 200


class World(Core):
    """A cluster, its machines and what happens to them."""

    def __init__(self, *, start: datetime, seed: int = 0, options: Options | None = None) -> None:
        super().__init__(start=start, seed=seed, options=options)
        self.kubelets = Kubelets(self)
        self.nodes = NodeLifecycle(self)
        self.loads = Loads(self, self.kubelets)
        self.faults = Faults(self, self.kubelets, self.loads)
        self._cloud_controller = CloudController(self, self.kubelets)
        self._parts: tuple[Part, ...] = (
            self.kubelets,
            self.nodes,
            NodeRemains(self),
            TaintEviction(self),
            PodCollector(self),
            OwnerCollector(self),
            Deployments(self),
            ReplicaSets(self),
            DaemonSets(self),
            StatefulSets(self),
            Scheduler(self),
            VolumeController(self),
            DisruptionController(self),
            Autoscalers(self),
        )
        self._next_tick = start + TICK

    def step(self, now: datetime) -> None:
        """Let time pass until `now`, second by second; then let everybody answer what the API has been told meanwhile.

        Timers run out on whole seconds only, so that it makes no difference in how many steps a time is passed.
        """
        while self._next_tick <= now:
            self.now = self._next_tick
            self._next_tick += TICK
            self._tick()
        self.now = max(self.now, now)
        if self.view.is_behind:
            self._react(timers=False)

    def run_for(self, seconds: float) -> None:
        """`step` by a duration."""
        self.step(self.now + timedelta(seconds=seconds))

    def run_until(self, happened: Callable[[], bool], *, within_seconds: float) -> float:
        """Step second by second until `happened()`; how many seconds that took. Raises TimeoutError."""
        began = self.now
        while not happened():
            if (self.now - began).total_seconds() >= within_seconds:
                raise TimeoutError(f"it had not happened after {within_seconds:g} simulated seconds")
            self.step(self._next_tick)
        return (self.now - began).total_seconds()

    def settle(self) -> None:
        """Let everything come up at once, in no time at all: for the start of a story."""
        self.instant = True
        try:
            self._tick()
        finally:
            self.instant = False

    def inject(self, fault: Fault, *, at: datetime | None = None, after_seconds: float = 0.0) -> None:
        """Let `fault` strike at `at`, or in `after_seconds`."""
        self.faults.plan(fault, at or self.now + timedelta(seconds=after_seconds))

    def kubelet(self, node: str) -> Kubelet:
        """The kubelet of the node of this name. KeyError."""
        return self.kubelets.by_node[node]

    def running(self, namespace: str, name: str) -> list[str]:
        """UIDs of the pods of that name whose containers really run now; more than one is a split brain."""
        return self.kubelets.running(namespace, name)

    def _tick(self) -> None:
        self.agenda.run(self.now)
        self.faults.run()
        self._cloud_controller.run()
        self._react()
        self.loads.run()

    def _react(self, *, timers: bool = True) -> None:
        for _ in range(MOST_ROUNDS):
            if timers:
                self.agenda.run(self.now)
            self.view.catch_up()
            version = self.storage.version
            for part in self._parts:
                part.run()
                self.view.catch_up()
            if self.storage.version == version and not (timers and self.agenda.has_due(self.now)):
                return
        raise RuntimeError(f"the world is not at rest after {MOST_ROUNDS} rounds of one tick")
