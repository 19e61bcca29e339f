"""What happens to alerts and repairs while somebody meddles: pauses, reloads, outages, other people's hands."""

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
    mode: auto
    steps: [cordon, {drain: {timeout: 5m}}, uncordon]
    verify: {alert: resolved, for: 10s, timeout: 5m}
safety: {grace_after_outage: 1s, stale_after: 20s}
"""
CORDON = """
remedies:
  - name: take-out
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon]
    verify: {alert: resolved, for: 10s, timeout: 2m}
safety: {grace_after_outage: 1s, stale_after: 20s}
"""
ALERT = {"alertname": "NodeBad", "node": "node-a1"}


def draining(s: Scenario) -> None:
    """The alert has fired, and the first pods have been evicted."""
    s.run_for("2s")
    s.alert(ALERT)
    s.run_until(s.evictions)


# Pauses --------------------------------------------------------------------------------------------------------------


def test_an_alert_that_fires_during_a_pause_is_acted_upon_when_it_ends() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        s.pause("release")
        s.alert(ALERT)
        s.run_for("10m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.PAUSED, detail="release")
        s.resume()
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "the pause is over")


def test_a_pause_during_a_drain_holds_before_the_next_eviction_and_the_drain_goes_on_afterwards() -> None:
    with Scenario(DRAIN, nodes=6) as s:
        draining(s)
        s.pause()
        s.run_for("2s")
        held = len(s.changes())
        s.run_for("20m")
        assert len(s.changes()) == held, s.story()
        s.expect_state("NodeBad", IncidentState.ACTING)
        s.resume()
        s.run_for("3m")
        s.resolve(ALERT)
        s.run_for("30s")
        s.expect_closed("NodeBad", Reason.FIXED)


def test_an_operation_that_is_cancelled_while_paused_takes_back_what_it_did() -> None:
    with Scenario(DRAIN, nodes=6) as s:
        draining(s)
        s.pause()
        s.run_for("2s")
        assert s.cancel("NodeBad") is Reason.OK
        s.run_for("30s")
        s.expect(not s.is_cordoned("node-a1"), "taking back is not paused")
        s.expect_state("NodeBad", IncidentState.OPEN, Reason.CANCELLED)
        assert s.cancel("NodeBad") is Reason.NO_LONGER_NEEDED


def test_an_alert_that_resolves_while_its_drain_is_under_way_lets_it_finish_and_starts_no_other() -> None:
    with Scenario(DRAIN, nodes=6) as s:
        draining(s)
        s.resolve(ALERT)
        s.run_for("3m")
        s.expect_closed("NodeBad", Reason.FIXED)
        s.expect(not s.is_cordoned("node-a1"), "the node was given back")
        assert len(s.of_kind(ev.OperationStarted)) == 1


# The configuration changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["acting", "verifying"])
def test_a_repair_whose_remedy_is_taken_out_of_the_configuration_is_finished_as_it_was_agreed(when: str) -> None:
    with Scenario(DRAIN, nodes=6) as s:
        draining(s)
        if when == "verifying":
            s.run_until(lambda: s.of_kind(ev.VerificationStarted))
        s.reload("safety: {grace_after_outage: 1s}\n")
        s.run_for("2m")
        s.resolve(ALERT)
        s.run_for("30s")
        s.expect_closed("NodeBad", Reason.FIXED)
        s.expect(not s.is_cordoned("node-a1"), "all steps were done")
        s.run_for("10m")
        s.alert(ALERT)
        s.run_for("1m")
        assert len(s.of_kind(ev.OperationStarted)) == 1, "and there is no other"


def test_people_who_are_asked_for_a_remedy_that_is_taken_out_are_no_longer_asked() -> None:
    with Scenario(CORDON.replace("auto", "approve"), nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("2s")
        s.reload("safety: {grace_after_outage: 1s}\n")
        s.run_for("5s")
        s.expect_state("NodeBad", IncidentState.OPEN, Reason.NO_REMEDY)
        assert s.approve("NodeBad") is Reason.NO_LONGER_NEEDED
        s.run_for("1m")
        s.expect_nothing_changed()


@pytest.mark.parametrize("mode", ["shadow", "suggest"])
@pytest.mark.parametrize("agreed", [True, False])
def test_people_are_no_longer_asked_and_their_yes_starts_nothing_once_the_remedy_may_only_look(
    mode: str, agreed: bool
) -> None:
    with Scenario(CORDON.replace("auto", "approve"), nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("2s")
        if agreed:
            s.pause()
            assert s.approve("NodeBad") is Reason.OK
        s.reload(CORDON.replace("auto", mode))
        s.resume()
        s.run_for("5s")
        s.expect_state("NodeBad", IncidentState.OPEN, Reason.SHADOW if mode == "shadow" else Reason.SUGGESTED)
        assert s.approve("NodeBad") is Reason.NO_LONGER_NEEDED
        s.run_for("1m")
        s.expect_nothing_changed()


def test_people_are_asked_anew_when_the_steps_have_changed_since() -> None:
    with Scenario(CORDON.replace("auto", "approve"), nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("2s")
        asked = s.incident("NodeBad").approval_digest
        s.reload(DRAIN.replace("auto", "approve").replace("empty-node", "take-out"))
        s.run_for("5s")
        s.expect_state("NodeBad", IncidentState.AWAITING_APPROVAL)
        assert s.approve("NodeBad", digest=asked) is Reason.PLAN_CHANGED
        s.run_for("30s")
        s.expect_nothing_changed()


def test_an_alert_without_a_remedy_gets_one_with_the_next_configuration() -> None:
    with Scenario("safety: {grace_after_outage: 1s}\n", nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("5s")
        s.expect_decided(Reason.NO_REMEDY)
        s.reload(CORDON)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "there is a remedy now")


# The API server is away ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["down", "hang"])
def test_an_alert_that_comes_while_the_api_server_is_away_is_kept_and_acted_upon_when_it_is_back(trouble: str) -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        setattr(s.api_faults, trouble, True)
        s.run_for("40s")
        s.alert(ALERT)
        s.run_for("5m")
        s.expect_nothing_changed()
        s.expect_decided(Reason.API_UNHEALTHY)
        setattr(s.api_faults, trouble, False)
        s.run_for("2m")
        s.expect(s.is_cordoned("node-a1"), "the API server is back")


def test_an_alert_that_comes_and_goes_while_the_api_server_is_away_leaves_nothing_behind() -> None:
    with Scenario(CORDON, nodes=6) as s:
        s.run_for("2s")
        s.api_faults.down = True
        s.run_for("40s")
        s.alert(ALERT)
        s.run_for("1m")
        s.resolve(ALERT)
        s.run_for("1m")
        s.api_faults.down = False
        s.run_for("2m")
        s.expect_closed("NodeBad", Reason.RESOLVED_ON_ITS_OWN)
        s.expect_nothing_changed()


@pytest.mark.parametrize("trouble", ["down", "hang"])
def test_a_drain_that_the_api_server_leaves_in_the_middle_goes_on_when_it_is_back(trouble: str) -> None:
    with Scenario(DRAIN, nodes=6) as s:
        draining(s)
        setattr(s.api_faults, trouble, True)
        s.run_for("3m")
        setattr(s.api_faults, trouble, False)
        s.run_for("5m")
        s.resolve(ALERT)
        s.run_for("1m")
        s.expect_closed("NodeBad", Reason.FIXED)
        s.expect(not s.is_cordoned("node-a1"), "the node was given back")


def test_started_while_the_api_server_is_away_alerts_are_kept_until_it_can_be_read() -> None:
    with Scenario(CORDON, nodes=6, apart=True) as s:
        s.api_faults.down = True
        s.start()
        s.alert(ALERT)
        s.run_for("5m")
        s.expect_nothing_changed()
        s.api_faults.down = False
        s.run_for("3m")
        s.expect(s.is_cordoned("node-a1"), "the API server is there")
