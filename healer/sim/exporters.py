"""What runs on the nodes says of itself: node_exporter's series per node, and the applications' own per Deployment."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from healer.sim import exposition, manifests, objects
from healer.sim.exposition import Family, Row
from healer.sim.kubelet import Kubelet
from healer.sim.load import BUCKETS, Load
from healer.sim.objects import JSON, Key
from healer.sim.world import World

IDLE_SHARE: Final = 0.1
"""How much of the CPU it asked for an idle container uses."""
MEMORY_SHARE: Final = 0.6
SYSTEM_MEMORY_SHARE: Final = 0.06
DISK_SHARE: Final = 0.35
FULL_DISK_SHARE: Final = 0.94
WOBBLE_SECONDS: Final = 900.0

NODE_FAMILIES: Final = (
    Family("node_boot_time_seconds", "gauge", "Node boot time, in unixtime."),
    Family("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode."),
    Family("node_filesystem_avail_bytes", "gauge", "Filesystem space available to non-root users in bytes."),
    Family("node_filesystem_free_bytes", "gauge", "Filesystem free space in bytes."),
    Family("node_filesystem_size_bytes", "gauge", "Filesystem size in bytes."),
    Family("node_filesystem_files", "gauge", "Filesystem total file nodes."),
    Family("node_filesystem_files_free", "gauge", "Filesystem total free file nodes."),
    Family("node_filesystem_readonly", "gauge", "Filesystem read-only status."),
    Family("node_load1", "gauge", "1m load average."),
    Family("node_load5", "gauge", "5m load average."),
    Family("node_load15", "gauge", "15m load average."),
    Family("node_memory_MemAvailable_bytes", "gauge", "Memory information field MemAvailable_bytes."),
    Family("node_memory_MemFree_bytes", "gauge", "Memory information field MemFree_bytes."),
    Family("node_memory_MemTotal_bytes", "gauge", "Memory information field MemTotal_bytes."),
    Family("node_time_seconds", "gauge", "System time in seconds since epoch (1970)."),
    Family("node_uname_info", "gauge", "Labeled system information as provided by the uname system call."),
)
APP_FAMILIES: Final = (
    Family("http_requests_total", "counter", "Requests answered, by status code."),
    Family("http_request_duration_seconds", "histogram", "How long requests took."),
    Family("container_memory_working_set_bytes", "gauge", "Current working set in bytes."),
    Family("container_cpu_usage_cores", "gauge", "CPU in use, in cores."),
)


@dataclasses.dataclass(slots=True)
class _Counted:
    """CPU seconds of one node, advanced whenever somebody looks."""

    at: datetime
    boot_id: str
    busy: float = 0.0
    idle: float = 0.0


class Exporters:
    """The pages of all nodes and applications of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._counted: dict[str, _Counted] = {}

    def node(self, name: str) -> str | None:
        """The page of one node; None while nothing on it can answer. KeyError for a node that never was."""
        kubelet = self.world.kubelets.by_node[name]
        if kubelet.cut or not kubelet.machine.alive:
            return None
        return exposition.page(NODE_FAMILIES, [exposition.rendered(self._node(kubelet))])

    def app(self, namespace: str, deployment: str) -> str | None:
        """The page of one Deployment; None when it is under no load."""
        key: Key = (namespace, deployment)
        load = self.world.loads.by_deployment.get(key)
        if load is None:
            return None
        return exposition.page(APP_FAMILIES, [exposition.rendered(self._app(key, load))])

    def _node(self, kubelet: Kubelet) -> Iterator[Row]:
        cpu, memory = manifests.CAPACITY[kubelet.machine.instance_type]
        cores, total = int(cpu), float(objects.whole_bytes(memory))
        pods = self.world.view.pods_on[kubelet.node_name].values()
        busy = min(float(cores), 0.05 * cores + sum(map(self.cores_of, pods)))
        used = min(total, SYSTEM_MEMORY_SHARE * total + sum(map(self.memory_of, pods)))
        counted = self._count(kubelet, cores, busy)
        for index in range(cores):
            for mode, seconds in (
                ("idle", counted.idle),
                ("user", counted.busy * 0.7),
                ("system", counted.busy * 0.25),
                ("iowait", counted.busy * 0.05),
            ):
                yield "node_cpu_seconds_total", {"cpu": str(index), "mode": mode}, seconds / cores
        yield "node_memory_MemTotal_bytes", {}, total
        yield "node_memory_MemAvailable_bytes", {}, total - used
        yield "node_memory_MemFree_bytes", {}, (total - used) * 0.8
        for minutes in ("1", "5", "15"):
            yield f"node_load{minutes}", {}, busy
        yield from self._disk(kubelet)
        yield "node_boot_time_seconds", {}, kubelet.booted_at.timestamp()
        yield "node_time_seconds", {}, self.world.now.timestamp() + kubelet.skew_seconds
        yield "node_uname_info", {"nodename": kubelet.node_name, "sysname": "Linux", "machine": "x86_64"}, 1.0

    def _disk(self, kubelet: Kubelet) -> Iterator[Row]:
        labels = {"device": "/dev/vda1", "fstype": "ext4", "mountpoint": "/"}
        size = float(objects.whole_bytes("100Gi"))
        share = FULL_DISK_SHARE if "DiskPressure" in kubelet.pressures else DISK_SHARE
        yield "node_filesystem_size_bytes", labels, size
        yield "node_filesystem_free_bytes", labels, size * (1 - share)
        yield "node_filesystem_avail_bytes", labels, size * (1 - share)
        yield "node_filesystem_files", labels, 6_553_600.0
        yield "node_filesystem_files_free", labels, 6_553_600.0 * (1 - share / 2)
        yield "node_filesystem_readonly", labels, 0.0

    def _count(self, kubelet: Kubelet, cores: int, busy: float) -> _Counted:
        now = self.world.now
        counted = self._counted.get(kubelet.machine.id)
        if counted is None or counted.boot_id != kubelet.machine.boot_id:
            counted = self._counted[kubelet.machine.id] = _Counted(kubelet.booted_at, kubelet.machine.boot_id)
        passed = (now - counted.at).total_seconds()
        counted.at = now
        counted.busy += busy * passed
        counted.idle += (cores - busy) * passed
        return counted

    def cores_of(self, pod: JSON) -> float:
        """CPU that a pod uses now, in cores."""
        cpu, _ = objects.requests_of(pod)
        load = self._load_of(pod)
        share = min(1.5, load.utilisation) if load is not None else IDLE_SHARE
        return cpu / 1000 * share if self._runs(pod) else 0.0

    def memory_of(self, pod: JSON) -> float:
        """Its working set, in bytes: a share of what it asked for, slowly going up and down, and what it leaks."""
        if not self._runs(pod):
            return 0.0
        _, memory = objects.requests_of(pod)
        uid = objects.uid_of(pod)
        phase = hashlib.sha256(uid.encode()).digest()[0] / 256
        wobble = 0.05 * math.sin(2 * math.pi * (self.world.now.timestamp() / WOBBLE_SECONDS + phase))
        return memory * (MEMORY_SHARE + wobble) + self.world.loads.leaks.get(uid, 0.0)

    def _load_of(self, pod: JSON) -> Load | None:
        owner = self.world.view.top_owner(pod)
        if owner is None or owner["kind"] != "Deployment":
            return None
        return self.world.loads.by_deployment.get(objects.key_of(owner))

    def _runs(self, pod: JSON) -> bool:
        found = self.world.kubelets.sandbox(pod)
        return found is not None and found[1].started_at is not None

    def _app(self, key: Key, load: Load) -> Iterator[Row]:
        about = {"namespace": key[0], "deployment": key[1]}
        yield "http_requests_total", {**about, "code": "200"}, math.floor(load.good)
        yield "http_requests_total", {**about, "code": "503"}, math.floor(load.bad)
        for bound, count in zip((*map(exposition.number, BUCKETS), "+Inf"), load.buckets, strict=True):
            yield "http_request_duration_seconds_bucket", {**about, "le": bound}, math.floor(count)
        yield "http_request_duration_seconds_sum", about, load.seconds
        yield "http_request_duration_seconds_count", about, math.floor(load.buckets[-1])
        for pod in self.world.loads.pods(key):
            where = {"namespace": key[0], "pod": pod["metadata"]["name"], "node": objects.node_of(pod)}
            labels = {**where, "container": pod["spec"]["containers"][0]["name"]}
            yield "container_memory_working_set_bytes", labels, self.memory_of(pod)
            yield "container_cpu_usage_cores", labels, self.cores_of(pod)
