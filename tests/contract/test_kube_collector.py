"""The Kubernetes collector over a simulated cluster, on virtual time."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from healer import plugins
from healer.clock import LoopClock
from healer.collectors.kubernetes import KubernetesCollector, KubernetesSettings
from healer.errors import StoreError
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.model.series import Batch, Labels, is_stale
from healer.model.targets import ObjectRef
from healer.ports import AlertReport, Appended
from healer.sim import builders, driver
from healer.sim import time as sim_time
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport
from healer.sim.faults import Fault
from healer.sim.world import World


class Samples:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.full = False

    async def samples(self, batch: Batch) -> Appended:
        await asyncio.sleep(0)
        if self.full:
            raise StoreError("no room")
        self.batches.append(batch)
        return Appended(accepted=len(batch))

    async def alerts(self, report: AlertReport) -> None:
        raise AssertionError(report)

    def now(self, metric: str, **labels: str) -> dict[Labels, float]:
        """The last value of each series that matches and has not ended."""
        found: dict[Labels, float] = {}
        for batch in self.batches:
            for series, value, ended in zip(batch.labels, batch.values, is_stale(batch.values), strict=True):
                if series.metric == metric and labels.items() <= dict(series).items():
                    found.pop(series, None)
                    if not ended:
                        found[series] = float(value)
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    world: World
    api: Api
    clock: LoopClock
    client: KubeClient
    sink: Samples

    def node(self, name: str) -> ObjectRef:
        uid = next(n["metadata"]["uid"] for n in self.world.storage.items("nodes") if n["metadata"]["name"] == name)
        return ObjectRef(cluster="test", kind="Node", name=name, uid=uid)

    async def cordon(self, name: str) -> None:
        await self.client.patch(self.node(name), {"spec": {"unschedulable": True}})

    async def rest(self, seconds: float) -> list[Batch]:
        """What arrives in so many seconds."""
        before = len(self.sink.batches)
        await asyncio.sleep(seconds)
        return self.sink.batches[before:]


def collecting(work: Callable[[Setting], Awaitable[Any]], **settings: Any) -> None:
    async def main() -> None:
        world = builders.a_world(nodes=3)
        clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
        api = Api(world.storage, now=clock.now)
        client = KubeClient(SimTransport(api), cluster="test", clock=clock)
        caches = ClusterCaches(client, clock)
        sink = Samples()
        collector = KubernetesCollector(KubernetesSettings(**settings), caches=caches, clock=clock)
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(found) for found in (driver.drive(world, clock), caches.run(), collector.run(sink))
            ]
            await asyncio.sleep(1)
            await work(Setting(world=world, api=api, clock=clock, client=client, sink=sink))
            for task in running:
                task.cancel()

    sim_time.run(main)


def some_node(setting: Setting) -> str:
    return min(str(node["metadata"]["name"]) for node in setting.world.storage.items("nodes"))


def test_the_first_report_holds_the_whole_cluster() -> None:
    async def work(setting: Setting) -> None:
        sink = setting.sink
        assert len(sink.now("kube_node_info")) == 3
        assert len(sink.now("kube_pod_info")) == len(setting.world.storage.items("pods"))
        assert list(sink.now("kube_deployment_spec_replicas", deployment="web").values()) == [8]
        assert sum(sink.now("kube_node_status_condition", condition="Ready", status="true").values()) == 3
        assert list(sink.now("up").values()) == [1]
        (batch,) = sink.batches[:1]
        assert len(set(batch.labels)) == len(batch)
        assert all(series["cluster"] == "test" for series in batch.labels)

    collecting(work)


def test_every_series_has_a_sample_each_interval_and_keeps_its_labels_object() -> None:
    async def work(setting: Setting) -> None:
        await setting.rest(5)
        reports = [batch for batch in await setting.rest(30) if len(batch) > 100]
        assert [int(batch.times_ms[0]) % 15_000 for batch in reports] == [0, 0]
        first, second = ({id(labels): labels for labels in batch.labels} for batch in reports)
        assert len(first.keys() & second.keys()) > 0.9 * len(second)

    collecting(work)


def test_a_node_that_changes_is_reported_at_once_and_alone() -> None:
    async def work(setting: Setting) -> None:
        node = some_node(setting)
        await setting.rest(120)
        await setting.cordon(node)
        (batch,) = await setting.rest(0.1)
        assert {series.get("node", "") for series in batch.labels} <= {node}
        assert list(setting.sink.now("kube_node_spec_unschedulable", node=node).values()) == [1]

    collecting(work)


def test_changes_close_to_each_other_are_reported_together() -> None:
    async def work(setting: Setting) -> None:
        nodes = sorted(found["metadata"]["name"] for found in setting.world.storage.items("nodes"))
        await setting.rest(120)
        await setting.cordon(nodes[0])
        await asyncio.sleep(0.1)
        await setting.cordon(nodes[1])
        await asyncio.sleep(0.1)
        await setting.cordon(nodes[2])
        batches = await setting.rest(2)
        assert len(batches) == 1
        assert {series["node"] for series in batches[0].labels if "node" in series} == set(nodes[1:])

    collecting(work)


def test_what_nobody_waits_for_is_left_to_the_next_interval() -> None:
    async def work(setting: Setting) -> None:
        await setting.rest(120)
        labels = {"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}}
        await setting.client.patch(setting.node(some_node(setting)), labels)
        assert await setting.rest(5) == []
        assert setting.sink.now("kube_node_role") == {}
        await setting.rest(15)
        assert len(setting.sink.now("kube_node_role")) == 1

    collecting(work)


def test_what_is_gone_is_marked_as_ended() -> None:
    async def work(setting: Setting) -> None:
        node = some_node(setting)
        await setting.cordon(node)
        await setting.rest(20)
        assert setting.sink.now("kube_node_spec_taint", node=node)
        await setting.client.patch(setting.node(node), {"spec": {"unschedulable": None}})
        await setting.rest(20)
        assert setting.sink.now("kube_node_spec_taint", node=node) == {}
        pods = len(setting.sink.now("kube_pod_info"))
        setting.world.storage.delete("deployments", "shop", "checkout")
        await setting.rest(120)
        assert setting.sink.now("kube_deployment_spec_replicas", deployment="checkout") == {}
        assert len(setting.sink.now("kube_pod_info")) == pods - 4
        assert all(sorted(batch.labels) == sorted(set(batch.labels)) for batch in setting.sink.batches)

    collecting(work)


def test_a_node_that_dies_is_told_as_kube_state_metrics_would() -> None:
    async def work(setting: Setting) -> None:
        node = some_node(setting)
        setting.world.inject(Fault(name="machine-death", target=node))
        await setting.rest(120)
        ready = setting.sink.now("kube_node_status_condition", node=node, condition="Ready")
        assert {labels["status"]: value for labels, value in ready.items()} == {"true": 0, "false": 0, "unknown": 1}
        assert setting.sink.now("kube_node_spec_taint", node=node, key="node.kubernetes.io/unreachable")

    collecting(work)


def test_while_the_api_server_is_silent_only_that_is_told() -> None:
    async def work(setting: Setting) -> None:
        setting.api.faults.down = True
        await setting.rest(50)
        batches = await setting.rest(31)
        assert [len(batch) for batch in batches] == [1, 1]
        assert list(setting.sink.now("up").values()) == [0]
        assert len(setting.sink.now("kube_node_info")) == 3
        setting.api.faults.down = False
        await setting.rest(60)
        assert list(setting.sink.now("up").values()) == [1]

    collecting(work)


def test_a_store_without_room_does_not_end_it() -> None:
    async def work(setting: Setting) -> None:
        setting.sink.full = True
        await setting.rest(40)
        setting.sink.full = False
        assert len(await setting.rest(15)) == 1

    collecting(work)


def test_times_of_samples_go_up() -> None:
    async def work(setting: Setting) -> None:
        setting.world.inject(Fault(name="machine-death", target=some_node(setting)))
        await setting.rest(400)
        last: dict[Labels, int] = {}
        for batch in setting.sink.batches:
            assert len(np.unique(batch.times_ms)) == 1
            for series in batch.labels:
                assert last.get(series, -1) < batch.times_ms[0]
                last[series] = int(batch.times_ms[0])

    collecting(work, coalesce="0")


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="interval"):
        KubernetesSettings(interval="100ms")
    assert plugins.load(plugins.COLLECTORS, "kubernetes").Settings is KubernetesSettings
