"""What holds for every course of an alert."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from healer.model.alerts import Alert, AlertStatus
from healer.model.series import Labels
from healer.rules import alerting, groups
from healer.rules.alerting import Phase, RuleState
from healer.rules.definitions import AlertRule, Group
from healer.rules.groups import Memory
from healer.rules.promql.tree import NumberLiteral

SERIES = [Labels({"instance": name}) for name in "abc"]

# A course: (seconds to the next evaluation, which series the expression gives, whether it is an eager one).
Course = list[tuple[int, frozenset[int], bool]]
courses = st.lists(
    st.tuples(st.integers(1, 40), st.frozensets(st.integers(0, len(SERIES) - 1)), st.booleans()), max_size=40
)
holds = st.integers(0, 60)


def rule(hold: int, keep: int) -> AlertRule:
    return AlertRule(
        name="Down",
        expr=NumberLiteral(value=1),
        text="1",
        for_seconds=hold,
        keep_firing_for_seconds=keep,
    )


def advance(
    subject: AlertRule, state: RuleState, now: int, seen: frozenset[int], *, eager: bool
) -> tuple[RuleState, tuple[Alert, ...]]:
    rows = [(SERIES[index], 1.0) for index in sorted(seen)]
    return alerting.step(subject, state, rows, at_ms=now * 1000, eager=eager)


def restart(state: RuleState) -> RuleState:
    return alerting.restore(json.loads(json.dumps(alerting.dump(state))))


def reload(subject: AlertRule, state: RuleState, now: int) -> RuleState:
    """What an equal rule, read again, starts with."""
    group = Group(name="g", file="f", rules=(subject,))
    ((key, _),) = group.keyed_rules()
    inherited = groups.inherit({key: Memory(identity=subject.identity, alerts=state)}, [group], at_ms=now * 1000)
    assert inherited.resolved == ()
    return inherited.memories[key].alerts


@given(courses, holds, holds)
@settings(max_examples=300, deadline=None)
def test_resolve_always_follows_fire_and_they_alternate(course: Course, hold: int, keep: int) -> None:
    state, now, firing = RuleState(), 0, {}
    for wait, seen, eager in course:
        now += wait
        state, changes = advance(rule(hold, keep), state, now, seen, eager=eager)
        for change in changes:
            if change.status is AlertStatus.FIRING:
                assert change.labels not in firing
                firing[change.labels] = change.starts_at
            else:
                assert firing.pop(change.labels) == change.starts_at
        assert set(firing) == {alert.labels for alert in state.firing}
    # And when nothing is wrong any more, everything resolves.
    for _ in range(2):
        now += keep + 1
        state, changes = advance(rule(hold, keep), state, now, frozenset(), eager=False)
        for change in changes:
            firing.pop(change.labels)
    assert firing == {}


@given(courses, st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_nothing_fires_before_for_has_passed_without_a_gap(course: Course, hold: int) -> None:
    state, now = RuleState(), 0
    since: dict[Labels, int] = {}
    for wait, seen, eager in course:
        now += wait
        present = {SERIES[index].with_(alertname="Down") for index in seen}
        if not eager:
            since = {labels: start for labels, start in since.items() if labels in present}
        for labels in present:
            since.setdefault(labels, now)
        state, changes = advance(rule(hold, 0), state, now, seen, eager=eager)
        for change in changes:
            if change.status is AlertStatus.FIRING:
                assert now - since[change.labels] >= hold
        # Nor later: whatever has been there for so long fires.
        for labels in present:
            if now - since[labels] >= hold:
                assert state.alerts[labels].phase is Phase.FIRING


@given(courses, holds, holds, st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_a_reload_or_a_restart_in_between_changes_nothing(course: Course, hold: int, keep: int, at: int) -> None:
    plain, reloaded, now = RuleState(), RuleState(), 0
    for count, (wait, seen, eager) in enumerate(course):
        now += wait
        if count == at:
            reloaded = reload(rule(hold, keep), restart(reloaded), now)
        plain, expected = advance(rule(hold, keep), plain, now, seen, eager=eager)
        reloaded, changes = advance(rule(hold, keep), reloaded, now, seen, eager=eager)
        assert changes == expected
    assert reloaded == plain


@given(courses, holds, holds)
@settings(max_examples=200, deadline=None)
def test_an_eager_step_never_ends_anything(course: Course, hold: int, keep: int) -> None:
    state, now = RuleState(), 0
    order = {Phase.INACTIVE: 0, Phase.PENDING: 1, Phase.FIRING: 2}
    for wait, seen, eager in course:
        now += wait
        after, changes = advance(rule(hold, keep), state, now, seen, eager=eager)
        if eager:
            assert all(change.status is AlertStatus.FIRING for change in changes)
            for labels, alert in state.alerts.items():
                assert order[after.alerts[labels].phase] >= order[alert.phase]
        state = after
