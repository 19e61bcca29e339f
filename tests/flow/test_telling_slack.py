"""From the journal to Slack on virtual time: one message per incident, whatever becomes of Slack meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from healer.clock import LoopClock
from healer.loop.telling import Telling
from healer.model import events as ev
from healer.notify.slack import SlackNotifier
from healer.sim.time import run
from healer.testing.fakes import Failure, FakeSlack
from healer.testing.stories import Story
from healer.testing.views import AT


@contextlib.asynccontextmanager
async def telling() -> AsyncIterator[tuple[Story, FakeSlack]]:
    clock = LoopClock(asyncio.get_running_loop(), epoch=AT)
    async with FakeSlack() as slack, Story(clock=clock) as story, asyncio.TaskGroup() as group:
        notifier = SlackNotifier(slack.settings(), clock=clock)
        task = group.create_task(Telling(story.recorder, notifier).work())
        try:
            yield story, slack
        finally:
            task.cancel()
            await notifier.close()


async def a_repair(story: Story, pause_seconds: float = 5.0) -> str:
    """A whole life, with pauses between its events."""
    incident = await story.opens()
    await asyncio.sleep(pause_seconds)
    await story.asks(incident)
    await asyncio.sleep(pause_seconds)
    operation = await story.starts(incident)
    for index, action in enumerate(("cordon", "drain", "replace")):
        await story.steps(incident, operation, action, index=index)
        await asyncio.sleep(pause_seconds)
    await story.done(incident, operation)
    await asyncio.sleep(pause_seconds)
    await story.verified(incident, operation)
    await asyncio.sleep(pause_seconds)
    return incident


def shown(slack: FakeSlack) -> str:
    (message,) = slack.messages.values()
    return str(message["text"])


def test_a_whole_repair_is_one_message_edited_as_it_goes() -> None:
    async def main() -> None:
        async with telling() as (story, slack):
            await a_repair(story)
            assert "fixed and verified" in shown(slack)
            methods = [call.method for call in slack.calls]
            assert methods[0] == "chat.postMessage"
            assert set(methods[1:]) == {"chat.update"}
            assert len(methods) >= 7

    run(main)


async def down(slack: FakeSlack) -> None:
    """For two minutes nothing works."""
    slack.down = True
    await asyncio.sleep(120)
    slack.down = False


async def limited(slack: FakeSlack) -> None:
    slack.fail(*[Failure(status=429, retry_after=40)] * 3)
    await asyncio.sleep(120)


async def lossy(slack: FakeSlack) -> None:
    slack.lose_answers = 2
    await asyncio.sleep(120)


async def flaky(slack: FakeSlack) -> None:
    slack.fail(Failure(drop=True), Failure(error="internal_error"), Failure(status=502), Failure(drop=True))
    await asyncio.sleep(120)


@pytest.mark.parametrize("trouble", [down, limited, lossy, flaky])
def test_trouble_at_slack_ends_in_exactly_one_message_with_the_newest_state(
    trouble: Callable[[FakeSlack], Awaitable[None]],
) -> None:
    async def main() -> None:
        async with telling() as (story, slack), asyncio.TaskGroup() as group:
            group.create_task(_awaited(trouble(slack)))
            await a_repair(story)
            await asyncio.sleep(240)
            assert "fixed and verified" in shown(slack)
            assert slack.refused >= 3 or trouble is lossy

    run(main)


async def _awaited(trouble: Awaitable[None]) -> None:
    await trouble


def test_slack_is_left_alone_for_as_long_as_it_asks() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with telling() as (story, slack):
            slack.fail(Failure(status=429, retry_after=90))
            began = loop.time()
            async with asyncio.TaskGroup() as group:
                group.create_task(slack.until("message"))
                await story.opens()
            assert 90 <= loop.time() - began <= 92
            assert len(slack.calls) == 2

    run(main)


def test_a_message_that_was_deleted_is_posted_anew_with_the_next_change() -> None:
    async def main() -> None:
        async with telling() as (story, slack):
            incident = await story.opens()
            await asyncio.sleep(2)
            slack.delete()
            await story.closes(incident)
            await asyncio.sleep(2)
            assert "resolved on its own" in shown(slack)

    run(main)


def test_the_handle_is_in_the_journal_so_that_a_restart_edits_the_same_message() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=AT)
        async with FakeSlack() as slack, Story(clock=clock) as story:
            incident = await story.opens()
            for _ in range(2):  # two lives of the notifier over one journal
                notifier = SlackNotifier(slack.settings(), clock=clock)
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(Telling(story.recorder, notifier).work())
                    await asyncio.sleep(2)
                    task.cancel()
                await notifier.close()
            told = [event for event in story.journal.events if isinstance(event, ev.Told)]
            assert [(event.notifier, event.incident) for event in told] == [("slack", incident)]
            assert len(slack.messages) == 1

    run(main)


def test_while_the_journal_cannot_keep_the_handle_there_is_still_one_message() -> None:
    async def main() -> None:
        async with telling() as (story, slack):
            incident = await story.opens()
            with story.journal.failing():
                await asyncio.sleep(2)
            await story.plans(incident)
            await asyncio.sleep(2)
            assert len(slack.messages) == 1
            assert [call.method for call in slack.calls] == ["chat.postMessage", "chat.update"]
            assert story.recorder.memory.incidents[incident].handles["slack"]

    run(main)


def test_one_incident_that_cannot_be_told_does_not_keep_others_from_being_told() -> None:
    async def main() -> None:
        async with telling() as (story, slack):
            slack.fail(Failure(error="is_archived"))
            await story.opens(node="node-a1")
            await asyncio.sleep(2)
            await story.opens(node="node-b1")
            await asyncio.sleep(2)
            assert "node-b1" in shown(slack)

    run(main)
