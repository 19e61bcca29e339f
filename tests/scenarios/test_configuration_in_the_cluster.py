"""Remedies and rules that stand in the cluster: taken as they come and go; a bad one is told so, and the rest runs on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from healer.app import Prepared
from healer.app.merging import Given, with_more
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.sim.api_faults import Failure
from healer.sim.objects import JSON
from healer.testing.scenario import Scenario

BASE = """
rules: ['pack:demo']
from_kubernetes:
  - {selector: healer.dev/config=true%s}
safety: {grace_after_outage: 1s}
"""
CORDON = """\
remedies:
  - name: take-out
    when: {alertname: NodeBad}
    mode: auto
    steps: [cordon]
    verify: {alert: ignored, for: 1s}
"""
NODE = {"alertname": "NodeBad", "node": "node-a1"}
ALWAYS = {"groups": [{"name": "mine", "interval": "5s", "rules": [{"alert": "Always", "expr": "vector(1)"}]}]}


def config(more: str = ", at_most: auto") -> str:
    return BASE % more


def config_map(
    s: Scenario, name: str, data: dict[str, str], *, namespace: str = "shop", labels: dict[str, str] | None = None
) -> None:
    put(s, "configmaps", name, {"data": data}, namespace, labels)


def rule(s: Scenario, name: str, spec: JSON, *, namespace: str = "shop") -> None:
    put(s, "prometheusrules", name, {"spec": spec}, namespace, None)


def put(s: Scenario, resource: str, name: str, body: JSON, namespace: str, labels: dict[str, str] | None) -> None:
    """What `kubectl apply` does."""
    if s.world.storage.get(resource, namespace, name) is not None:
        s.world.storage.update(resource, namespace, name, lambda found: found.update(body))
        return
    metadata = {"name": name, "namespace": namespace, "labels": labels or {"healer.dev/config": "true"}}
    s.world.storage.create(resource, {"metadata": metadata, **body})


def told(s: Scenario, name: str) -> list[dict[str, Any]]:
    """Healer's Events on an object."""
    return [
        event
        for event in s.world.storage.items("events")
        if event.get("source", {}).get("component") == "healer" and event["involvedObject"]["name"] == name
    ]


def test_a_remedy_in_a_config_map_acts_as_one_in_the_file_does() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"remedies.yaml": CORDON})
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "the remedy is there")


def test_a_remedy_that_is_taken_away_acts_no_more_and_one_that_comes_back_does() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"remedies.yaml": CORDON})
        s.run_for("5s")
        s.world.storage.delete("configmaps", "shop", "mine")
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("1m")
        s.expect_no_cordon()
        s.expect_decided(Reason.NO_REMEDY)
        config_map(s, "mine", {"remedies.yaml": CORDON})
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "it is back")


def test_an_object_without_the_label_is_nobodys_business() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"remedies.yaml": CORDON}, labels={"app": "other"})
        config_map(s, "garbage", {"a": "}{"}, labels={"app": "other"})
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("1m")
        s.expect_no_cordon()
        assert not told(s, "garbage")


def test_an_object_that_loses_its_label_is_left_out() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"remedies.yaml": CORDON})
        s.run_for("5s")
        s.world.storage.update("configmaps", "shop", "mine", lambda found: found["metadata"].pop("labels"))
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("1m")
        s.expect_no_cordon()


def test_rules_in_a_prometheus_rule_fire_and_end_with_it() -> None:
    with Scenario(config(), nodes=6) as s:
        rule(s, "mine", ALWAYS)
        s.run_for("30s")
        assert [event.labels for event in s.of_kind(ev.AlertFired)] == [(("alertname", "Always"),)]
        s.world.storage.delete("prometheusrules", "shop", "mine")
        s.run_for("30s")
        assert len(s.of_kind(ev.AlertResolved)) == 1


def test_rules_that_stand_in_the_cluster_go_on_over_a_restart() -> None:
    with Scenario(config(), nodes=6) as s:
        rule(s, "mine", ALWAYS)
        s.run_for("30s")
        s.kill()
        s.start()
        s.run_for("2m")
        assert len(s.of_kind(ev.AlertFired)) == 1, s.story()
        assert not s.of_kind(ev.AlertResolved), s.story()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"r.yaml": CORDON.replace("steps:", "step:")}, "did you mean 'steps'"),
        ({"r.yaml": CORDON.replace("[cordon]", "[cordn]")}, "did you mean 'cordon'"),
        ({"r.yaml": CORDON.replace("    when: {alertname: NodeBad}\n", "")}, "when"),
        ({"r.yaml": "remedies: }{"}, "not YAML"),
        ({"r.yaml": "nothing of ours"}, "must be a mapping with the key 'groups'"),
        ({"r.yaml": "groups: [{name: a, rules: [{alert: B, expr: 'up =='}]}]"}, "expr"),
        ({"r.yaml": CORDON, "s.yaml": CORDON}, "names are unique"),
        ({"r.yaml": CORDON.replace("for: 1s", "for: 1s, query: 'sum('")}, "query"),
    ],
)
def test_a_bad_object_is_told_what_is_wrong_and_the_others_run_on(data: dict[str, str], said: str) -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"remedies.yaml": CORDON}, namespace="a-first")
        config_map(s, "theirs", {key: text.replace("take-out", "other") for key, text in data.items()})
        s.run_for("5s")
        (event,) = told(s, "theirs")
        assert event["type"] == "Warning"
        assert event["reason"] == "HealerConfigRefused"
        assert event["involvedObject"]["kind"] == "ConfigMap"
        assert said in event["message"]
        assert "configmap/shop/theirs[" in event["message"]
        assert not told(s, "mine")
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "the other one runs on")


