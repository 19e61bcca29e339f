"""Evaluating groups, over a small store."""

import json
from collections.abc import Iterable

import numpy as np
import pytest

from healer.errors import StoreError
from healer.model.alerts import Alert, AlertStatus
from healer.model.series import NO_COLUMNS, Batch, Columns, Labels, is_stale
from healer.rules import groups, packs, promql
from healer.rules.alerting import Surroundings
from healer.rules.groups import Evaluated, Memory
from healer.rules.rulefiles import Group, load_rules


def label(text: str) -> Labels:
    """`up{job=a}` as labels."""
    name, _, rest = text.rstrip("}").partition("{")
    pairs = [pair.partition("=")[::2] for pair in rest.split(",") if pair]
    return Labels({"__name__": name, **dict(pairs)})


class MemoryStore:
    """Samples by series, enough for what rules ask."""

    def __init__(self) -> None:
        self.samples: dict[Labels, list[tuple[int, float]]] = {}

    def put(self, seconds: float, **values: float) -> None:
        for text, value in values.items():
            self.samples.setdefault(label(text), []).append((round(seconds * 1000), value))

    def append(self, batch: Batch) -> None:
        for labels, time, value in zip(batch.labels, batch.times_ms, batch.values, strict=True):
            self.samples.setdefault(labels, []).append((int(time), float(value)))

    def fetch(self, select: promql.Select) -> Columns:
        found = {
            labels: rows
            for labels, samples in self.samples.items()
            if all(matcher.matches(labels) for matcher in select.matchers)
            and (rows := [row for row in samples if select.start_ms <= row[0] <= select.end_ms])
        }
        if not found:
            return NO_COLUMNS
        times = [row[0] for rows in found.values() for row in rows]
        values = [row[1] for rows in found.values() for row in rows]
        return Columns(
            labels=tuple(found),
            offsets=np.cumsum([0, *map(len, found.values())], dtype=np.int64),
            times_ms=np.array(times, dtype=np.int64),
            values=np.array(values, dtype=np.float64),
        )


class Bench:
    """A group, what it remembers, and a store that takes what it gives."""

    def __init__(self, rules: str, head: str = "") -> None:
        self.group = load(rules, head)
        self.store = MemoryStore()
        self.memories: dict[str, Memory] = {}

    def evaluate(self, seconds: float) -> list[Evaluated]:
        results = []
        for result in groups.evaluate_group(
            self.group, self.memories, self.store.fetch, at_ms=round(seconds * 1000), around=Surroundings(cluster="c")
        ):
            self.store.append(result.batch)
            self.memories[result.key] = result.memory
            results.append(result)
        return results


def load(rules: str, head: str = "") -> Group:
    lines = "".join(f"  - {line}\n" for line in rules.strip().splitlines())
    found, problems = load_rules(f"groups:\n- name: g\n  {head}\n  rules:\n{lines}", "f")
    assert problems == ()
    return found[0]


def rows(batch: Batch) -> dict[str, float | str]:
    stale = is_stale(batch.values)
    return {
        str(labels): "stale" if gone else float(value)
        for labels, value, gone in zip(batch.labels, batch.values, stale, strict=True)
    }


def test_each_rule_sees_what_those_before_it_gave() -> None:
    bench = Bench(
        """
        {record: "job:up:sum", expr: sum by (job) (up), labels: {team: x}}
        {alert: AllDown, expr: "job:up:sum == 0"}
        """
    )
    bench.store.put(0, **{"up{job=a,i=1}": 0, "up{job=a,i=2}": 0, "up{job=b,i=1}": 1})
    recorded, alerted = bench.evaluate(10)
    assert rows(recorded.batch) == {'job:up:sum{job="a", team="x"}': 0.0, 'job:up:sum{job="b", team="x"}': 1.0}
    assert set(recorded.batch.times_ms) == {10_000}
    (fired,) = alerted.transitions
    assert (fired.name, fired.labels["job"], fired.cluster) == ("AllDown", "a", "c")
    assert rows(alerted.batch) == {
        'ALERTS{alertname="AllDown", alertstate="firing", job="a", team="x"}': 1.0,
        'ALERTS_FOR_STATE{alertname="AllDown", job="a", team="x"}': 10.0,
    }


