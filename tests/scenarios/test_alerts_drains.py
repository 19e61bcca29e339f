"""A drain meets every kind of pod: what it evicts, leaves, refuses, and says about each (row R22)."""

from __future__ import annotations

import pytest

from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.sim.api_faults import Failure
from healer.sim.builders import a_world, add_bare_pod, add_deployment, add_pdb
from healer.sim.world import World
from healer.testing.scenario import Scenario

DRAIN = """
remedies:
  - name: empty-node
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon, {drain: {timeout: 3m%s}}]
    verify: {alert: ignored, object: ignored, query: 'vector(1)', for: 1s}
safety: {grace_after_outage: 1s}
"""
NODE = "node-a1"
VOLUMES = [{"name": "scratch", "emptyDir": {}}]


def fired(s: Scenario, node: str = NODE) -> None:
    s.run_for("2s")
    s.alert(alertname="NodeBad", node=node)


def pods_on(world: World, node: str) -> set[str]:
    return {p["metadata"]["name"] for p in world.storage.items("pods") if p["spec"].get("nodeName") == node}


def owned_by(world: World, node: str, kind: str) -> set[str]:
    found = set()
    for pod in world.storage.items("pods"):
        owners = pod["metadata"].get("ownerReferences") or [{"kind": ""}]
        if pod["spec"].get("nodeName") == node and owners[0]["kind"] == kind:
            found.add(pod["metadata"]["name"])
    return found


def test_R22_daemons_and_static_pods_stay_and_everything_else_goes() -> None:
    with Scenario(DRAIN % "", nodes=6) as s:
        daemons, mirrors = owned_by(s.world, NODE, "DaemonSet"), owned_by(s.world, NODE, "Node")
        assert daemons
        assert mirrors
        fired(s)
        s.run_for("3m")
        assert pods_on(s.world, NODE) == daemons | mirrors, s.story()
        assert not [pod for pod in daemons | mirrors if s.evictions(pod)], s.story()


@pytest.mark.parametrize(
    ("policy", "what"),
    [("", "emptyDir"), (", delete_local_data: true", "emptyDir"), ("", "bare"), (", force: true", "bare")],
)
def test_R22_what_would_lose_data_is_refused_before_the_cordon_unless_the_policy_says_otherwise(
    policy: str, what: str
) -> None:
    world = a_world(6, 3)
    if what == "bare":
        add_bare_pod(world, "shop", "precious", node=NODE)
    else:
        add_deployment(world, "shop", "precious", nodeSelector={"kubernetes.io/hostname": NODE}, volumes=VOLUMES)
    world.settle()
    with Scenario(DRAIN % policy, world=world) as s:
        fired(s)
        s.run_for("2m")
        if policy:
            s.expect(s.evictions(), "the policy allows it")
            assert any("precious" in record.path for record in s.evictions()), s.story()
            return
        s.expect_nothing_changed()
        s.expect_decided(Reason.INFEASIBLE, detail="precious")


@pytest.mark.parametrize("retry_after", [0, 10])
def test_R22_a_server_that_answers_429_for_a_while_is_asked_again_and_never_by_force(retry_after: int) -> None:
    with Scenario(DRAIN % "", nodes=6) as s:
        refusal = Failure(status=429, retry_after=retry_after, method="POST", path="*/eviction", message="busy")
        s.api_faults.fail_all.append(refusal)
        fired(s)
        s.run_for("60s")
        s.expect_state("NodeBad", IncidentState.ACTING)
        asked = len(s.evictions())
        assert 1 < asked < 200, f"asked {asked} times within a minute\n{s.story()}"
        s.api_faults.fail_all.remove(refusal)
        s.run_for("2m")
        s.expect_closed("NodeBad")
        assert not s.changes("/pods/", "DELETE"), s.story()


def test_R22_a_server_that_answers_429_until_the_deadline_is_given_up_and_the_node_is_given_back() -> None:
    with Scenario(DRAIN % "", nodes=6) as s:
        s.api_faults.fail_all.append(Failure(status=429, method="POST", path="*/eviction", message="busy"))
        fired(s)
        s.run_for("5m")
        s.expect_escalated("NodeBad", Reason.DEADLINE)
        assert not s.is_cordoned(NODE), s.story()
        assert not s.changes("/pods/", "DELETE"), s.story()


def test_R22_two_budgets_over_one_pod_are_found_before_anything_is_done() -> None:
    world = a_world(6, 3)
    add_deployment(world, "shop", "twice", nodeSelector={"kubernetes.io/hostname": NODE})
    add_pdb(world, "shop", "twice", name="one", max_unavailable=1)
    add_pdb(world, "shop", "twice", name="two", max_unavailable=1)
    world.settle()
    with Scenario(DRAIN % "", world=world) as s:
        fired(s)
        s.run_for("1m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.MULTIPLE_BUDGETS, detail="twice")


@pytest.mark.parametrize("skip", [True, False])
def test_R22_pods_of_a_node_that_is_cut_off_never_end_and_are_skipped_only_by_policy(skip: bool) -> None:
    world = a_world(6, 3, with_apps=False)
    add_deployment(world, "shop", "api", replicas=12)
    world.settle()
    with Scenario(DRAIN % (", ignore_unreachable: true" if skip else ""), world=world) as s:
        s.run_for("2s")
        s.fault("network-cut", NODE)
        s.run_for("2m")
        fired(s)
        s.run_for("8m")
        assert not s.changes("/pods/", "DELETE"), f"nothing is deleted by force\n{s.story()}"
        if skip:
            s.expect_closed("NodeBad")
        else:
            s.expect_escalated("NodeBad", Reason.DEADLINE)


def test_R22_a_node_without_anything_to_evict_is_drained_at_once() -> None:
    world = a_world(3, 3, with_apps=False)
    with Scenario(DRAIN % "", world=world) as s:
        fired(s)
        s.run_for("10s")
        s.expect_closed("NodeBad")
        assert not s.evictions()
        s.expect(s.is_cordoned(NODE), "the cordon is what was asked for")
