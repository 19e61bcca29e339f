"""The alert state machine."""

import json

import pytest

from healer.errors import QueryError
from healer.model.alerts import Alert, AlertStatus
from healer.model.series import Labels
from healer.rules import alerting
from healer.rules.alerting import Phase, Row, RuleState, Surroundings
from healer.rules.definitions import AlertRule
from healer.rules.promql.tree import NumberLiteral
from healer.rules.templates import compile_template

ONE = NumberLiteral(value=1)
WEB = Labels({"__name__": "up", "instance": "web-1"})
DB = Labels({"__name__": "up", "instance": "db-1"})


def rule(hold: float = 0, keep: float = 0, **labels: str) -> AlertRule:
    return AlertRule(
        name="Down",
        expr=ONE,
        text="up == 0",
        for_seconds=hold,
        keep_firing_for_seconds=keep,
        labels={name: compile_template(text) for name, text in labels.items()},
        annotations={"summary": compile_template("{{ $labels.instance }} is {{ $value }}")},
    )


class Machine:
    """A rule with its state, at seconds."""

    def __init__(self, subject: AlertRule) -> None:
        self.rule = subject
        self.state = RuleState()

    def at(self, seconds: float, *rows: Row, eager: bool = False, limit: int = 0) -> tuple[Alert, ...]:
        self.state, changes = alerting.step(
            self.rule,
            self.state,
            rows,
            at_ms=round(seconds * 1000),
            eager=eager,
            limit=limit,
            around=Surroundings(cluster="eu1"),
        )
        return changes

    @property
    def phases(self) -> dict[str, Phase]:
        return {labels["instance"]: alert.phase for labels, alert in self.state.alerts.items()}


def test_without_for_an_alert_fires_at_once_and_resolves_when_its_series_goes() -> None:
    machine = Machine(rule(severity="page"))
    (fired,) = machine.at(10, (WEB, 3.0))
    assert fired.status is AlertStatus.FIRING
    assert fired.labels == Labels({"alertname": "Down", "instance": "web-1", "severity": "page"})
    assert fired.annotations == {"summary": "web-1 is 3"}
    assert (fired.cluster, fired.source, fired.value) == ("eu1", "rules", 3.0)
    assert fired.starts_at.timestamp() == 10
    assert machine.at(20, (WEB, 4.0)) == ()
    (resolved,) = machine.at(30)
    assert resolved.status is AlertStatus.RESOLVED
    assert resolved.identity == fired.identity
    assert (resolved.starts_at.timestamp(), resolved.value) == (10, 4.0)
    assert resolved.ends_at is not None
    assert resolved.ends_at.timestamp() == 30


def test_for_must_pass_without_a_gap() -> None:
    machine = Machine(rule(hold=20))
    assert machine.at(0, (WEB, 1)) == ()
    assert machine.at(10, (WEB, 1)) == ()
    assert machine.phases == {"web-1": Phase.PENDING}
    assert machine.at(15) == ()
    assert machine.phases == {}
    assert machine.at(20, (WEB, 1)) == ()
    assert machine.at(39.999, (WEB, 1)) == ()
    (fired,) = machine.at(40, (WEB, 1))
    assert fired.starts_at.timestamp() == 20


def test_series_are_judged_one_by_one() -> None:
    machine = Machine(rule(hold=10))
    machine.at(0, (WEB, 1))
    machine.at(5, (WEB, 1), (DB, 1))
    assert [alert.labels["instance"] for alert in machine.at(10, (WEB, 1), (DB, 1))] == ["web-1"]
    assert machine.phases == {"web-1": Phase.FIRING, "db-1": Phase.PENDING}


def test_keep_firing_for_bridges_gaps_and_then_resolves() -> None:
    machine = Machine(rule(keep=30))
    machine.at(0, (WEB, 1))
    assert machine.at(10) == ()
    assert machine.at(20, (WEB, 1)) == ()
    assert machine.at(30) == ()
    assert machine.at(59) == ()
    (resolved,) = machine.at(60)
    assert resolved.status is AlertStatus.RESOLVED


def test_a_resolved_alert_is_remembered_for_a_while_and_fires_anew() -> None:
    machine = Machine(rule())
    machine.at(0, (WEB, 1))
    machine.at(10)
    machine.at(10 + 15 * 60)
    assert machine.phases == {"web-1": Phase.INACTIVE}
    (again,) = machine.at(1000, (WEB, 1))
    assert again.starts_at.timestamp() == 1000
    machine.at(1010)
    machine.at(1010 + 15 * 60 + 1)
    assert machine.phases == {}