def test_series_that_vanish_are_marked_stale_once() -> None:
    bench = Bench('{record: down, expr: "up == 0"}\n{alert: Down, expr: "up == 0", for: 10s}')
    bench.store.put(0, **{"up{job=a}": 0})
    bench.evaluate(1)
    assert rows(bench.evaluate(11)[1].batch)['ALERTS{alertname="Down", alertstate="pending", job="a"}'] == "stale"
    bench.store.put(20, **{"up{job=a}": 1})
    recorded, alerted = bench.evaluate(21)
    assert rows(recorded.batch) == {'down{job="a"}': "stale"}
    assert set(rows(alerted.batch).values()) == {"stale"}
    assert len(alerted.batch) == 2
    assert [len(result.batch) for result in bench.evaluate(31)] == [0, 0]


def test_a_rule_that_fails_fails_alone_and_keeps_what_it_had() -> None:
    bench = Bench(
        """
        {record: joined, expr: "a + on (x) b"}
        {record: renamed, expr: "a", labels: {i: same}}
        {record: fine, expr: "1"}
        """
    )
    bench.store.put(0, **{"a{x=1,i=1}": 1, "a{x=1,i=2}": 1, "b{x=1}": 1})
    joined, renamed, fine = bench.evaluate(1)
    assert joined.error
    assert "two series end in the same series" in renamed.error
    assert (len(joined.batch), len(renamed.batch)) == (0, 0)
    assert (fine.error, rows(fine.batch)) == ("", {"fine": 1.0})


def test_a_store_that_fails_is_an_error_of_the_rule() -> None:
    group = load("{alert: Down, expr: up}")

    def broken(_: promql.Select) -> Columns:
        raise StoreError("disk on fire")

    (result,) = groups.evaluate_group(group, {}, broken, at_ms=0)
    assert "disk on fire" in result.error


def test_the_limit_is_an_error() -> None:
    bench = Bench("{record: x, expr: up}\n{alert: Up, expr: up}", head="limit: 1")
    bench.store.put(0, **{"up{job=a}": 1, "up{job=b}": 1})
    assert ["exceeded limit of 1 with 2" in result.error for result in bench.evaluate(1)] == [True, True]


def test_an_offset_reads_and_writes_in_the_past() -> None:
    bench = Bench("{record: x, expr: up}", head="query_offset: 1m")
    bench.store.put(0, up=1)
    bench.store.put(50, up=2)
    (result,) = bench.evaluate(100)
    assert rows(result.batch) == {"x": 1.0}
    assert list(result.batch.times_ms) == [40_000]


def test_queries_in_annotations_see_the_same_moment() -> None:
    bench = Bench(
        "{alert: Down, expr: down, annotations: {summary: '{{ with query \"up\" }}{{ . | first | value }}{{ end }}'}}"
    )
    bench.store.put(0, up=7, down=1)
    bench.store.put(100, up=8)
    ((fired,),) = (result.transitions for result in bench.evaluate(1))
    assert fired.annotations == {"summary": "7"}


def test_an_eager_evaluation_may_begin_but_not_end() -> None:
    bench = Bench("{alert: Down, expr: up == 0}", head="eager: true")
    ((key, rule),) = bench.group.keyed_rules()

    def eager(seconds: float) -> Evaluated:
        memory = bench.memories.get(key) or Memory(identity=rule.identity)
        result = groups.evaluate_rule(
            bench.group, key, rule, memory, bench.store.fetch, at_ms=round(seconds * 1000), eager=True
        )
        bench.memories[key] = result.memory
        bench.store.append(result.batch)
        return result

    bench.store.put(1, **{"up{job=a}": 0})
    assert [alert.status for alert in eager(1).transitions] == [AlertStatus.FIRING]
    bench.store.put(2, **{"up{job=a}": 1})
    result = eager(2)
    assert result.transitions == ()
    assert "stale" not in rows(result.batch).values()
    (result,) = bench.evaluate(5)
    assert [alert.status for alert in result.transitions] == [AlertStatus.RESOLVED]
    assert set(rows(result.batch).values()) == {"stale"}


