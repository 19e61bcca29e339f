"""Rule files and PrometheusRule manifests that are right."""

import pytest

from healer.rules import promql
from healer.rules.definitions import Position
from healer.rules.rulefiles import AlertRule, Group, RecordingRule, load_rules

TEXT = """\
groups:
  - name: nodes
    interval: 30s
    query_offset: 1m
    limit: 10
    labels: {team: sre, severity: info}
    rules:
      - alert: NodeDown
        expr: |
          up{job="node"}
            == 0
        for: 5m
        keep_firing_for: 1m30s
        labels:
          severity: page
          code: 1
          answer: NO
        annotations:
          summary: "{{ $labels.instance }} is down"
      - record: job:up:sum
        expr: sum by (job) (up)
        labels: {source: rules}
  - name: empty
"""


def load(text: str) -> tuple[Group, ...]:
    groups, problems = load_rules(text, "rules.yaml")
    assert problems == ()
    return groups


def test_a_group_is_read_whole() -> None:
    nodes, empty = load(TEXT)
    assert (nodes.name, nodes.file, nodes.key) == ("nodes", "rules.yaml", "rules.yaml;nodes")
    assert (nodes.interval_seconds, nodes.query_offset_seconds, nodes.limit, nodes.eager) == (30.0, 60.0, 10, False)
    assert (empty.interval_seconds, empty.rules) == (60.0, ())
    alert, record = nodes.rules
    assert isinstance(alert, AlertRule)
    assert (alert.name, alert.for_seconds, alert.keep_firing_for_seconds) == ("NodeDown", 300.0, 90.0)
    assert alert.text == 'up{job="node"}\n  == 0\n'
    assert alert.expr == promql.parse('up{job="node"} == 0')
    assert alert.position == Position(8, 9)
    assert {name: template.text for name, template in alert.labels.items()} == {
        "team": "sre",
        "severity": "page",
        "code": "1",
        "answer": "NO",
    }
    assert alert.annotations["summary"].render({"instance": "a"}, 1.0) == "a is down"
    assert isinstance(record, RecordingRule)
    assert (record.record, record.labels) == ("job:up:sum", {"team": "sre", "severity": "info", "source": "rules"})


def test_eager_is_off_unless_the_group_asks_for_it() -> None:
    text = "groups:\n- name: a\n  eager: true\n  rules:\n  - {alert: A, expr: up}\n- name: b\n  rules: [{alert: B, expr: up}]"
    eager, plain = load(text)
    assert [rule.eager for group in (eager, plain) for rule in group.rules if isinstance(rule, AlertRule)] == [
        True,
        False,
    ]


def test_manifests_lists_and_several_documents_are_read() -> None:
    manifest = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {{name: {name}, namespace: monitoring}}
spec:
  groups:
    - name: same
      rules: [{{alert: A, expr: up}}]
"""
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + manifest.format(name="three").replace("\n", "\n  ")
    groups = load("---\n".join([manifest.format(name="one"), manifest.format(name="two"), listed]))
    assert [group.key for group in groups] == [
        "rules.yaml;monitoring/one;same",
        "rules.yaml;monitoring/two;same",
        "rules.yaml;monitoring/three;same",
    ]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "groups:\n", "groups: []\n"])
def test_a_file_without_rules_is_no_mistake(text: str) -> None:
    assert load(text) == ()


def test_the_default_interval_is_the_callers() -> None:
    groups, _ = load_rules("groups: [{name: a}]", "f", default_interval_seconds=5)
    assert groups[0].interval_seconds == 5


def test_good_groups_are_given_even_if_others_are_bad() -> None:
    text = "groups:\n- {name: a, rules: [{alert: A, expr: up}]}\n- {name: b, rules: [{alert: B, expr: 'up +'}]}\n- {name: c}\n"
    groups, problems = load_rules(text, "f")
    assert [group.name for group in groups] == ["a", "c"]
    assert [(problem.line, problem.path) for problem in problems] == [(3, "groups.1.rules.0.expr")]


def test_recording_rules_may_share_a_name_and_are_told_apart() -> None:
    (group,) = load("groups:\n- name: a\n  rules:\n  - {record: x, expr: up}\n  - {record: x, expr: down}\n")
    first, second = (key for key, _ in group.keyed_rules())
    assert first != second


def test_equal_text_makes_equal_rules_wherever_it_stands() -> None:
    assert load(TEXT) == load(TEXT)
    assert load(TEXT)[0].rules == load("# moved down\n" + TEXT)[0].rules
    assert load(TEXT)[0].rules != load(TEXT.replace("== 0", "== 1"))[0].rules


def test_utf8_label_names_are_taken() -> None:
    (group,) = load('groups:\n- name: a\n  rules:\n  - {alert: A, expr: up, labels: {"k8s.pod.name": x}}\n')
    (rule,) = group.rules
    assert isinstance(rule, AlertRule)
    assert list(rule.labels) == ["k8s.pod.name"]
