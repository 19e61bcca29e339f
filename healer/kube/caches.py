"""One cluster as it is now: every kind that matters, followed and indexed, as a `ClusterState` that costs nothing to ask for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from healer import telemetry
from healer.clock import Clock
from healer.errors import ActionError
from healer.kube import objects, pods, wire
from healer.kube.client import KubeClient
from healer.kube.objects import Warned
from healer.kube.signals import Signal
from healer.kube.tables import (
    Attachments,
    Beat,
    Change,
    Index,
    Nodes,
    Pods,
    Table,
    Value,
    Warnings,
    WorkloadKey,
    Workloads,
    controller,
)
from healer.kube.watching import Handler, Reflector
from healer.model.cluster import Autoscaler, Budget, ClusterState, Freshness, Workload
from healer.model.targets import ObjectRef

REQUIRED: Final = frozenset({"Node", "Pod"})
"""Without these we are blind: the view is not `synced` while one of them cannot be read. Others are only reported."""
WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
LEASE_NAMESPACE: Final = "kube-node-lease"
_PROBE_SECONDS: Final = 5.0

_log: Final = logging.getLogger(__name__)
W = TypeVar("W", bound=wire.Object)
T = TypeVar("T")


class ClusterCaches:
    """Follows one cluster while `run` runs."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._name = client.cluster
        self._signal = Signal()
        self._listeners: list[Change] = []
        self._reflectors: dict[str, Reflector[Any, Any]] = {}
        self._nodes = Nodes(self._tell, clock)
        self._pods = Pods(self._tell)
        self._workloads: dict[WorkloadKey, Workload] = {}
        self._parts: Index[WorkloadKey, WorkloadKey, Workload] = Index(controller)
        self._budgets: Table[tuple[str, str], Budget] = Table(_named, self._tell)
        self._autoscalers: Table[tuple[str, str], Autoscaler] = Table(_named, self._tell)
        self._attachments = Attachments(self._signal.give)
        self._warnings = Warnings()
        self._follow_all()
        self._views = (
            MappingProxyType(self._nodes.rows),
            MappingProxyType(self._pods.rows),
            MappingProxyType(self._workloads),
            MappingProxyType(self._budgets.rows),
            MappingProxyType(self._autoscalers.rows),
            MappingProxyType(self._attachments.rows),
            MappingProxyType(self._pods.by_node.rows),
            MappingProxyType(self._pods.by_owner.rows),
            MappingProxyType(self._parts.rows),
            MappingProxyType(self._nodes.heartbeats),
        )

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for kind, reflector in self._reflectors.items():
                    group.create_task(reflector.run(), name=f"watch {kind} of {self._name}")
                group.create_task(self._probe(), name=f"probe {self._name}")
        finally:
            telemetry.KUBE_SYNCED.labels(self._name).set(0)

    def state(self) -> ClusterState:
        """The cluster now: a view that goes on changing with the next await."""
        return ClusterState(self._name, self.freshness, *self._views)

    @property
    def freshness(self) -> Freshness:
        """How far `state` can be trusted now."""
        return self._client.contact.freshness(synced=self.is_synced)

    @property
    def is_synced(self) -> bool:
        """Every kind has been listed once, those that may not be read excepted."""
        return all(
            reflector.settled.is_set() and not (kind in REQUIRED and reflector.unavailable)
            for kind, reflector in self._reflectors.items()
        )

    @property
    def problems(self) -> Mapping[str, str]:
        """Kinds that cannot be followed, and why."""
        return {kind: found.unavailable for kind, found in self._reflectors.items() if found.unavailable}

    def warnings_about(self, ref: ObjectRef) -> Sequence[Warned]:
        """The latest warning Events about an object, the newest last."""
        return self._warnings.about(ref)

    def on_change(self, listener: Change) -> Callable[[], None]:
        """Call `listener(before, after)` on every change of a node, pod, workload, budget or autoscaler, until the result is called.

        The state has the change already. `listener` must be quick and must not raise.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def changed(self, within_seconds: float) -> bool:
        """Wait until anything changes, lease renewals excepted; False when nothing did in time."""
        return await self._signal.wait(within_seconds)

    async def synced(self) -> None:
        """Wait until `is_synced`."""
        for kind, reflector in self._reflectors.items():
            await reflector.settled.wait()
            while kind in REQUIRED and reflector.unavailable:
                await reflector.progress.wait(_PROBE_SECONDS)
        telemetry.KUBE_SYNCED.labels(self._name).set(1)

    async def seen(self, ref: ObjectRef, resource_version: str, within_seconds: float) -> bool:
        """Wait until the view holds what we have just written, by the version that the API server gave it.

        False when it did not come in time, or when that kind is not followed.
        """
        reflector = self._reflectors.get(ref.kind)
        if reflector is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                while not _reached(reflector.resource_version, resource_version):
                    await reflector.progress.wait(within_seconds)
        return _reached(reflector.resource_version, resource_version)

    def _follow_all(self) -> None:
        cluster = self._name
        self._follow("Node", wire.Node, lambda found: objects.node(found, cluster), self._nodes)
        self._follow("Lease", wire.Lease, _beat, self._nodes.leases, namespace=LEASE_NAMESPACE)
        self._follow("Pod", wire.Pod, lambda found: pods.pod(found, cluster), self._pods)
        for kind in WORKLOADS:
            self._follow_workload(kind)
        self._follow("PodDisruptionBudget", wire.Budget, lambda found: objects.budget(found, cluster), self._budgets)
        self._follow(
            "HorizontalPodAutoscaler",
            wire.Autoscaler,
            lambda found: objects.autoscaler(found, cluster),
            self._autoscalers,
        )
        self._follow("VolumeAttachment", wire.VolumeAttachment, _attached, self._attachments)
        self._follow(
            "Event",
            wire.Event,
            lambda found: objects.warned(found, cluster),
            self._warnings,
            field_selector="type=Warning",
        )

    def _follow_workload(self, kind: str) -> None:
        table = Workloads(self._tell, self._workloads, self._parts)
        self._follow(kind, wire.Workload, lambda found: objects.workload(found, self._name, kind), table)

    def _follow(
        self,
        kind: str,
        form: type[W],
        convert: Callable[[W], T],
        handler: Handler[T],
        *,
        namespace: str = "",
        field_selector: str = "",
    ) -> None:
        self._reflectors[kind] = Reflector(
            self._client,
            kind,
            form,
            convert,
            handler,
            clock=self._clock,
            namespace=namespace,
            field_selector=field_selector,
        )

    def _tell(self, before: Value | None, after: Value | None) -> None:
        for listener in tuple(self._listeners):
            listener(before, after)
        self._signal.give()

    async def _probe(self) -> None:
        """Ask something when nothing has been heard for a while, so that silence means that the server does not answer."""
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            telemetry.KUBE_SYNCED.labels(self._name).set(self.is_synced)
            if self._client.contact.silent_seconds < _PROBE_SECONDS:
                continue
            try:
                await self._client.server_version()
            except ActionError as error:
                _log.warning("cluster %s does not answer: %s", self._name, error)


def _named(found: Budget | Autoscaler) -> tuple[str, str]:
    return found.ref.namespace, found.ref.name


def _beat(found: wire.Lease) -> Beat:
    return Beat(found.metadata.name, found.spec.renew_time)


def _attached(found: wire.VolumeAttachment) -> tuple[str, str]:
    return found.metadata.name, found.spec.node_name


def _reached(have: str, wanted: str) -> bool:
    """Versions are compared as numbers, which they are (and since Kubernetes 1.35 promised to be)."""
    if have.isdigit() and wanted.isdigit():
        return int(have) >= int(wanted)
    return have == wanted
