"""Of several answers at the same moment exactly one counts (row R15)."""

from __future__ import annotations

import asyncio

from healer.testing.stories import Story


async def test_of_answers_at_the_same_moment_exactly_one_counts() -> None:
    async with Story() as story:
        incident = await story.opens()
        await story.asks(incident)
        async with asyncio.TaskGroup() as group:
            for by, approve in (("ann", True), ("ann", True), ("bob", False), ("cid", True)):
                group.create_task(story.people.answer(incident, approve=approve, by=by, via="console"))
        assert sorted(answer.accepted for answer in story.answers()) == [False, False, False, True]
