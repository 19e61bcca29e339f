"""Whether it helped: proofs that waver, lack, or cannot be asked for. Rows R12, R30 and R37 and their neighbours."""

from __future__ import annotations

import pytest

from healer.model import events as ev
from healer.model.decisions import Reason, Verdict
from healer.model.incidents import IncidentState
from healer.testing.scenario import Scenario

REMEDY = """
remedies:
  - name: restart-pod
    when: {alertname: Slow}
    mode: auto
    steps: [restart]
    verify: %s
    otherwise: %s
  - name: roll
    when: {alertname: Slow}
    mode: auto
    steps: [rollout-restart]
    after: [restart-pod]
    verify: {alert: resolved, for: 10s, timeout: 2m}
safety: {grace_after_outage: 1s}
"""
PLAIN = "{alert: resolved, for: 1m, timeout: 5m}"
DB = {"alertname": "Slow", "namespace": "shop", "pod": "db-0"}
NO_DATA = {
    "a metric that nobody has": "nobody_exports_this == 1",
    "a division by nothing": "sum(nobody_exports_this) / sum(nor_this) > 0.5",
    "two vectors that do not fit": "kube_node_info + on (node) group_left nobody_exports_this > 0",
}


def begun(s: Scenario) -> None:
    """The first remedy has been carried out, and is being verified."""
    s.run_for("2s")
    s.alert(DB)
    s.run_until(lambda: s.of_kind(ev.VerificationStarted))


def remedies_used(s: Scenario) -> list[str]:
    return [event.remedy for event in s.of_kind(ev.OperationStarted)]


def test_R12_an_alert_that_comes_back_within_the_proof_starts_the_proof_anew_and_no_repair() -> None:
    with Scenario(REMEDY % (PLAIN, "page"), nodes=3) as s:
        begun(s)
        for _ in range(2):
            s.resolve(DB)
            s.run_for("40s")
            s.alert(DB)
            s.run_for("10s")
        s.expect_state("Slow", IncidentState.VERIFYING)
        s.resolve(DB)
        s.run_for("55s")
        s.expect_state("Slow", IncidentState.VERIFYING)
        s.run_for("10s")
        s.expect_closed("Slow", Reason.FIXED)
        assert remedies_used(s) == ["restart-pod"]
        assert len(s.of_kind(ev.IncidentOpened)) == 1


def test_R12_what_did_not_help_is_followed_by_the_next_rung_and_then_by_a_person() -> None:
    with Scenario(REMEDY % (PLAIN, "page"), nodes=3) as s:
        begun(s)
        s.run_for("20m")
        assert remedies_used(s) == ["restart-pod", "roll"], s.story()
        s.expect_escalated("Slow", Reason.NOT_FIXED)
        assert len(s.of_kind(ev.Escalated)) == 1, s.story()


@pytest.mark.parametrize("query", NO_DATA.values(), ids=NO_DATA.keys())
def test_R37_without_data_a_person_is_called_once_and_no_stronger_remedy_is_tried(query: str) -> None:
    verify = f"{{alert: resolved, query: '{query}', for: 10s, timeout: 1m}}"
    with Scenario(REMEDY % (verify, "page"), nodes=3) as s:
        begun(s)
        s.resolve(DB)
        s.run_for("30s")
        s.alert(DB)
        s.resolve(DB)
        s.run_for("10s")
        assert not s.of_kind(ev.IncidentClosed), f"not proven is not fixed\n{s.story()}"
        s.run_for("10m")
        assert [event.verdict for event in s.of_kind(ev.Verified)] == [Verdict.INCONCLUSIVE], s.story()
        assert remedies_used(s) == ["restart-pod"], s.story()
        assert len(s.of_kind(ev.Escalated)) <= 1, s.story()


def test_R37_without_data_while_the_alert_fires_on_it_is_not_fixed() -> None:
    verify = "{alert: resolved, query: 'nobody_exports_this == 1', for: 10s, timeout: 1m}"
    with Scenario(REMEDY % (verify, "page"), nodes=3) as s:
        begun(s)
        s.run_for("3m")
        assert s.of_kind(ev.Verified)[0].verdict is Verdict.NOT_FIXED, s.story()


