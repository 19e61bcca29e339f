"""Alerts in unusual orders, from two senders, about one owner: neighbours of rows R1, R2, R3, R11, R29, R32."""

from __future__ import annotations

from datetime import timedelta

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario, an_alert

REMEDIES = """
remedies:
  - name: take-out
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon]
    verify: {alert: resolved, object: ignored, for: 10s, timeout: 2m}
    limits: {cooldown: 1m}
  - name: restart-pod
    when: {alertname: PodStuck}
    mode: auto
    steps: [restart]
    verify: {alert: resolved, for: 10s, timeout: 2m}
    limits: {cooldown: 1m}
  - name: roll
    when: {alertname: Slow}
    mode: auto
    steps: [rollout-restart]
    verify: {alert: resolved, for: 10s, timeout: 5m}
    limits: {cooldown: 1m}
safety: {grace_after_outage: 1s}
"""
NODE = {"alertname": "NodeBad", "node": "node-a1"}
DB = {"namespace": "shop", "pod": "db-0"}
CART = {"namespace": "shop", "deployment": "cart"}


# Order ---------------------------------------------------------------------------------------------------------------


def test_R1_an_end_that_comes_before_its_beginning_does_not_end_the_alert_that_comes_after() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.resolve(NODE)
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "the alert fires")


def test_R1_the_late_end_of_an_earlier_occurrence_does_not_end_the_one_that_goes_on() -> None:
    with Scenario(REMEDIES.replace("auto", "approve"), nodes=6) as s:
        s.run_for("10m")
        s.alert(NODE)
        s.run_for("2s")
        earlier = s.now - timedelta(minutes=5)
        late = an_alert(NODE, status="resolved", starts_at=earlier - timedelta(minutes=1), ends_at=earlier)
        s.webhook({"alerts": [late]})
        s.run_for("5s")
        s.expect_state("NodeBad", IncidentState.AWAITING_APPROVAL)


@pytest.mark.parametrize("order", [("firing", "resolved"), ("resolved", "firing"), ("firing", "resolved", "firing")])
def test_R1_within_one_batch_the_last_word_about_an_alert_counts(order: tuple[str, ...]) -> None:
    with Scenario(REMEDIES.replace("auto", "approve"), nodes=6) as s:
        s.run_for("2s")
        s.webhook({"alerts": [an_alert(NODE, status=word, starts_at=s.now, ends_at=s.now) for word in order]})
        s.run_for("2s")
        waiting = [view for view in s.incidents() if view.state is IncidentState.AWAITING_APPROVAL]
        assert len(waiting) == (order[-1] == "firing"), s.story()


def test_R1_an_alert_that_is_sent_every_minute_is_one_alert() -> None:
    with Scenario(REMEDIES.replace("auto", "approve"), nodes=6) as s:
        s.run_for("2s")
        began = s.now
        for _ in range(10):
            s.alert(NODE, starts_at=began)
            s.run_for("1m")
        assert len(s.of_kind(ev.AlertFired)) == len(s.of_kind(ev.ApprovalRequested)) == 1, s.story()


# Two senders ---------------------------------------------------------------------------------------------------------


