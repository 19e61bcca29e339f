"""Healer dies at the worst moments and is started again; or its configuration changes under it. Row R13 and its neighbours."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario

DRAIN = """
remedies:
  - name: empty-node
    when: {alertname: NodeBad}
    mode: %s
    steps: [cordon, {drain: {timeout: 5m}}, uncordon]
    verify: {alert: resolved, for: 10s, timeout: 5m}
safety: {grace_after_outage: 1s}
"""
AUTO = DRAIN % "auto"
ALERT = {"alertname": "NodeBad", "node": "node-a1"}
OPERATING = (
    ev.OperationStarted,
    ev.StepStarted,
    ev.StepNoted,
    ev.CallIntended,
    ev.CallEnded,
    ev.StepEnded,
    ev.OperationEnded,
    ev.VerificationStarted,
    ev.Verified,
    ev.IncidentClosed,
)


def expect_drained_once(s: Scenario) -> None:
    """The whole remedy has been carried out, every part of it once, and the node has been given back."""
    s.expect_closed("NodeBad", Reason.FIXED)
    assert not s.is_cordoned("node-a1"), s.story()
    assert len(s.of_kind(ev.OperationStarted)) == 1, s.story()
    assert len(s.cordons("node-a1")) == 1, s.story()
    evicted = [record.path for record in s.evictions() if record.status in (200, 201)]
    assert len(evicted) == len(set(evicted)), s.story()
    left = [call for call in open_calls(s) if "cordon" in call]
    assert not left, f"the journal leaves the outcome of {left} open\n{s.story()}"


def open_calls(s: Scenario) -> set[str]:
    """Calls that were begun and of which nobody ever learnt how they ended."""
    known: set[str] = set()
    for event in s.events:
        if isinstance(event, ev.CallIntended):
            known.add(event.call)
        elif isinstance(event, ev.CallEnded):
            known.discard(event.call)
    return known


@pytest.mark.parametrize("kind", OPERATING, ids=lambda kind: kind.__name__)
def test_R13_a_drain_goes_on_after_dying_before_and_after_any_kind_of_event(kind: type[ev.Event]) -> None:
    with Scenario(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        if kind in (ev.Verified, ev.IncidentClosed):
            s.run_for("30s")
            s.resolve(ALERT)
        for written in (False, True):
            s.kill_at(kind, written=written)
            s.run_for("20s")
        s.start()
        s.run_for("1m")
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)


def test_R13_a_healer_that_dies_after_every_second_event_still_gets_the_work_done_once() -> None:
    with Scenario(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        deaths = 0
        while not s.of_kind(ev.OperationEnded):
            s.kill_at(*OPERATING, nth=2, written=deaths % 2 == 0)
            deaths += 1
            assert deaths < 60, s.story()
        s.start()
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)


@pytest.mark.parametrize("gone_for", ["30s", "14m", "3h"])
def test_R13_people_go_on_being_asked_after_a_restart_but_no_longer_than_was_said(gone_for: str) -> None:
    with Scenario(DRAIN % "approve", nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("5s")
        s.kill()
        s.run_for(gone_for)
        s.start()
        s.run_for("10s")
        if gone_for == "3h":
            s.expect_escalated("NodeBad", Reason.APPROVAL_EXPIRED)
            s.expect_nothing_changed()
            return
        s.expect_state("NodeBad", IncidentState.AWAITING_APPROVAL)
        assert len(s.of_kind(ev.ApprovalRequested)) == 1, "asked once"
        assert s.approve("NodeBad") is Reason.OK
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "it was approved in time")


@pytest.mark.parametrize("resolved", [True, False])
def test_R13_a_verification_that_was_cut_short_is_begun_again_and_comes_to_its_verdict(resolved: bool) -> None:
    with Scenario(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_until(lambda: s.of_kind(ev.VerificationStarted))
        s.kill()
        s.run_for("2m")
        s.start()
        if resolved:
            s.resolve(ALERT)
        s.run_for("6m")
        assert len(s.of_kind(ev.Verified)) == 1, s.story()
        assert len(s.cordons("node-a1")) == 1, s.story()
        if resolved:
            s.expect_closed("NodeBad", Reason.FIXED)
        else:
            s.expect_escalated("NodeBad", Reason.NOT_FIXED)


def test_R13_a_pause_outlasts_a_restart_and_what_it_held_goes_on_when_it_ends() -> None:
    with Scenario(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_until(lambda: len(s.evictions()) >= 1)
        s.pause("let me look")
        s.run_for("5s")
        begun = len(s.changes())
        s.kill()
        s.start()
        s.run_for("3m")
        assert len(s.changes()) == begun, f"paused is paused\n{s.story()}"
        s.resume()
        s.run_for("2m")
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)


CHANGED = {
    "its remedy is gone": "safety: {grace_after_outage: 1s}\n",
    "its steps have other settings": AUTO.replace("timeout: 5m}}, u", "timeout: 1h}}, u"),
    "its steps are fewer": AUTO.replace(", uncordon]", "]"),
    "its steps are of another kind": AUTO.replace(
        "cordon, {drain: {timeout: 5m}}, uncordon", "cordon, uncordon, cordon"
    ),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED.keys())
def test_R13_started_with_another_configuration_it_does_not_go_on_with_what_nobody_agreed_to(changed: str) -> None:
    with Scenario(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.kill_at(ev.CallEnded, nth=2)
        changes = len(s.changes())
        s.start(changed)
        s.run_for("5m")
        s.expect_escalated("NodeBad")
        assert len(s.changes()) == changes, s.story()
        view = s.incident("NodeBad")
        s.expect("configured" in view.detail, f"a person should learn why it stopped, not {view.detail!r}")
