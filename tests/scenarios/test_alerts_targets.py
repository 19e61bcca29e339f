"""Which object an alert is about, and what a remedy may be aimed at: rows R3, R4, R5, R25, R27, R35."""

from __future__ import annotations

from typing import Any

import pytest

from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.sim.builders import a_world, add_deployment, add_namespace
from healer.testing.scenario import Scenario

CONFIG = """
remedies:
  - name: restart-pod
    when: {alertname: PodCrash}
    mode: auto
    steps: [restart]
    verify: {alert: resolved, for: 10s, timeout: 2m}
  - name: ask-restart
    when: {alertname: AskCrash}
    mode: approve
    steps: [restart]
  - name: raise-hpa
    when: {alertname: KubeHpaMaxedOut}
    mode: shadow
    steps: [{scale: {by: 1}}]
  - name: cordon-node
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon]
    verify: {alert: resolved, for: 10s, timeout: 2m}
safety: {grace_after_outage: 1s%s}
"""


def pods(s: Scenario, start: str) -> list[dict[str, Any]]:
    return [p for p in s.world.storage.items("pods", "shop") if p["metadata"]["name"].startswith(start)]


def test_R3_a_pod_made_anew_under_the_same_name_is_left_alone() -> None:
    with Scenario(CONFIG % "", nodes=3) as s:
        s.run_for("2s")
        s.alert(alertname="AskCrash", namespace="shop", pod="db-0")
        s.run_for("2s")
        s.world.storage.delete("pods", "shop", "db-0", grace_seconds=0)
        s.run_for("1m")
        assert s.approve("AskCrash") is Reason.OK
        s.run_for("1m")
        s.expect_nothing_changed()
        s.expect(
            any(e.reason is Reason.PLAN_CHANGED for e in s.events if hasattr(e, "reason")),
            "what was approved was about another pod: ask again",
        )


def test_R4_an_alert_about_an_autoscaler_is_not_about_the_pod_that_exported_it() -> None:
    labels = {
        "alertname": "KubeHpaMaxedOut",
        "namespace": "shop",
        "horizontalpodautoscaler": "web",
        "pod": "kube-state-metrics-0",
        "container": "kube-state-metrics",
        "job": "kube-state-metrics",
    }
    with Scenario(CONFIG % "", nodes=3) as s:
        s.run_for("2s")
        s.alert(labels)
        s.run_for("2s")
        (view,) = s.incidents()
        assert view.target is not None, s.story()
        assert (view.owner.kind, view.owner.name) in {("HorizontalPodAutoscaler", "web"), ("Deployment", "web")}
        s.expect_nothing_changed()


def test_R5_a_pod_without_a_namespace_is_looked_up_and_never_assumed_to_be_in_default() -> None:
    world = a_world(3, 3)
    for namespace in ("one", "two"):
        add_namespace(world, namespace)
        add_deployment(world, namespace, "api", replicas=1)
    world.settle()
    with Scenario(CONFIG % "", world=world) as s:
        s.run_for("2s")
        name = pods(s, "cart-")[0]["metadata"]["name"]
        s.alert(alertname="PodCrash", pod=name)
        s.run_for("5s")
        s.expect(s.changes(f"/namespaces/shop/pods/{name}", "DELETE"), "there is exactly one pod of that name")
        s.alert(alertname="AskCrash", deployment="api")
        s.run_for("5s")
        s.expect_decided(Reason.AMBIGUOUS_TARGET)
        s.alert(alertname="PodCrash", pod="nobody-knows-me")
        s.run_for("5s")
        s.expect_decided(Reason.TARGET_NOT_FOUND)
        assert len(s.changes("/pods/", "DELETE")) == 1


@pytest.mark.parametrize(
    "hostile", ["x; rm -rf /", "../../nodes/node-a1", "{{ secrets.token }}", "a" * 300, "x\n<!channel>", "％"]
)
def test_R25_a_hostile_name_is_data_and_reaches_no_request(hostile: str) -> None:
    with Scenario(CONFIG % "", nodes=3) as s:
        s.run_for("2s")
        s.alert({"alertname": "PodCrash", "namespace": "shop", "pod": hostile})
        s.run_for("10s")
        s.expect_nothing_changed()
        assert not [r for r in s.api.requests if "rm -rf" in r.path or "secrets.token" in r.path]
        s.expect(
            s.decisions()[-1].reason in (Reason.INVALID_TARGET, Reason.TARGET_NOT_FOUND), "refused, with the reason"
        )


def test_R27_the_node_on_which_healer_runs_is_touched_only_when_a_person_agrees() -> None:
    with Scenario(CONFIG % ", self: {node: node-a1, namespace: healer}", nodes=6) as s:
        s.run_for("2s")
        s.alert(alertname="NodeBad", node="node-a1")
        s.run_for("1m")
        s.expect_no_cordon()
        s.expect_decided(Reason.SELF_PROTECTION)
        s.expect_state("NodeBad", IncidentState.AWAITING_APPROVAL)
        s.approve("NodeBad")
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "somebody agreed")


def test_R27_other_nodes_need_nobody() -> None:
    with Scenario(CONFIG % ", self: {node: node-a1, namespace: healer}", nodes=6) as s:
        s.run_for("2s")
        s.alert(alertname="NodeBad", node="node-b1")
        s.run_for("5s")
        s.expect(s.is_cordoned("node-b1"), "it is not its own")


TWO = """
remedies:
  - name: restart
    when: {alertname: Sick}
    mode: auto
    steps: [restart]
    priority: %d
    verify: {alert: resolved, for: 10s, timeout: 2m}
  - name: drain-node
    when: {alertname: Sick}
    target: node/{{ labels.node }}
    mode: auto
    steps: [cordon]
    verify: {alert: resolved, for: 10s, timeout: 2m}
safety: {grace_after_outage: 1s}
"""


@pytest.mark.parametrize(("priority", "winner", "loser"), [(0, "drain-node", "restart"), (5, "restart", "drain-node")])
def test_R35_of_two_remedies_one_is_taken_and_the_other_recorded_as_superseded(
    priority: int, winner: str, loser: str
) -> None:
    with Scenario(TWO % priority, nodes=6) as s:
        s.run_for("2s")
        pod = pods(s, "cart-")[0]
        s.alert(alertname="Sick", namespace="shop", pod=pod["metadata"]["name"], node=pod["spec"]["nodeName"])
        s.run_for("20s")
        s.expect_decided(Reason.SUPERSEDED, detail=f"superseded by {winner}")
        assert bool(s.cordons()) == (winner == "drain-node"), s.story()
        assert bool(s.changes("/pods/", "DELETE")) == (winner == "restart"), s.story()
        assert {d.remedy for d in s.decisions() if d.reason is Reason.SUPERSEDED} == {loser}


def test_R35_while_a_node_is_worked_on_its_pods_are_not() -> None:
    with Scenario(CONFIG % "", nodes=6) as s:
        s.run_for("2s")
        pod = pods(s, "cart-")[0]
        s.alert(alertname="NodeBad", node=pod["spec"]["nodeName"])
        s.run_for("5s")
        s.alert(alertname="PodCrash", namespace="shop", pod=pod["metadata"]["name"])
        s.run_for("30s")
        s.expect_decided(Reason.LOCKED)
        assert not s.changes("/pods/", "DELETE"), s.story()
