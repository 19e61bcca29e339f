"""When a node is left alone although it looks bad: rows A1, A2, A3, A7, A11."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Answer, Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario
from tests.node_repairs import POWER_OFF, REPLACE, acting, settled, steps_begun


@pytest.mark.parametrize("lasts", ["70s", "5m"])
def test_a1_all_leases_stop_and_no_node_is_touched_then_or_after_they_resume(lasts: str) -> None:
    with Scenario(POWER_OFF, nodes=20) as s:
        settled(s)
        s.fault("all-leases-stop", lasts=lasts)
        s.run_for("10m")
        s.expect_decided(Reason.VANTAGE_FAULT)
        s.expect_nothing_changed()
        s.expect(all(view.state is IncidentState.CLOSED for view in s.incidents()), "an incident is left open")


def test_a1_all_leases_stop_and_people_are_told_why_nothing_is_done() -> None:
    with Scenario(POWER_OFF, nodes=20) as s:
        settled(s)
        s.fault("all-leases-stop")
        s.run_for("5m")
        s.expect(
            all("rather our view of them is broken" in view.detail for view in s.incidents()), "the reason is not told"
        )
        s.expect_state("NodeDown", IncidentState.OPEN, Reason.VANTAGE_FAULT)


def test_a1_a_node_that_is_really_dead_is_repaired_once_the_leases_have_come_back() -> None:
    with Scenario(REPLACE, nodes=20) as s:
        settled(s)
        s.fault("all-leases-stop", lasts="3m")
        s.run_for("2m")
        s.fault("machine-death", "node-b2")
        s.run_for("12m")
        s.expect_provider_calls("replace", exactly=1)
        (view,) = [view for view in s.incidents() if view.target and view.target.name == "node-b2"]
        s.expect((view.state, view.reason) == (IncidentState.CLOSED, Reason.FIXED), "the dead one is replaced")
        s.expect({record.path for record in s.cordons()} == {"/api/v1/nodes/node-b2"}, "others were cordoned")


@pytest.mark.parametrize("trouble", ["down", "hang"])
def test_a2_while_the_api_is_away_no_repair_starts_and_after_it_a_full_grace_period_passes_first(trouble: str) -> None:
    with Scenario(REPLACE) as s:
        settled(s)
        s.fault("machine-death", "node-a1", after="5s")
        s.run_for("10s")
        setattr(s.api_faults, trouble, True)
        s.run_for("10m")
        s.expect_nothing_changed()
        back = s.now
        setattr(s.api_faults, trouble, False)
        s.run_until(s.cordons, within="5m")
        s.expect((s.now - back).total_seconds() >= 60, "it began before a grace period of fresh data")
        s.run_for("10m")
        s.expect_closed("NodeDown")
        s.expect_provider_calls("replace", exactly=1)


def test_a2_an_api_that_answers_now_and_then_only_is_not_acted_upon() -> None:
    """Whatever is read in between is old again a moment later."""
    with Scenario(REPLACE) as s:
        settled(s)
        s.fault("machine-death", "node-a1", after="10s")
        for _ in range(12):
            s.api_faults.down = True
            s.run_for("20s")
            s.api_faults.down = False
            s.run_for("10s")
        s.expect_nothing_changed()


@pytest.mark.parametrize("step", ["fence", "drain", "replace"])
@pytest.mark.parametrize("trouble", ["down", "hang"])
def test_a2_a_repair_under_way_holds_while_the_api_is_away_and_is_finished_afterwards(trouble: str, step: str) -> None:
    with Scenario(POWER_OFF) as s:
        settled(s)
        s.fault("machine-death", "node-a1", says="running")
        acting(s, step)
        setattr(s.api_faults, trouble, True)
        s.run_for("90s")
        orders = len(s.provider_calls("replace"))
        s.run_for("9m")
        s.expect(len(s.provider_calls("replace")) == orders, "a machine was replaced blindly")
        setattr(s.api_faults, trouble, False)
        s.run_for("15m")
        s.expect_closed("NodeDown")
        s.expect_provider_calls("power-off", exactly=1)
        s.expect_provider_calls("replace", exactly=1)


@pytest.mark.parametrize("config", [REPLACE, POWER_OFF], ids=["replace", "power off"])
def test_a3_in_a_zone_that_is_out_nothing_is_touched_and_people_see_why(config: str) -> None:
    with Scenario(config, nodes=15, zones=3) as s:
        settled(s)
        s.fault("zone-outage", "zone-b")
        s.run_for("10m")
        s.expect_decided(Reason.ZONE_OUTAGE, detail="5 of 5 nodes of zone zone-b")
        s.expect_nothing_changed()
        pods = [pod for pod in s.world.storage.items("pods") if "-b" in (pod["spec"].get("nodeName") or "")]
        s.expect(pods, "the pods of the zone were deleted by force")


def test_a3_while_a_zone_is_out_a_dead_node_of_another_zone_is_not_repaired_past_the_breaker() -> None:
    """Six of 15 nodes are away: past the breaker only a person takes away more."""
    with Scenario(REPLACE, nodes=15, zones=3) as s:
        settled(s)
        s.fault("zone-outage", "zone-b")
        s.run_for("3m")
        s.fault("machine-death", "node-a1")
        s.run_for("5m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.FLEET_BREAKER)


def test_a3_a_zone_goes_out_while_one_of_its_nodes_is_repaired_and_no_second_one_is_begun() -> None:
    with Scenario(REPLACE, nodes=15, zones=3) as s:
        settled(s)
        s.fault("machine-death", "node-b1")
        acting(s, "fence")
        s.fault("zone-outage", "zone-b", lasts="4m")
        s.run_for("20m")
        s.expect({record.path for record in s.cordons()} == {"/api/v1/nodes/node-b1"}, "others were cordoned")
        s.expect_provider_calls("replace", exactly=1)
        s.expect(all(view.state is IncidentState.CLOSED for view in s.incidents()), "an incident is left open")


@pytest.mark.parametrize("nodes", ["node-a1", "node-a1,node-b1,node-c1", "*"])
def test_a7_a_kubelet_that_restarts_is_left_alone(nodes: str) -> None:
    with Scenario(REPLACE.replace("alertname: NodeDown", "alertname: NodeDown, severity: critical")) as s:
        s.world.options.node_ready_seconds = 2
        settled(s)
        s.fault("kubelet-restart", nodes, lasts="8s")
        s.run_for("10m")
        s.expect(not s.incidents(), "there is an incident")
        s.expect_nothing_changed()


def test_a7_an_alert_that_was_too_eager_about_a_restarting_kubelet_comes_to_nothing() -> None:
    """The demo's rule waits for 10 s, the kubelet needs 25 s; its machine is found running, and nothing is forced."""
    with Scenario(REPLACE) as s:
        settled(s)
        s.fault("kubelet-restart", "node-a1")
        s.run_for("10m")
        s.expect(not s.evictions(), "pods were evicted")
        s.expect_provider_calls("replace", exactly=0)
        s.expect_provider_calls("power-off", exactly=0)
        s.expect_state("NodeDown", IncidentState.CLOSED)
        s.expect(not s.is_cordoned("node-a1"), "the node is left cordoned")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (REPLACE.replace("mode: auto", "mode: shadow"), Reason.SHADOW),
        (REPLACE.replace("mode: auto", "mode: suggest"), Reason.SUGGESTED),
        (
            REPLACE + "safety: {maintenance: [{name: night, cron: '0 0 * * *', duration: 24h}]}",
            Reason.MAINTENANCE_WINDOW,
        ),
        (REPLACE + "safety: {self: {node: node-a1}}", Reason.SELF_PROTECTION),
        (REPLACE.replace("    verify", "    limits: {min_healthy: 100%}\n    verify"), Reason.FLEET_BREAKER),
    ],
    ids=["shadow", "suggest", "window", "itself", "min_healthy"],
)
def test_a11_where_a_bad_node_is_left_untouched_its_incident_says_why(config: str, reason: Reason) -> None:
    with Scenario(config) as s:
        settled(s)
        s.fault("kubelet-stop", "node-a1")
        s.run_for("5m")
        s.expect_nothing_changed()
        s.expect_decided(reason)
        s.expect(s.incident("NodeDown").detail, "nothing is said")


def test_a11_a_stopped_kubelet_is_acted_on_within_two_minutes() -> None:
    with Scenario(POWER_OFF, nodes=6) as s:
        settled(s)
        s.fault("kubelet-stop", "node-a1")
        s.run_until(s.cordons, within="2m")
        s.run_for("10m")
        s.expect_closed("NodeDown")
        s.expect("replace" in steps_begun(s), "it was not replaced")
        s.expect(all(d.answer is Answer.GO for d in s.decisions() if d.remedy), "something was in the way")
        s.expect(len(s.of_kind(ev.OperationStarted)) == 1, "it was tried more than once")
