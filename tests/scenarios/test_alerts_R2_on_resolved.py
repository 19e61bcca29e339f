"""A resolved alert starts something only where a remedy says so (row R2)."""

from __future__ import annotations

import pytest

from healer.model.decisions import Reason
from healer.testing.scenario import Scenario

UNCORDON = """
remedies:
  - name: give-back
    when: {{alertname: Maintenance}}
    on: {on}
    mode: {mode}
    steps: [{{uncordon: {{only_ours: false}}}}]
    verify: {{alert: resolved, for: 5s}}
safety: {{grace_after_outage: 1s}}
"""
ALERT = {"alertname": "Maintenance", "node": "node-a1"}


@pytest.mark.parametrize("on", ["firing", "resolved"])
def test_R2_a_remedy_for_the_end_of_an_alert_starts_with_its_end_and_no_other_does(on: str) -> None:
    with Scenario(UNCORDON.format(on=on, mode="auto"), nodes=3) as s:
        s.cordon_by_hand("node-a1")
        s.run_for("5s")
        s.alert(ALERT)
        s.run_for("60s")
        s.expect(s.is_cordoned("node-a1") == (on == "resolved"), "only a remedy for firing alerts acts while it fires")
        s.resolve(ALERT)
        s.run_for("60s")
        s.expect(not s.is_cordoned("node-a1"), "by its end the node has been given back")
        s.expect_closed("Maintenance", Reason.FIXED)


def test_R2_in_shadow_mode_the_end_of_an_alert_is_only_written_down() -> None:
    with Scenario(UNCORDON.format(on="resolved", mode="shadow"), nodes=3) as s:
        s.cordon_by_hand("node-a1")
        s.run_for("5s")
        s.alert(ALERT)
        s.run_for("10s")
        s.resolve(ALERT)
        s.run_for("30s")
        s.expect_nothing_changed()
        s.expect_decided(Reason.SHADOW)
        s.expect_closed("Maintenance", Reason.RESOLVED_ON_ITS_OWN)


def test_R2_the_end_of_an_alert_can_be_approved_too() -> None:
    with Scenario(UNCORDON.format(on="resolved", mode="approve"), nodes=3) as s:
        s.cordon_by_hand("node-a1")
        s.run_for("5s")
        s.alert(ALERT)
        s.run_for("10s")
        s.resolve(ALERT)
        s.run_for("10s")
        assert s.approve("Maintenance") is Reason.OK
        s.run_for("60s")
        s.expect(not s.is_cordoned("node-a1"), "it was approved")
        s.expect_closed("Maintenance", Reason.FIXED)
