"""The client and the caches against the simulated API server, on virtual time."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from healer import errors
from healer.clock import LoopClock
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.model.cluster import Node, Pod
from healer.model.targets import ObjectRef
from healer.ports import PatchKind
from healer.sim import builders, driver
from healer.sim import time as sim_time
from healer.sim.api import Api
from healer.sim.api_faults import ApiFaults, Failure
from healer.sim.api_transport import SimTransport
from healer.sim.faults import Fault
from healer.sim.world import World


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A simulated cluster that runs, and what looks at it."""

    world: World
    api: Api
    clock: LoopClock
    client: KubeClient
    caches: ClusterCaches

    @property
    def faults(self) -> ApiFaults:
        return self.api.faults

    def pod(self, app: str) -> Pod:
        """The first pod of an app, by name."""
        found = [pod for pod in self.caches.state().pods.values() if pod.labels.get("app") == app]
        return min(found, key=lambda pod: pod.ref.name)

    def node(self) -> Node:
        return min(self.caches.state().nodes.values(), key=lambda node: node.name)


def live(
    work: Callable[[Cluster], Awaitable[Any]],
    *,
    nodes: int = 3,
    prepare: Callable[[Api], None] = lambda _: None,
    synced: bool = True,
) -> None:
    """Run `work` with a cluster at rest, its caches filled unless `synced` is false."""

    async def main() -> None:
        world = builders.a_world(nodes=nodes)
        clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
        api = Api(world.storage, now=clock.now)
        prepare(api)
        client = KubeClient(SimTransport(api), cluster="test", clock=clock)
        caches = ClusterCaches(client, clock)
        cluster = Cluster(world=world, api=api, clock=clock, client=client, caches=caches)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(driver.drive(world, clock)), group.create_task(caches.run())]
            if synced:
                async with asyncio.timeout(30):
                    await caches.synced()
            await work(cluster)
            for task in running:
                task.cancel()

    sim_time.run(main)


async def until(cluster: Cluster, happened: Callable[[], bool], within_seconds: float = 60) -> float:
    """Wait for the caches to show it; the seconds that took."""
    began = cluster.clock.monotonic()
    async with asyncio.timeout(within_seconds):
        while not happened():
            await cluster.caches.changed(within_seconds)
    return cluster.clock.monotonic() - began


# The caches ----------------------------------------------------------------------------------------------------------


def test_the_state_is_the_cluster_as_it_is() -> None:
    async def work(cluster: Cluster) -> None:
        state = cluster.caches.state()
        stored = cluster.world.storage
        assert state.nodes.keys() == {node["metadata"]["name"] for node in stored.items("nodes")}
        assert all(node.ready and node.zone and node.lease_renewed_at for node in state.nodes.values())
        assert len(state.pods) == len(stored.items("pods"))
        assert sum(len(pods) for pods in state.pods_by_node.values()) == len(state.pods)
        web = cluster.pod("web")
        assert state.owner_of(web.ref).kind == "Deployment"
        assert state.owner_of(web.ref).name == "web"
        assert len(list(state.pods_of(state.owner_of(web.ref)))) == 8
        assert [budget.ref.name for budget in state.budgets_of(web)] == ["web"]
        assert state.autoscalers["shop", "web"].target_name == "web"
        assert state.workloads["StatefulSet", "shop", "db"].replicas == 3
        assert state.attachments
        assert set(state.attachments.values()) <= state.nodes.keys()
        assert state.heartbeats.keys() == state.nodes.keys()
        assert cluster.caches.problems == {}
        assert state.freshness.synced

    live(work)


def test_a_state_is_a_view_that_nobody_can_change() -> None:
    async def work(cluster: Cluster) -> None:
        state: Any = cluster.caches.state()
        with pytest.raises(TypeError):
            state.nodes["x"] = None
        assert cluster.caches.state().pods is state.pods

    live(work)


def test_a_dead_node_is_seen_first_by_its_heartbeat_and_then_by_its_condition() -> None:
    async def work(cluster: Cluster) -> None:
        victim = cluster.node().name
        await asyncio.sleep(60)
        cluster.world.inject(Fault(name="machine-death", target=victim))
        await asyncio.sleep(31)
        state, now = cluster.caches.state(), cluster.clock.monotonic()
        assert now - state.heartbeats[victim] > 20
        assert all(now - beat <= 11 for name, beat in state.heartbeats.items() if name != victim)
        assert state.nodes[victim].ready
        await until(cluster, lambda: not cluster.caches.state().nodes[victim].ready)
        assert cluster.caches.state().nodes[victim].condition("Ready") == "Unknown"

    live(work)


