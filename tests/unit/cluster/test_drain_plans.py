"""What a drain would do, before anything is touched."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from healer.cluster import drains
from healer.cluster.drains import Fate, Rules, plan_drain
from healer.model.cluster import Budget, Pod, Resources
from healer.model.decisions import Reason
from healer.testing.states import a_budget, a_cluster, a_node, a_pod, a_ref, a_workload

RS = a_ref("ReplicaSet", "web-1", "shop")
DS = a_workload("DaemonSet", "agent")
LENIENT = Rules(delete_local_data=True, force=True)


def fate(pod: Pod, *others: Any, rules: Rules | None = None) -> drains.PodPlan:
    state = a_cluster(a_node("n1"), DS, pod, *others)
    (plan,) = plan_drain(state, "n1", rules or Rules()).pods
    return plan


@pytest.mark.parametrize(
    ("pod", "expected", "note"),
    [
        (a_pod("x", on="n1", owner=RS), Fate.EVICT, ""),
        (a_pod("x", on="n1", owner=DS.ref), Fate.STAY, "DaemonSet agent"),
        (a_pod("x", on="n1", owner=a_ref("DaemonSet", "old", "shop")), Fate.STAY, "not known here"),
        (a_pod("x", on="n1", annotations={"kubernetes.io/config.mirror": "1"}), Fate.STAY, "static pod"),
        (a_pod("x", on="n1", phase="Succeeded", ready=False), Fate.STAY, "has finished (Succeeded)"),
        (a_pod("x", on="n1", phase="Failed", ready=False, local_volumes=("tmp",)), Fate.STAY, "has finished (Failed)"),
        (
            a_pod("x", on="n1", deleting_since=datetime(2026, 1, 1, tzinfo=UTC), finalizers=("a/b",)),
            Fate.LEAVING,
            "finalizers: a/b",
        ),
    ],
    ids=["owned", "daemonset", "orphan of a daemonset", "mirror", "succeeded", "failed", "leaving"],
)
def test_who_leaves_and_who_stays(pod: Pod, expected: Fate, note: str) -> None:
    plan = fate(pod)
    assert plan.fate is expected
    assert note in plan.note
    assert plan.blocked == ()


def test_every_reason_is_told_not_just_the_last() -> None:
    pod = a_pod("x", on="n1", local_volumes=("cache", "tmp"), labels={"app": "x"})
    plan = fate(pod, a_budget("one", match_labels={"app": "x"}), a_budget("two", match_labels={"app": "x"}))
    assert [b.reason for b in plan.blocked] == [Reason.INFEASIBLE, Reason.INFEASIBLE, Reason.MULTIPLE_BUDGETS]
    text = " ".join(b.detail for b in plan.blocked)
    for words in ("cache, tmp", "no controller", "shop/one and shop/two"):
        assert words in text
    allowed = fate(pod, rules=LENIENT)
    assert allowed.blocked == ()
    assert "lost" in allowed.note


def test_a_pod_that_has_not_started_asks_no_budget() -> None:
    plan = fate(a_pod("x", on="n1", owner=RS, phase="Pending", ready=False), a_budget("one"), a_budget("two"))
    assert plan.blocked == ()
    assert plan.delay == ""


def budget(**fields: Any) -> Budget:
    return a_budget("b", **{"allowed": 0, "expected_pods": 3, "desired_healthy": 2, "current_healthy": 2, **fields})


@pytest.mark.parametrize(
    ("limits", "ready", "words"),
    [
        (budget(allowed=1, current_healthy=3), True, ""),
        (budget(), True, "allows no disruption now (2 healthy, 2 wanted)"),
        (budget(allowed=1, generation=3, observed_generation=2), True, "has changed"),
        (budget(current_healthy=1), False, "only while 2 others are healthy, and 1 are"),
        (budget(current_healthy=2), False, ""),
        (budget(current_healthy=1, always_allow_unhealthy=True), False, ""),
    ],
    ids=["room", "none", "behind", "unready, too few healthy", "unready, enough healthy", "unready, always allowed"],
)
def test_c3_the_answer_of_the_eviction_api_is_foreseen(limits: Budget, ready: bool, words: str) -> None:
    told = drains.forecast(limits, a_pod("x", ready=ready))
    assert words in told
    assert bool(told) is bool(words)


def test_c4_a_budget_that_wants_every_pod_is_a_deadlock_while_the_node_lives() -> None:
    limits = a_budget("all", allowed=0, expected_pods=1, desired_healthy=1)
    pod = a_pod("x", on="n1", owner=RS)
    alive = plan_drain(a_cluster(a_node("n1"), pod, limits), "n1", Rules())
    assert [b.reason for b in alive.blocked] == [Reason.INFEASIBLE]
    assert alive.forbidden == ()
    dead = a_cluster(a_node("n1", ready="Unknown"), pod, limits)
    assert plan_drain(dead, "n1", Rules()).blocked == ()
    assert plan_drain(dead, "n1", Rules()).pods[0].delay
    waiting = a_budget("some", allowed=0, expected_pods=3, desired_healthy=2)
    assert fate(pod, waiting).deadlock is None


def test_critical_pods_leave_last_and_low_priorities_first() -> None:
    pods = [
        a_pod("critical", on="n1", owner=RS, priority=2_000_000_100),
        a_pod("high", on="n1", owner=RS, priority=1000),
        a_pod("low", on="n1", owner=RS),
    ]
    plan = plan_drain(a_cluster(a_node("n1"), *pods), "n1", Rules())
    assert [(p.pod.ref.name, p.tier) for p in plan.pods] == [("low", 0), ("high", 0), ("critical", 1)]


def test_the_summary_counts_for_people() -> None:
    state = a_cluster(
        a_node("n1"),
        DS,
        a_pod("a", on="n1", owner=RS),
        a_pod("b", on="n1", owner=DS.ref),
        a_pod("c", on="n1", annotations={"kubernetes.io/config.mirror": "1"}),
        a_pod("d", on="n1", phase="Succeeded"),
    )
    assert drains.summary(plan_drain(state, "n1", Rules())) == (
        "evict 1 pod from n1 (1 of DaemonSets stay, 1 static stay, 1 finished stay)"
    )


def test_c22_too_little_room_elsewhere_is_a_warning() -> None:
    gib = 1 << 30
    four = Resources(cpu_millicores=4000, memory_bytes=8 * gib, pods=10)

    def moving(cpu: int) -> Pod:
        return a_pod("big", on="n1", owner=RS, requests=Resources(cpu_millicores=cpu, memory_bytes=gib))

    busy = a_pod("busy", on="n2", owner=RS, requests=Resources(cpu_millicores=3000, memory_bytes=gib))
    nodes = [
        a_node("n1", allocatable=four),
        a_node("n2", allocatable=four),
        a_node("n3", allocatable=four, ready="False"),
    ]
    fits = a_cluster(*nodes, moving(1000), busy)
    assert drains.capacity_left(fits, plan_drain(fits, "n1", Rules())) == ""
    full = a_cluster(*nodes, moving(1500), busy)
    told = drains.capacity_left(full, plan_drain(full, "n1", Rules()))
    assert "1500 millicores asked for, 1000 free" in told
