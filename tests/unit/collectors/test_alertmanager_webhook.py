"""Bodies of Alertmanager's webhook: good alerts are taken, bad ones named, and nothing crashes the reader."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healer.collectors.alertmanager import LONGEST_ANNOTATION, parse_webhook
from healer.errors import BadPayload
from healer.model.alerts import AlertStatus
from healer.model.series import Labels
from healer.ports import AlertReport

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZERO = "0001-01-01T00:00:00Z"


def alert(**more: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": "NodeDown", "node": "n1"},
        "annotations": {"summary": "n1 is down"},
        "startsAt": "2026-03-01T11:58:00.123456789Z",
        "endsAt": ZERO,
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "abc",
        **more,
    }


def body(*alerts: Any, **more: Any) -> bytes:
    return json.dumps(
        {
            "version": "4",
            "groupKey": "{}:{}",
            "status": "firing",
            "receiver": "healer",
            "externalURL": "http://am:9093",
            "truncatedAlerts": 0,
            "alerts": list(alerts),
            **more,
        }
    ).encode()


def parse(data: bytes) -> AlertReport:
    return parse_webhook(data, default_cluster="eu1", now=NOW)


def test_an_alert_is_read_whole() -> None:
    report = parse(body(alert()))
    (one,) = report.alerts
    assert one.cluster == "eu1"
    assert one.labels == Labels({"alertname": "NodeDown", "node": "n1"})
    assert one.annotations == {"summary": "n1 is down"}
    assert one.starts_at == datetime(2026, 3, 1, 11, 58, 0, 123457, tzinfo=UTC)
    assert one.ends_at is None
    assert (one.source, one.generator_url, one.status) == ("alertmanager", "http://prometheus/graph", "firing")
    assert (report.source, report.rejected, report.truncated) == ("alertmanager", (), 0)
    assert report.complete_url == "http://am:9093/api/v2/alerts"


def test_r1_each_alert_has_its_own_status_and_the_root_is_ignored() -> None:
    resolved = alert(status="resolved", labels={"alertname": "B"}, endsAt="2026-03-01T13:00:00+02:00")
    for root in ("firing", "resolved", "nonsense", 3, None):
        report = parse(body(alert(), resolved, status=root))
        assert [one.status for one in report.alerts] == [AlertStatus.FIRING, AlertStatus.RESOLVED]
        assert report.alerts[1].ends_at == NOW - timedelta(hours=1)


def test_a_resolved_alert_without_an_end_ended_now() -> None:
    (one,) = parse(body(alert(status="resolved"))).alerts
    assert one.ends_at == NOW


def test_r10_a_truncated_batch_says_where_the_whole_list_is() -> None:
    report = parse(body(alert(), truncatedAlerts=9500, externalURL="https://am.example/prefix/"))
    assert report.truncated == 9500
    assert report.complete_url == "https://am.example/prefix/api/v2/alerts"


@pytest.mark.parametrize("url", ["", None, 5, "file:///etc/passwd", "am:9093", "http://", "http://[::1"])
def test_an_external_url_that_is_none_gives_no_address(url: object) -> None:
    assert parse(body(alert(), externalURL=url)).complete_url == ""


@pytest.mark.parametrize(("given", "truncated"), [(-5, 0), ("9", 0), (None, 0), (True, 0), (3, 3)])
def test_odd_truncation_counts_are_no_obstacle(given: object, truncated: int) -> None:
    report = parse(body(alert(), truncatedAlerts=given))
    assert (len(report.alerts), report.truncated) == (1, truncated)


def test_r32_the_cluster_label_is_part_of_the_identity() -> None:
    report = parse(body(*(alert(labels={"alertname": "A", "cluster": cluster}) for cluster in ("eu1", "us1", ""))))
    assert [one.cluster for one in report.alerts] == ["eu1", "us1", "eu1"]
    assert len({one.identity for one in report.alerts[:2]}) == 2


def test_r38_a_start_in_the_future_reaches_intake_as_it_was_given() -> None:
    (one,) = parse(body(alert(startsAt="2026-03-01T12:05:00Z"))).alerts
    assert one.starts_at == NOW + timedelta(minutes=5)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REJECTED: dict[str, tuple[Any, str]] = {
    "a number": (5, "not an object"),
    "null": (None, "not an object"),
    "a list": ([alert()], "not an object"),
    "an empty object": ({}, "bad status"),
    "no status": (alert(status=None), "bad status"),
    "another status": (alert(status="suppressed"), "bad status"),
    "no labels": (alert(labels={}), "no labels"),
    "labels null": (alert(labels=None), "no labels"),
    "labels a list": (alert(labels=["alertname"]), "no labels"),
    "no alertname": (alert(labels={"node": "n1"}), "no alertname"),
    "an empty alertname": (alert(labels={"alertname": ""}), "no alertname"),
    "an empty label name": (alert(labels={"alertname": "A", "": "x"}), "bad label name"),
    "a label name with a line break": (alert(labels={"alertname": "A", "a\nb": "x"}), "bad label name"),
    "a long label name": (alert(labels={"alertname": "A", "x" * 300: "x"}), "bad label name"),
    "a label that is a number": (alert(labels={"alertname": "A", "n": 5}), "bad label value"),
    "a label that is nested": (alert(labels={"alertname": "A", "n": {"m": "x"}}), "bad label value"),
    "a long label": (alert(labels={"alertname": "A", "n": "x" * 5000}), "value too long"),
    "many labels": (alert(labels={"alertname": "A", **{f"l{n}": "x" for n in range(300)}}), "too many labels"),
    "no start": (alert(startsAt=None), "bad time"),
    "a zero start": (alert(startsAt=ZERO), "bad time"),
    "a start that is no time": (alert(startsAt="yesterday"), "bad time"),
    "a start without a zone": (alert(startsAt="2026-03-01T12:00:00"), "bad time"),
    "a start that is a number": (alert(startsAt=[1]), "bad time"),
    "a start beyond all calendars": (alert(startsAt="9999-12-31T23:59:59-05:00"), "bad time"),
    "an end that is no time": (alert(endsAt="soon"), "bad time"),
    "deep nesting": (alert(extra=nested(100)), "nested too deep"),
}


@pytest.mark.parametrize(("bad", "reason"), REJECTED.values(), ids=REJECTED)
def test_r34_a_bad_alert_is_left_out_with_a_reason_and_the_good_go_on(bad: Any, reason: str) -> None:
    report = parse(body(alert(), bad, alert(labels={"alertname": "C"})))
    assert [one.name for one in report.alerts] == ["NodeDown", "C"]
    ((found, example),) = report.rejected
    assert found == reason
    assert len(example) <= 200
    assert json.dumps(bad).startswith(example)


def test_r34_invalid_utf8_in_one_alert_leaves_the_others() -> None:
    data = body(alert(annotations={"x": "PLACE"}), alert(labels={"alertname": "C"})).replace(b"PLACE", b"\xff\xfe")
    report = parse(data)
    assert [one.name for one in report.alerts] == ["C"]
    assert report.rejected[0][0] == "not valid UTF-8"


def test_fifty_levels_are_fine() -> None:
    assert len(parse(body(alert(extra=nested(50)), more=nested(50))).alerts) == 1


def test_many_flat_brackets_are_not_deep() -> None:
    assert len(parse(body(alert(annotations={"x": "[{" * 500, "y": '\\"[' * 90}, extra=[[], {}] * 90))).alerts) == 1


@pytest.mark.parametrize("empty", [[], None])
def test_no_alerts_are_nothing(empty: Any) -> None:
    report = parse(body(alerts=empty))
    assert (report.alerts, report.rejected) == ((), ())


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"{", "not JSON"),
        (b"alerts", "not JSON"),
        (body(alert())[:-2], "not JSON"),
        (body(alert()) + b"x", "not JSON"),
        (b"[]", "not the body of an Alertmanager webhook"),
        (b"null", "not the body of an Alertmanager webhook"),
        (b"{}", "missing required field `alerts`"),
        (b'{"alerts": {}}', "Expected `array | null`, got `object`"),
        (b'{"alerts": "x"}', "Expected `array | null`, got `str`"),
        (b'{"alerts":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "nested too deep"),
        (b'{"alerts":[],"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", "nested too deep"),
        (b"[" * 1_000_000, "not"),
    ],
    ids=range(14),
)
def test_what_is_no_such_body_is_a_bad_payload(data: bytes, what: str) -> None:
    with pytest.raises(BadPayload, match=what.replace("|", r"\|")):
        parse(data)


def test_long_and_odd_annotations_are_made_to_fit() -> None:
    (one,) = parse(body(alert(annotations={"logs": "x" * 900_000, "n": 5, "o": {"a": [None]}}))).alerts
    assert len(one.annotations["logs"]) < LONGEST_ANNOTATION + 20
    assert one.annotations["logs"].endswith("… (cut)")
    assert (one.annotations["n"], one.annotations["o"]) == ("5", '{"a":[null]}')
    assert parse(body(alert(annotations=None))).alerts[0].annotations == {}


def test_utf8_label_names_are_taken() -> None:
    (one,) = parse(body(alert(labels={"alertname": "A", "k8s.pod.name": "x; rm -rf /", "größe": "{{ x }}"}))).alerts
    assert one.labels == Labels({"alertname": "A", "k8s.pod.name": "x; rm -rf /", "größe": "{{ x }}"})


def test_grafana_speaks_the_same() -> None:
    grafana = {
        **alert(values={"B": 22.5}, valueString="[ var='B' ]", silenceURL="http://g/alerting/silence/new"),
        "dashboardURL": "http://g/d/x",
        "imageURL": "",
    }
    report = parse(body(grafana, version="1", orgId=1, title="[FIRING:1]", state="alerting", externalURL="http://g/"))
    assert [one.name for one in report.alerts] == ["NodeDown"]
    assert report.complete_url == "http://g/api/alertmanager/grafana/api/v2/alerts"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_in_place_of_an_alert_is_taken_or_named(value: Any) -> None:
    report = parse(body(value, alert()))
    assert len(report.alerts) + len(report.rejected) == 2


@given(st.sampled_from(sorted(alert())), st.none() | st.integers() | st.text() | st.lists(st.text()))
def test_any_value_in_any_field_is_taken_or_named(field: str, value: Any) -> None:
    report = parse(body({**alert(), field: value}))
    assert len(report.alerts) + len(report.rejected) == 1