def test_a_good_object_that_becomes_bad_goes_on_as_it_was_and_is_told_when_it_is_well_again() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"r.yaml": CORDON})
        s.run_for("5s")
        config_map(s, "mine", {"r.yaml": CORDON.replace("steps", "stepps")})
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "as it last was well")
        config_map(s, "mine", {"r.yaml": CORDON})
        s.run_for("5s")
        assert [event["reason"] for event in told(s, "mine")] == ["HealerConfigRefused", "HealerConfigTaken"]


def test_a_remedy_may_do_no_more_by_itself_than_its_source_may() -> None:
    with Scenario(config(""), nodes=6) as s:
        config_map(s, "mine", {"r.yaml": CORDON})
        s.run_for("5s")
        (event,) = told(s, "mine")
        assert "may be approve at most here" in event["message"]
        s.alert(NODE)
        s.run_for("1m")
        s.expect_no_cordon()


def test_two_objects_with_a_remedy_of_one_name_do_not_hide_each_other() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "first", {"r.yaml": CORDON})
        config_map(s, "second", {"r.yaml": CORDON})
        s.run_for("5s")
        assert not told(s, "first")
        (event,) = told(s, "second")
        assert "'take-out' is the name of another remedy already" in event["message"]


def test_only_the_named_namespace_counts() -> None:
    with Scenario(config(", at_most: auto, namespace: ops"), nodes=6) as s:
        config_map(s, "mine", {"r.yaml": CORDON})
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("1m")
        s.expect_no_cordon()
        config_map(s, "mine", {"r.yaml": CORDON}, namespace="ops")
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "this one counts")


def test_the_file_may_change_meanwhile_and_both_count() -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"r.yaml": CORDON})
        s.run_for("5s")
        more = "remedies: [{name: mine, when: {alertname: Other}, mode: auto, steps: [cordon]}]"
        assert not s.reload(config() + more)
        s.alert(NODE)
        s.alert(alertname="Other", node="node-b1")
        s.run_for("20s")
        s.expect(s.is_cordoned("node-a1"), "from the cluster")
        assert {d.remedy for d in s.decisions() if d.remedy} == {"take-out", "mine"}


def test_a_cluster_without_the_kind_prometheus_rule_is_no_hindrance() -> None:
    with Scenario(config(), nodes=6, apart=True) as s:
        s.api_faults.fail_all = [Failure(status=404, path="*/prometheusrules")]
        s.start()
        config_map(s, "mine", {"r.yaml": CORDON})
        s.run_for("5s")
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "ConfigMaps are enough")


def test_while_a_huge_object_is_read_the_rest_of_healer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that stood still for so long would lose its lease, and whoever may write such an object could see to that."""
    on_loop: list[bool] = []
    read = with_more

    def noted(base: Prepared, given: Given) -> Prepared:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return read(base, given)

    monkeypatch.setattr("healer.app.gathering.with_more", noted)
    with Scenario(config(), nodes=3) as s:
        rule(s, "mine", ALWAYS)
        s.run_for("30s")
        s.expect(s.of_kind(ev.AlertFired), "it is taken")
    assert on_loop
    assert not any(on_loop)


@pytest.mark.parametrize(
    "text",
    [
        "remedies: " + "[" * 20_000,
        "groups: " + "[" * 20_000,
        "remedies: 5",
        "remedies: &a [*a]",
        "\x00\x01",
        "remedies:",
    ],
    ids=["deep remedies", "deep rules", "a number", "itself", "no text", "nothing"],
)
def test_garbage_is_told_and_stops_nothing(text: str) -> None:
    with Scenario(config(), nodes=6) as s:
        config_map(s, "mine", {"r.yaml": CORDON}, namespace="a-first")
        config_map(s, "theirs", {"r.yaml": text})
        s.run_for("5s")
        assert [event["reason"] for event in told(s, "theirs")] == ["HealerConfigRefused"]
        s.alert(NODE)
        s.run_for("5s")
        s.expect(s.is_cordoned("node-a1"), "the other one runs on")