def test_watches_know_which_metrics_matter() -> None:
    eager = load(
        '{alert: A, expr: up == 0}\n{alert: B, expr: "up and down"}\n{alert: C, expr: \'{job="x"}\'}', "eager: true"
    )
    plain = load("{alert: D, expr: up}")
    found = groups.watches([eager, plain])
    assert {metric: [watch.rule.name for watch in listed] for metric, listed in found.items()} == {
        "up": ["A", "B"],
        "down": ["B"],
        "": ["C"],
    }


def test_what_a_rule_reads_is_known_beforehand() -> None:
    group = load("{alert: A, expr: 'rate(up{job=\"x\"}[1m]) > 0'}", "query_offset: 10s")
    (select,) = groups.selects(group, group.rules[0], at_ms=100_000)
    assert [str(matcher) for matcher in select.matchers] == ['__name__="up"', 'job="x"']
    assert 30_000 <= select.start_ms <= 30_001
    assert select.end_ms == 90_000


def test_slots_are_stable_and_spread() -> None:
    many = [Group(name=f"g{number}", file="f", interval_seconds=60) for number in range(200)]
    offsets = [groups.slot_offset_ms(group) for group in many]
    assert offsets == [groups.slot_offset_ms(group) for group in many]
    assert all(0 <= offset < 60_000 for offset in offsets)
    assert all(any(start <= offset < start + 6_000 for offset in offsets) for start in range(0, 60_000, 6_000))
    group = many[0]
    now = 1_700_000_000_000
    slot = groups.slot_ms(group, now)
    assert slot % 60_000 == offsets[0]
    assert now - 60_000 < slot <= now
    assert groups.slot_ms(group, slot) == slot
    assert groups.next_slot_ms(group, slot) == slot + 60_000
    assert groups.next_slot_ms(group, slot - 1) == slot


def fired_bench() -> Bench:
    bench = Bench("{alert: Down, expr: up == 0, for: 10s}\n{record: x, expr: up}")
    bench.store.put(0, **{"up{job=a}": 0})
    bench.evaluate(0)
    assert bench.evaluate(10)[0].transitions
    return bench


def test_a_reload_keeps_the_state_of_equal_and_of_changed_rules() -> None:
    bench = fired_bench()
    changed = load("{alert: Down, expr: up < 1, for: 99s}\n{record: x, expr: up}")
    inherited = groups.inherit(bench.memories, [changed], at_ms=11_000)
    assert inherited.memories == bench.memories
    assert (len(inherited.batch), inherited.resolved) == (0, ())


def test_a_rule_that_moved_to_another_group_goes_on() -> None:
    bench = fired_bench()
    moved = load_rules("groups:\n- name: other\n  rules: [{alert: Down, expr: up == 0}]", "elsewhere")[0]
    inherited = groups.inherit(bench.memories, moved, at_ms=11_000)
    (memory,) = inherited.memories.values()
    assert len(memory.alerts.firing) == 1
    assert rows(inherited.batch) == {'x{job="a"}': "stale"}
    assert inherited.resolved == ()


def test_rules_that_are_gone_resolve_and_mark_their_series_stale() -> None:
    inherited = groups.inherit(fired_bench().memories, [], at_ms=11_000, cluster="c")
    assert inherited.memories == {}
    assert [(alert.status, alert.cluster) for alert in inherited.resolved] == [(AlertStatus.RESOLVED, "c")]
    assert set(rows(inherited.batch).values()) == {"stale"}
    assert len(inherited.batch) == 3


def restart(memories: dict[str, Memory], down: float, up: float) -> dict[str, Memory]:
    saved = json.loads(json.dumps(groups.dump(memories), allow_nan=False))
    return groups.restore(saved, down_ms=round(down * 1000), up_ms=round(up * 1000))


def test_a_restart_keeps_everything() -> None:
    bench = fired_bench()
    assert restart(bench.memories, 10, 12) == bench.memories
    with pytest.raises(ValueError, match="restoring rule state"):
        groups.restore({"x": {}}, down_ms=0, up_ms=0)


