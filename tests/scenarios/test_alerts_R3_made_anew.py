"""The object changes between the plan and the deed: the new one is left alone, and looked at anew (row R3)."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.testing.scenario import Scenario

RESTART = """
remedies:
  - name: restart-pod
    when: {alertname: PodStuck}
    mode: auto
    steps: [restart]
    verify: {alert: resolved, for: 10s, timeout: 2m}
    limits: {cooldown: 3m}
safety: {grace_after_outage: 1s}
"""
DB = {"namespace": "shop", "pod": "db-0"}


def overtaken(s: Scenario) -> str:
    """The pod is made anew when its restart has begun but nothing has been sent; the UID of the new one."""
    s.run_for("2s")
    s.alert(DB, alertname="PodStuck")
    s.kill_at(ev.StepStarted)
    s.world.storage.delete("pods", "shop", "db-0", grace_seconds=0)
    s.run_for("20s")
    s.start()
    return uid(s)


def uid(s: Scenario) -> str:
    pod = s.world.storage.get("pods", "shop", "db-0")
    assert pod is not None, s.story()
    return str(pod["metadata"]["uid"])


@pytest.mark.parametrize("well", [True, False])
def test_R3_a_pod_made_anew_meanwhile_is_not_deleted_in_the_place_of_the_old_one(well: bool) -> None:
    with Scenario(RESTART, nodes=3) as s:
        made = overtaken(s)
        if well:
            s.resolve(DB, alertname="PodStuck")
        s.run_for("1m")
        assert uid(s) == made, s.story()
        assert not s.of_kind(ev.Escalated), s.story()
        if well:
            s.run_for("10m")
            assert uid(s) == made, s.story()
            s.expect(s.incident("PodStuck").closed_at, "its alert is over")


def test_R3_a_pod_made_anew_whose_alert_goes_on_is_planned_for_anew_after_the_cooldown() -> None:
    with Scenario(RESTART, nodes=3) as s:
        made = overtaken(s)
        s.run_for("1m")
        s.expect_decided(Reason.COOLDOWN)
        s.run_for("4m")
        s.expect(uid(s) != made, "the alert goes on, and the new pod is what it is about")
        targets = [event.plan.target.uid for event in s.of_kind(ev.OperationStarted)]
        assert targets[-1] == made
        assert len(set(targets)) == len(targets) == 2, s.story()
