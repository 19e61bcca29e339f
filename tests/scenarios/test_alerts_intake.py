"""Alerts coming in: rows R1, R2, R9, R10, R11, R29, R32, R34, R38."""

from __future__ import annotations

from datetime import timedelta

import pytest

from healer.errors import BadPayload, JournalError
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario, an_alert

RESTART = """
remedies:
  - name: restart-pod
    when: {alertname: PodStuck}
    mode: auto
    steps: [restart]
    verify: {alert: resolved, for: 10s, timeout: 3m}
    limits: {cooldown: 5m, per_hour: 10, max_in_flight: 5, per_zone: unlimited}
  - name: ask-first
    when: {alertname: AskFirst}
    mode: approve
    steps: [restart]
    verify: {alert: resolved, for: 10s, timeout: 3m}
safety: {grace_after_outage: 1s}
"""
STORM = RESTART.replace("safety: {", "safety: {storm: {alerts: 200, over: 60s}, ")


def pod(s: Scenario, start: str = "cart-") -> dict[str, str]:
    """Labels that name the first pod of a workload."""
    name = next(
        p["metadata"]["name"] for p in s.world.storage.items("pods", "shop") if p["metadata"]["name"].startswith(start)
    )
    return {"namespace": "shop", "pod": name}


def sent(s: Scenario, *alerts: tuple[dict[str, str], str]) -> dict[str, object]:
    return {"alerts": [an_alert(labels, status=status, starts_at=s.now, ends_at=s.now) for labels, status in alerts]}


def test_R1_each_alert_of_a_batch_has_its_own_status_and_the_batch_has_none() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        a, b = {"alertname": "AskFirst", **pod(s, "cart-")}, {"alertname": "AskFirst", **pod(s, "web-")}
        s.webhook(sent(s, (b, "firing")))
        s.run_for("2s")
        s.webhook({"status": "firing", **sent(s, (a, "firing"), (b, "resolved"))})
        s.run_for("2s")
        states = {str(view.owner): view.state for view in s.incidents()}
        assert states == {
            "deployment/shop/cart": IncidentState.AWAITING_APPROVAL,
            "deployment/shop/web": IncidentState.CLOSED,
        }, s.story()


def test_R2_an_alert_that_resolves_while_approval_is_pending_needs_no_click_any_more() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        labels = pod(s)
        s.alert(labels, alertname="AskFirst")
        s.run_for("2s")
        s.expect_state("AskFirst", IncidentState.AWAITING_APPROVAL)
        s.resolve(labels, alertname="AskFirst")
        s.run_for("5s")
        s.expect_closed("AskFirst", Reason.RESOLVED_ON_ITS_OWN)
        assert s.approve("AskFirst") is Reason.NO_LONGER_NEEDED
        s.run_for("1m")
        s.expect_nothing_changed()
        assert s.messages.edits[-1].reason is Reason.RESOLVED_ON_ITS_OWN
        assert len(s.messages.shown) == 1, "one message, edited"


def test_R2_a_resolve_of_what_never_fired_starts_and_opens_nothing() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        s.resolve(pod(s), alertname="PodStuck")
        s.run_for("30s")
        assert not s.incidents()
        s.expect_nothing_changed()


def test_R9_what_the_journal_cannot_keep_is_not_acknowledged_and_not_remembered_as_seen() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        labels = pod(s)
        with s.journal.failing(), pytest.raises(JournalError):
            s.alert(labels, alertname="PodStuck")
        assert s.service.ready(), "not ready while nothing can be written"
        s.run_for("10s")
        assert not s.service.ready(), "and ready again by itself"
        s.expect_nothing_changed()
        s.alert(labels, alertname="PodStuck")
        s.run_for("5s")
        s.expect(s.changes(labels["pod"], "DELETE"), "sent again, it is taken and acted upon")


def test_R9_while_the_journal_is_full_nothing_is_done_and_afterwards_everything_is() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        s.alert(pod(s), alertname="AskFirst")
        s.run_for("2s")
        with s.journal.failing():
            with pytest.raises(JournalError):
                s.approve("AskFirst")
            s.run_for("2m")
            s.expect_nothing_changed()
        s.run_for("20s")
        assert s.approve("AskFirst") is Reason.OK
        s.run_for("5s")
        s.expect(s.changes("/pods/", "DELETE"), "approved, journalled, done")


def test_R10_a_storm_of_alerts_is_taken_in_grouped_told_once_and_acts_on_nothing() -> None:
    with Scenario(STORM, nodes=6) as s:
        s.run_for("2s")
        pods = [p["metadata"]["name"] for p in s.world.storage.items("pods", "shop")]
        for second in range(20):
            rows = [
                (
                    {"alertname": "PodStuck", "namespace": "shop", "pod": pods[i % len(pods)], "n": f"{second}-{i}"},
                    "firing",
                )
                for i in range(500)
            ]
            s.webhook(sent(s, *rows))
            s.run_for("1s")
        s.run_for("10s")
        assert len(s.of_kind(ev.AlertFired)) == 10_000
        assert len(s.of_kind(ev.StormNoticed)) == 1, "one notice"
        assert len(s.of_kind(ev.IncidentOpened)) <= 6, "grouped by owner"
        s.expect(len(s.changes("/pods/", "DELETE")) <= 5, "what began before the storm was seen, and nothing after it")