def test_heartbeats_are_told_by_our_clock_however_wrong_the_nodes_clocks_are() -> None:
    async def work(cluster: Cluster) -> None:
        cluster.world.inject(Fault(name="clock-skew", target="*", params={"seconds": "-7200"}))
        await asyncio.sleep(60)
        now = cluster.clock.monotonic()
        assert all(now - beat <= 11 for beat in cluster.caches.state().heartbeats.values())

    live(work)


def test_our_own_changes_can_be_waited_for() -> None:
    async def work(cluster: Cluster) -> None:
        ref = cluster.node().ref
        cluster.faults.watch_lag_seconds = 2.0
        written = await cluster.client.patch(ref, {"spec": {"unschedulable": True}})
        version = written["metadata"]["resourceVersion"]
        assert not cluster.caches.state().nodes[ref.name].unschedulable
        assert not await cluster.caches.seen(ref, version, 0.5)
        assert await cluster.caches.seen(ref, version, 30)
        assert cluster.caches.state().nodes[ref.name].unschedulable
        assert not await cluster.caches.seen(dataclasses.replace(ref, kind="Secret"), version, 30)

    live(work)


def test_listeners_hear_of_changes_until_they_stop_listening() -> None:
    async def work(cluster: Cluster) -> None:
        told: list[tuple[Any, Any]] = []
        stop = cluster.caches.on_change(lambda before, after: told.append((before, after)))
        ref = cluster.node().ref
        await cluster.client.patch(ref, {"metadata": {"labels": {"seen": "yes"}}})
        await until(cluster, lambda: "seen" in cluster.caches.state().nodes[ref.name].labels)
        ((before, after),) = [(b, a) for b, a in told if isinstance(a, Node) and "seen" in a.labels and b is not None]
        assert "seen" not in before.labels
        assert after is cluster.caches.state().nodes[ref.name]
        stop()
        told.clear()
        await cluster.client.patch(ref, {"metadata": {"labels": {"seen": "again"}}})
        await until(cluster, lambda: cluster.caches.state().nodes[ref.name].labels["seen"] == "again")
        assert told == []

    live(work)


def test_lease_renewals_wake_nobody() -> None:
    async def work(cluster: Cluster) -> None:
        told: list[Any] = []
        cluster.caches.on_change(lambda _, after: told.append(after))
        renewed = cluster.node().lease_renewed_at
        await asyncio.sleep(25)
        assert cluster.node().lease_renewed_at != renewed
        assert [found for found in told if isinstance(found, Node)] == []

    live(work)


@pytest.mark.parametrize("as_http", [True, False], ids=["HTTP 410", "ERROR event"])
def test_after_the_server_has_forgotten_the_past_everything_is_listed_anew(as_http: bool) -> None:
    async def work(cluster: Cluster) -> None:
        cluster.faults.gone_as_http = as_http
        ref = cluster.pod("web").ref
        cluster.faults.down = True
        await asyncio.sleep(10)
        cluster.world.storage.delete("pods", ref.namespace, ref.name)
        cluster.faults.compact()
        cluster.faults.down = False
        await until(cluster, lambda: (ref.namespace, ref.name) not in cluster.caches.state().pods)
        state = cluster.caches.state()
        assert len(state.pods) == len(cluster.world.storage.items("pods"))
        assert sum(len(pods) for pods in state.pods_by_node.values()) == sum(
            bool(p.node_name) for p in state.pods.values()
        )

    live(work)


def test_dropped_watches_are_taken_up_without_a_new_list() -> None:
    async def work(cluster: Cluster) -> None:
        listed = len([r for r in cluster.api.asked("GET", "/api/v1/pods") if "watch" not in r.query])
        cluster.faults.drop_watches()
        ref = cluster.node().ref
        await cluster.client.patch(ref, {"spec": {"unschedulable": True}})
        await until(cluster, lambda: cluster.caches.state().nodes[ref.name].unschedulable)
        assert len([r for r in cluster.api.asked("GET", "/api/v1/pods") if "watch" not in r.query]) == listed

    live(work)


def test_a_server_that_goes_away_and_comes_back_is_told_by_freshness() -> None:
    async def work(cluster: Cluster) -> None:
        await asyncio.sleep(60)
        fresh = cluster.caches.freshness
        assert fresh.silent_seconds <= 10
        assert fresh.healthy_seconds >= 59
        cluster.faults.down = True
        await asyncio.sleep(60)
        fresh = cluster.caches.freshness
        assert fresh.silent_seconds >= 55
        assert fresh.healthy_seconds == 0
        cluster.faults.down = False
        await asyncio.sleep(40)
        fresh = cluster.caches.freshness
        assert fresh.silent_seconds <= 10
        assert 5 < fresh.healthy_seconds <= 40

    live(work)


