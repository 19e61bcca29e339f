"""Nodes that fall silent: what the node lifecycle controller, the evictions and the collectors make of it."""

from __future__ import annotations

import pytest

from healer.sim import objects
from healer.sim.builders import a_world, add_node, add_statefulset, empty_world
from healer.sim.core import Options
from healer.sim.faults import Fault
from healer.sim.objects import JSON
from healer.sim.world import World


def node(world: World, name: str) -> JSON:
    found = world.storage.get("nodes", "", name)
    assert found is not None
    return found


def readiness(world: World, name: str) -> str:
    return objects.condition_status(node(world, name), "Ready")


def taints(world: World, name: str) -> set[tuple[str, str]]:
    return {(taint["key"].rpartition("/")[2], taint["effect"]) for taint in objects.taints_of(node(world, name))}


def taint_out_of_service(world: World, name: str) -> None:
    def change(copy: JSON) -> None:
        copy["spec"].setdefault("taints", []).append({"key": objects.OUT_OF_SERVICE, "effect": "NoExecute"})

    world.storage.update("nodes", "", name, change)


def test_a_dead_node_is_unknown_after_the_grace_and_no_earlier() -> None:
    world = a_world(nodes=6)
    world.inject(Fault(name="machine-death", target="node-a1"))
    world.run_for(29)
    assert readiness(world, "node-a1") == "True"
    took = world.run_until(lambda: readiness(world, "node-a1") == "Unknown", within_seconds=30)
    assert 29 + took <= 46
    assert {objects.condition_status(node(world, "node-a1"), t) for t in ("MemoryPressure", "DiskPressure")} == {
        "Unknown"
    }


def test_the_grace_of_newer_clusters_can_be_chosen() -> None:
    world = a_world(nodes=6, options=Options(node_grace_seconds=50))
    world.inject(Fault(name="machine-death", target="node-a1"))
    took = world.run_until(lambda: readiness(world, "node-a1") == "Unknown", within_seconds=60)
    assert 40 <= took <= 56


def test_a_dead_node_gets_both_unreachable_taints_and_its_pods_are_not_ready() -> None:
    world = a_world(nodes=6)
    world.inject(Fault(name="machine-death", target="node-a1"))
    world.run_for(60)
    assert taints(world, "node-a1") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert not any(map(objects.is_ready, world.view.pods_on["node-a1"].values()))


def test_deployment_pods_move_after_the_toleration_and_the_old_ones_stay_terminating() -> None:
    world = a_world(nodes=6)
    before = [
        p for p in world.view.pods_on["node-a1"].values() if (objects.controller_of(p) or {})["kind"] == "ReplicaSet"
    ]
    assert before
    world.inject(Fault(name="machine-death", target="node-a1"))
    world.run_for(330)
    assert not any(map(objects.is_deleting, world.view.pods_on["node-a1"].values()))
    world.run_for(60)
    left = world.view.pods_on["node-a1"]
    assert all(objects.is_deleting(left[objects.key_of(pod)]) for pod in before)
    for name, replicas in (("cart", 6), ("web", 8), ("checkout", 4)):
        assert world.view.all["deployments"]["shop", name]["status"]["readyReplicas"] == replicas
    world.run_for(3600)
    assert all(objects.key_of(pod) in left for pod in before), "a dead kubelet ends nothing"


def test_a_stateful_pod_is_stuck_until_the_node_is_out_of_service() -> None:
    world = a_world(nodes=6)
    place = objects.node_of(world.view.pods["shop", "db-0"])
    uid = objects.uid_of(world.view.pods["shop", "db-0"])
    world.inject(Fault(name="machine-death", target=place))
    world.run_for(900)
    assert objects.uid_of(world.view.pods["shop", "db-0"]) == uid
    taint_out_of_service(world, place)
    took = world.run_until(lambda: objects.uid_of(world.view.pods["shop", "db-0"]) != uid, within_seconds=25)
    assert took <= 25
    world.run_until(lambda: objects.is_ready(world.view.pods["shop", "db-0"]), within_seconds=30)
    assert objects.node_of(world.view.pods["shop", "db-0"]) != place
    assert len(world.running("shop", "db-0")) == 1


def test_a_pod_deleted_by_force_waits_six_minutes_for_its_volume_on_a_silent_node() -> None:
    world = a_world(nodes=6)
    place = objects.node_of(world.view.pods["shop", "db-0"])
    world.inject(Fault(name="machine-death", target=place))
    world.run_for(60)
    world.storage.delete("pods", "shop", "db-0", grace_seconds=0)
    world.run_for(300)
    assert not objects.is_ready(world.view.pods["shop", "db-0"])
    world.run_until(lambda: objects.is_ready(world.view.pods["shop", "db-0"]), within_seconds=90)


def test_force_deleting_on_a_node_that_is_only_cut_off_makes_a_split_brain() -> None:
    world = empty_world()
    for zone in ("zone-a", "zone-b"):
        add_node(world, zone=zone)
    add_statefulset(world, "shop", "db", replicas=1, volume=False)
    world.settle()
    place = objects.node_of(world.view.pods["shop", "db-0"])
    world.inject(Fault(name="network-cut", target=place, duration_seconds=300))
    world.run_for(120)
    world.storage.delete("pods", "shop", "db-0", grace_seconds=0)
    world.run_for(30)
    assert len(world.running("shop", "db-0")) == 2
    world.run_for(200)
    assert len(world.running("shop", "db-0")) == 1, "back on the network, the kubelet ends what is no longer wanted"


