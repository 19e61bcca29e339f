"""What holds for the guards whatever the fleet looks like."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from healer.model.cluster import ClusterState, Node
from healer.model.decisions import Answer, Moment
from healer.model.plans import Effect, Limits, Plan, Preview, Remedy, Share, Touched
from healer.safety.breakers import limit_of
from healer.safety.guards import judge
from healer.safety.state import Disruption, Fleet, Request, SafetySettings
from healer.testing.states import a_cluster, a_node

NOW = Moment(wall=datetime(2026, 3, 1, tzinfo=UTC), monotonic=100_000.0)
READINESS = st.sampled_from(["True", "True", "True", "True", "False", "Unknown"])
SHARES = st.one_of(
    st.builds(Share, count=st.integers(1, 30)), st.builds(Share, percent=st.floats(0.1, 100, allow_nan=False))
)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[ClusterState, Fleet, Remedy]:
    count = draw(st.integers(1, 14))
    zones, pools = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    nodes = [a_node(f"n{i}", ready=draw(READINESS), zone="abcd"[i % zones], pool="pq"[i % pools]) for i in range(count)]
    settings_ = SafetySettings(
        max_unhealthy=draw(SHARES),
        max_in_flight=draw(st.integers(1, 5)),
        max_in_flight_per_zone=draw(st.integers(1, 3)),
    )
    limits = Limits(
        max_in_flight=draw(st.integers(1, 5)),
        per_zone=draw(st.one_of(st.none(), st.integers(1, 3))),
        per_hour=draw(st.one_of(st.none(), st.integers(1, 6))),
        min_healthy=draw(st.one_of(st.none(), SHARES)),
        cooldown_seconds=draw(st.floats(0, 3000)),
        allow_last_node=draw(st.booleans()),
    )
    remedy = Remedy(name="replace", matchers=(), steps=(), limits=limits)
    return a_cluster(*nodes), Fleet(settings=settings_), remedy


def ask(state: ClusterState, node: Node, remedy: Remedy, effect: Effect = Effect.REPLACE) -> Request:
    preview = Preview(action="a", target=node.ref, summary="", touches=(Touched(ref=node.ref, effect=effect),))
    plan = Plan(remedy=remedy.name, target=node.ref, previews=(preview,), digest="d")
    return Request(remedy=remedy, plan=plan, owner=node.ref, cluster=state, zone=node.zone, pool=node.pool)


def begun(state: ClusterState, node: Node) -> Disruption:
    return Disruption(
        operation=f"op-{node.name}",
        remedy="replace",
        target=node.ref,
        owner=node.ref,
        cluster=state.name,
        zone=node.zone,
        pool=node.pool,
        started=NOW.monotonic - 1,
    )


@given(fleets())
def test_never_more_in_our_hands_than_the_budgets_allow(world: tuple[ClusterState, Fleet, Remedy]) -> None:
    """Start whatever the guards let through, one after the other, and count."""
    state, fleet, remedy = world
    limits = remedy.limits
    for node in state.nodes.values():
        decision, _ = judge(ask(state, node, remedy), fleet, NOW)
        if decision.answer is Answer.GO:
            fleet = dataclasses.replace(fleet, disruptions=(*fleet.disruptions, begun(state, node)))
    ours = [d.target.name for d in fleet.disruptions]
    assert len(ours) == len(set(ours))
    assert len(ours) <= min(fleet.settings.max_in_flight, limits.max_in_flight, limits.per_hour or 99)
    for zone in {node.zone for node in state.nodes.values()}:
        in_zone = sum(d.zone == zone for d in fleet.disruptions)
        assert in_zone <= min(fleet.settings.max_in_flight_per_zone, limits.per_zone or 99)
    if ours:
        bad = {node.name for node in state.nodes.values() if not node.ready}
        assert len(bad | set(ours)) <= limit_of(fleet.settings.max_unhealthy, len(state.nodes))
        if len(state.nodes) > 1:
            assert len(bad | set(ours)) < len(state.nodes)


@given(fleets())
def test_pausing_only_ever_takes_away(world: tuple[ClusterState, Fleet, Remedy]) -> None:
    state, fleet, remedy = world
    paused = dataclasses.replace(fleet, paused="ann")
    for node in state.nodes.values():
        assert judge(ask(state, node, remedy), paused, NOW)[0].answer is not Answer.GO


@given(fleets(), st.data())
def test_more_in_flight_never_opens_what_was_closed(
    world: tuple[ClusterState, Fleet, Remedy], data: st.DataObject
) -> None:
    state, fleet, remedy = world
    nodes = list(state.nodes.values())
    asked, other = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
    fuller = dataclasses.replace(fleet, disruptions=(begun(state, other),))
    before, _ = judge(ask(state, asked, remedy), fleet, NOW)
    after, _ = judge(ask(state, asked, remedy), fuller, NOW)
    assert not (after.answer is Answer.GO and before.answer is not Answer.GO)


@given(fleets(), st.data())
def test_one_more_bad_node_never_opens_what_was_closed(
    world: tuple[ClusterState, Fleet, Remedy], data: st.DataObject
) -> None:
    state, fleet, remedy = world
    nodes = list(state.nodes.values())
    asked, other = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
    worse = a_cluster(*[a_node(n.name, ready="Unknown", zone=n.zone, pool=n.pool) if n is other else n for n in nodes])
    before, _ = judge(ask(state, asked, remedy), fleet, NOW)
    after, _ = judge(ask(worse, worse.nodes[asked.name], remedy), fleet, NOW)
    assert not (after.answer is Answer.GO and before.answer is not Answer.GO)


@given(fleets())
def test_every_answer_names_its_guard_and_every_no_says_why(world: tuple[ClusterState, Fleet, Remedy]) -> None:
    state, fleet, remedy = world
    for node in state.nodes.values():
        decision, answers = judge(ask(state, node, remedy), fleet, NOW)
        assert all(a.guard for a in answers)
        assert all(a.detail for a in answers if a.answer is not Answer.GO)
        first = next((a for a in answers if a.answer is not Answer.GO), None)
        assert decision == first or (first is None and decision.answer is Answer.GO)


@given(fleets())
def test_taking_back_is_never_counted(world: tuple[ClusterState, Fleet, Remedy]) -> None:
    state, fleet, remedy = world
    for node in state.nodes.values():
        assert judge(ask(state, node, remedy, Effect.UNCORDON), fleet, NOW)[0].answer is Answer.GO


@given(SHARES, st.integers(1, 1000))
def test_the_limit_is_at_least_one_and_never_all_of_several(share: Share, total: int) -> None:
    limit = limit_of(share, total)
    assert limit >= 1
    assert limit < total or total == 1
    if share.percent is not None:
        assert limit <= max(1, total * share.percent / 100)