def test_for_goes_on_over_a_restart() -> None:
    bench = Bench("{alert: Down, expr: up == 0, for: 60s}")
    bench.store.put(0, up=0)
    bench.evaluate(0)
    bench.evaluate(50)
    bench.memories = restart(bench.memories, 50, 70)

    def fires(times: Iterable[int]) -> list[bool]:
        return [bool(bench.evaluate(time)[0].transitions) for time in times]

    assert fires([70, 79, 80]) == [False, False, True]


def demo(name: str) -> Bench:
    bench = Bench("{record: unused, expr: '1'}")
    (bench.group,) = (group for group in load_rules(packs.read("demo"), "demo")[0] if group.name == name)
    return bench


def node_samples(ready: dict[str, float]) -> dict[str, float]:
    """Both sources of kube_* series at once, as in the demo: the watch itself, and a scrape with its own labels."""
    samples = {}
    for number, (name, value) in enumerate(ready.items()):
        zone = "ab"[number // 2]
        for source in ("", "job=ksm,instance=x:8080,"):
            samples[f"kube_node_status_condition{{{source}node={name},condition=Ready,status=true}}"] = value
            samples[f"kube_node_labels{{{source}node={name},label_topology_kubernetes_io_zone={zone}}}"] = 1.0
    return samples


def alerts_of(results: list[Evaluated]) -> list[tuple[str, str, str]]:
    return [
        (alert.name, alert.labels.get("node", ""), alert.status.value)
        for result in results
        for alert in result.transitions
        if not result.error
    ]


def test_the_demo_notices_a_dead_node_once_and_its_replacement() -> None:
    bench = demo("nodes")
    for seconds in (0, 5, 10):
        bench.store.put(seconds, **node_samples({"n1": 1, "n2": float(seconds == 0), "n3": 1, "n4": 1}))
        assert alerts_of(bench.evaluate(seconds)) == []
    bench.store.put(15, **node_samples({"n1": 1, "n2": 0, "n3": 1, "n4": 1}))
    assert alerts_of(bench.evaluate(15)) == [("NodeDown", "n2", "firing")]
    bench.store.put(20, **node_samples({"n1": 1, "n2": 1, "n3": 1, "n4": 1}))
    assert alerts_of(bench.evaluate(20)) == [("NodeDown", "n2", "resolved")]


def test_the_demo_tells_a_dead_zone_from_a_dead_node() -> None:
    bench = demo("zones")
    for seconds in (0, 10):
        bench.store.put(seconds, **node_samples({"n1": 0, "n2": 1, "n3": 1, "n4": 1}))
        results = bench.evaluate(seconds)
        assert [result.error for result in results] == ["", ""]
        assert alerts_of(results) == []
    changes: list[tuple[int, Alert]] = []
    for seconds in (20, 30):
        bench.store.put(seconds, **node_samples({"n1": 0, "n2": 0, "n3": 1, "n4": 1}))
        changes += [(seconds, alert) for result in bench.evaluate(seconds) for alert in result.transitions]
    ((fired_at, fired),) = changes
    assert fired_at == 30
    assert fired.name == "ZoneDown"
    assert fired.annotations["summary"] == "Zone a is failing as a whole"
    assert fired.annotations["description"].startswith("100% of the nodes")


def test_the_demo_notices_what_crashes_and_what_is_missing() -> None:
    bench = demo("workloads")
    waiting = "kube_pod_container_status_waiting_reason{namespace=shop,pod=web-1,container=app,reason=CrashLoopBackOff}"
    for seconds in range(0, 130, 10):
        spec = {"kube_deployment_spec_replicas{namespace=shop,deployment=web}": 3.0}
        lacking = {"kube_deployment_status_replicas_available{namespace=shop,deployment=web}": 1.0}
        # The reason is only there between two starts.
        bench.store.put(seconds, **spec, **lacking, **({waiting: 1.0} if seconds % 40 == 0 else {}))
        fired = alerts_of(bench.evaluate(seconds))
        expected = {10: [("PodCrashLooping", "", "firing")], 120: [("KubeDeploymentReplicasMismatch", "", "firing")]}
        assert fired == expected.get(seconds, [])