def test_an_eager_step_may_only_begin_alerts() -> None:
    machine = Machine(rule(hold=5))
    machine.at(0, (WEB, 1))
    assert machine.at(1, (DB, 1), eager=True) == ()
    assert machine.phases == {"web-1": Phase.PENDING, "db-1": Phase.PENDING}
    assert len(machine.at(6, (WEB, 1), eager=True)) == 1
    assert machine.at(7, eager=True) == ()
    assert machine.phases == {"web-1": Phase.FIRING, "db-1": Phase.PENDING}
    assert len(machine.at(8)) == 1
    assert machine.phases == {"web-1": Phase.INACTIVE}


def test_labels_of_the_rule_override_and_empty_ones_remove() -> None:
    machine = Machine(rule(instance="{{ $labels.instance }}!", job="", alertname="other"))
    (fired,) = machine.at(0, (WEB.with_(job="node"), 1))
    assert dict(fired.labels) == {"alertname": "Down", "instance": "web-1!"}


def test_the_cluster_of_the_series_wins_over_the_default() -> None:
    (fired,) = Machine(rule()).at(0, (WEB.with_(cluster="us1"), 1))
    assert fired.cluster == "us1"


def test_two_series_with_one_label_set_are_an_error_that_changes_nothing() -> None:
    machine = Machine(rule(instance="same"))
    machine.at(0, (WEB, 1))
    before = machine.state
    with pytest.raises(QueryError, match="'Down': two series end in the same alert"):
        machine.at(10, (WEB, 1), (DB, 1))
    assert machine.state is before


def test_over_the_limit_nothing_is_forgotten() -> None:
    machine = Machine(rule())
    machine.at(0, (WEB, 1), limit=1)
    with pytest.raises(QueryError, match="exceeded limit of 1 with 2 alerts"):
        machine.at(10, (WEB, 1), (DB, 1), limit=1)
    assert machine.phases == {"web-1": Phase.FIRING}


def test_series_tell_the_phase_and_since_when() -> None:
    machine = Machine(rule(hold=10))
    machine.at(5, (WEB, 1))
    assert {str(labels): value for labels, value in alerting.series(machine.state)} == {
        'ALERTS{alertname="Down", alertstate="pending", instance="web-1"}': 1.0,
        'ALERTS_FOR_STATE{alertname="Down", instance="web-1"}': 5.0,
    }
    machine.at(15, (WEB, 1))
    assert 'ALERTS{alertname="Down", alertstate="firing", instance="web-1"}' in {
        str(labels) for labels, _ in alerting.series(machine.state)
    }
    machine.at(20)
    assert list(alerting.series(machine.state)) == []


def test_state_survives_json() -> None:
    machine = Machine(rule(keep=60))
    machine.at(0, (WEB, float("inf")), (DB, 1))
    machine.at(10, (DB, float("nan")))
    saved = json.loads(json.dumps(alerting.dump(machine.state), allow_nan=False))
    restored = alerting.restore(saved)
    assert repr(restored) == repr(machine.state)
    with pytest.raises(ValueError, match="restoring alert state"):
        alerting.restore([{"labels": {}}])


def test_an_outage_does_not_count_towards_for() -> None:
    machine = Machine(rule(hold=60))
    machine.at(0, (WEB, 1))
    machine.at(50, (WEB, 1))
    machine.state = alerting.after_outage(machine.state, down_ms=50_000, up_ms=200_000)
    assert machine.at(200, (WEB, 1)) == ()
    assert machine.at(209, (WEB, 1)) == ()
    assert len(machine.at(210, (WEB, 1))) == 1


def test_after_a_long_outage_the_pending_begin_anew_and_the_firing_go_on() -> None:
    machine = Machine(rule(hold=60))
    machine.at(0, (WEB, 1))
    machine.at(60, (WEB, 1), (DB, 1))
    machine.state = alerting.after_outage(machine.state, down_ms=60_000, up_ms=60_000 + 3_600_001)
    assert machine.phases == {"web-1": Phase.FIRING}


def test_a_rule_that_is_gone_resolves_what_it_left_firing() -> None:
    machine = Machine(rule(hold=10))
    machine.at(0, (WEB, 1))
    machine.at(10, (WEB, 1), (DB, 1))
    (resolved,) = alerting.retire(machine.state, at_ms=11_000, cluster="eu1")
    assert (resolved.status, resolved.labels["instance"]) == (AlertStatus.RESOLVED, "web-1")


def test_a_clock_that_jumps_back_fires_nothing_early() -> None:
    machine = Machine(rule(hold=10))
    machine.at(100, (WEB, 1))
    assert machine.at(10, (WEB, 1)) == ()
    assert machine.phases == {"web-1": Phase.PENDING}
