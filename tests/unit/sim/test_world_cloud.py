"""The provider: states, tokens, failures; and what becomes of the nodes."""

from __future__ import annotations

import pytest

from healer.model.fencing import MachineState
from healer.sim import objects
from healer.sim.builders import a_world
from healer.sim.cloud import AnswerLostError, CloudError
from healer.sim.faults import Fault


def test_the_same_token_replaces_a_machine_once() -> None:
    world = a_world(nodes=3)
    first = world.cloud.replace("i-0001", token="t1")
    again = world.cloud.replace("i-0001", token="t1")
    assert first == again
    assert len(world.cloud.machines) == 4
    assert [call.outcome for call in world.cloud.calls] == ["ok", "again"]


def test_a_token_used_for_something_else_is_refused() -> None:
    world = a_world(nodes=3)
    world.cloud.power_off("i-0001", token="t1")
    with pytest.raises(CloudError, match="IdempotencyMismatch"):
        world.cloud.power_off("i-0002", token="t1")
    assert world.cloud.machines["i-0002"].state is MachineState.RUNNING


def test_a_lost_answer_is_found_by_its_token_and_not_repeated() -> None:
    world = a_world(nodes=3)
    world.cloud.lose_answers(1)
    with pytest.raises(AnswerLostError):
        world.cloud.replace("i-0001", token="t1")
    found = world.cloud.find("t1")
    assert found is not None
    assert found.new_machine == "i-0004"
    assert world.cloud.replace("i-0001", token="t1").new_machine == "i-0004"
    assert len(world.cloud.machines) == 4


def test_injected_errors_do_nothing() -> None:
    world = a_world(nodes=3)
    world.cloud.fail_next(2, code="Throttled")
    for _ in range(2):
        with pytest.raises(CloudError, match="Throttled"):
            world.cloud.replace("i-0001", token="t1")
    assert world.cloud.find("t1") is None
    assert len(world.cloud.machines) == 3


def test_one_machine_can_fail_for_ever_while_others_work() -> None:
    world = a_world(nodes=3)
    world.cloud.fail_always("i-0001")
    for token in ("t1", "t2"):
        with pytest.raises(CloudError, match="Unavailable"):
            world.cloud.power_off("i-0001", token=token)
    assert world.cloud.power_off("i-0002", token="t3").machine == "i-0002"


def test_over_quota_nothing_is_terminated() -> None:
    world = a_world(nodes=3)
    world.cloud.injected.quota = 2
    with pytest.raises(CloudError, match="QuotaExceeded"):
        world.cloud.replace("i-0001", token="t1")
    assert world.cloud.describe("i-0001").state is MachineState.RUNNING
    world.cloud.injected.quota = 3
    world.cloud.replace("i-0001", token="t1")
    assert world.cloud.describe("i-0001").state is MachineState.STOPPING


def test_unknown_machines_are_not_found() -> None:
    world = a_world(nodes=3)
    with pytest.raises(CloudError, match="NotFound"):
        world.cloud.describe("i-9999")
    assert world.cloud.of_node("sim:///zone-b/i-0001") is None, "the zone is part of the name"


def test_powering_off_takes_time_and_proves_the_end() -> None:
    world = a_world(nodes=3)
    world.inject(Fault(name="machine-death", target="node-a1", params={"says": "running"}))
    world.run_for(1)
    assert world.cloud.describe("i-0001").state is MachineState.RUNNING
    world.cloud.power_off("i-0001", token="t1")
    assert world.cloud.describe("i-0001").state is MachineState.STOPPING
    world.run_for(6)
    assert world.cloud.describe("i-0001").state is MachineState.STOPPED


def test_a_replaced_machine_joins_as_a_new_node_and_the_old_node_goes() -> None:
    world = a_world(nodes=6)
    old = world.view.node("node-a1")
    assert old is not None
    world.cloud.replace("i-0001", token="t1")
    world.run_for(15)
    assert world.view.node("node-a1") is None
    assert world.storage.get("leases", objects.LEASE_NAMESPACE, "node-a1") is None
    world.run_for(60)
    new = world.view.node("node-a3")
    assert new is not None
    assert objects.is_ready(new)
    assert new["spec"]["providerID"] == "sim:///zone-a/i-0007"
    assert new["status"]["nodeInfo"]["bootID"] != old["status"]["nodeInfo"]["bootID"]
    world.run_for(90)
    assert "node-a1" not in {objects.node_of(pod) for pod in world.view.pods.values()}
    assert all(map(objects.is_ready, world.view.pods.values()))


def test_a_replacement_can_keep_the_name() -> None:
    world = a_world(nodes=6)
    uid = objects.uid_of(world.view.nodes["", "node-a1"])
    world.cloud.keep_names = True
    world.cloud.replace("i-0001", token="t1")
    world.run_for(90)
    assert objects.uid_of(world.view.nodes["", "node-a1"]) != uid
    assert objects.is_ready(world.view.nodes["", "node-a1"])


def test_a_machine_powered_on_again_is_the_same_node_in_another_life() -> None:
    world = a_world(nodes=6)
    node = world.view.nodes["", "node-a1"]
    world.cloud.power_off("i-0001", token="t1")
    world.run_for(60)
    world.cloud.power_on("i-0001", token="t2")
    world.run_for(90)
    again = world.view.nodes["", "node-a1"]
    assert objects.uid_of(again) == objects.uid_of(node)
    assert again["status"]["nodeInfo"]["bootID"] != node["status"]["nodeInfo"]["bootID"]
    assert objects.is_ready(again)
    assert all(map(objects.is_ready, world.view.pods_on["node-a1"].values()))
