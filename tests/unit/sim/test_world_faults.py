"""Crashes, memory, load, and faults by name."""

from __future__ import annotations

from datetime import timedelta

import pytest

from healer.sim import objects
from healer.sim.builders import START, a_world, add_node
from healer.sim.faults import KINDS, Fault
from healer.sim.objects import JSON
from healer.sim.world import World


def container(pod: JSON) -> JSON:
    result: JSON = pod["status"]["containerStatuses"][0]
    return result


def cart(world: World) -> list[JSON]:
    return world.faults.pods(Fault(name="any", target="shop/cart"))


def restart_cart(world: World) -> None:
    def change(copy: JSON) -> None:
        copy["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}

    world.storage.update("deployments", "shop", "cart", change)


def test_a_crash_loop_backs_off_from_ten_seconds_to_five_minutes() -> None:
    world = a_world()
    world.inject(Fault(name="crash-loop", target="shop/db-0"))
    waits: list[str] = []
    for _ in range(1500):
        world.run_for(1)
        state = container(world.view.pods["shop", "db-0"])["state"]
        if "waiting" in state:
            assert state["waiting"]["reason"] == "CrashLoopBackOff"
            wait = state["waiting"]["message"].split()[1]
            if wait not in waits:
                waits.append(wait)
    assert waits == ["10s", "20s", "40s", "80s", "160s", "300s"]
    assert not objects.is_ready(world.view.pods["shop", "db-0"])


def test_an_oom_kill_restarts_the_container_and_leaves_its_reason() -> None:
    world = a_world()
    world.inject(Fault(name="oom", target="shop/db-0"))
    world.run_for(10)
    pod = world.view.pods["shop", "db-0"]
    assert objects.is_ready(pod)
    assert container(pod)["restartCount"] == 1
    assert container(pod)["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 137


@pytest.mark.parametrize(
    ("heals", "after_delete", "after_rollout"), [("restart", 6, 6), ("rollout", 0, 6), ("never", 0, 0)]
)
def test_what_heals_a_crash_loop_is_chosen(heals: str, after_delete: int, after_rollout: int) -> None:
    world = a_world()
    world.inject(Fault(name="crash-loop", target="shop/cart", params={"heals": heals}))
    world.run_for(30)
    assert not any(map(objects.is_ready, cart(world)))
    for pod in cart(world):
        world.storage.delete("pods", *objects.key_of(pod))
    world.run_for(60)
    assert sum(map(objects.is_ready, cart(world))) == after_delete
    restart_cart(world)
    world.run_for(90)
    assert sum(map(objects.is_ready, cart(world))) == after_rollout


def test_a_fault_begins_and_ends_when_it_should() -> None:
    world = a_world(nodes=3)
    world.inject(Fault(name="network-cut", target="node-a1", duration_seconds=100), at=START + timedelta(seconds=50))
    world.run_for(49)
    assert world.kubelet("node-a1").talking
    world.run_for(1)
    assert not world.kubelet("node-a1").talking
    world.run_for(100)
    assert world.kubelet("node-a1").talking
    assert [entry.what for entry in world.log if "network-cut" in entry.what] == [
        "fault network-cut of node-a1 begins",
        "fault network-cut of node-a1 ends",
    ]


def test_pods_go_on_where_they_were_when_their_node_comes_back() -> None:
    world = a_world(nodes=6)
    pods = {objects.uid_of(pod) for pod in world.view.pods_on["node-a1"].values()}
    world.inject(Fault(name="kubelet-stop", target="node-a1", duration_seconds=200))
    world.run_for(120)
    assert not any(map(objects.is_ready, world.view.pods_on["node-a1"].values()))
    world.run_for(120)
    assert {objects.uid_of(pod) for pod in world.view.pods_on["node-a1"].values()} == pods
    assert all(map(objects.is_ready, world.view.pods_on["node-a1"].values()))


def test_pods_deleted_meanwhile_end_when_their_kubelet_comes_back() -> None:
    world = a_world(nodes=6)
    world.inject(Fault(name="kubelet-stop", target="node-a1", duration_seconds=500))
    world.run_for(450)
    assert any(map(objects.is_deleting, world.view.pods_on["node-a1"].values()))
    world.run_for(90)
    assert not any(map(objects.is_deleting, world.view.pods_on["node-a1"].values()))
    assert all(map(objects.is_ready, world.view.pods.values()))


def test_users_notice_a_dead_machine_until_its_pods_are_not_ready() -> None:
    world = a_world(nodes=6)
    load = world.loads.by_deployment["shop", "web"]
    world.run_for(60)
    assert load.bad == 0
    assert load.good > 60 * 200
    place = next(objects.node_of(pod) for pod in world.loads.pods(("shop", "web")))
    world.inject(Fault(name="machine-death", target=place))
    world.run_for(60)
    lost = load.bad
    assert lost > 0
    world.run_for(60)
    assert load.bad == lost


def test_a_name_that_nobody_knows_is_refused_with_those_that_exist() -> None:
    world = a_world(nodes=3)
    with pytest.raises(ValueError, match="known are all-leases-stop, clock-skew, crash-loop"):
        world.inject(Fault(name="meteor"))
    with pytest.raises(ValueError, match="no node is named 'node-z9'"):
        world.inject(Fault(name="machine-death", target="node-z9"))
    with pytest.raises(ValueError, match="no node is in the zone 'zone-z'"):
        world.inject(Fault(name="zone-outage", target="zone-z"), after_seconds=10)


def test_a_planned_fault_whose_target_went_away_leaves_the_world_running() -> None:
    world = a_world(nodes=3)
    world.inject(Fault(name="oom", target="shop/gone"), after_seconds=10)
    world.run_for(20)
    assert "fault oom cannot begin: neither a pod nor a workload is named 'shop/gone'" in str(world.log[-1])


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_fault_can_strike_and_end_without_stopping_the_world(name: str) -> None:
    world = a_world(nodes=6)
    target = {"node": "node-a1", "zone": "zone-a", "pod or workload": "shop/cart", "": ""}[KINDS[name].target]
    world.inject(Fault(name=name, target=target, duration_seconds=120))
    world.run_for(400)
    later = add_node(world)
    world.run_for(60)
    assert objects.is_ready(world.view.nodes["", later])
