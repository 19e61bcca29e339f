"""What `kubectl describe` tells of Healer: Kubernetes Events on the objects of incidents."""

from __future__ import annotations

from typing import Any

import pytest

from healer.model.decisions import Reason
from healer.sim.api_faults import Failure
from healer.testing.scenario import Scenario

CONFIG = """
rules: ['pack:demo']
remedies:
  - name: replace-dead-node
    when: {{alertname: NodeDown}}
    mode: {mode}
    steps: [cordon, fence, drain, replace]
    verify: {{for: 30s}}
safety: {{grace_after_outage: 1s{safety}}}
"""


def config(mode: str = "auto", safety: str = "") -> str:
    return CONFIG.format(mode=mode, safety=safety)


def told(s: Scenario, node: str = "node-a1") -> list[str]:
    """Type, reason and count of Healer's Events on a node, in the order they were first told."""
    return [
        f"{event['type']} {event['reason']} x{event['count']}" for event in events(s) if about(event) == f"Node/{node}"
    ]


def events(s: Scenario) -> list[dict[str, Any]]:
    found = [event for event in s.world.storage.items("events") if event.get("source", {}).get("component") == "healer"]
    return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))


def about(event: dict[str, Any]) -> str:
    return f"{event['involvedObject']['kind']}/{event['involvedObject']['name']}"


def test_a_repair_is_told_on_the_node_from_the_alert_to_the_proof() -> None:
    with Scenario(config(), nodes=6) as s:
        s.fault("machine-death", "node-a1", after="10s")
        s.run_for("10m")
        s.expect_closed("NodeDown", Reason.FIXED)
        assert told(s) == ["Warning IncidentOpened x1", "Normal RemedyStarted x1", "Normal Fixed x1"]
        opened, started, fixed = events(s)
        incident = s.incident("NodeDown")
        assert opened["message"] == f"incident {incident.id}: alert NodeDown, Node node-a1 is down"
        assert "replace-dead-node (cordon, fence, drain, replace), attempt 1" in started["message"]
        assert fixed["message"] == f"incident {incident.id}: closed (Fixed)"
        assert {event["involvedObject"]["uid"] for event in events(s)} == {
            incident.target.uid if incident.target else ""
        }
        # Telling is no change of the cluster for those who count changes.
        assert not s.changes("/events")


def test_shadow_mode_writes_nothing_to_the_cluster_not_even_events() -> None:
    with Scenario(config("shadow"), nodes=6) as s:
        s.fault("machine-death", "node-a1", after="10s")
        s.run_for("5m")
        s.expect_decided(Reason.SHADOW)
        assert events(s) == []


@pytest.mark.parametrize(
    ("mode", "end"),
    [("suggest", "Normal Suggested x1"), ("approve", "Normal AwaitingApproval x1")],
)
def test_what_waits_for_a_person_is_told_with_that_reason(mode: str, end: str) -> None:
    with Scenario(config(mode), nodes=6) as s:
        s.fault("machine-death", "node-a1", after="10s")
        s.run_for("3m")
        assert told(s) == ["Warning IncidentOpened x1", end]


def test_a_guard_s_refusal_is_told_once_for_as_long_as_the_reason_stays_the_same() -> None:
    with Scenario(config(), nodes=6) as s:
        s.fault("zone-outage", "zone-a", after="10s")
        s.run_for("20m")
        assert [text for text in told(s) if "ZoneOutage" in text] == ["Normal ZoneOutage x1"]
        (refused,) = [
            event for event in events(s) if event["reason"] == "ZoneOutage" and about(event) == "Node/node-a1"
        ]
        assert "replace-dead-node is refused (zone-outage)" in refused["message"]


def test_a_failed_step_and_the_call_for_a_person_are_told_as_warnings() -> None:
    with Scenario(config(), nodes=6) as s:
        s.api_faults.fail_all.append(Failure(status=403, method="PATCH", path="*/nodes/*"))
        s.fault("machine-death", "node-a1", after="10s")
        s.run_for("10m")
        assert told(s)[-2:] == ["Warning StepFailed x1", "Warning Escalated x1"]


def test_in_a_storm_the_api_server_is_spared() -> None:
    storm = ", storm: {alerts: 3, over: 5m}, max_unhealthy: 100%"
    with Scenario(config(safety=storm), nodes=12, zones=3) as s:
        s.fault("machine-death", "node-a1,node-a2,node-b1,node-b2,node-c1", after="10s")
        s.run_for("3m")
        s.expect_decided(Reason.STORM)
        assert len(events(s)) <= 1


def test_events_that_are_refused_hold_up_nothing() -> None:
    with Scenario(config(), nodes=6) as s:
        s.api_faults.fail_all.append(Failure(status=403, path="*/events"))
        s.fault("machine-death", "node-a1", after="10s")
        s.run_for("10m")
        s.expect_closed("NodeDown", Reason.FIXED)
        assert events(s) == []


def test_a_restart_tells_nothing_a_second_time() -> None:
    with Scenario(config("suggest").replace("rules: ['pack:demo']", ""), nodes=6) as s:
        s.fault("machine-death", "node-a1")
        s.run_for("2m")
        s.alert(alertname="NodeDown", node="node-a1")
        s.run_for("3m")
        assert told(s) == ["Warning IncidentOpened x1", "Normal Suggested x1"]
        s.kill()
        s.start()
        s.run_for("10m")
        assert told(s) == ["Warning IncidentOpened x1", "Normal Suggested x1"]
