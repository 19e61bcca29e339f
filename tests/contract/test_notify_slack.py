"""Slack: one message per incident, whatever happens to it; what Slack's answers mean; limits and escaping."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator

import msgspec
import pytest

from healer.errors import Permanent, Retryable
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, TimelineEntry
from healer.model.targets import ObjectRef
from healer.notify import slack_blocks
from healer.notify.slack import SlackNotifier
from healer.testing.fakes import BOT_TOKEN, Failure, FakeSlack
from healer.testing.notifier_contract import large
from healer.testing.views import AT, a_view


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as fake:
        yield fake


@pytest.fixture
async def notifier(slack: FakeSlack) -> AsyncIterator[SlackNotifier]:
    made = SlackNotifier(slack.settings())
    yield made
    await made.close()


async def test_an_incident_has_one_message_that_is_edited_as_it_goes(slack: FakeSlack, notifier: SlackNotifier) -> None:
    handle = ""
    for state in IncidentState:
        handle = await notifier.tell(a_view(state=state), handle)
    assert len(slack.messages) == 1
    assert [call.method for call in slack.calls] == ["chat.postMessage"] + ["chat.update"] * (len(IncidentState) - 1)
    assert "fixed and verified" in slack.texts()


async def test_two_incidents_have_two_messages(slack: FakeSlack, notifier: SlackNotifier) -> None:
    first = await notifier.tell(a_view(id="inc-1"), "")
    second = await notifier.tell(a_view(id="inc-2"), "")
    assert first != second
    assert len(slack.messages) == 2


async def test_a_message_that_somebody_deleted_is_posted_anew(slack: FakeSlack, notifier: SlackNotifier) -> None:
    first = await notifier.tell(a_view(), "")
    slack.delete()
    second = await notifier.tell(a_view(), first)
    assert second != first
    assert len(slack.messages) == 1
    assert await notifier.tell(a_view(state=IncidentState.CLOSED), second) == second
    assert len(slack.messages) == 1


@pytest.mark.parametrize("error", ["message_not_found", "cant_update_message", "edit_window_closed"])
async def test_a_message_that_cannot_be_edited_is_followed_by_another(
    slack: FakeSlack, notifier: SlackNotifier, error: str
) -> None:
    first = await notifier.tell(a_view(), "")
    slack.fail(Failure(error=error), method="chat.update")
    assert await notifier.tell(a_view(), first) != first
    assert len(slack.messages) == 2


async def test_a_message_whose_handle_could_not_be_kept_is_edited_and_not_posted_twice(
    slack: FakeSlack, notifier: SlackNotifier
) -> None:
    first = await notifier.tell(a_view(), "")
    assert await notifier.tell(a_view(state=IncidentState.ACTING), "") == first
    assert len(slack.messages) == 1


async def test_a_second_try_carries_the_same_id_so_that_slack_can_know_it_again(
    slack: FakeSlack, notifier: SlackNotifier
) -> None:
    slack.lose_answers = 1
    with pytest.raises(Retryable):
        await notifier.tell(a_view(), "")
    await notifier.tell(a_view(), "")
    posts = [call.body["client_msg_id"] for call in slack.calls if call.method == "chat.postMessage"]
    assert len(posts) == 2
    assert len(set(posts)) == 1
    assert len(slack.messages) == 1


# Failures ------------------------------------------------------------------------------------------------------------


async def test_too_many_requests_is_worth_another_try_after_the_time_slack_asks_for(
    slack: FakeSlack, notifier: SlackNotifier
) -> None:
    slack.fail(Failure(status=429, retry_after=37))
    with pytest.raises(Retryable) as caught:
        await notifier.tell(a_view(), "")
    assert caught.value.delay_seconds == 37
    assert slack.messages == {}


@pytest.mark.parametrize(
    "failure",
    [
        Failure(status=500),
        Failure(status=503, retry_after=3),
        Failure(error="ratelimited"),
        Failure(error="internal_error"),
        Failure(status=200),
        Failure(drop=True),
    ],
    ids=["500", "503", "ratelimited", "internal error", "not JSON", "connection lost"],
)
async def test_what_passes_is_worth_another_try(slack: FakeSlack, notifier: SlackNotifier, failure: Failure) -> None:
    slack.fail(failure)
    with pytest.raises(Retryable):
        await notifier.tell(a_view(), "")
    assert await notifier.tell(a_view(), "")
    assert len(slack.messages) == 1


async def test_nobody_listening_is_worth_another_try() -> None:
    async with FakeSlack() as slack:
        settings = slack.settings()
    notifier = SlackNotifier(settings)
    with pytest.raises(Retryable, match="cannot be reached"):
        await notifier.tell(a_view(), "")
    await notifier.close()


@pytest.mark.parametrize(
    ("error", "mend"),
    [("not_in_channel", "/invite"), ("invalid_auth", "bot_token"), ("missing_scope", "chat:write"), ("new_error", "")],
)
async def test_what_does_not_pass_says_what_to_do(
    slack: FakeSlack, notifier: SlackNotifier, error: str, mend: str
) -> None:
    slack.fail(Failure(error=error))
    with pytest.raises(Permanent) as caught:
        await notifier.tell(a_view(), "")
    assert error in str(caught.value)
    assert mend in str(caught.value)


@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update"])
async def test_when_slack_does_not_take_the_blocks_the_sentence_is_told(
    slack: FakeSlack, notifier: SlackNotifier, method: str
) -> None:
    handle = await notifier.tell(a_view(), "") if method == "chat.update" else ""
    slack.fail(Failure(error="invalid_blocks"), method=method)
    await notifier.tell(a_view(state=IncidentState.ESCALATED, reason=Reason.NOT_FIXED), handle)
    (message,) = slack.messages.values()
    assert message["blocks"] == []
    assert "a person is needed (NotFixed)" in message["text"]


async def test_the_token_is_sent_and_never_shown(
    slack: FakeSlack, notifier: SlackNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    errors = []
    for failure in (Failure(error="invalid_auth"), Failure(status=500), Failure(drop=True), Failure(error="x")):
        slack.fail(failure)
        with pytest.raises((Retryable, Permanent)) as caught:
            await notifier.tell(a_view(), "")
        errors.append(f"{caught.value!r} {caught.value.__cause__!r}")
    assert slack.calls[0].token == BOT_TOKEN
    shown = " ".join([*errors, repr(notifier.settings), str(notifier.settings), repr(vars(notifier)), caplog.text])
    assert BOT_TOKEN not in shown


# What is shown -------------------------------------------------------------------------------------------------------


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


async def test_r33_900_kilobytes_of_logs_are_cut_with_a_marker_and_a_link(
    slack: FakeSlack, notifier: SlackNotifier
) -> None:
    await notifier.tell(large(), "")
    (message,) = slack.messages.values()
    blocks = message["blocks"]
    assert 0 < len(blocks) <= 50
    assert units(blocks[0]["text"]["text"]) <= 150
    sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    assert all(units(text) <= 3000 for text in sections)
    assert any("all of it: https://healer.example/#incident=inc-1" in text for text in sections)
    assert "<https://healer.example/#incident=inc-1|console>" in blocks[-1]["elements"][0]["text"]
    assert "a person is needed (StepFailed)" in message["text"]
    assert len(msgspec.json.encode(message)) < 40_000


def test_the_newest_lines_of_a_long_timeline_are_shown_and_the_others_counted() -> None:
    lines = tuple(TimelineEntry(at=AT, text=f"line {n} " + "<&>" * 100, seq=n) for n in range(1, 401))
    (shown,) = [
        block["text"]["text"]
        for block in slack_blocks.blocks(a_view(timeline=lines))
        if block["type"] == "section" and block["text"]["text"].startswith("```")
    ]
    assert "line 400 " in shown
    assert "earlier lines" in shown
    assert shown.endswith("```")
    assert units(shown) <= 3000


NASTY = "<!channel> @here <@U1> <https://evil|click> `code` *bold* ~gone~ _it_ & x; rm -rf / {{ secrets.token }}"


def test_r25_nothing_from_outside_mentions_links_or_formats() -> None:
    view = a_view(detail=NASTY, reason=Reason.INFEASIBLE, flapping=True, cluster="a`b*c")
    assert view.plan is not None
    preview = dataclasses.replace(view.plan.previews[0], summary=NASTY, warnings=(NASTY,), action=NASTY)
    view = dataclasses.replace(
        view,
        title=NASTY,
        owner=ObjectRef(cluster="c", kind="Pod", name=NASTY, namespace=NASTY),
        target=None,
        alerts=(dataclasses.replace(view.alerts[0], name=NASTY, summary=NASTY), *view.alerts),
        plan=dataclasses.replace(view.plan, remedy=NASTY, previews=(preview,)),
        timeline=(TimelineEntry(at=AT, text=NASTY, seq=1),),
    )
    texts = [slack_blocks.fallback(view)]
    for block in slack_blocks.blocks(view):
        found = [block.get("text"), *block.get("elements", ())]
        texts += [part["text"] for part in found if isinstance(part, dict) and part.get("type") == "mrkdwn"]
    shown = "\n".join(texts).replace("<https://healer.example/#incident=inc-1|console>", "")
    assert "<" not in shown
    assert ">" not in shown
    for marked in ("*bold*", "~gone~", "_it_", "`code`"):
        outside_code = [part for text in texts for part in text.replace("```", "`").split("`")[::2]]
        assert not any(marked in part for part in outside_code), marked
    assert all(text.count("`") % 2 == 0 for text in texts)
    assert "{{ secrets.token }}" in shown


def test_text_to_be_copied_is_left_alone_but_for_what_slack_must_have_escaped() -> None:
    assert slack_blocks.code('sum by (node) (up{job=~"a_b.*"}) > 0 & x') == (
        'sum by (node) (up{job=~"a_b.*"}) &gt; 0 &amp; x'
    )


def test_a_cut_leaves_no_half_entity_and_no_half_character() -> None:
    for limit in range(30, 60):
        shown = slack_blocks.fit("&amp;🔥" * 100, limit)
        assert units(shown) <= limit
        assert shown.endswith(" … (cut)")
        body = shown.removesuffix(" … (cut)")
        assert body.replace("&amp;", "").replace("🔥", "") == ""


def test_buttons_are_there_only_while_an_answer_is_waited_for() -> None:
    kinds = {
        state: any(block["type"] == "actions" for block in slack_blocks.blocks(a_view(state=state)))
        for state in IncidentState
    }
    assert [state for state, there in kinds.items() if there] == [IncidentState.AWAITING_APPROVAL]


def test_the_button_carries_the_digest_of_the_plan_and_asks_once_more() -> None:
    view = a_view(state=IncidentState.AWAITING_APPROVAL)
    (actions,) = [block for block in slack_blocks.blocks(view) if block["type"] == "actions"]
    approve, deny = actions["elements"]
    assert approve["value"] == deny["value"] == f"inc-1 {view.approval_digest}"
    assert "touches 1 Node, 3 Pod" in approve["confirm"]["text"]["text"]
