"""Buttons in Slack: which answers count, which do not and why, over signed HTTP and over Socket Mode."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from healer.notify.slack import SlackNotifier
from healer.notify.slack_answers import presses
from healer.testing.fakes import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, Failure, FakeSlack, a_press, signed_form
from healer.testing.stories import Story
from healer.testing.views import a_plan
from healer.web.server import listening

DIGEST = a_plan().digest


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as fake:
        yield fake


@pytest.fixture
async def story() -> AsyncIterator[Story]:
    async with Story(groups=("sre",), approvers={"sre": frozenset({"slack:U012AB3CD", "slack:U2"})}) as told:
        yield told


@contextlib.asynccontextmanager
async def working(notifier: SlackNotifier, story: Story) -> AsyncIterator[str]:
    """The notifier at work, and the address of its route."""
    app = web.Application()
    app.add_routes(notifier.routes(story.people))
    async with listening(app, "127.0.0.1", 0) as url, asyncio.TaskGroup() as group:
        task = group.create_task(notifier.run(story.people))
        try:
            yield f"{url}/hooks/slack"
        finally:
            task.cancel()
            await notifier.close()


@pytest.fixture
async def address(slack: FakeSlack, story: Story) -> AsyncIterator[str]:
    async with working(SlackNotifier(slack.settings(signing_secret=SIGNING_SECRET)), story) as url:
        yield url


async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        return answer.status


async def pressed(url: str, story: Story, payload: Any) -> int:
    return await post(url, *signed_form(payload, at=story.now))


# Signed requests -----------------------------------------------------------------------------------------------------


async def test_a_signed_press_counts(address: str, story: Story) -> None:
    incident = await story.opens()
    await story.asks(incident)
    assert await pressed(address, story, a_press(incident, DIGEST)) == 200
    (answer,) = story.answers()
    assert answer.accepted
    assert answer.approve
    assert (answer.by, answer.via, answer.digest) == ("U012AB3CD", "slack", DIGEST)
    assert story.view(incident).approvals == ("U012AB3CD",)


async def test_deny_is_passed_on_as_deny(address: str, story: Story) -> None:
    incident = await story.opens()
    await story.asks(incident)
    assert await pressed(address, story, a_press(incident, DIGEST, verb="deny")) == 200
    (answer,) = story.answers()
    assert answer.accepted
    assert not answer.approve


async def test_a_press_signed_with_another_secret_is_401_and_is_not_even_recorded(address: str, story: Story) -> None:
    incident = await story.opens()
    await story.asks(incident)
    form = signed_form(a_press(incident, DIGEST), at=story.now, secret="another")
    assert await post(address, *form) == 401
    assert story.answers() == []


async def test_a_body_that_was_changed_after_signing_is_401(address: str, story: Story) -> None:
    incident = await story.opens()
    await story.asks(incident)
    _, headers = signed_form(a_press("inc-9", DIGEST), at=story.now)
    body, _ = signed_form(a_press(incident, DIGEST), at=story.now)
    assert await post(address, body, headers) == 401
    assert story.answers() == []


@pytest.mark.parametrize("age", [timedelta(minutes=6), timedelta(minutes=-6)], ids=["from the past", "from the future"])
async def test_a_press_of_six_minutes_ago_is_401_though_rightly_signed(
    address: str, story: Story, age: timedelta
) -> None:
    incident = await story.opens()
    await story.asks(incident)
    assert await post(address, *signed_form(a_press(incident, DIGEST), at=story.now - age)) == 401
    assert story.answers() == []


@pytest.mark.parametrize("missing", ["X-Slack-Signature", "X-Slack-Request-Timestamp"])
async def test_a_press_without_signature_or_time_is_401(address: str, story: Story, missing: str) -> None:
    body, headers = signed_form(a_press("inc-1", DIGEST), at=story.now)
    del headers[missing]
    assert await post(address, body, headers) == 401


@pytest.mark.parametrize("stamp", ["", "soon", "1e9", "²", "-5", "9" * 400])
async def test_an_odd_time_is_401_and_never_an_error(address: str, stamp: str) -> None:
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=ü"}
    assert await post(address, b"payload={}", headers) == 401


async def test_what_is_signed_but_is_not_json_is_400(address: str, story: Story) -> None:
    _, headers = signed_form({}, at=story.now)
    raw = b"payload=%7Bnot+json"
    base = b"v0:" + headers["X-Slack-Request-Timestamp"].encode() + b":" + raw
    headers["X-Slack-Signature"] = "v0=" + hmac.new(SIGNING_SECRET.encode(), base, hashlib.sha256).hexdigest()
    assert await post(address, raw, headers) == 400


def test_without_a_signing_secret_there_is_no_door(story: Story) -> None:
    settings = {"channel": "#oncall", "bot_token": "xoxb-1"}
    notifier = SlackNotifier(SlackNotifier.Settings.model_validate(settings))
    assert list(notifier.routes(story.people)) == []


# Which answers count -------------------------------------------------------------------------------------------------


async def test_a_double_click_counts_once_and_the_person_is_told(address: str, story: Story, slack: FakeSlack) -> None:
    incident = await story.opens()
    await story.asks(incident)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        told = group.create_task(slack.until("whisper"))
        assert await pressed(address, story, a_press(incident, DIGEST)) == 200
        assert await pressed(address, story, a_press(incident, DIGEST)) == 200
    assert [answer.accepted for answer in story.answers()] == [True, False]
    assert "decided already: approved by U012AB3CD (slack) at " in told.result()["text"]
    assert told.result()["user"] == "U012AB3CD"


async def test_the_second_of_two_people_is_told_who_was_first(address: str, story: Story, slack: FakeSlack) -> None:
    incident = await story.opens()
    await story.asks(incident)
    await pressed(address, story, a_press(incident, DIGEST, by="U012AB3CD"))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        told = group.create_task(slack.until("whisper"))
        await pressed(address, story, a_press(incident, DIGEST, by="U2", verb="deny"))
    assert [answer.accepted for answer in story.answers()] == [True, False]
    assert "approved by U012AB3CD" in told.result()["text"]
    assert told.result()["user"] == "U2"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("another plan", "The plan has changed"),
        ("nobody", "you are slack:U999"),
        ("expired", "time for an answer is over"),
        ("resolved", "no longer needed"),
        ("unknown", "no longer known"),
    ],
)
async def test_an_answer_that_does_not_count_is_whispered_to_the_one_who_gave_it(
    address: str, story: Story, slack: FakeSlack, case: str, said: str
) -> None:
    incident = await story.opens()
    await story.asks(incident, seconds=-1 if case == "expired" else 900)
    if case == "resolved":
        await story.closes(incident)
    press = a_press(
        "inc-77" if case == "unknown" else incident,
        "0ther0ther" if case == "another plan" else DIGEST,
        by="U999" if case == "nobody" else "U2",
    )
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        told = group.create_task(slack.until("whisper"))
        assert await pressed(address, story, press) == 200
    assert said in told.result()["text"]
    assert told.result()["channel"] == "C024BE91L"
    assert not any(answer.accepted for answer in story.answers())


async def test_an_answer_that_cannot_be_journalled_does_not_count_and_the_person_is_told(
    address: str, story: Story, slack: FakeSlack
) -> None:
    incident = await story.opens()
    await story.asks(incident)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        told = group.create_task(slack.until("whisper"))
        with story.journal.failing():
            assert await pressed(address, story, a_press(incident, DIGEST)) == 200
    assert "could not be recorded" in told.result()["text"]
    assert story.view(incident).approvals == ()


async def test_a_whisper_that_slack_refuses_harms_nothing(
    address: str, story: Story, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    slack.fail(Failure(error="channel_not_found"), method="chat.postEphemeral")
    await pressed(address, story, a_press("inc-77", DIGEST))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        told = group.create_task(slack.until("whisper"))
        await pressed(address, story, a_press("inc-78", DIGEST))
    assert told.result()
    assert "telling a person in Slack" in caplog.text


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "text",
        {},
        {"type": "view_submission"},
        {"type": "block_actions"},
        {"type": "block_actions", "user": "U1", "actions": [{"action_id": "approve", "value": "inc-1 d"}]},
        {"type": "block_actions", "user": {"id": 7}, "actions": [{"action_id": "approve", "value": "inc-1 d"}]},
        {"type": "block_actions", "user": {"id": "U1"}, "actions": {"action_id": "approve"}},
        {"type": "block_actions", "user": {"id": "U1"}, "actions": ["approve", None, {"action_id": []}]},
        {"type": "block_actions", "user": {"id": "U1"}, "actions": [{"action_id": "open_link", "value": "inc-1 d"}]},
        {"type": "block_actions", "user": {"id": "U1"}, "actions": [{"action_id": "approve", "value": "inc-1"}]},
        {"type": "block_actions", "actions": [{"action_id": "approve", "value": "inc-1 d"}], "channel": []},
    ],
)
def test_what_is_no_press_is_none(payload: Any) -> None:
    assert list(presses(payload)) == []


# Socket Mode ---------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def listening_by_socket(slack: FakeSlack, story: Story) -> AsyncIterator[None]:
    async with asyncio.timeout(20), working(SlackNotifier(slack.settings(app_token=APP_TOKEN)), story):
        yield


async def test_a_press_over_socket_mode_counts(slack: FakeSlack, story: Story) -> None:
    incident = await story.opens()
    await story.asks(incident)
    async with listening_by_socket(slack, story):
        await slack.connected()
        await slack.send(a_press(incident, DIGEST))
        async with story.people.watch() as changes:
            if not story.view(incident).approvals:
                await anext(changes)
    assert story.view(incident).approvals == ("U012AB3CD",)


@pytest.mark.parametrize("politely", [True, False], ids=["with a warning", "without"])
async def test_socket_mode_connects_again(slack: FakeSlack, story: Story, *, politely: bool) -> None:
    incident = await story.opens()
    await story.asks(incident)
    async with listening_by_socket(slack, story):
        await slack.connected()
        await slack.disconnect(politely=politely)
        await slack.connected(times=2)
        async with story.people.watch() as changes:
            await slack.send(a_press(incident, DIGEST))
            assert (await anext(changes)).approvals == ("U012AB3CD",)


async def test_socket_mode_survives_what_it_does_not_know(slack: FakeSlack, story: Story) -> None:
    incident = await story.opens()
    await story.asks(incident)
    async with listening_by_socket(slack, story):
        await slack.connected()
        for text in ("not json", "[]", "null", "[" * 5000, '{"type":"interactive","envelope_id":7}'):
            await slack.send_text(text)
        await slack.send({"command": "/healer"}, kind="slash_commands")
        await slack.send({"type": "block_actions", "actions": 3})
        async with story.people.watch() as changes:
            await slack.send(a_press(incident, DIGEST))
            assert (await anext(changes)).approvals
    assert slack.connections == 1


async def test_socket_mode_tries_again_after_failures_and_shows_no_token_and_no_ticket(
    slack: FakeSlack, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    slack.fail(Failure(status=429, retry_after=0), Failure(drop=True), method="apps.connections.open")
    async with listening_by_socket(slack, story):
        await slack.connected()
    assert "trying again" in caplog.text
    for secret in (APP_TOKEN, BOT_TOKEN, "secret-ticket"):
        assert secret not in caplog.text
