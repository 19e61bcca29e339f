"""Too many alerts at once, and clocks that jump: rows R10, R29 and R38 and their neighbours."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario, an_alert

HOUR = 3600.0
CORDON = """
remedies:
  - name: take-out
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon]
    verify: {alert: resolved, object: ignored, for: 10s, timeout: 5m}
    limits: {cooldown: 5m}
safety: {grace_after_outage: 1s, storm: {alerts: 100, over: 30s}}
"""
NODE = {"alertname": "NodeBad", "node": "node-a1"}


def storm(s: Scenario, count: int = 150, **labels: str) -> None:
    """So many alerts that nobody has a remedy for, in one batch."""
    rows = [{"alertname": "Noise", "n": str(index), **labels} for index in range(count)]
    s.webhook({"alerts": [an_alert(row, status="firing", starts_at=s.now, ends_at=s.now) for row in rows]})


# Storms --------------------------------------------------------------------------------------------------------------


def test_R10_an_alert_in_a_storm_waits_and_is_acted_upon_when_the_storm_is_over() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        storm(s)
        s.alert(NODE)
        s.run_for("20s")
        s.expect_nothing_changed()
        s.expect_decided(Reason.STORM)
        s.run_for("2m")
        s.expect(s.is_cordoned("node-a1"), "the storm is over")


def test_R10_alerts_that_never_had_an_incident_do_not_hold_up_one_that_comes_after_them() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        for _ in range(4):
            storm(s, 90, source=str(s.now))
            s.run_for("1m")
        s.alert(NODE)
        s.run_for("10s")
        assert not s.of_kind(ev.StormNoticed), "90 a minute are no storm"
        s.expect(s.is_cordoned("node-a1"), "nothing stands in its way")


def test_R10_a_second_storm_after_a_calm_is_told_again() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        storm(s, day="one")
        s.run_for("5m")
        storm(s, day="two")
        s.run_for("10s")
        assert len(s.of_kind(ev.StormNoticed)) == 2, s.story()


def test_R10_the_same_alerts_sent_again_and_again_are_no_storm() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        for _ in range(10):
            storm(s, 90)
            s.run_for("2s")
        assert len(s.of_kind(ev.AlertFired)) == 90
        assert not s.of_kind(ev.StormNoticed)


def test_R10_what_began_before_a_storm_is_finished_and_verified_in_it() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_for("5s")
        s.expect_state("NodeBad", IncidentState.VERIFYING)
        storm(s)
        s.resolve(NODE)
        s.run_for("15s")
        s.expect_closed("NodeBad", Reason.FIXED)


# Flapping ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [3, 6, 12])
def test_R29_however_often_it_flaps_it_is_repaired_once_a_cooldown_and_in_the_end_a_person_is_called(
    times: int,
) -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        for _ in range(times):
            s.alert(NODE)
            s.run_for("20s")
            s.resolve(NODE)
            s.run_for("20s")
        s.alert(NODE)
        s.run_for("10m")
        assert len(s.of_kind(ev.IncidentOpened)) == 1, s.story()
        assert len(s.cordons("node-a1")) <= 2, s.story()
        s.expect_escalated("NodeBad", Reason.FLAPPING)
        assert len(s.messages.shown) == 1, "one message, edited"


# Clocks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_seconds", [-HOUR, HOUR])
def test_R38_a_step_of_the_wall_clock_does_not_make_a_returning_alert_a_new_incident(step_seconds: float) -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_for("20s")
        s.resolve(NODE)
        s.run_for("20s")
        s.clock.wall_offset_seconds = step_seconds
        s.alert(NODE)
        s.run_for("20s")
        assert len(s.of_kind(ev.IncidentOpened)) == 1, s.story()


@pytest.mark.parametrize("step_seconds", [-HOUR, HOUR])
def test_R38_a_step_of_the_wall_clock_does_not_make_a_later_occurrence_part_of_an_old_incident(
    step_seconds: float,
) -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_for("20s")
        s.resolve(NODE)
        s.clock.wall_offset_seconds = step_seconds
        s.run_for("15m")
        s.alert(NODE)
        s.run_for("20s")
        assert len(s.of_kind(ev.IncidentOpened)) == 2, s.story()


@pytest.mark.parametrize("step_seconds", [-HOUR, -90.0, HOUR])
def test_R38_a_step_of_the_wall_clock_during_the_proof_changes_neither_its_length_nor_its_verdict(
    step_seconds: float,
) -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_for("5s")
        s.clock.wall_offset_seconds = step_seconds
        s.resolve(NODE)
        s.run_for("8s")
        s.expect_state("NodeBad", IncidentState.VERIFYING)
        s.run_for("5s")
        s.expect_closed("NodeBad", Reason.FIXED)
        assert all((part or 0.0) >= 0.0 for part in (s.incident("NodeBad").times.detect,)), s.story()


@pytest.mark.parametrize("step_seconds", [-HOUR, HOUR])
def test_R38_a_drain_whose_wall_clock_steps_in_the_middle_goes_on(step_seconds: float) -> None:
    config = CORDON.replace("[cordon]", "[cordon, {drain: {timeout: 3m}}, uncordon]")
    with Scenario(config, nodes=6) as s:
        s.run_for("2s")
        s.alert(NODE)
        s.run_until(s.evictions)
        s.clock.wall_offset_seconds = step_seconds
        s.run_for("1m")
        s.resolve(NODE)
        s.run_for("1m")
        s.expect_closed("NodeBad", Reason.FIXED)
