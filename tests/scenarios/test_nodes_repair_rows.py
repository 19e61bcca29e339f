"""Repairs of nodes from the alert to the end, by row: guards (B), drains (C), fencing and identity (D)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.sim.api_faults import Failure
from healer.sim.builders import a_world, add_deployment, add_node, add_pdb, empty_world
from healer.sim.world import World
from healer.testing.scenario import Scenario
from tests.node_repairs import DRAIN, POWER_OFF, REPLACE, acting, ends, gaps, moves, pods_on, settled, steps_begun

DISK = {"alertname": "DiskErrors", "node": "node-a1"}


def small(count: int) -> World:
    """So many nodes, one a zone in turn, with one Deployment."""
    world = empty_world()
    for index in range(count):
        add_node(world, zone=f"zone-{'abc'[index % 3]}")
    add_deployment(world, "shop", "web", replicas=2)
    world.settle()
    return world


# Guards --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("total", "limit"), [(2, 1), (3, 1), (4, 1), (5, 1), (10, 2)])
def test_b1_the_documented_integer_decides_and_is_printed(total: int, limit: int) -> None:
    config = DRAIN.replace("{drain: {timeout: 5m}}", "{drain: {timeout: 5m, force: true}}") + (
        "    limits: {max_in_flight: 10, per_zone: unlimited}\nsafety: {max_in_flight: 10, max_in_flight_per_zone: 10}\n"
    )
    with Scenario(
        config.replace("verify: {alert: ignored, for: 10s}", "verify: {alert: resolved}"), world=small(total)
    ) as s:
        settled(s)
        names = sorted(s.world.storage.items("nodes"), key=lambda node: str(node["metadata"]["name"]))
        for node in names:
            s.alert(alertname="DiskErrors", node=node["metadata"]["name"])
        s.run_for("1m")
        s.expect(len(s.cordons()) == limit, f"{limit} of {total} nodes may be in our hands")
        s.expect_decided(Reason.FLEET_BREAKER, detail=f"{limit} is the limit")


@pytest.mark.parametrize("allowed", [False, True])
def test_b1_the_only_node_is_touched_only_with_the_explicit_flag(allowed: bool) -> None:
    flag = "    limits: {allow_last_node: true}\n" if allowed else ""
    config = DRAIN.replace("[cordon, {drain: {timeout: 5m}}]", "[cordon]") + flag
    with Scenario(config, world=small(1)) as s:
        settled(s)
        s.alert(DISK)
        s.run_for("1m")
        s.expect(bool(s.cordons()) == allowed, "allow_last_node decides")
        if not allowed:
            s.expect_decided(Reason.LAST_NODE, detail="allow_last_node")


def test_b9_two_remedies_for_one_node_in_the_same_second_are_one_operation_at_a_time() -> None:
    other = DRAIN.replace("remedies:\n", "").replace("empty-node", "also").replace("DiskErrors", "NodeSlow")
    with Scenario(DRAIN + other) as s:
        settled(s)
        s.alert(DISK)
        s.alert(alertname="NodeSlow", node="node-a1")
        acting(s, "drain")
        s.expect(len(s.of_kind(ev.OperationStarted)) == 1, "one operation per node")
        s.expect(len(s.incidents()) == 1, "the second belongs to the incident of the first")
        s.expect("NodeSlow" in s.story() and "belongs to it too" in s.story(), "and that is told")
        s.run_for("5m")
        s.expect(len(s.cordons("node-a1")) == 1, "cordoned once")
        evicted = [record.path for record in s.evictions() if record.status == 201]
        s.expect(len(evicted) == len(set(evicted)), "every pod was asked once")


def test_b10_a_node_whose_repair_fails_for_ever_does_not_hold_up_the_next_one() -> None:
    with Scenario(DRAIN + "safety: {max_in_flight: 1}\n") as s:
        settled(s)
        s.api_faults.fail_all = [Failure(status=500, method="PATCH", path="/api/v1/nodes/node-a1")]
        s.alert(DISK)
        s.run_for("5s")
        s.alert(alertname="DiskErrors", node="node-b1")
        s.run_for("30m")
        s.expect(s.cordons("node-b1"), "the other one is repaired")
        s.expect(not s.is_cordoned("node-a1"), "nothing worked there")


# Drains --------------------------------------------------------------------------------------------------------------


def test_c1_a_pod_that_is_made_anew_elsewhere_while_it_has_to_wait_is_not_evicted_there() -> None:
    with Scenario(DRAIN) as s:
        settled(s)
        node = next(p["spec"]["nodeName"] for p in s.world.storage.items("pods") if p["metadata"]["name"] == "db-0")
        s.api_faults.fail_all = [Failure(status=429, path="*/pods/db-0/eviction")]
        s.alert(alertname="DiskErrors", node=node)
        s.run_until(lambda: s.evictions("db-0"))
        first = s.world.storage.get("pods", "shop", "db-0")
        assert first is not None
        s.world.storage.delete("pods", "shop", "db-0")
        s.run_for("1m")
        s.api_faults.fail_all = []
        ended = ends(s)
        s.expect(ended.ok, "the node is drained")
        uids = {move["deleteOptions"]["preconditions"]["uid"] for move in moves(s, "db-0")}
        s.expect(uids == {first["metadata"]["uid"]}, "only the pod that was there has been asked to go")
        assert s.world.storage.get("pods", "shop", "db-0") is not None


@pytest.mark.parametrize(("retry_after", "least"), [(0, 1), (10, 10), (30, 30)])
def test_c2_a_budget_of_zero_is_asked_seldom_and_its_retry_after_is_honoured(retry_after: int, least: int) -> None:
    with Scenario(DRAIN) as s:
        settled(s)
        node = next(p["spec"]["nodeName"] for p in s.world.storage.items("pods") if p["metadata"]["name"] == "db-0")
        s.api_faults.fail_all = [Failure(status=429, retry_after=retry_after, path="*/pods/db-0/eviction")]
        s.alert(alertname="DiskErrors", node=node)
        s.run_until(lambda: s.evictions("db-0"))
        s.run_for("60s")
        asked = s.evictions("db-0")
        s.expect(1 < len(asked) <= 15, f"{len(asked)} requests in a minute")
        s.expect(min(gaps(asked)) >= timedelta(seconds=least), "too soon after each other")
        s.api_faults.fail_all = []
        s.expect(ends(s).ok, "and then it goes on")


def test_c5_two_budgets_over_one_pod_are_found_before_anything_is_touched_and_named() -> None:
    world = a_world(6, 3)
    add_pdb(world, "shop", "cart", name="cart-again", min_available=1)
    world.settle()
    with Scenario(DRAIN, world=world) as s:
        settled(s)
        node = next(
            p["spec"]["nodeName"] for p in s.world.storage.items("pods") if p["metadata"]["name"].startswith("cart-")
        )
        s.alert(alertname="DiskErrors", node=node)
        s.run_for("5m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.MULTIPLE_BUDGETS, detail="cart-again")


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_c8_c9_afterwards_a_node_is_as_schedulable_as_before(by_hand: bool, fails: bool) -> None:
    config = DRAIN.replace("timeout: 5m}}]", "timeout: 1m}}, uncordon]")
    with Scenario(config) as s:
        settled(s)
        if by_hand:
            s.cordon_by_hand("node-a1")
        if fails:
            s.api_faults.fail_all = [Failure(status=429, path="*/eviction")]
        s.alert(DISK)
        s.expect(ends(s).ok != fails, "as the budget lets it")
        s.run_for("1m")
        s.expect(s.is_cordoned("node-a1") == by_hand, "as people had it")


def test_c13_static_and_daemonset_pods_are_left_and_the_drain_ends() -> None:
    with Scenario(DRAIN) as s:
        settled(s)
        s.alert(DISK)
        s.expect(ends(s).ok, "it ends")
        s.expect(not [r for r in s.evictions() if "/kube-system/" in r.path], "nothing of the node's own is evicted")


def test_c14_no_machine_is_touched_while_a_pod_is_still_ending() -> None:
    config = DRAIN.replace("timeout: 5m}}]", "timeout: 10m}}, replace]")
    world = a_world(6, 3)
    add_deployment(world, "shop", "slow", replicas=6, terminationGracePeriodSeconds=120)
    world.settle()
    world.options.shutdown_seconds = 100.0
    with Scenario(config, world=world) as s:
        settled(s)
        s.alert(DISK)
        s.run_until(s.evictions)
        s.run_for("30s")
        s.expect(pods_on(s, "node-a1"), "they are ending")
        s.expect_provider_calls("replace", exactly=0)
        s.run_until(lambda: s.provider_calls("replace"), within="15m")
        s.expect(not pods_on(s, "node-a1"), "pods were still there")


def test_c15_what_is_cancelled_while_it_drains_replaces_nothing_and_the_audit_says_who() -> None:
    with Scenario(DRAIN.replace("timeout: 5m}}]", "timeout: 5m}}, replace]")) as s:
        settled(s)
        s.api_faults.fail_all = [Failure(status=429, path="*/eviction")]
        s.alert(DISK)
        acting(s, "drain")
        s.run_for("10s")
        assert s.cancel("DiskErrors", by="anna") is Reason.OK
        s.run_for("10m")
        s.expect_provider_calls("replace", exactly=0)
        s.expect("replace" not in steps_begun(s), "no later step")
        (cancelled,) = s.of_kind(ev.OperationCancelled)
        assert cancelled.by == "anna"
        s.expect(not s.is_cordoned("node-a1"), "and the node is given back")


# Fencing and identity ------------------------------------------------------------------------------------------------


def test_d1_a_machine_that_its_provider_has_stopped_frees_its_pods_in_25_seconds_and_the_taint_goes() -> None:
    with Scenario(REPLACE.replace(", {replace: {join_timeout: 10m}}", "")) as s:
        settled(s)
        s.fault("machine-death", "node-a1", says="stopped")
        acting(s, "fence")
        took = s.run_until(lambda: not pods_on(s, "node-a1"), within="2m")
        s.expect(took <= 25, f"it took {took:.0f} s")
        s.run_for("5m")
        taints = [taint["key"] for taint in s.node("node-a1")["spec"].get("taints", [])]
        s.expect("node.kubernetes.io/out-of-service" not in taints, "the taint is left behind")


@pytest.mark.parametrize("trouble", ["running", "errors"])
def test_d2_without_a_proof_nothing_is_forced(trouble: str) -> None:
    with Scenario(REPLACE) as s:
        settled(s)
        if trouble == "errors":
            s.world.cloud.fail_next(1000)
        s.fault("machine-death", "node-a1", says="running")
        s.run_for("15m")
        forced = [r for r in s.changes("/pods/", "DELETE") if b'"gracePeriodSeconds":0' in r.body]
        s.expect(not forced, "pods were deleted by force")
        s.expect(not [r for r in s.changes("/nodes/", "PATCH") if b"out-of-service" in r.body], "it was tainted")
        s.expect_provider_calls("replace", exactly=0)
        s.expect_escalated("NodeDown")


def test_d2_a_machine_that_runs_is_powered_off_first_where_the_remedy_says_so() -> None:
    with Scenario(POWER_OFF) as s:
        settled(s)
        s.fault("machine-death", "node-a1", says="running")
        s.run_for("15m")
        s.expect_closed("NodeDown", Reason.FIXED)
        verbs = [call.verb for call in s.provider_calls() if call.verb in ("power-off", "replace")]
        s.expect(verbs == ["power-off", "replace"], "first off, then anew")


def test_d3_one_peer_that_reports_a_healthy_node_dead_changes_nothing_for_good() -> None:
    with Scenario(POWER_OFF) as s:
        settled(s)
        s.alert(alertname="NodeDown", node="node-b2", reporter="node-c1")
        s.run_for("10m")
        s.expect_provider_calls("power-off", exactly=0)
        s.expect_provider_calls("replace", exactly=0)
        s.expect(not s.evictions(), "pods were evicted")


@pytest.mark.parametrize("step", ["cordon", "fence", "drain", "replace"])
@pytest.mark.parametrize("restart", [False, True])
def test_d5_a_node_made_anew_under_the_same_name_is_not_touched(step: str, restart: bool) -> None:
    with Scenario(REPLACE) as s:
        settled(s)
        s.fault("machine-death", "node-a1")
        acting(s, step)
        before = len(s.changes("/nodes/node-a1"))
        orders = len(s.provider_calls("replace"))
        s.fault("node-recreate-same-name", "node-a1")
        s.run_for("1s")
        if restart:
            s.kill()
            s.run_for("5s")
            s.start()
        s.run_for("15m")
        late = s.changes("/nodes/node-a1")[before:]
        uid = s.node("node-a1")["metadata"]["uid"]
        s.expect(not [r for r in late if r.status == 200 and uid.encode() in r.body], "the new node was changed")
        s.expect(not s.is_cordoned("node-a1"), "the new node is cordoned")
        s.expect(len(s.provider_calls("replace")) <= max(1, orders), "its machine was replaced again")
        s.expect(all(view.state in (IncidentState.CLOSED, IncidentState.ESCALATED) for view in s.incidents()), "open")