def test_a_kubelet_restart_makes_the_node_not_ready_for_25_seconds_and_evicts_nothing() -> None:
    world = a_world(nodes=6)
    pods = {objects.uid_of(pod) for pod in world.view.pods.values()}
    world.inject(Fault(name="kubelet-restart", target="node-a1"))
    world.run_for(1)
    assert readiness(world, "node-a1") == "False"
    world.run_for(25)
    assert readiness(world, "node-a1") == "True"
    world.run_for(30)
    assert taints(world, "node-a1") == set()
    assert {objects.uid_of(pod) for pod in world.view.pods.values()} == pods
    assert all(map(objects.is_ready, world.view.pods.values()))


def test_the_clock_of_a_node_does_not_matter() -> None:
    world = a_world(nodes=6)
    world.inject(Fault(name="clock-skew", target="node-a1", params={"seconds": "-600"}))
    world.inject(Fault(name="clock-skew", target="node-b1", params={"seconds": "600"}))
    world.run_for(300)
    assert readiness(world, "node-a1") == readiness(world, "node-b1") == "True"
    lease = world.storage.get("leases", objects.LEASE_NAMESPACE, "node-b1")
    assert lease is not None
    assert objects.parse_stamp(lease["spec"]["renewTime"]) > world.now


def test_a_wholly_dead_zone_is_tainted_at_one_node_in_ten_seconds() -> None:
    world = a_world(nodes=15)
    world.inject(Fault(name="zone-outage", target="zone-b"))
    world.run_until(lambda: readiness(world, "node-b1") == "Unknown", within_seconds=60)
    world.run_for(10)

    def evicting() -> int:
        return sum(1 for i in range(1, 6) if ("unreachable", "NoExecute") in taints(world, f"node-b{i}"))

    first = evicting()
    assert first <= 3
    world.run_for(10)
    assert evicting() == first + 1
    world.run_for(60)
    assert evicting() == 5
    assert all(taints(world, name) == set() for name in ("node-a1", "node-c1"))


def test_a_mostly_bad_small_zone_is_not_evicted_at_all() -> None:
    world = a_world(nodes=15)
    world.inject(Fault(name="network-cut", target="node-b1,node-b2,node-b3"))
    world.run_for(60)
    after_outage = {
        name for name in ("node-b1", "node-b2", "node-b3") if ("unreachable", "NoExecute") in taints(world, name)
    }
    world.run_for(600)
    assert {
        n for n in ("node-b1", "node-b2", "node-b3") if ("unreachable", "NoExecute") in taints(world, n)
    } == after_outage
    assert len(after_outage) <= 1


def test_when_all_leases_stop_nobody_is_evicted_and_timers_start_afresh() -> None:
    world = a_world(nodes=9)
    world.inject(Fault(name="all-leases-stop", duration_seconds=900))
    world.run_for(890)
    assert {readiness(world, key[1]) for key in world.view.nodes} == {"Unknown"}
    assert not any(effect == "NoExecute" for key in world.view.nodes for _, effect in taints(world, key[1]))
    assert not any(map(objects.is_deleting, world.view.pods.values()))
    world.run_for(30)
    assert {readiness(world, key[1]) for key in world.view.nodes} == {"True"}
    assert all(map(objects.is_ready, world.view.pods.values()))


def test_a_node_made_anew_under_its_name_has_another_identity() -> None:
    world = a_world(nodes=6)
    old = node(world, "node-a1")
    world.inject(Fault(name="node-recreate-same-name", target="node-a1"))
    world.run_until(lambda: world.storage.get("nodes", "", "node-a1") is not None, within_seconds=60)
    world.run_until(lambda: readiness(world, "node-a1") == "True", within_seconds=60)
    new = node(world, "node-a1")
    assert objects.uid_of(new) != objects.uid_of(old)
    assert new["spec"]["providerID"] != old["spec"]["providerID"]
    assert new["status"]["nodeInfo"]["bootID"] != old["status"]["nodeInfo"]["bootID"]
    world.run_for(120)
    assert readiness(world, "node-a1") == "True"
    running = [pod for pod in world.view.pods_on["node-a1"].values() if objects.is_ready(pod)]
    assert running, "daemons and static pods come back"


@pytest.mark.parametrize(
    ("fault", "condition"), [("memory-pressure", "MemoryPressure"), ("disk-pressure", "DiskPressure")]
)
def test_pressure_shows_as_condition_and_taint_and_goes_with_the_fault(fault: str, condition: str) -> None:
    world = a_world(nodes=6)
    world.inject(Fault(name=fault, target="node-a1", duration_seconds=120))
    world.run_for(60)
    assert objects.condition_status(node(world, "node-a1"), condition) == "True"
    assert any(effect == "NoSchedule" for _, effect in taints(world, "node-a1"))
    world.run_for(70)
    assert objects.condition_status(node(world, "node-a1"), condition) == "False"
    assert taints(world, "node-a1") == set()


def test_memory_pressure_ends_when_the_hungry_pod_is_deleted() -> None:
    world = a_world(nodes=6)
    world.inject(Fault(name="memory-pressure", target="node-a1"))
    world.run_for(60)
    (hog,) = world.loads.leaks
    key = next(objects.key_of(pod) for pod in world.view.pods.values() if objects.uid_of(pod) == hog)
    world.storage.delete("pods", *key)
    world.run_for(15)
    assert objects.condition_status(node(world, "node-a1"), "MemoryPressure") == "False"
    assert not world.loads.leaks
