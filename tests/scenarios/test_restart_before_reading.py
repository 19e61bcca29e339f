"""After a restart the cluster has to be read anew. Until then nothing is said to be gone, and no approval is lost."""

from __future__ import annotations

from healer.model.decisions import Reason
from healer.testing.scenario import Scenario

SLOW_SECONDS = 2.0


def remedy(mode: str) -> str:
    return f"""
remedies:
  - {{name: empty-node, when: {{alertname: DiskErrors}}, mode: {mode}, steps: [cordon], approval: {{expires: 1h}}}}
"""


def restart(s: Scenario) -> None:
    """Over an API server that takes its time."""
    s.kill()
    s.api_faults.latency_seconds = SLOW_SECONDS
    s.start()


def test_an_object_that_has_not_been_read_yet_is_not_said_to_be_gone() -> None:
    with Scenario(remedy("shadow")) as s:
        s.run_for("2m")
        s.alert(alertname="DiskErrors", node="node-a1")
        s.run_for("10s")
        restart(s)
        s.run_for("2m")
        reasons = [decision.reason for decision in s.decisions()]
        assert Reason.TARGET_NOT_FOUND not in reasons, s.story()
        assert reasons[-1] is Reason.SHADOW, s.story()


def test_an_approval_outlasts_a_restart_although_the_plan_cannot_be_made_at_once() -> None:
    with Scenario(remedy("approve")) as s:
        s.run_for("2m")
        s.alert(alertname="DiskErrors", node="node-a1")
        s.run_for("10s")
        s.pause()
        assert s.approve("DiskErrors") is Reason.OK
        s.run_for("10s")
        restart(s)
        s.run_for("2m")
        s.expect_no_cordon()
        s.resume()
        s.run_for("1m")
        s.expect(s.is_cordoned("node-a1"), "the approval does not count any more")
