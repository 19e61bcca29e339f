"""The rules that come with Healer."""

import pytest

from healer.rules import packs, promql
from healer.rules.definitions import AlertRule
from healer.rules.rulefiles import load_rules


@pytest.mark.parametrize("name", packs.names())
def test_every_pack_is_without_a_mistake_and_tells_people_what_is_wrong(name: str) -> None:
    groups, problems = load_rules(packs.read(name), name)
    assert problems == ()
    alerts = [rule for group in groups for rule in group.rules if isinstance(rule, AlertRule)]
    assert alerts
    for alert in alerts:
        assert {"summary", "description"} <= alert.annotations.keys()
        assert "severity" in alert.labels
        for template in (*alert.annotations.values(), *alert.labels.values()):
            assert "error expanding" not in template.render({}, 1.0)


def test_the_demo_reads_only_what_kube_state_metrics_gives() -> None:
    groups, _ = load_rules(packs.read("demo"), "demo")
    recorded = {rule.name for group in groups for rule in group.rules if not isinstance(rule, AlertRule)}
    for group in groups:
        for rule in group.rules:
            names = promql.metric_names(rule.expr)
            assert names is not None
            assert all(name.startswith("kube_") or name in recorded for name in names)


def test_a_dead_node_is_noticed_as_soon_as_its_samples_arrive() -> None:
    groups, _ = load_rules(packs.read("demo"), "demo")
    (down,) = (rule for group in groups for rule in group.rules if rule.name == "NodeDown")
    assert isinstance(down, AlertRule)
    assert (down.for_seconds, down.eager) == (10.0, True)


def test_an_unknown_pack_names_those_there_are() -> None:
    with pytest.raises(KeyError, match="there are: demo"):
        packs.read("nothing")
