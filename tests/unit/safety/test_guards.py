"""The guards, one by one and together, over states built in a line."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from healer.model.cluster import ClusterState, Freshness, Taint
from healer.model.decisions import Answer, Decision, Moment, Reason
from healer.model.matchers import Matcher, MatchOp
from healer.model.plans import Effect, Limits, Plan, Preview, Remedy, Share, Touched
from healer.model.targets import ObjectRef
from healer.safety.breakers import limit_of
from healer.safety.guards import GUARDS, judge
from healer.safety.state import ActiveWindow, Disruption, Fleet, Request, SafetySettings
from healer.testing.states import a_cluster, a_node, a_pod, a_ref, a_workload

NOW = Moment(wall=datetime(2026, 3, 1, 12, 0, tzinfo=UTC), monotonic=10_000.0)


def a_remedy(name: str = "replace-node", **limits: Any) -> Remedy:
    return Remedy(name=name, matchers=(), steps=(), limits=Limits(**limits))


def a_plan(target: ObjectRef, effect: Effect = Effect.REPLACE, *more: Touched) -> Plan:
    touches = (Touched(ref=target, effect=effect), *more)
    return Plan(
        remedy="r",
        target=target,
        digest="d",
        previews=(Preview(action="a", target=target, summary="", touches=touches),),
    )


def ask(state: ClusterState, target: ObjectRef, remedy: Remedy | None = None, **fields: Any) -> Request:
    node = state.nodes.get(target.name) if target.kind == "Node" else None
    if target.kind == "Pod" and (pod := state.pods.get((target.namespace, target.name))):
        node = state.nodes.get(pod.node_name)
    fields.setdefault("plan", a_plan(target))
    return Request(
        remedy=remedy or a_remedy(),
        owner=state.owner_of(target),
        cluster=state,
        zone=node.zone if node else "",
        pool=node.pool if node else "",
        **fields,
    )


def ours(
    state: ClusterState, target: ObjectRef, *, started: float = 9_990.0, ended: float | None = None, **fields: Any
) -> Disruption:
    node = state.nodes.get(target.name)
    fields.setdefault("remedy", "replace-node")
    return Disruption(
        operation=f"op-{target.name}",
        target=target,
        owner=state.owner_of(target),
        cluster=state.name,
        zone=node.zone if node else "",
        pool=node.pool if node else "",
        started=started,
        ended=ended,
        ok=None if ended is None else True,
        **fields,
    )


def nodes(count: int, *, bad: int = 0, zones: int = 3, **fields: Any) -> list[Any]:
    return [
        a_node(f"n{i}", ready="False" if i < bad else "True", zone="abc"[i % zones], **fields) for i in range(count)
    ]


def answer(request: Request, fleet: Fleet | None = None, now: Moment = NOW) -> Decision:
    return judge(request, fleet or Fleet(), now)[0]


def test_a_lone_bad_node_may_be_repaired_and_every_guard_has_answered() -> None:
    state = a_cluster(*nodes(12, bad=1))
    decision, answers = judge(ask(state, state.nodes["n0"].ref), Fleet(), NOW)
    assert decision.answer is Answer.GO
    assert [a.guard for a in answers] == [guard.name for guard in GUARDS]
    assert "2 is the limit" in next(a.detail for a in answers if a.guard == "fleet-breaker")


def test_the_pause_switch_holds_everything_also_what_harms_nobody() -> None:
    state = a_cluster(*nodes(12))
    request = ask(state, state.nodes["n0"].ref, plan=a_plan(state.nodes["n0"].ref, Effect.UNCORDON))
    decision = answer(request, Fleet(paused="ann: release"))
    assert (decision.answer, decision.reason, decision.guard) == (Answer.WAIT, Reason.PAUSED, "pause")
    assert "ann: release" in decision.detail


@pytest.mark.parametrize(
    ("freshness", "reason", "seconds"),
    [
        (Freshness(synced=False, silent_seconds=0, healthy_seconds=900), Reason.STALE_DATA, None),
        (Freshness(synced=True, silent_seconds=61, healthy_seconds=0), Reason.API_UNHEALTHY, None),
        (Freshness(synced=True, silent_seconds=1, healthy_seconds=20), Reason.API_UNHEALTHY, 40.0),
        (Freshness(synced=True, silent_seconds=1, healthy_seconds=60), Reason.OK, None),
    ],
    ids=["not synced", "silent", "just back", "back for a grace period"],
)
def test_a2_nothing_starts_until_the_api_server_has_been_well_for_a_grace_period(
    freshness: Freshness, reason: Reason, seconds: float | None
) -> None:
    state = a_cluster(*nodes(12, bad=1), freshness=freshness)
    decision = answer(ask(state, state.nodes["n0"].ref))
    assert (decision.reason, decision.wait_seconds) == (reason, seconds)


def test_a1_when_all_leases_stop_at_once_the_vantage_point_is_suspected() -> None:
    heartbeats = {f"n{i}": NOW.monotonic - 30 - i % 15 for i in range(20)}
    state = a_cluster(*nodes(20), heartbeats=heartbeats)
    decision = answer(ask(state, state.nodes["n0"].ref))
    assert (decision.answer, decision.reason) == (Answer.REFUSE, Reason.VANTAGE_FAULT)
    assert "20 of 20 nodes" in decision.detail
    again = a_cluster(*nodes(20), heartbeats=dict.fromkeys(heartbeats, NOW.monotonic - 3))
    assert answer(ask(again, again.nodes["n0"].ref)).answer is Answer.GO


def test_a1_a_pod_is_not_touched_either_while_the_vantage_point_is_suspected() -> None:
    state = a_cluster(*nodes(20), a_pod("web", on="n0"), heartbeats={f"n{i}": 0.0 for i in range(20)})
    assert answer(ask(state, a_ref("Pod", "web", "shop"))).reason is Reason.VANTAGE_FAULT


def test_one_silent_node_of_two_is_no_vantage_fault_and_both_are() -> None:
    one = a_cluster(a_node("n0", ready="Unknown"), a_node("n1"))
    assert answer(ask(one, one.nodes["n0"].ref)).answer is Answer.GO
    both = a_cluster(a_node("n0", ready="Unknown"), a_node("n1", ready="Unknown"))
    assert answer(ask(both, both.nodes["n0"].ref)).reason is Reason.VANTAGE_FAULT


@pytest.mark.parametrize("silent", [12, 18])
def test_a_node_that_has_just_fallen_silent_waits_until_its_companions_would_show(silent: float) -> None:
    state = a_cluster(*nodes(12), heartbeats={f"n{i}": NOW.monotonic - (silent if i == 0 else 5) for i in range(12)})
    decision = answer(ask(state, state.nodes["n0"].ref))
    assert (decision.answer, decision.reason, decision.wait_seconds) == (Answer.WAIT, Reason.STALE_DATA, 25 - silent)
    later = Moment(wall=NOW.wall, monotonic=NOW.monotonic + 25.1 - silent)
    heard = a_cluster(*nodes(12), heartbeats={f"n{i}": NOW.monotonic - (silent if i == 0 else -3) for i in range(12)})
    assert answer(ask(heard, heard.nodes["n0"].ref), now=later).answer is Answer.GO


def test_a_zone_that_fell_silent_together_is_seen_as_one_whichever_node_is_asked_about_first() -> None:
    """Each kubelet renewed last at another moment; however early the alert, none of them is taken for a single fault."""
    members = [a_node(f"{z}{i}", zone=z) for z in "abc" for i in range(4)]
    renewed = {node.name: NOW.monotonic - 2.5 * (index % 4) for index, node in enumerate(members)}
    for later in range(12, 60):
        now = Moment(wall=NOW.wall, monotonic=NOW.monotonic + later)
        alive = {name: now.monotonic - 5 for name in renewed if name[0] != "b"}
        state = a_cluster(*members, heartbeats={**renewed, **alive})
        for name in ("b0", "b1", "b2", "b3"):
            decision = answer(ask(state, state.nodes[name].ref), now=now)
            assert decision.reason in (Reason.STALE_DATA, Reason.ZONE_OUTAGE)


def test_a3_a_zone_that_is_out_is_left_alone_and_the_others_are_not() -> None:
    members = [a_node(f"{z}{i}", zone=z, ready="Unknown" if z == "b" else "True") for z in "abc" for i in range(5)]
    members[0] = a_node("a0", zone="a", ready="False")
    state = a_cluster(*members)
    decision = answer(ask(state, state.nodes["b1"].ref))
    assert (decision.answer, decision.reason) == (Answer.REFUSE, Reason.ZONE_OUTAGE)
    assert "5 of 5 nodes of zone b" in decision.detail
    generous = Fleet(settings=SafetySettings(max_unhealthy=Share(percent=50)))
    assert answer(ask(state, state.nodes["a0"].ref), generous).answer is Answer.GO
    assert answer(ask(state, state.nodes["b1"].ref), generous).reason is Reason.ZONE_OUTAGE


def test_a3_so_many_as_configured_may_be_worked_on_in_a_zone_that_is_out() -> None:
    state = a_cluster(
        *[a_node(f"{z}{i}", zone=z, ready="Unknown" if z == "b" else "True") for z in "abc" for i in range(5)]
    )
    settings = SafetySettings(zone_outage_max=1, max_unhealthy=Share(percent=50), max_in_flight=5)
    assert answer(ask(state, state.nodes["b0"].ref), Fleet(settings=settings)).answer is Answer.GO
    busy = Fleet(settings=settings, disruptions=(ours(state, state.nodes["b1"].ref),))
    assert answer(ask(state, state.nodes["b0"].ref), busy).reason is Reason.ZONE_OUTAGE


def test_a_zone_of_one_node_is_never_out() -> None:
    state = a_cluster(*[a_node(f"n{i}", zone=f"z{i}", ready="False" if i == 0 else "True") for i in range(6)])
    assert answer(ask(state, state.nodes["n0"].ref)).answer is Answer.GO


@pytest.mark.parametrize("approved", [False, True])
def test_r27_our_own_node_and_namespace_need_a_person(approved: bool) -> None:
    state = a_cluster(*nodes(12), a_pod("healer-0", on="n1", namespace="healer"))
    fleet = Fleet(self_node="n0", self_namespace="healer")
    for target in (state.nodes["n0"].ref, a_ref("Pod", "healer-0", "healer")):
        decision = answer(ask(state, target, approved_by_person=approved), fleet)
        assert decision.reason is (Reason.OK if approved else Reason.SELF_PROTECTION)
    elsewhere = dataclasses.replace(fleet, self_cluster="another")
    assert answer(ask(state, state.nodes["n0"].ref), elsewhere).answer is Answer.GO


def test_a_protected_namespace_refuses_by_name() -> None:
    state = a_cluster(*nodes(12), a_pod("dns", on="n1", namespace="kube-system"))
    decision = answer(
        ask(state, a_ref("Pod", "dns", "kube-system")), Fleet(protected_namespaces=frozenset({"kube-system"}))
    )
    assert (decision.answer, decision.reason) == (Answer.REFUSE, Reason.PROTECTED)
    assert "kube-system" in decision.detail


def test_a_touched_object_that_opts_out_holds_the_whole_plan() -> None:
    workload = a_workload("StatefulSet", "db", annotations={"healer.dev/skip": "true"})
    pod = a_pod("db-0", on="n0", owner=workload.ref)
    state = a_cluster(*nodes(12), workload, pod)
    plan = a_plan(state.nodes["n0"].ref, Effect.CORDON, Touched(ref=pod.ref, effect=Effect.EVICT))
    decision = answer(ask(state, state.nodes["n0"].ref, plan=plan))
    assert decision.reason is Reason.PROTECTED
    assert "statefulset/shop/db" in decision.detail
    spared = a_plan(state.nodes["n0"].ref, Effect.CORDON, Touched(ref=pod.ref, effect=Effect.NONE))
    assert answer(ask(state, state.nodes["n0"].ref, plan=spared)).answer is Answer.GO


@pytest.mark.parametrize(
    "fields",
    [
        {"taints": (Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),)},
        {"taints": (Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule"),)},
        {"annotations": {"remediator.aks.microsoft.com/repairing": "1"}},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        {"labels": {"remediation.medik8s.io/exclude-from-remediation": "true"}},
        {"labels": {"healer.dev/skip": "true"}},
    ],
    ids=["karpenter", "cluster autoscaler", "AKS", "do not disrupt", "medik8s", "ours"],
)
def test_a_node_in_other_hands_is_left_to_them(fields: dict[str, Any]) -> None:
    state = a_cluster(*nodes(11), a_node("mine", ready="False", **fields))
    assert answer(ask(state, state.nodes["mine"].ref)).reason is Reason.PROTECTED


def test_an_opt_out_that_says_false_does_not_count() -> None:
    state = a_cluster(*nodes(11), a_node("mine", ready="False", annotations={"healer.dev/skip": "false"}))
    assert answer(ask(state, state.nodes["mine"].ref)).answer is Answer.GO


def test_b9_one_operation_per_node() -> None:
    state = a_cluster(*nodes(12, bad=1))
    fleet = Fleet(disruptions=(ours(state, state.nodes["n0"].ref, remedy="another"),))
    decision = answer(ask(state, state.nodes["n0"].ref), fleet)
    assert (decision.answer, decision.reason) == (Answer.WAIT, Reason.LOCKED)
    assert "op-n0 (another)" in decision.detail


def test_r35_an_operation_on_a_node_covers_its_pods_and_their_workloads_but_not_others() -> None:
    web, db = a_workload("Deployment", "web"), a_workload("StatefulSet", "db")
    state = a_cluster(
        *nodes(12, bad=1), web, db, a_pod("web-1", on="n0", owner=web.ref), a_pod("db-0", on="n1", owner=db.ref)
    )
    fleet = Fleet(disruptions=(ours(state, state.nodes["n0"].ref),))
    restart = a_remedy("restart")
    assert answer(ask(state, a_ref("Pod", "web-1", "shop"), restart), fleet).reason is Reason.LOCKED
    assert answer(ask(state, web.ref, restart), fleet).reason is Reason.LOCKED
    assert answer(ask(state, db.ref, restart), fleet).answer is Answer.GO


def test_r35_an_operation_on_a_workload_covers_its_pods_and_does_not_hold_a_node_up() -> None:
    web = a_workload("Deployment", "web", replicas=2)
    state = a_cluster(
        *nodes(12, bad=1), web, a_pod("web-1", on="n0", owner=web.ref), a_pod("web-2", on="n1", owner=web.ref)
    )
    fleet = Fleet(disruptions=(ours(state, web.ref, remedy="rollout"),))
    assert answer(ask(state, a_ref("Pod", "web-2", "shop"), a_remedy("restart")), fleet).reason is Reason.LOCKED
    assert answer(ask(state, state.nodes["n0"].ref), fleet).answer is Answer.GO


def test_r29_what_was_just_treated_is_left_alone_by_the_monotonic_clock() -> None:
    state = a_cluster(*nodes(12, bad=1))
    fleet = Fleet(disruptions=(ours(state, state.nodes["n0"].ref, started=9_000, ended=9_700),))
    decision = answer(ask(state, state.nodes["n0"].ref), fleet)
    assert (decision.reason, decision.wait_seconds) == (Reason.COOLDOWN, 300.0)
    stepped = Moment(wall=NOW.wall - timedelta(seconds=90), monotonic=NOW.monotonic)
    assert answer(ask(state, state.nodes["n0"].ref), fleet, stepped) == decision
    assert (
        answer(ask(state, state.nodes["n0"].ref), fleet, Moment(wall=NOW.wall, monotonic=10_300.0)).answer is Answer.GO
    )


def test_the_next_rung_of_a_ladder_does_not_wait_for_the_one_before() -> None:
    state = a_cluster(*nodes(12, bad=1))
    fleet = Fleet(disruptions=(ours(state, state.nodes["n0"].ref, remedy="reboot", started=9_000, ended=9_990),))
    rung = dataclasses.replace(a_remedy(), after=("reboot",))
    assert answer(ask(state, state.nodes["n0"].ref, rung), fleet).answer is Answer.GO
    assert answer(ask(state, state.nodes["n0"].ref), fleet).reason is Reason.COOLDOWN


def test_attempts_end() -> None:
    state = a_cluster(*nodes(12, bad=1))
    assert answer(ask(state, state.nodes["n0"].ref, a_remedy(attempts=2), attempt=2)).answer is Answer.GO
    decision = answer(ask(state, state.nodes["n0"].ref, a_remedy(attempts=2), attempt=3))
    assert (decision.answer, decision.reason) == (Answer.REFUSE, Reason.ATTEMPTS_EXHAUSTED)


def test_the_rate_per_hour_frees_up_when_the_oldest_is_an_hour_old() -> None:
    state = a_cluster(*nodes(12, bad=1))
    starts = (NOW.monotonic - 3000, NOW.monotonic - 2000, NOW.monotonic - 1000)
    done = tuple(ours(state, state.nodes[f"n{i + 1}"].ref, started=at, ended=at + 60) for i, at in enumerate(starts))
    decision = answer(ask(state, state.nodes["n0"].ref, a_remedy(per_hour=3)), Fleet(disruptions=done))
    assert (decision.reason, decision.wait_seconds) == (Reason.RATE_LIMIT, 600.0)
    assert answer(ask(state, state.nodes["n0"].ref, a_remedy(per_hour=4)), Fleet(disruptions=done)).answer is Answer.GO
    assert (
        answer(ask(state, state.nodes["n0"].ref, a_remedy(per_hour=None)), Fleet(disruptions=done)).answer is Answer.GO
    )


@pytest.mark.parametrize(
    ("limits", "settings", "other", "words"),
    [
        ({"max_in_flight": 1}, {"max_in_flight": 5, "max_in_flight_per_zone": 5}, "n1", "operations of replace-node"),
        ({"max_in_flight": 5}, {"max_in_flight": 1}, "n1", "nodes of cluster test"),
        ({"max_in_flight": 5, "per_zone": 1}, {"max_in_flight": 5, "max_in_flight_per_zone": 5}, "n3", "in zone a"),
        ({"max_in_flight": 5, "per_zone": None}, {"max_in_flight": 5}, "n3", "nodes of zone a"),
        ({"max_in_flight": 5}, {"max_in_flight": 5}, "n1", ""),
    ],
    ids=["of the remedy", "of the fleet", "of the remedy in a zone", "of the fleet in a zone", "none"],
)
def test_limits_of_what_is_in_our_hands(
    limits: dict[str, Any], settings: dict[str, Any], other: str, words: str
) -> None:
    state = a_cluster(*nodes(12, bad=1))
    fleet = Fleet(settings=SafetySettings(**settings), disruptions=(ours(state, state.nodes[other].ref),))
    decision = answer(ask(state, state.nodes["n0"].ref, a_remedy(**limits)), fleet)
    assert decision.reason is (Reason.IN_FLIGHT_LIMIT if words else Reason.OK)
    assert words in decision.detail


def test_a_limit_over_all_clusters_counts_the_nodes_of_the_others() -> None:
    state, other = a_cluster(*nodes(12, bad=1)), a_cluster(*nodes(3))
    elsewhere = dataclasses.replace(ours(other, other.nodes["n2"].ref), cluster="us1")
    for most, reason in ((1, Reason.IN_FLIGHT_LIMIT), (2, Reason.OK), (None, Reason.OK)):
        fleet = Fleet(settings=SafetySettings(max_in_flight_all_clusters=most), disruptions=(elsewhere,))
        assert answer(ask(state, state.nodes["n0"].ref), fleet).reason is reason


def test_pods_and_nodes_have_limits_of_their_own() -> None:
    state = a_cluster(*nodes(12, bad=1), a_pod("web", on="n5"))
    fleet = Fleet(disruptions=(ours(state, state.nodes["n0"].ref),))
    assert answer(ask(state, a_ref("Pod", "web", "shop"), a_remedy("restart")), fleet).answer is Answer.GO
    full = Fleet(
        settings=SafetySettings(max_in_flight_workloads=1),
        disruptions=(ours(state, a_ref("Deployment", "x", "shop"), remedy="x"),),
    )
    assert answer(ask(state, a_ref("Pod", "web", "shop"), a_remedy("restart")), full).reason is Reason.IN_FLIGHT_LIMIT
    assert answer(ask(state, state.nodes["n0"].ref), full).answer is Answer.GO


@pytest.mark.parametrize(("total", "limit"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (10, 2), (100, 20)])
def test_b1_the_integer_meant_by_20_percent(total: int, limit: int) -> None:
    assert limit_of(Share(percent=20), total) == limit


@pytest.mark.parametrize(("share", "limit"), [(Share(count=5), 3), (Share(percent=100), 3), (Share(percent=0.1), 1)])
def test_b8_never_all_of_several_and_never_none(share: Share, limit: int) -> None:
    assert limit_of(share, 4) == limit


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 10])
def test_b1_one_bad_node_of_a_small_pool_is_repaired_and_the_last_one_needs_the_flag(total: int) -> None:
    state = a_cluster(*nodes(total, bad=1))
    decision = answer(ask(state, state.nodes["n0"].ref))
    if total > 1:
        assert decision.answer is Answer.GO
        return
    assert (decision.answer, decision.reason) == (Answer.REFUSE, Reason.LAST_NODE)
    assert "allow_last_node" in decision.detail
    assert answer(ask(state, state.nodes["n0"].ref, a_remedy(allow_last_node=True))).answer is Answer.GO


@pytest.mark.parametrize(("total", "bad", "opens"), [(3, 2, True), (5, 2, True), (10, 2, False), (10, 3, True)])
def test_r20_past_the_limit_the_breaker_opens_with_the_numbers(total: int, bad: int, opens: bool) -> None:
    state = a_cluster(*[a_node(f"n{i}", ready="False" if i < bad else "True", zone="") for i in range(total)])
    decision = answer(ask(state, state.nodes["n0"].ref))
    assert decision.reason is (Reason.FLEET_BREAKER if opens else Reason.OK)
    if opens:
        assert f"{bad} of {total} nodes" in decision.detail


def test_the_breaker_counts_what_is_in_our_hands_also_when_its_node_object_is_gone() -> None:
    state = a_cluster(*[a_node(f"n{i}", pool="p", zone=f"z{i}") for i in range(9)])
    gone = a_ref("Node", "n9")
    running = dataclasses.replace(ours(state, gone, remedy="other"), pool="p", zone="z9")
    settings = SafetySettings(max_in_flight=5)
    two = answer(ask(state, state.nodes["n0"].ref), Fleet(settings=settings, disruptions=(running,)))
    assert two.answer is Answer.GO
    third = dataclasses.replace(ours(state, state.nodes["n1"].ref, remedy="other"))
    decision = answer(ask(state, state.nodes["n0"].ref), Fleet(settings=settings, disruptions=(running, third)))
    assert decision.reason is Reason.FLEET_BREAKER
    assert "3 of 10 nodes of pool p" in decision.detail


def test_the_breaker_names_what_the_bad_nodes_have_in_common() -> None:
    state = a_cluster(
        *[
            a_node(
                f"n{i}", zone="abc"[i % 3], ready="False" if i < 4 else "True", kubelet_version="v2" if i < 4 else "v1"
            )
            for i in range(12)
        ]
    )
    decision = answer(ask(state, state.nodes["n0"].ref))
    assert decision.reason is Reason.FLEET_BREAKER
    assert "kubelet version v2 (4 of the 4 that have it)" in decision.detail


def test_the_breaker_holds_pods_back_too_but_never_what_takes_back() -> None:
    state = a_cluster(*nodes(12, bad=4), a_pod("web", on="n11"))
    assert answer(ask(state, a_ref("Pod", "web", "shop"))).reason is Reason.FLEET_BREAKER
    target = state.nodes["n0"].ref
    assert answer(ask(state, target, plan=a_plan(target, Effect.UNCORDON))).answer is Answer.GO


def test_min_healthy_of_nodes_is_rounded_up_and_a_cordoned_node_is_no_help() -> None:
    remedy = a_remedy(min_healthy=Share(percent=80))
    state = a_cluster(*nodes(10, bad=1))
    assert answer(ask(state, state.nodes["n0"].ref, remedy)).answer is Answer.GO
    fewer = a_cluster(*nodes(9, bad=1), a_node("n9", unschedulable=True), a_node("n10", unschedulable=True))
    decision = answer(ask(fewer, fewer.nodes["n0"].ref, remedy))
    assert decision.reason is Reason.FLEET_BREAKER
    assert "8 of 11 nodes" in decision.detail
    assert "is 9" in decision.detail


def test_min_healthy_of_a_workload_counts_its_pods() -> None:
    web = a_workload("Deployment", "web", replicas=3)
    pods = [a_pod(f"web-{i}", on=f"n{i}", owner=web.ref, ready=i != 2) for i in range(3)]
    state = a_cluster(*nodes(12), web, *pods)
    remedy = a_remedy("restart", min_healthy=Share(count=2))
    assert answer(ask(state, pods[2].ref, remedy)).answer is Answer.GO
    assert answer(ask(state, pods[0].ref, remedy)).reason is Reason.FLEET_BREAKER


def test_r30_a_maintenance_window_holds_what_it_covers_until_its_end() -> None:
    state = a_cluster(*nodes(12, bad=1))
    window = ActiveWindow(
        name="upgrade", until=NOW.wall + timedelta(minutes=30), matchers=(Matcher("zone", MatchOp.EQUAL, "a"),)
    )
    fleet = Fleet(windows=(window,))
    decision = answer(ask(state, state.nodes["n0"].ref), fleet)
    assert (decision.answer, decision.reason, decision.wait_seconds) == (Answer.WAIT, Reason.MAINTENANCE_WINDOW, 1800.0)
    assert "30 min" in decision.detail
    after = Moment(wall=NOW.wall + timedelta(minutes=30), monotonic=NOW.monotonic + 1800)
    assert answer(ask(state, state.nodes["n0"].ref), fleet, after).answer is Answer.GO
    other = a_cluster(*[a_node(f"n{i}", zone="b", ready="False" if i == 0 else "True") for i in range(12)])
    assert answer(ask(other, other.nodes["n0"].ref), fleet).answer is Answer.GO