def test_R37_where_the_alert_does_not_count_and_there_is_no_data_the_page_says_so() -> None:
    verify = "{alert: ignored, query: 'nobody_exports_this == 1', for: 10s, timeout: 1m}"
    with Scenario(REMEDY % (verify, "page"), nodes=3) as s:
        begun(s)
        s.run_for("5m")
        s.expect_escalated("Slow", Reason.INCONCLUSIVE)
        assert len(s.of_kind(ev.Escalated)) == 1, s.story()
        assert remedies_used(s) == ["restart-pod"], s.story()


@pytest.mark.parametrize("written", [True, False])
def test_R37_that_holds_also_when_healer_dies_at_the_verdict(written: bool) -> None:
    verify = "{alert: ignored, query: 'nobody_exports_this == 1', for: 10s, timeout: 1m}"
    with Scenario(REMEDY % (verify, "page"), nodes=3) as s:
        begun(s)
        s.kill_at(ev.Verified, written=written)
        s.start()
        s.run_for("5m")
        s.expect_escalated("Slow", Reason.INCONCLUSIVE)
        assert remedies_used(s) == ["restart-pod"], s.story()


def test_R37_where_nobody_is_to_be_called_the_next_rung_follows() -> None:
    verify = "{alert: ignored, query: 'nobody_exports_this == 1', for: 10s, timeout: 1m}"
    with Scenario(REMEDY % (verify, "tell"), nodes=3) as s:
        begun(s)
        s.run_for("3m")
        assert remedies_used(s) == ["restart-pod", "roll"], s.story()


WINDOW = """
remedies:
  - {name: take-out, when: {alertname: DiskErrors}, mode: %s, steps: [cordon], verify: {alert: resolved, for: 10s}}
safety:
  grace_after_outage: 1s
  maintenance: [{name: release, cron: '0 9 * * *', %s}]
"""
DISK = {"alertname": "DiskErrors", "node": "node-a1"}


def test_R30_people_are_asked_when_the_window_ends_and_not_before() -> None:
    with Scenario(WINDOW % ("approve", "duration: 10m"), nodes=6) as s:
        s.run_for("2s")
        s.alert(DISK)
        s.run_for("9m")
        s.expect_state("DiskErrors", IncidentState.OPEN, Reason.MAINTENANCE_WINDOW)
        s.run_for("90s")
        s.expect_state("DiskErrors", IncidentState.AWAITING_APPROVAL)


def test_R30_an_alert_that_is_over_before_the_window_is_leaves_nothing_to_do() -> None:
    with Scenario(WINDOW % ("auto", "duration: 10m"), nodes=6) as s:
        s.run_for("2s")
        s.alert(DISK)
        s.run_for("5m")
        s.resolve(DISK)
        s.run_for("10m")
        s.expect_closed("DiskErrors", Reason.RESOLVED_ON_ITS_OWN)
        s.expect_nothing_changed()


@pytest.mark.parametrize(("zone", "held"), [("zone-a", True), ("zone-b", False)])
def test_R30_a_window_for_one_zone_holds_nothing_back_in_another(zone: str, held: bool) -> None:
    with Scenario(WINDOW % ("auto", f"duration: 10m, when: {{zone: {zone}}}"), nodes=6) as s:
        s.run_for("2s")
        s.alert(DISK)
        s.run_for("10s")
        assert s.is_cordoned("node-a1") != held, s.story()


def test_R30_a_window_that_is_taken_out_of_the_configuration_is_over() -> None:
    with Scenario(WINDOW % ("auto", "duration: 10m"), nodes=6) as s:
        s.run_for("2s")
        s.alert(DISK)
        s.run_for("10s")
        s.expect_nothing_changed()
        s.reload((WINDOW % ("auto", "duration: 10m")).partition("  maintenance")[0])
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "there is no window any more")