def test_a_server_that_hangs_is_silent_too() -> None:
    async def work(cluster: Cluster) -> None:
        await asyncio.sleep(20)
        cluster.faults.hang = True
        cluster.faults.drop_watches()
        await asyncio.sleep(60)
        fresh = cluster.caches.freshness
        assert fresh.silent_seconds >= 40
        assert fresh.healthy_seconds == 0

    live(work)


def test_a_quiet_cluster_is_healthy_for_as_long_as_it_answers() -> None:
    async def work(cluster: Cluster) -> None:
        await asyncio.sleep(700)
        assert cluster.caches.freshness.healthy_seconds >= 699

    live(work, nodes=1)


def test_a_kind_that_may_not_be_read_is_reported_and_stops_nothing() -> None:
    def deny(api: Api) -> None:
        api.access.denied.add(("*", "horizontalpodautoscalers"))

    async def work(cluster: Cluster) -> None:
        assert cluster.caches.is_synced
        assert list(cluster.caches.problems) == ["HorizontalPodAutoscaler"]
        assert "cannot list" in cluster.caches.problems["HorizontalPodAutoscaler"]
        assert cluster.caches.state().autoscalers == {}
        cluster.api.access.denied.clear()
        await until(cluster, lambda: bool(cluster.caches.state().autoscalers), 120)
        assert cluster.caches.problems == {}

    live(work, prepare=deny)


def test_without_the_right_to_read_nodes_we_are_blind_and_say_so() -> None:
    def deny(api: Api) -> None:
        api.access.denied.add(("list", "nodes"))

    async def work(cluster: Cluster) -> None:
        await asyncio.sleep(30)
        assert not cluster.caches.freshness.synced
        assert "Node" in cluster.caches.problems
        cluster.api.access.denied.clear()
        async with asyncio.timeout(120):
            await cluster.caches.synced()
        assert cluster.caches.freshness.synced

    live(work, prepare=deny, synced=False)


def test_warnings_about_an_object_are_kept() -> None:
    async def work(cluster: Cluster) -> None:
        ref = cluster.pod("web").ref
        await cluster.client.event(ref, reason="Unhealthy", message="probe failed", warning=True)
        await cluster.client.event(ref, reason="Evicted", message="by healer", warning=False)
        await asyncio.sleep(5)
        assert [(w.reason, w.message) for w in cluster.caches.warnings_about(ref)] == [("Unhealthy", "probe failed")]
        assert cluster.caches.warnings_about(dataclasses.replace(ref, uid="another")) == ()

    live(work)


# The client ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PatchKind.MERGE, PatchKind.STRATEGIC])
def test_a_patch_for_another_uid_is_a_conflict_and_changes_nothing(kind: PatchKind) -> None:
    async def work(cluster: Cluster) -> None:
        other = dataclasses.replace(cluster.node().ref, uid="of-an-earlier-node")
        with pytest.raises(errors.Conflict):
            await cluster.client.patch(other, {"spec": {"unschedulable": True}}, kind=kind)
        found = await cluster.client.get(cluster.node().ref)
        assert not found["spec"].get("unschedulable")

    live(work)


def test_a_json_patch_for_another_uid_is_a_conflict() -> None:
    async def work(cluster: Cluster) -> None:
        operations = [{"op": "add", "path": "/spec/unschedulable", "value": True}]
        ref = cluster.node().ref
        with pytest.raises(errors.Conflict):
            await cluster.client.patch(dataclasses.replace(ref, uid="x"), operations, kind=PatchKind.JSON)
        patched = await cluster.client.patch(ref, operations, kind=PatchKind.JSON)
        assert patched["spec"]["unschedulable"] is True

    live(work)


def test_a_patch_from_an_old_version_is_a_conflict() -> None:
    async def work(cluster: Cluster) -> None:
        ref = cluster.node().ref
        old = (await cluster.client.get(ref))["metadata"]["resourceVersion"]
        await cluster.client.patch(ref, {"metadata": {"labels": {"a": "1"}}}, resource_version=old)
        with pytest.raises(errors.Conflict):
            await cluster.client.patch(ref, {"metadata": {"labels": {"a": "2"}}}, resource_version=old)

    live(work)


def test_a_dry_run_changes_nothing() -> None:
    async def work(cluster: Cluster) -> None:
        node, pod = cluster.node().ref, cluster.pod("web").ref
        patched = await cluster.client.patch(node, {"spec": {"unschedulable": True}}, dry_run=True)
        assert patched["spec"]["unschedulable"] is True
        await cluster.client.evict(pod, dry_run=True)
        await cluster.client.delete(pod, dry_run=True)
        assert not (await cluster.client.get(node))["spec"].get("unschedulable")
        assert "deletionTimestamp" not in (await cluster.client.get(pod))["metadata"]

    live(work)


