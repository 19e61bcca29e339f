"""The very same alert from our own rules and from Alertmanager: it is one alert, and fires until neither says so."""

from __future__ import annotations

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario

ASK = """
rules: ['pack:demo']
remedies:
  - {name: take-out, when: {alertname: NodeDown}, mode: approve, steps: [cordon], approval: {expires: 1h}}
safety: {grace_after_outage: 1s}
"""


def told_by_both(s: Scenario) -> dict[str, str]:
    """Its labels."""
    s.run_for("30s")
    s.fault("kubelet-stop", "node-a1", lasts="5m")
    s.run_until(lambda: s.of_kind(ev.AlertFired))
    labels = dict(s.of_kind(ev.AlertFired)[0].labels)
    s.alert(labels)
    s.run_for("30s")
    s.expect_state("NodeDown", IncidentState.AWAITING_APPROVAL)
    return labels


def test_it_is_one_incident_and_people_are_asked_once() -> None:
    with Scenario(ASK) as s:
        told_by_both(s)
        assert len(s.of_kind(ev.IncidentOpened)) == len(s.of_kind(ev.ApprovalRequested)) == 1, s.story()
        assert len(s.incident("NodeDown").alerts) == 1


def test_what_alertmanager_calls_over_still_fires_while_our_rule_says_so() -> None:
    with Scenario(ASK) as s:
        labels = told_by_both(s)
        s.resolve(labels)
        s.run_for("30s")
        s.expect_state("NodeDown", IncidentState.AWAITING_APPROVAL)
        s.run_for("6m")
        s.expect_closed("NodeDown", Reason.RESOLVED_ON_ITS_OWN)
        assert not s.of_kind(ev.IncidentReopened), s.story()


def test_what_our_rule_calls_over_still_fires_while_alertmanager_says_so_also_over_a_restart() -> None:
    with Scenario(ASK) as s:
        labels = told_by_both(s)
        s.run_for("8m")
        s.expect_state("NodeDown", IncidentState.AWAITING_APPROVAL)
        s.kill()
        s.start()
        s.run_for("1m")
        s.expect_state("NodeDown", IncidentState.AWAITING_APPROVAL)
        s.resolve(labels)
        s.run_for("5s")
        s.expect_closed("NodeDown", Reason.RESOLVED_ON_ITS_OWN)


def test_an_end_told_by_somebody_who_never_told_of_its_beginning_ends_nothing() -> None:
    with Scenario(ASK) as s:
        s.run_for("30s")
        s.fault("kubelet-stop", "node-a1")
        s.run_until(lambda: s.of_kind(ev.AlertFired))
        s.run_for("30s")
        s.resolve(dict(s.of_kind(ev.AlertFired)[0].labels))
        s.run_for("1m")
        s.expect_state("NodeDown", IncidentState.AWAITING_APPROVAL)
        assert not s.of_kind(ev.AlertResolved), s.story()