def test_the_same_trouble_told_by_rules_and_by_alertmanager_is_one_incident_and_one_repair() -> None:
    with Scenario("rules: ['pack:demo']\n" + REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert({**NODE, "severity": "warning"})
        s.alert({**NODE, "severity": "critical", "job": "kubelet"})
        s.run_for("20s")
        assert len(s.of_kind(ev.IncidentOpened)) == len(s.of_kind(ev.OperationStarted)) == 1, s.story()
        s.resolve({**NODE, "severity": "warning"})
        s.run_for("30s")
        s.expect_state("NodeBad", IncidentState.VERIFYING)
        s.resolve({**NODE, "severity": "critical", "job": "kubelet"})
        s.run_for("30s")
        s.expect_closed("NodeBad", Reason.FIXED)


def test_R32_an_alert_of_a_cluster_that_nobody_knows_is_kept_with_the_reason_and_touches_nothing() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert({**NODE, "cluster": "mars"})
        s.run_for("10s")
        s.expect_nothing_changed()
        s.expect_decided(Reason.TARGET_NOT_FOUND, detail="mars")
        s.resolve({**NODE, "cluster": "mars"})
        s.run_for("10s")
        s.expect_closed("NodeBad", Reason.RESOLVED_ON_ITS_OWN)


# A target that changes -----------------------------------------------------------------------------------------------


def test_R3_a_pod_that_is_made_anew_before_the_repair_comes_to_it_is_planned_for_anew() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert(DB, alertname="PodStuck")
        s.world.storage.delete("pods", "shop", "db-0", grace_seconds=0)
        s.run_for("30s")
        fresh = s.world.storage.get("pods", "shop", "db-0")
        assert fresh is not None
        for record in s.changes("/pods/db-0", "DELETE"):
            assert fresh["metadata"]["uid"].encode() not in record.body or record.status == 200, s.story()
        s.run_for("5m")
        assert [r.status for r in s.changes("/pods/db-0", "DELETE")].count(200) <= 2, s.story()
        view = s.incident("PodStuck")
        s.expect(
            view.state is IncidentState.ESCALATED or view.plan is not None, "it is looked at anew as the alert goes on"
        )


def test_R3_a_pod_that_is_gone_for_good_is_no_target_and_wakes_nobody() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        name = next(p["metadata"]["name"] for p in s.world.storage.items("pods", "shop") if "cart" in str(p))
        s.world.storage.delete("pods", "shop", name, grace_seconds=0)
        s.run_for("5s")
        s.alert(alertname="PodStuck", namespace="shop", pod=name)
        s.run_for("20m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.TARGET_NOT_FOUND)
        assert not s.of_kind(ev.Escalated), s.story()


# One owner, several alerts -------------------------------------------------------------------------------------------


def test_R11_evidence_that_goes_on_firing_does_not_make_a_cure_a_failure() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert(CART, alertname="Slow")
        s.alert(CART, alertname="NobodyHasARemedy")
        s.run_for("30s")
        s.resolve(CART, alertname="Slow")
        s.run_for("10m")
        s.expect_closed("Slow", Reason.FIXED)
        assert not s.of_kind(ev.Escalated), s.story()


def test_R11_a_second_alert_of_the_owner_that_outlasts_the_cure_of_the_first_gets_its_own_remedy() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert(DB, alertname="PodStuck")
        s.run_for("2s")
        s.alert({"namespace": "shop", "statefulset": "db"}, alertname="Slow")
        s.run_for("60s")
        s.resolve(DB, alertname="PodStuck")
        s.run_for("10m")
        remedies = [event.remedy for event in s.of_kind(ev.OperationStarted)]
        assert remedies == ["restart-pod", "roll"], s.story()


# After a person was called -------------------------------------------------------------------------------------------


def test_an_escalated_incident_whose_alert_ends_is_closed_and_the_page_with_it() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_for("5m")
        s.expect_escalated("NodeBad", Reason.NOT_FIXED)
        s.expect(s.messages.edits[-1].page, "a person is called")
        s.resolve(NODE)
        s.run_for("5s")
        s.expect_closed("NodeBad", Reason.RESOLVED_ON_ITS_OWN)
        s.expect(not s.messages.edits[-1].page, "the page is resolved")
        assert len(s.messages.shown) == 1


def test_R29_an_alert_that_is_back_after_a_person_was_called_calls_again_and_repeats_nothing() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_for("5m")
        s.resolve(NODE)
        s.run_for("1m")
        s.alert(NODE)
        s.run_for("5m")
        s.expect_escalated("NodeBad")
        assert len(s.of_kind(ev.IncidentOpened)) == len(s.cordons("node-a1")) == 1, s.story()
        assert len(s.of_kind(ev.Escalated)) == 2, s.story()


def test_R29_an_alert_that_is_back_after_a_long_time_is_a_new_incident_with_a_new_chance() -> None:
    with Scenario(REMEDIES, nodes=6) as s:
        s.run_for("2s")
        for _ in range(2):
            s.alert(DB, alertname="PodStuck")
            s.run_for("1m")
            s.resolve(DB, alertname="PodStuck")
            s.run_for("15m")
        assert len(s.of_kind(ev.IncidentOpened)) == 2, s.story()
        assert [view.reason for view in s.incidents()] == [Reason.FIXED, Reason.FIXED], s.story()