def test_evictions_go_on_until_the_budget_is_used_up() -> None:
    async def work(cluster: Cluster) -> None:
        pods = [pod.ref for pod in cluster.caches.state().pods.values() if pod.labels.get("app") == "web"]
        await cluster.client.evict(pods[0])
        with pytest.raises(errors.BudgetBlocked) as caught:
            await cluster.client.evict(pods[1])
        assert caught.value.budgets
        assert caught.value.budgets[0].startswith("shop/web: ")
        assert caught.value.delay_seconds > 0

    live(work)


def test_a_pod_under_two_budgets_cannot_be_evicted() -> None:
    async def work(cluster: Cluster) -> None:
        builders.add_pdb(cluster.world, "shop", "web", name="another", max_unavailable=1)
        with pytest.raises(errors.MultipleBudgets):
            await cluster.client.evict(cluster.pod("web").ref)

    live(work)


def test_another_pod_of_the_same_name_is_neither_evicted_nor_deleted() -> None:
    async def work(cluster: Cluster) -> None:
        pod = cluster.pod("db").ref
        earlier = dataclasses.replace(pod, uid="of-an-earlier-pod")
        with pytest.raises(errors.Conflict):
            await cluster.client.evict(earlier)
        with pytest.raises(errors.Conflict):
            await cluster.client.delete(earlier)
        with pytest.raises(errors.TargetGone):
            await cluster.client.get(earlier)
        assert "deletionTimestamp" not in (await cluster.client.get(pod))["metadata"]

    live(work)


def test_what_is_not_there_is_not_found() -> None:
    async def work(cluster: Cluster) -> None:
        missing = ObjectRef(cluster="test", kind="Pod", namespace="shop", name="none")
        for call in (cluster.client.get, cluster.client.evict, cluster.client.delete):
            with pytest.raises(errors.NotFound):
                await call(missing)

    live(work)


def test_what_is_there_already_is_a_conflict() -> None:
    async def work(cluster: Cluster) -> None:
        body = {"metadata": {"name": "lock", "namespace": "shop"}, "data": {"a": "b"}}
        await cluster.client.create("ConfigMap", "shop", body)
        with pytest.raises(errors.Conflict):
            await cluster.client.create("ConfigMap", "shop", body)

    live(work)


def test_a_workload_is_scaled_by_its_subresource() -> None:
    async def work(cluster: Cluster) -> None:
        cart = cluster.caches.state().workloads["Deployment", "shop", "cart"].ref
        await cluster.client.patch(cart, {"spec": {"replicas": 7}}, subresource="scale")
        await until(cluster, lambda: cluster.caches.state().workloads["Deployment", "shop", "cart"].replicas == 7)

    live(work)


def test_a_failed_change_may_have_been_made_and_a_failed_read_has_not() -> None:
    async def work(cluster: Cluster) -> None:
        ref = cluster.node().ref
        cluster.faults.fail_next.append(Failure(status=504, method="PATCH", carried_out=True))
        with pytest.raises(errors.OutcomeUnknown):
            await cluster.client.patch(ref, {"spec": {"unschedulable": True}})
        assert (await cluster.client.get(ref))["spec"]["unschedulable"] is True
        cluster.faults.fail_next.append(Failure(status=503, retry_after=7, path="/api/v1/nodes/*"))
        with pytest.raises(errors.Retryable) as caught:
            await cluster.client.get(ref)
        assert caught.value.delay_seconds == 7

    live(work)


def test_access_is_asked_for_before_it_is_needed() -> None:
    async def work(cluster: Cluster) -> None:
        cluster.api.access.denied.add(("create", "pods/eviction"))
        assert not await cluster.client.may("create", "", "pods/eviction")
        assert await cluster.client.may("patch", "", "nodes")
        with pytest.raises(errors.Forbidden):
            await cluster.client.evict(cluster.pod("web").ref)

    live(work)


def test_the_server_tells_its_version() -> None:
    async def work(cluster: Cluster) -> None:
        assert (await cluster.client.server_version()).startswith("v1.")

    live(work)


def test_lists_can_be_narrowed() -> None:
    async def work(cluster: Cluster) -> None:
        node = cluster.node().name
        found = await cluster.client.list("Pod", namespace="shop", label_selector="app=web")
        assert len(found) == 8
        there = await cluster.client.list("Pod", field_selector=f"spec.nodeName={node}")
        assert {pod["spec"]["nodeName"] for pod in there} == {node}

    live(work)
