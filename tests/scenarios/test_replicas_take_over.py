"""Two replicas over one journal: the leader dies at every moment, or is cut off, and the other one ends what it began, once."""

from __future__ import annotations

import pytest

from healer.errors import JournalError
from healer.loop.memory import Memory
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.testing.replicated import Replicated

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
    ev.IncidentOpened,
    ev.Planned,
    ev.OperationStarted,
    ev.StepStarted,
    ev.StepNoted,
    ev.CallIntended,
    ev.CallEnded,
    ev.StepEnded,
    ev.OperationEnded,
    ev.VerificationStarted,
)


def expect_drained_once(s: Replicated) -> None:
    s.expect_closed("NodeBad", Reason.FIXED)
    assert not s.is_cordoned("node-a1"), s.story()
    assert len(s.of_kind(ev.OperationStarted)) == 1, s.story()
    assert len(s.cordons("node-a1")) == 1, s.story()
    evicted = [record.path for record in s.evictions() if record.status in (200, 201)]
    assert len(evicted) == len(set(evicted)), s.story()


def known(memory: Memory) -> object:
    """What two replicas must agree about, moments on their own clocks left out."""
    return (
        memory.seq,
        memory.paused,
        {id_: (episode.ends_at, episode.incident, episode.sources) for id_, episode in memory.episodes.items()},
        {id_: (incident.state, incident.timeline, incident.operation) for id_, incident in memory.incidents.items()},
        {id_: (operation.ended_at, operation.verdict) for id_, operation in memory.operations.items()},
    )


def test_a_standby_knows_what_the_leader_knows() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.take(s.others[0], **ALERT)
        s.run_for("30s")
        s.take(s.leader, alertname="NodeBad", node="node-b1")
        s.run_for("10s")
        one, two = (replica.service.recorder.memory for replica in s.replicas.values())
        assert known(one) == known(two)
        assert s.leader
        assert len(s.incidents()) == 2


def test_an_alert_that_a_standby_takes_is_acted_upon_within_a_second() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.take(s.others[0], **ALERT)
        assert s.run_until(lambda: s.cordons("node-a1"), within="5s") <= 1.0


@pytest.mark.parametrize("kind", OPERATING, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("written", [True, False], ids=["just after", "just before"])
def test_the_other_goes_on_when_the_leader_dies_before_and_after_any_kind_of_event(
    kind: type[ev.Event], written: bool
) -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.take(s.others[0], **ALERT)
        s.kill_at(kind, written=written, within="1m")
        died = s.clock.monotonic()
        s.run_until(lambda: s.leader, within="4s")
        assert s.clock.monotonic() - died <= 2.0
        s.run_for("1m")
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)


def test_an_alert_that_a_standby_took_while_nobody_led_is_acted_upon() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.kill()
        s.take(next(iter(s.replicas)), **ALERT)
        s.run_until(lambda: s.cordons("node-a1"), within="4s")


def test_replicas_that_die_one_after_the_other_get_the_work_done_once() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        deaths = 0
        while not s.of_kind(ev.OperationEnded):
            s.kill_at(*OPERATING[2:], nth=2, written=deaths % 2 == 0, within="1m")
            s.start()
            deaths += 1
            assert deaths < 60, s.story()
        s.run_for("5s")
        s.resolve(ALERT)
        s.run_for("1m")
        assert deaths > 3
        expect_drained_once(s)


@pytest.mark.parametrize("lasts", ["3s", "10s", "3m"])
def test_a_leader_cut_off_from_the_api_server_leaves_the_rest_to_the_other(lasts: str) -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_until(s.evictions)
        cut = s.leader
        s.replicas[cut].line.hang()
        s.run_until(lambda: s.leader not in ("", cut), within="4s")
        s.run_for(lasts)
        s.replicas[cut].line.hang(on=False)
        s.run_for("1m")
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)
        assert s.leader != cut


def test_an_answer_through_a_standby_counts_once_and_the_leader_acts_on_it() -> None:
    with Replicated(DRAIN % "approve", nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("5s")
        s.expect_state("NodeBad", IncidentState.AWAITING_APPROVAL)
        standby, incident = s.through(s.others[0]).people, s.incident("NodeBad").id
        asked = standby.answer(incident, approve=True, by="anna", via="console")
        assert s._runner.run(asked) is Reason.OK
        assert s.approve("NodeBad", by="ben") in (Reason.ALREADY_DECIDED, Reason.NO_LONGER_NEEDED)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "it was approved")


def test_a_pause_through_a_standby_holds_the_leader() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s._runner.run(s.through(s.others[0]).people.pause(by="anna", why=""))
        s.run_for("1s")
        s.alert(ALERT)
        s.run_for("1m")
        s.expect_nothing_changed()
        s._runner.run(s.through(s.others[0]).people.resume(by="anna", why=""))
        s.run_until(lambda: s.cordons("node-a1"), within="10s")


def test_the_same_alert_to_both_is_one_and_its_end_through_the_other_ends_it() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        for name in s.replicas:
            s.take(name, **ALERT)
        s.run_for("1m")
        assert len(s.of_kind(ev.AlertFired)) == 1
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)


def test_one_message_for_an_incident_also_over_a_change_of_leaders() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("5s")
        s.kill()
        s.run_for("10s")
        s.start()
        s.resolve(ALERT)
        s.run_for("1m")
        assert {told.handle for told in s.of_kind(ev.Told)} == {s.of_kind(ev.Told)[0].handle}


def test_an_end_of_which_the_leader_could_not_tell_any_more_is_told_by_the_next() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        s.alert(ALERT)
        s.run_for("30s")
        s.resolve(ALERT)
        s.kill_at(ev.IncidentClosed, within="1m")
        (shown,) = s.messages.shown.values()
        assert shown.state is not IncidentState.CLOSED
        s.run_for("10s")
        (shown,) = s.messages.shown.values()
        assert shown.state is IncidentState.CLOSED


def test_while_the_journal_is_away_nobody_acts_and_afterwards_one_does() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        with s.journal.failing():
            with pytest.raises(JournalError):
                s.alert(ALERT)
            s.run_for("1m")
            s.expect_nothing_changed()
        s.run_until(lambda: s.leader, within="5s")
        s.alert(ALERT)
        s.run_for("1m")
        s.resolve(ALERT)
        s.run_for("1m")
        expect_drained_once(s)


def test_a_leader_that_does_not_reach_the_journal_lets_one_lead_that_does() -> None:
    with Replicated(AUTO, nodes=6) as s:
        s.run_for("2s")
        cut = s.leader
        s.replicas[cut].way.away = True
        s.run_until(lambda: s.leader not in ("", cut), within="15s")
        s.take(s.leader, **ALERT)
        s.run_for("30s")
        s.replicas[cut].way.away = False
        s.run_for("10s")
        s.resolve(ALERT)
        s.run_for("1m")
        assert s.leader != cut
        expect_drained_once(s)
