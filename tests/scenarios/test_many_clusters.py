"""Several clusters under one Healer: what belongs to which, what counts across all, and one of them gone."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState
from healer.sim.builders import a_world
from healer.sim.faults import Fault
from healer.testing.scenario import Scenario

CORDON = """
rules: ['pack:demo']
remedies:
  - name: take-out
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon]
    verify: {alert: resolved, object: ignored, for: 10s, timeout: 10m}
    limits: {cooldown: 10m}
  - name: dead
    when: {alertname: NodeDown}
    mode: auto
    steps: [cordon]
    verify: {alert: ignored, object: ignored, query: 'vector(1)', for: 1s}
safety: {grace_after_outage: 1s%s}
"""
NODE = {"alertname": "NodeBad", "node": "node-a1"}


def two(config: str = "") -> Scenario:
    return Scenario(CORDON % config, nodes=6, beside={"us1": a_world(6, 3, seed=1)})


def test_r32_an_alert_of_one_cluster_is_treated_in_that_one_although_both_have_such_a_node() -> None:
    with two() as s:
        s.run_for("2s")
        s.alert({**NODE, "cluster": "us1"})
        s.run_for("5s")
        s.expect_no_cordon()
        s.expect(s.beside["us1"].cordons(), "it is a node of us1")


def test_r32_the_end_in_one_cluster_is_not_the_end_in_the_other() -> None:
    with two() as s:
        s.run_for("2s")
        for cluster in ("prod", "us1"):
            s.alert({**NODE, "cluster": cluster})
        s.run_for("5s")
        s.expect(s.cordons() and s.beside["us1"].cordons(), "each cluster has a budget of its own")
        s.resolve({**NODE, "cluster": "us1"})
        s.run_for("30s")
        states = {view.cluster: view.state for view in s.incidents()}
        assert states == {"prod": IncidentState.VERIFYING, "us1": IncidentState.CLOSED}, s.story()


def test_a_fault_that_our_own_rules_find_is_found_in_the_cluster_that_has_it() -> None:
    with two() as s:
        s.run_for("90s")
        s.beside["us1"].world.inject(Fault(name="machine-death", target="node-b1"))
        s.run_for("5m")
        (view,) = s.incidents()
        assert (view.cluster, view.title) == ("us1", "NodeDown"), s.story()
        s.expect_no_cordon()
        assert [record.path for record in s.beside["us1"].cordons()] == ["/api/v1/nodes/node-b1"]


def test_one_node_of_all_clusters_at_a_time_where_that_is_the_limit() -> None:
    with two(", max_in_flight_all_clusters: 1") as s:
        s.run_for("2s")
        s.alert({**NODE, "cluster": "us1"})
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("20s")
        s.expect_no_cordon()
        s.expect_decided(Reason.IN_FLIGHT_LIMIT, detail="1 nodes of all clusters are in our hands (node/node-a1)")
        s.resolve({**NODE, "cluster": "us1"})
        s.run_for("1m")
        s.expect(s.cordons("node-a1"), "its turn has come")


@pytest.mark.parametrize("trouble", ["down", "hang"])
def test_a_cluster_that_does_not_answer_does_not_slow_the_other(trouble: str) -> None:
    with two() as s:
        s.run_for("2s")
        setattr(s.beside["us1"].api_faults, trouble, True)
        s.run_for("2m")
        s.alert({**NODE, "cluster": "us1"})
        s.alert(NODE)
        s.run_until(s.cordons, within="2s")
        s.expect_decided(Reason.API_UNHEALTHY)
        s.resolve(NODE)
        s.run_for("30s")
        assert {view.cluster: view.state for view in s.incidents()} == {
            "prod": IncidentState.CLOSED,
            "us1": IncidentState.OPEN,
        }, s.story()
        setattr(s.beside["us1"].api_faults, trouble, False)
        s.run_until(s.beside["us1"].cordons, within="2m")


@pytest.mark.parametrize("trouble", ["down", "hang"])
def test_healer_starts_and_works_while_one_of_its_clusters_cannot_be_reached(trouble: str) -> None:
    s = Scenario(CORDON % "", nodes=6, beside={"us1": a_world(6, 3, seed=1)}, apart=True)
    with s:
        setattr(s.beside["us1"].api_faults, trouble, True)
        s.start()
        s.run_for("5s")
        s.alert(NODE)
        s.alert({**NODE, "cluster": "us1"})
        s.run_until(s.cordons, within="5s")
        assert not s.beside["us1"].cordons()
        setattr(s.beside["us1"].api_faults, trouble, False)
        s.run_until(s.beside["us1"].cordons, within="2m")


def test_an_alert_of_a_cluster_that_nobody_has_configured_touches_none() -> None:
    with two() as s:
        s.run_for("2s")
        s.alert({**NODE, "cluster": "eu9"})
        s.run_for("1m")
        s.expect_no_cordon()
        assert not s.beside["us1"].cordons()
        assert len(s.of_kind(ev.IncidentOpened)) == 1, "and a person can see it"


def test_a_storm_in_one_cluster_holds_up_nothing_in_the_other() -> None:
    with two(", storm: {alerts: 50, over: 1m}") as s:
        s.run_for("2s")
        for index in range(60):
            s.alert(alertname="Noise", n=str(index), cluster="us1")
        s.alert({**NODE, "cluster": "us1"})
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.cordons(), "this one is calm")
        assert not s.beside["us1"].cordons()
