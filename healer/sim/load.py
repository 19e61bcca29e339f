"""What users do to the Deployments: requests that are answered by the pods that are ready, or fail.

A pod on a dead machine gets its share for as long as the API calls it ready, and answers none: that is what an outage
looks like before anybody has noticed it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from healer.sim import objects
from healer.sim.core import Core
from healer.sim.kubelets import Kubelets
from healer.sim.objects import JSON, Key

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DAY_SECONDS: Final = 86_400.0
TIMEOUT_SECONDS: Final = 5.0


@dataclasses.dataclass(slots=True, kw_only=True)
class Load:
    """What one Deployment is asked for, and the counters of what came of it."""

    requests_per_second: float
    capacity_per_pod: float
    """Requests per second that one pod answers before they queue."""
    latency_seconds: float = 0.03
    swing: float = 0.2
    """How far the day takes the rate up and down, as a share."""
    extra_latency_seconds: float = 0.0
    good: float = 0.0
    bad: float = 0.0
    buckets: list[float] = dataclasses.field(default_factory=lambda: [0.0] * (len(BUCKETS) + 1))
    seconds: float = 0.0
    rate: float = 0.0
    utilisation: float = 0.0
    """How much of the capacity of the pods that answer was used in the last second; may be above 1."""


class Loads:
    """Advances the counters once per tick."""

    def __init__(self, core: Core, kubelets: Kubelets) -> None:
        self.core = core
        self.by_deployment: dict[Key, Load] = {}
        self.leaks: dict[str, float] = {}
        """Pod UID → bytes its memory has grown beyond what it should be."""
        self._last = core.now
        self._kubelets = kubelets

    def put(self, namespace: str, deployment: str, load: Load) -> None:
        self.by_deployment[namespace, deployment] = load

    def pods(self, key: Key) -> list[JSON]:
        """The pods of a Deployment."""
        deployment = self.core.view.all["deployments"].get(key)
        return self.core.view.pods_below(objects.uid_of(deployment)) if deployment else []

    def run(self) -> None:
        passed = (self.core.now - self._last).total_seconds()
        self._last = self.core.now
        if passed <= 0:
            return
        day = math.sin(2 * math.pi * (self.core.now.timestamp() % DAY_SECONDS) / DAY_SECONDS)
        for key, load in self.by_deployment.items():
            self._advance(load, self.pods(key), passed, day)

    def _advance(self, load: Load, pods: list[JSON], passed: float, day: float) -> None:
        called = [pod for pod in pods if objects.is_ready(pod) and not objects.is_deleting(pod)]
        answering = sum(1 for pod in called if self._answers(pod))
        noise = 1 + 0.05 * (self.core.random.random() - 0.5)
        load.rate = load.requests_per_second * (1 + load.swing * day) * noise
        asked = load.rate * passed
        reached = asked * answering / len(called) if called else 0.0
        capacity = answering * load.capacity_per_pod * passed
        served = min(reached, capacity)
        load.utilisation = reached / capacity if capacity else 0.0
        load.good += served
        load.bad += asked - served
        busy = min(load.utilisation, 0.95)
        self._observe(load, served, (load.latency_seconds + load.extra_latency_seconds) / (1 - busy))
        self._observe(load, asked - served, TIMEOUT_SECONDS)

    def _answers(self, pod: JSON) -> bool:
        kubelet = self._kubelets.by_node.get(objects.node_of(pod))
        if kubelet is None or kubelet.cut or not kubelet.machine.alive:
            return False
        box = kubelet.sandboxes.get(objects.uid_of(pod))
        return box is not None and box.started_at is not None

    def _observe(self, load: Load, requests: float, mean_seconds: float) -> None:
        """Spread the requests over the buckets as an exponential distribution around the mean would."""
        if requests <= 0:
            return
        load.seconds += requests * mean_seconds
        for index, bound in enumerate(BUCKETS):
            load.buckets[index] += requests * (1 - math.exp(-bound / mean_seconds))
        load.buckets[-1] += requests
