"""Cluster state as the `kube_*` series of kube-state-metrics, from the caches that follow the cluster anyway.

All of them every interval, and at once those of an object whose state has changed in a way that rules wait for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, ClassVar, Final

import numpy as np
import pydantic

from healer import telemetry
from healer.clock import Clock, milliseconds
from healer.collectors.kube_series import Row, Series, Value
from healer.config import fields
from healer.errors import StoreError
from healer.kube.caches import ClusterCaches
from healer.model.cluster import ClusterState, Node, Pod
from healer.model.series import STALE, Batch, Floats, Labels
from healer.ports import Sink

JOB: Final = "kube-state-metrics"
_AT_ONCE: Final = 100
"""Objects whose series are made before others get their turn."""
_LONGEST_SILENCE_SECONDS: Final = 30.0
_LEAST_PAUSE_SECONDS: Final = 0.002
"""Times of samples are whole milliseconds, and a series has one sample for each."""

_log: Final = logging.getLogger(__name__)
Key = tuple[str, str, str]


class KubernetesSettings(fields.Section):
    """How often the state of the cluster becomes samples."""

    interval: Annotated[fields.Duration, pydantic.Field(ge=timedelta(seconds=1))] = pydantic.Field(
        timedelta(seconds=15),
        description="Time between two samples of every series. 15 s is what rules for kube-state-metrics are written for.",
    )
    coalesce: fields.Duration = pydantic.Field(
        timedelta(seconds=1),
        description="Least time between a report and the changes after it. A change in a quiet time is reported at once.",
    )
    job: fields.Text = pydantic.Field(
        JOB, description="Value of the `job` label, by which rules tell these series from others of the same name."
    )


class _Held:
    """The series of one object, as they were last sent."""

    __slots__ = ("labels", "source", "values")
    labels: tuple[Labels, ...]

    def __init__(self, source: Value, rows: Sequence[Row], before: _Held | None) -> None:
        known = {labels: labels for labels in before.labels} if before else {}
        self.source = source
        self.labels = tuple(known.get(labels, labels) for labels, _ in rows)
        self.values: Floats = np.array([value for _, value in rows], dtype=np.float64)


class KubernetesCollector:
    """A `healer.ports.Collector` over the caches of one cluster, which somebody else runs."""

    Settings: ClassVar = KubernetesSettings

    def __init__(self, settings: KubernetesSettings, *, caches: ClusterCaches, clock: Clock) -> None:
        cluster = caches.state().name
        self._settings = settings
        self._caches = caches
        self._clock = clock
        self._series = Series({"job": settings.job, "cluster": cluster})
        self._up, _ = self._series.one("up", 1)
        self._name = f"kubernetes/{cluster}"
        self._held: dict[Key, _Held] = {}
        self._touched: dict[Key, None] = {}
        self._urgent = asyncio.Event()
        self._sent_at = clock.monotonic()

    @property
    def name(self) -> str:
        return self._name

    async def run(self, sink: Sink) -> None:
        await self._caches.synced()
        stop = self._caches.on_change(self._notice)
        try:
            await self._work(sink)
        finally:
            stop()

    async def _work(self, sink: Sink) -> None:
        interval = self._settings.interval.total_seconds()
        due = self._clock.monotonic()
        while True:
            await self._report_all(sink)
            now = self._clock.monotonic()
            # A timer may come a hair before its time.
            missed = max(0, int((now - due) // interval))
            if missed:
                telemetry.TICKS_MISSED.labels(self._name).inc(missed)
            due += (missed + 1) * interval
            await self._report_changes_until(due, sink)

    async def _report_changes_until(self, due: float, sink: Sink) -> None:
        pause = max(self._settings.coalesce.total_seconds(), _LEAST_PAUSE_SECONDS)
        while await self._is_urgent(due - self._clock.monotonic()):
            at = self._sent_at + pause
            if at >= due:
                break
            await asyncio.sleep(max(at - self._clock.monotonic(), 0.0))
            await self._report_changes(sink)
        await asyncio.sleep(max(due - self._clock.monotonic(), 0.0))

    async def _is_urgent(self, within_seconds: float) -> bool:
        if within_seconds <= 0:
            return False
        try:
            async with asyncio.timeout(within_seconds):
                await self._urgent.wait()
        except TimeoutError:
            return False
        return True

    def _notice(self, before: Value | None, after: Value | None) -> None:
        found = after or before
        if found is None:
            return
        self._touched[_key(found)] = None
        if _matters(before, after):
            self._urgent.set()

    async def _report_all(self, sink: Sink) -> None:
        """Every series; or, while the API server does not answer, only that it is not up: what we hold may not be true any more."""
        if self._caches.freshness.silent_seconds > _LONGEST_SILENCE_SECONDS:
            await self._send(sink, [self._up], [np.zeros(1)], "unanswered")
            return
        self._settle_touched()
        there = {_key(found): found for found in _everything(self._caches.state())}
        labels: list[Labels] = [self._up]
        values = [np.ones(1)]
        for number, (key, found) in enumerate(there.items(), start=1):
            self._take(key, found, labels, values)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        for key in [key for key in self._held if key not in there]:
            self._drop(key, labels, values)
        await self._send(sink, labels, values, "success")

    async def _report_changes(self, sink: Sink) -> None:
        labels: list[Labels] = []
        values: list[Floats] = []
        state = self._caches.state()
        for key in self._settle_touched():
            found = _find(state, key)
            if found is None:
                self._drop(key, labels, values)
            else:
                self._take(key, found, labels, values)
        if labels:
            await self._send(sink, labels, values, "success")

    def _settle_touched(self) -> Iterable[Key]:
        """What has changed since it was last asked."""
        touched, self._touched = self._touched, {}
        self._urgent.clear()
        return touched

    def _take(self, key: Key, found: Value, labels: list[Labels], values: list[Floats]) -> None:
        held = self._held.get(key)
        if held is None or held.source is not found:
            before, held = held, _Held(found, self._series.of(found), held)
            self._held[key] = held
            if before:
                _end(before.labels, frozenset(held.labels), labels, values)
        labels.extend(held.labels)
        values.append(held.values)

    def _drop(self, key: Key, labels: list[Labels], values: list[Floats]) -> None:
        held = self._held.pop(key, None)
        if held:
            _end(held.labels, frozenset(), labels, values)

    async def _send(self, sink: Sink, labels: Sequence[Labels], values: Sequence[Floats], outcome: str) -> None:
        at = milliseconds(self._clock.now())
        self._sent_at = self._clock.monotonic()
        batch = Batch(
            labels=tuple(labels),
            times_ms=np.full(len(labels), at, dtype=np.int64),
            values=np.concatenate(values),
        )
        try:
            await sink.samples(batch)
        except StoreError as error:
            outcome = "not stored"
            _log.warning("%s: %d samples were not kept: %s", self._name, len(batch), error)
        telemetry.SCRAPES.labels(self._settings.job, outcome).inc()


def _end(before: Iterable[Labels], now: frozenset[Labels], labels: list[Labels], values: list[Floats]) -> None:
    """Mark as ended what was sent before and is no longer there."""
    ended = [gone for gone in before if gone not in now]
    labels.extend(ended)
    values.append(np.full(len(ended), STALE))


def _key(found: Value) -> Key:
    return found.ref.kind, found.ref.namespace, found.ref.name


def _everything(state: ClusterState) -> Iterator[Value]:
    yield from state.nodes.values()
    yield from state.pods.values()
    yield from state.workloads.values()
    yield from state.budgets.values()
    yield from state.autoscalers.values()


def _find(state: ClusterState, key: Key) -> Value | None:
    kind, namespace, name = key
    match kind:
        case "Node":
            return state.nodes.get(name)
        case "Pod":
            return state.pods.get((namespace, name))
        case "PodDisruptionBudget":
            return state.budgets.get((namespace, name))
        case "HorizontalPodAutoscaler":
            return state.autoscalers.get((namespace, name))
        case _:
            return state.workloads.get(key)


def _matters(before: Value | None, after: Value | None) -> bool:
    """Whether rules should not have to wait for the next interval."""
    match before, after:
        case (Node(), Node()):
            return _node_state(before) != _node_state(after)
        case (Pod(), Pod()):
            return _pod_state(before) != _pod_state(after)
        case (Node(), None) | (None, Node()):
            return True
        case _:
            return False


def _node_state(node: Node) -> tuple[object, ...]:
    return node.unschedulable, {type_: condition.status for type_, condition in node.conditions.items()}


def _pod_state(pod: Pod) -> tuple[object, ...]:
    return (
        pod.phase,
        pod.ready,
        pod.deleting_since is not None,
        tuple((c.waiting_reason, c.restarts) for c in pod.containers),
    )
