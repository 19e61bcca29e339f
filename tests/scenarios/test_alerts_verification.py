"""What comes after acting: rows R12, R13, R22, R30, R37."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Answer, Reason, Verdict
from healer.model.incidents import IncidentState
from healer.sim.builders import a_world, add_bare_pod, add_deployment, add_pdb
from healer.testing.scenario import Scenario

RESTART = """
remedies:
  - name: restart-pod
    when: {alertname: Slow}
    mode: auto
    steps: [restart]
    verify: %s
safety: {grace_after_outage: 1s%s}
"""
DRAIN = """
remedies:
  - name: empty-node
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon, {drain: {timeout: 3m}}, uncordon]
    verify: {alert: resolved, for: 10s, timeout: 5m}
safety: {grace_after_outage: 1s}
"""
DB = {"namespace": "shop", "pod": "db-0"}


def test_R12_an_alert_that_looks_back_does_not_start_a_second_repair_and_is_judged_when_the_time_is_up() -> None:
    with Scenario(RESTART % ("{alert: resolved, for: 30s, timeout: 10m}", ""), nodes=3) as s:
        s.run_for("2s")
        s.alert(DB, alertname="Slow")
        s.run_for("3m")
        s.alert(DB, alertname="Slow")
        s.expect_state("Slow", IncidentState.VERIFYING)
        s.run_for("8m")
        assert len(s.changes("/pods/db-0", "DELETE")) == 1, "it was still being verified"
        s.expect_escalated("Slow", Reason.NOT_FIXED)
        s.resolve(DB, alertname="Slow")
        s.run_for("5s")
        s.expect_closed("Slow", Reason.RESOLVED_ON_ITS_OWN)


def test_R12_an_alert_that_ends_within_the_time_and_stays_away_is_fixed() -> None:
    with Scenario(RESTART % ("{alert: resolved, for: 30s, timeout: 10m}", ""), nodes=3) as s:
        s.run_for("2s")
        s.alert(DB, alertname="Slow")
        s.run_for("5m")
        s.resolve(DB, alertname="Slow")
        s.run_for("20s")
        s.expect_state("Slow", IncidentState.VERIFYING)
        s.run_for("30s")
        s.expect_closed("Slow", Reason.FIXED)


@pytest.mark.parametrize("died_after", [0.0, 0.5, 1.0, 2.0, 5.0, 30.0])
def test_R13_a_drain_that_was_killed_in_the_middle_goes_on_and_evicts_nobody_twice(died_after: float) -> None:
    with Scenario(DRAIN, nodes=6) as s:
        s.run_for("2s")
        s.alert(alertname="NodeBad", node="node-a1")
        s.run_for(died_after)
        s.kill()
        s.run_for("20s")
        s.start()
        s.run_for("1m")
        s.resolve(alertname="NodeBad", node="node-a1")
        s.run_for("2m")
        s.expect_closed("NodeBad", Reason.FIXED)
        assert not s.is_cordoned("node-a1")
        uids = [record.body for record in s.evictions() if record.status in (200, 201)]
        assert len(uids) == len(set(uids)), f"evicted twice\n{s.story()}"


def test_R13_after_a_long_absence_nothing_old_is_acted_upon() -> None:
    config = DRAIN.replace("mode: auto", "mode: approve").replace("1s}", "1s, max_event_age: 5m}")
    with Scenario(config, nodes=6) as s:
        s.run_for("2s")
        s.alert(alertname="NodeBad", node="node-a1")
        s.run_for("5s")
        s.kill()
        s.run_for("10m")
        s.start(config.replace("mode: approve", "mode: auto"))
        s.run_for("5m")
        s.expect_nothing_changed()
        s.alert(alertname="NodeBad", node="node-a1")
        s.run_for("1m")
        assert not s.is_cordoned("node-a1") or s.cordons(), "heard of again, it counts again"


def test_R22_mirror_pods_and_daemonsets_stay_and_what_would_be_lost_is_reported_before_anything_is_done() -> None:
    world = a_world(3, 3)
    add_bare_pod(world, "shop", "alone", node="node-a1")
    world.settle()
    with Scenario(DRAIN, world=world) as s:
        s.run_for("2s")
        s.alert(alertname="NodeBad", node="node-a1")
        s.run_for("1m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.INFEASIBLE, detail="alone")


def test_R22_a_budget_that_never_allows_is_never_turned_into_force() -> None:
    world = a_world(6, 3, with_apps=False)
    add_deployment(world, "default", "api", replicas=2)
    add_pdb(world, "default", "api", min_available=2)
    world.settle()
    with Scenario(DRAIN, world=world) as s:
        s.run_for("2s")
        node = next(p for p in world.storage.items("pods", "default"))["spec"]["nodeName"]
        s.alert(alertname="NodeBad", node=node)
        s.run_for("10m")
        assert not s.changes("/pods/", "DELETE"), "nothing was deleted past the budget"
        assert not s.is_cordoned(node), "the node was given back"
        s.expect(
            s.incident("NodeBad").state is not IncidentState.CLOSED and s.incident("NodeBad").detail, "and it says why"
        )


def test_R30_when_a_maintenance_window_ends_what_still_fires_is_acted_upon() -> None:
    window = ", maintenance: [{name: weekly, cron: '0 9 * * *', duration: 10m}]"
    with Scenario(RESTART % ("{alert: resolved, for: 10s, timeout: 5m}", window), nodes=3) as s:
        s.run_for("2s")
        s.alert(DB, alertname="Slow")
        s.run_for("5m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.MAINTENANCE_WINDOW, detail="weekly")
        assert s.incident("Slow").plan is not None, "it shows what would have been done"
        s.run_for("6m")
        s.expect(s.changes("/pods/db-0", "DELETE"), "the window is over")
        assert s.of_kind(ev.Decided)[0].answer is Answer.WAIT


def test_R37_a_metric_without_data_is_no_success() -> None:
    verify = "{alert: resolved, query: 'nobody_exports_this == 1', for: 10s, timeout: 2m}"
    with Scenario(RESTART % (verify, ""), nodes=3) as s:
        s.run_for("2s")
        s.alert(DB, alertname="Slow")
        s.run_for("10s")
        s.resolve(DB, alertname="Slow")
        s.run_for("5m")
        (verified,) = s.of_kind(ev.Verified)
        assert verified.verdict is Verdict.INCONCLUSIVE, s.story()
        s.expect_escalated("Slow", Reason.INCONCLUSIVE)
        s.expect(s.messages.edits[-1].page, "a person has to look")
        s.pause("something else")
        s.resume()
        s.run_for("5m")
        s.expect(s.messages.edits[-1].page, "and is not let off because something unrelated happens")
        s.run_for("5m")
        s.expect_closed("Slow", Reason.RESOLVED_ON_ITS_OWN)


@pytest.mark.parametrize(
    ("query", "verdict"),
    [
        ("kube_statefulset_status_replicas_ready{statefulset='db'} == 3", Verdict.FIXED),
        ("kube_statefulset_status_replicas_ready{statefulset='db'} == 99", Verdict.NOT_FIXED),
    ],
)
def test_R37_a_metric_with_data_says_whether_it_helped(query: str, verdict: Verdict) -> None:
    verify = f'{{alert: resolved, query: "{query}", for: 20s, timeout: 2m}}'
    with Scenario(RESTART % (verify, ""), nodes=3) as s:
        s.run_for("2s")
        s.alert(DB, alertname="Slow")
        s.run_for("10s")
        s.resolve(DB, alertname="Slow")
        s.run_for("5m")
        (verified,) = s.of_kind(ev.Verified)
        assert verified.verdict is verdict, s.story()
