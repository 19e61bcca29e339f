"""People are asked, and answer: too late, twice, in turn, or for something that is no longer so. Rows R2, R3, R38."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario

ASK = """
remedies:
  - name: take-out
    when: {alertname: DiskErrors}
    mode: approve
    steps: [cordon]
    verify: {alert: resolved, for: 10s, timeout: 5m}
    approval: {expires: 15m, minimum: %d}
safety: {grace_after_outage: 1s}
"""
ALERT = {"alertname": "DiskErrors", "node": "node-a1"}
HOUR_SECONDS = 3600.0


def asked(s: Scenario) -> None:
    """The alert has fired, and people have been asked."""
    s.run_for("2s")
    s.alert(ALERT)
    s.run_for("2s")
    s.expect_state("DiskErrors", IncidentState.AWAITING_APPROVAL)


def test_R2_an_alert_that_resolves_twice_while_people_are_asked_is_closed_once() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.resolve(ALERT)
        s.resolve(ALERT)
        s.run_for("5s")
        s.resolve(ALERT)
        s.run_for("5s")
        assert len(s.of_kind(ev.IncidentClosed)) == len(s.of_kind(ev.ApprovalVoided)) == 1, s.story()
        assert s.deny("DiskErrors") is Reason.NO_LONGER_NEEDED
        s.expect_nothing_changed()


def test_R2_an_approval_that_the_end_of_the_alert_overtakes_starts_nothing() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.pause("wait for me")
        assert s.approve("DiskErrors") is Reason.OK
        s.run_for("5s")
        s.resolve(ALERT)
        s.run_for("5s")
        s.resume()
        s.run_for("1m")
        s.expect_closed("DiskErrors", Reason.RESOLVED_ON_ITS_OWN)
        s.expect_nothing_changed()


def test_R2_an_alert_that_is_back_after_its_end_is_asked_about_anew() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.resolve(ALERT)
        s.run_for("10s")
        s.alert(ALERT)
        s.run_for("10s")
        s.expect_state("DiskErrors", IncidentState.AWAITING_APPROVAL)
        s.expect_no_cordon()
        assert s.approve("DiskErrors") is Reason.OK
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "it was approved")


def test_R15_two_people_are_needed_and_one_who_agrees_twice_is_one() -> None:
    with Scenario(ASK % 2, nodes=3) as s:
        asked(s)
        assert s.approve("DiskErrors", by="anna") is Reason.OK
        assert s.approve("DiskErrors", by="anna") is Reason.ALREADY_DECIDED
        assert s.approve("DiskErrors", by="anna", via="cli") is Reason.ALREADY_DECIDED
        s.run_for("1m")
        s.expect_no_cordon()
        assert s.approve("DiskErrors", by="ben") is Reason.OK
        assert s.approve("DiskErrors", by="cid") is Reason.ALREADY_DECIDED
        s.run_for("1m")
        assert len(s.cordons("node-a1")) == 1, s.story()


@pytest.mark.parametrize("agreed_before", [True, False])
def test_R15_after_a_no_a_yes_is_too_late(agreed_before: bool) -> None:
    with Scenario(ASK % 2, nodes=3) as s:
        asked(s)
        if agreed_before:
            s.approve("DiskErrors", by="anna")
        assert s.deny("DiskErrors", by="ben") is Reason.OK
        s.run_for("1s")
        assert s.approve("DiskErrors", by="cid") is Reason.NO_LONGER_NEEDED
        s.run_for("30m")
        s.expect_nothing_changed()
        s.expect_state("DiskErrors", IncidentState.OPEN, Reason.DENIED)


def test_R15_a_no_holds_also_for_the_same_alert_when_it_is_back() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.deny("DiskErrors")
        s.run_for("10s")
        s.resolve(ALERT)
        s.run_for("10s")
        s.alert(ALERT)
        s.run_for("10s")
        s.expect_state("DiskErrors", IncidentState.OPEN, Reason.DENIED)
        s.expect_no_cordon()


def test_R15_after_a_yes_a_no_is_told_how_to_stop_it() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        assert s.approve("DiskErrors") is Reason.OK
        s.run_for("1s")
        assert s.deny("DiskErrors", by="ben") is Reason.ALREADY_DECIDED
        answers = [(a.by, a.approve, a.accepted) for a in s.of_kind(ev.ApprovalAnswered)]
        assert answers == [("anna", True, True), ("ben", False, False)], "the answer that did not count is kept, too"


def test_R15_nobody_answers_and_a_person_is_called_once() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.run_for("20m")
        s.expect_escalated("DiskErrors", Reason.APPROVAL_EXPIRED)
        assert s.approve("DiskErrors") is Reason.NO_LONGER_NEEDED
        s.run_for("1h")
        s.expect_nothing_changed()
        assert len(s.of_kind(ev.Escalated)) == 1, s.story()


@pytest.mark.parametrize("node_is", ["recreated", "gone"])
def test_R3_what_was_approved_for_a_machine_is_not_done_to_another_of_its_name(node_is: str) -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        fault = "node-recreate-same-name" if node_is == "recreated" else "machine-gone"
        s.fault(fault, "node-a1")
        s.run_for("3m")
        reason = s.approve("DiskErrors")
        s.run_for("1m")
        s.expect_no_cordon()
        s.expect(
            reason is not Reason.OK or s.of_kind(ev.ApprovalVoided), "an approval for another machine does not count"
        )


@pytest.mark.parametrize("step_seconds", [-HOUR_SECONDS, HOUR_SECONDS, -90.0])
def test_R38_a_step_of_the_wall_clock_neither_ends_nor_prolongs_the_time_to_answer(step_seconds: float) -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.run_for("5m")
        s.clock.wall_offset_seconds = step_seconds
        s.run_for("5m")
        s.expect_state("DiskErrors", IncidentState.AWAITING_APPROVAL)
        s.run_for("6m")
        s.expect_escalated("DiskErrors", Reason.APPROVAL_EXPIRED)


def test_R38_an_answer_in_time_counts_whatever_the_wall_clock_says() -> None:
    with Scenario(ASK % 1, nodes=3) as s:
        asked(s)
        s.clock.wall_offset_seconds = HOUR_SECONDS
        assert s.approve("DiskErrors") is Reason.OK
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "it was approved in time")
