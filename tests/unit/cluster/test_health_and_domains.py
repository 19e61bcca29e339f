"""Whether something is ill, and whose fault it is."""

from __future__ import annotations

from typing import Any

import pytest

from healer.cluster import domains, health
from healer.cluster.domains import Fault, Thresholds
from healer.model.cluster import Condition, Container, Taint
from healer.testing.states import a_cluster, a_node, a_pod, a_workload

NOW = 1000.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"unschedulable": True}, ""),
        ({"ready": "Unknown"}, "Ready is Unknown"),
        ({"ready": "False"}, "Ready is False"),
        ({"deleting": True}, "being deleted"),
        ({"conditions": {"DiskPressure": Condition(type="DiskPressure", status="True")}}, "DiskPressure is True"),
        ({"taints": (Taint(key="node.kubernetes.io/out-of-service", effect="NoExecute"),)}, "out of service"),
    ],
)
def test_what_is_wrong_with_a_node(fields: dict[str, Any], words: str) -> None:
    problems = health.node_problems(a_node("n", **fields))
    assert bool(problems) is bool(words)
    assert words in "".join(problems)


def test_a_cordoned_node_is_healthy_but_not_usable() -> None:
    node = a_node("n", unschedulable=True)
    assert health.is_node_healthy(node)
    assert not health.is_node_usable(node)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"phase": "Succeeded", "ready": False}, ""),
        ({"phase": "Failed", "ready": False, "reason": "Evicted"}, "failed (Evicted)"),
        ({"phase": "Pending", "ready": False}, "not Ready (phase Pending)"),
        (
            {"ready": False, "containers": (Container(name="main", waiting_reason="CrashLoopBackOff", restarts=7),)},
            "main waits: CrashLoopBackOff (restarts: 7)",
        ),
    ],
)
def test_what_is_wrong_with_a_pod(fields: dict[str, Any], words: str) -> None:
    problems = health.pod_problems(a_pod("p", **fields))
    assert bool(problems) is bool(words)
    assert words in "".join(problems)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"generation": 2, "observed_generation": 1}, "not seen"),
        ({"updated": 1}, "1 of 3 pods are updated"),
        ({"current": 4}, "1 old pods"),
        ({"ready": 2}, "2 of 3 pods are Ready"),
        ({"available": 2}, "2 of 3 pods are available"),
    ],
)
def test_what_is_left_of_a_rollout(fields: dict[str, Any], words: str) -> None:
    left = health.rollout_left(a_workload("Deployment", "web", replicas=3, **fields))
    assert bool(left) is bool(words)
    assert words in left


def test_one_bad_node_is_a_fault_of_the_node_with_the_numbers() -> None:
    state = a_cluster(
        a_node("n0", ready="Unknown", zone="a"), *[a_node(f"n{i}", zone="ab"[i % 2]) for i in range(1, 6)]
    )
    found = domains.diagnose(state, state.nodes["n0"], NOW, Thresholds())
    assert found.fault is Fault.NODE
    assert found.detail == "1 of 6 nodes are bad, 1 of 3 in zone a"


def test_a_whole_zone_is_a_fault_of_the_zone() -> None:
    state = a_cluster(
        *[a_node(f"{z}{i}", zone=z, ready="Unknown" if z == "a" else "True") for z in "abc" for i in range(4)]
    )
    found = domains.diagnose(state, state.nodes["a0"], NOW, Thresholds())
    assert found.fault is Fault.ZONE
    assert "4 of 4 nodes of zone a" in found.detail


def test_most_nodes_of_several_zones_silent_at_once_is_a_fault_of_the_vantage_point() -> None:
    silent = {f"{z}{i}": NOW - 40 for z in "ab" for i in range(4)}
    state = a_cluster(*[a_node(f"{z}{i}", zone=z) for z in "abc" for i in range(4)], heartbeats=silent)
    found = domains.diagnose(state, state.nodes["a0"], NOW, Thresholds())
    assert found.fault is Fault.VANTAGE
    assert "8 of 12 nodes in 2 of 3 zones" in found.detail


def test_without_zones_most_nodes_silent_at_once_is_a_fault_of_the_vantage_point() -> None:
    state = a_cluster(*[a_node(f"n{i}", zone="", ready="Unknown" if i < 3 else "True") for i in range(5)])
    assert domains.diagnose(state, state.nodes["n0"], NOW, Thresholds()).fault is Fault.VANTAGE


def test_nodes_that_say_they_are_not_ready_are_not_silent() -> None:
    state = a_cluster(*[a_node(f"n{i}", zone="abc"[i % 3], ready="False" if i < 4 else "True") for i in range(6)])
    assert domains.vantage(state, NOW, Thresholds()) == ""


def test_a_node_whose_clock_is_wrong_is_not_silent() -> None:
    state = a_cluster(a_node("n0"), a_node("n1"), heartbeats={"n0": NOW - 3, "n1": NOW + 5})
    assert domains.silent_seconds(state, "n0", NOW) == 3
    assert domains.silent_seconds(state, "n1", NOW) == 0
    assert domains.silent_seconds(state, "never seen", NOW) == 0


def test_what_the_bad_ones_have_in_common_is_a_hint_only_when_it_sets_them_apart() -> None:
    nodes = [
        a_node(f"n{i}", zone="abc"[i % 3], pool="new" if i < 3 else "old", ready="False" if i < 3 else "True")
        for i in range(9)
    ]
    state = a_cluster(*nodes)
    assert domains.in_common(state, nodes[:3]) == "they have in common: pool new (3 of the 3 that have it)"
    assert domains.in_common(state, nodes[:1]) == ""
    assert domains.in_common(state, [nodes[0], nodes[4]]) == ""