def test_R10_a_batch_that_was_cut_off_marks_the_incident_incomplete() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        s.webhook({**sent(s, ({"alertname": "AskFirst", **pod(s)}, "firing")), "truncatedAlerts": 9500})
        s.run_for("2s")
        assert s.incident("AskFirst").incomplete, s.story()


def test_R11_alerts_of_one_owner_are_one_incident_and_one_repair() -> None:
    with Scenario(RESTART, nodes=6) as s:
        s.run_for("2s")
        pods = [
            p["metadata"]["name"]
            for p in s.world.storage.items("pods", "shop")
            if p["metadata"]["name"].startswith("cart-")
        ]
        rows = [
            ({"alertname": name, "namespace": "shop", "pod": pod_}, "firing")
            for pod_, name in zip(pods, ["PodStuck", "A", "B", "C", "D"], strict=False)
        ]
        s.webhook(sent(s, *rows))
        s.run_for("1m")
        assert len(s.of_kind(ev.IncidentOpened)) == 1
        assert len(s.changes("/pods/", "DELETE")) == 1
        assert len(s.incident("PodStuck").alerts) == 5, "the rest are evidence"


def test_R29_a_flapping_alert_is_one_incident_repaired_once_and_then_a_person_is_called() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        labels = pod(s, "db-")
        for _ in range(6):
            s.alert(labels, alertname="PodStuck")
            s.run_for("50s")
            s.resolve(labels, alertname="PodStuck")
            s.run_for("50s")
        assert len(s.of_kind(ev.IncidentOpened)) == 1, s.story()
        view = s.incident("PodStuck")
        assert view.flapping
        s.expect(len(s.changes("/pods/db-", "DELETE")) <= 2, "at most one repair a cooldown")
        assert s.of_kind(ev.Escalated), f"escalated instead of repeated\n{s.story()}"


def test_R32_the_cluster_is_part_of_an_alerts_identity() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        labels = pod(s)
        for cluster in ("prod", "us1"):
            s.alert({**labels, "cluster": cluster}, alertname="AskFirst")
        s.run_for("2s")
        s.resolve({**labels, "cluster": "us1"}, alertname="AskFirst")
        s.run_for("2s")
        states = {view.cluster: view.state for view in s.incidents()}
        assert states["prod"] is IncidentState.AWAITING_APPROVAL
        assert states["us1"] is IncidentState.CLOSED


BAD = {
    "no alertname": {"labels": {"pod": "x"}},
    "no labels": {"labels": {}},
    "not an object": 7,
    "a time that is none": {"labels": {"alertname": "A"}, "startsAt": "yesterday"},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_R34_a_bad_alert_is_rejected_and_counted_and_the_good_ones_beside_it_go_on(bad: object) -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        good = an_alert({"alertname": "AskFirst", **pod(s)}, status="firing", starts_at=s.now, ends_at=s.now)
        s.webhook({"alerts": [bad, good]})
        s.run_for("2s")
        s.expect_state("AskFirst", IncidentState.AWAITING_APPROVAL)
        (rejected,) = s.of_kind(ev.AlertsRejected)
        assert sum(rejected.counts.values()) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000], ids=repr)
def test_R34_a_body_that_is_no_webhook_is_refused_with_the_reason(body: bytes) -> None:
    with Scenario(RESTART, nodes=3) as s, pytest.raises(BadPayload, match=r"\w"):
        s.webhook(body)


def test_R34_an_empty_list_is_nothing() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.webhook({"alerts": []})
        s.run_for("2s")
        assert not s.incidents()


def test_R38_a_start_in_the_future_is_taken_as_now_and_noted() -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        s.alert(pod(s), alertname="AskFirst", starts_at=s.now + timedelta(hours=1))
        s.run_for("2s")
        (fired,) = s.of_kind(ev.AlertFired)
        assert fired.starts_at <= fired.at
        assert any("future" in note for note in fired.notes)


@pytest.mark.parametrize("step_seconds", [-90, 3600, -3600])
def test_R38_a_step_of_the_wall_clock_moves_no_cooldown(step_seconds: float) -> None:
    with Scenario(RESTART, nodes=3) as s:
        s.run_for("2s")
        labels = pod(s, "db-")
        s.alert(labels, alertname="PodStuck")
        s.run_for("30s")
        s.resolve(labels, alertname="PodStuck")
        s.run_for("30s")
        s.clock.wall_offset_seconds = step_seconds
        s.alert(labels, alertname="PodStuck")
        s.run_for("60s")
        s.expect(len(s.changes("/pods/db-", "DELETE")) == 1, "the cooldown of 5 minutes still runs")
        s.run_for("6m")
        s.expect(len(s.changes("/pods/db-", "DELETE")) == 2, "and ends when 5 minutes have passed")
