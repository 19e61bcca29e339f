"""PagerDuty: what is sent when, so that the right person is woken once, and never a page is lost."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator

import msgspec
import pytest

from healer.errors import Permanent, Retryable
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView
from healer.notify.pagerduty import PagerDutyNotifier, Sent
from healer.testing.fakes import ROUTING_KEY, Failure, FakePagerDuty
from healer.testing.notifier_contract import large
from healer.testing.views import a_view

OPEN = a_view()
ACTING = a_view(state=IncidentState.ACTING)
VERIFYING = a_view(state=IncidentState.VERIFYING)
ESCALATED = a_view(state=IncidentState.ESCALATED, page=True, reason=Reason.NOT_FIXED)
CLOSED = a_view(state=IncidentState.CLOSED)


@pytest.fixture
async def pagerduty() -> AsyncIterator[FakePagerDuty]:
    async with FakePagerDuty() as fake:
        yield fake


async def told(pagerduty: FakePagerDuty, *views: IncidentView, when: str = "escalated") -> str:
    notifier = PagerDutyNotifier(pagerduty.settings(when=when))
    handle = ""
    try:
        for view in views:
            handle = await notifier.tell(view, handle)
    finally:
        await notifier.close()
    return handle


async def test_nobody_is_called_for_what_heals_by_itself(pagerduty: FakePagerDuty) -> None:
    await told(pagerduty, OPEN, ACTING, VERIFYING, CLOSED)
    assert pagerduty.events == []


async def test_a_person_is_called_once_when_one_is_needed_and_the_end_is_told(pagerduty: FakePagerDuty) -> None:
    await told(pagerduty, OPEN, ACTING, ESCALATED, ESCALATED, CLOSED, CLOSED)
    assert pagerduty.actions == ["trigger", "resolve"]
    assert set(pagerduty.alerts.values()) == {"resolved"}


async def test_always_triggers_acknowledges_and_resolves_in_that_order(pagerduty: FakePagerDuty) -> None:
    await told(pagerduty, OPEN, ACTING, VERIFYING, CLOSED, when="always")
    assert pagerduty.actions == ["trigger", "acknowledge", "resolve"]
    assert len({event["dedup_key"] for event in pagerduty.events}) == 1


async def test_a_person_is_woken_although_healer_had_acknowledged_the_alert(pagerduty: FakePagerDuty) -> None:
    """PagerDuty wakes nobody for an alert that stands as acknowledged."""
    handle = await told(pagerduty, OPEN, ACTING, ESCALATED, when="always")
    assert pagerduty.woken == 2
    assert sorted(pagerduty.alerts.values()) == ["resolved", "triggered"]
    notifier = PagerDutyNotifier(pagerduty.settings(when="always"))
    assert (await notifier.tell(CLOSED, handle)).startswith("resolve")
    await notifier.close()
    assert set(pagerduty.alerts.values()) == {"resolved"}


async def test_a_crash_between_the_two_events_of_an_escalation_wakes_nobody_twice(pagerduty: FakePagerDuty) -> None:
    handle = await told(pagerduty, OPEN, ACTING, when="always")
    notifier = PagerDutyNotifier(pagerduty.settings(when="always"))
    await notifier.tell(ESCALATED, handle)
    assert await notifier.tell(ESCALATED, handle) == "trigger 1"
    await notifier.close()
    assert pagerduty.woken == 2


async def test_an_incident_that_comes_back_is_triggered_anew(pagerduty: FakePagerDuty) -> None:
    await told(pagerduty, ESCALATED, CLOSED, OPEN, ESCALATED)
    assert pagerduty.actions == ["trigger", "resolve", "trigger"]
    assert pagerduty.woken == 2


async def test_r32_the_same_incident_name_in_two_clusters_is_two_alerts(pagerduty: FakePagerDuty) -> None:
    eu = a_view(cluster="eu1", state=IncidentState.ESCALATED, page=True)
    us = a_view(cluster="us1", state=IncidentState.ESCALATED, page=True)
    await told(pagerduty, eu)
    await told(pagerduty, us, a_view(cluster="us1", state=IncidentState.CLOSED))
    assert pagerduty.alerts == {"healer/eu1/inc-1": "triggered", "healer/us1/inc-1": "resolved"}


async def test_the_page_says_what_where_and_how_bad(pagerduty: FakePagerDuty) -> None:
    await told(pagerduty, dataclasses.replace(ESCALATED, severity="CRITICAL"))
    (event,) = pagerduty.events
    payload = event["payload"]
    assert payload["summary"] == "NodeDown on node/node-a1 (prod): a person is needed (NotFixed)"
    assert payload["severity"] == "critical"
    assert payload["source"] == "prod/node/node-a1"
    assert event["links"][0]["href"] == "https://healer.example/#incident=inc-1"
    assert "node-a1 does not answer" in payload["custom_details"]["alerts"][0]


async def test_r33_900_kilobytes_of_logs_are_cut_to_what_pagerduty_takes_and_the_page_is_not_lost(
    pagerduty: FakePagerDuty,
) -> None:
    await told(pagerduty, large())
    (event,) = pagerduty.events
    assert len(msgspec.json.encode(event)) < 512 * 1024
    assert len(event["payload"]["summary"]) <= 1024
    assert "a person is needed (StepFailed)" in event["payload"]["summary"]
    assert "all of it: https://healer.example/#incident=inc-1" in event["payload"]["custom_details"]["detail"]
    assert event["links"]


@pytest.mark.parametrize("character", ["\x01", '"', "🔥", "ß", "x"])
def test_whatever_the_logs_are_made_of_they_fit(character: str) -> None:
    notifier = PagerDutyNotifier(FakePagerDuty().settings(url="http://127.0.0.1:1"))
    text = character * 900_000
    view = dataclasses.replace(
        large(),
        title=text,
        cluster=text,
        detail=text,
        remedy=text,
        severity=text,
        url="",
        alerts=tuple(dataclasses.replace(alert, labels=text, summary=text, name=text) for alert in large().alerts),
    )
    body = msgspec.json.encode(notifier.event(view, Sent("trigger")))
    assert len(body) < 512 * 1024
    assert b"(cut)" in body


# Failures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "delay"),
    [
        (Failure(status=429, retry_after=41), 41.0),
        (Failure(status=429), 5.0),
        (Failure(status=500), 2.0),
        (Failure(drop=True), 2.0),
    ],
    ids=["429 with a time", "429 without", "500", "connection lost"],
)
async def test_what_passes_is_worth_another_try(pagerduty: FakePagerDuty, failure: Failure, delay: float) -> None:
    pagerduty.fail(failure)
    with pytest.raises(Retryable) as caught:
        await told(pagerduty, ESCALATED)
    assert caught.value.delay_seconds == delay


async def test_what_pagerduty_refuses_says_so_without_the_key(
    pagerduty: FakePagerDuty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    notifier = PagerDutyNotifier(pagerduty.settings(routing_key="wrong-key-of-a-test"))
    with pytest.raises(Permanent, match=r"check notify\.pagerduty\.routing_key") as caught:
        await notifier.tell(ESCALATED, "")
    await notifier.close()
    shown = f"{caught.value!r} {caplog.text} {notifier.settings!r} {notifier.settings} {vars(notifier)!r}"
    assert "wrong-key-of-a-test" not in shown
    assert ROUTING_KEY not in shown
