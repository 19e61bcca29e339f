"""The recorder of one of several replicas: everybody's events in one order, a leader's only while it leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from healer.clock import LoopClock
from healer.errors import Deposed, JournalError, JournalRewound
from healer.loop.memory import Memory
from healer.loop.sharing import FOLLOW_SECONDS, SharedRecorder
from healer.model import events as ev
from healer.model.targets import ObjectRef
from healer.sim import time as sim_time
from healer.testing.journals import MemoryJournal

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODE = ObjectRef(cluster="c", kind="Node", name="n1", uid="u")


def fired(episode: str = "e1", *, name: str = "NodeDown", source: str = "am") -> ev.AlertFired:
    return ev.AlertFired(
        at=AT, cluster="c", episode=episode, labels=(("alertname", name),), starts_at=AT, source=source
    )


def resolved(episode: str = "e1", *, source: str = "am") -> ev.AlertResolved:
    return ev.AlertResolved(at=AT, cluster="c", episode=episode, ends_at=AT, source=source)


def opened(incident: str = "i1", episode: str = "e1") -> ev.IncidentOpened:
    return ev.IncidentOpened(
        at=AT, incident=incident, cluster="c", owner=NODE, title="NodeDown", severity="", episode=episode, target=NODE
    )


class Pair:
    """Two replicas. `leading` names the one whose lease it is."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.leading = ""
        self.one, self.two = self._recorder("one"), self._recorder("two")
        self.heard: list[ev.AnyEvent] = []
        self.two.followed = self.heard.append

    def _recorder(self, name: str) -> SharedRecorder:
        clock = LoopClock(asyncio.get_running_loop(), epoch=AT)
        return SharedRecorder(self.journal, Memory(), clock, leads=lambda: self.leading == name)

    async def lead(self, name: str, term: int) -> None:
        await self.journal.lead(term)
        recorder = {"one": self.one, "two": self.two}[name]
        self.leading, recorder.term = name, term

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(recorder.work()) for recorder in (self.one, self.two)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()


def timed(main: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        pair = Pair()
        async with pair.at_work():
            await main(pair)

    sim_time.run(run)


def test_what_one_records_the_other_soon_knows_and_hears_of() -> None:
    async def main(pair: Pair) -> None:
        await pair.one.record(fired())
        assert not pair.two.memory.firing
        await asyncio.sleep(FOLLOW_SECONDS + 0.01)
        assert list(pair.two.memory.episodes) == ["e1"]
        assert pair.heard == [fired()]

    timed(main)


def test_current_means_everything_that_was_acknowledged_before() -> None:
    async def main(pair: Pair) -> None:
        await pair.one.record(fired())
        await pair.two.current()
        assert list(pair.two.memory.episodes) == ["e1"]

    timed(main)


def test_what_others_wrote_in_between_comes_first() -> None:
    async def main(pair: Pair) -> None:
        order: list[str] = []
        pair.two.watch(lambda event: order.append(getattr(event, "episode", "")))
        await pair.one.record(fired("e1"))
        await pair.two.record(fired("e2", name="PodDown"))
        assert order == ["e1", "e2"]
        assert pair.heard == [fired("e1")]
        assert pair.two.memory.seq == 2

    timed(main)


def test_only_a_leader_records_what_only_a_leader_may() -> None:
    async def main(pair: Pair) -> None:
        await pair.one.record(fired())
        with pytest.raises(Deposed, match="another replica leads"):
            await pair.one.record(opened())
        await pair.lead("one", 1)
        await pair.one.record(opened())
        assert list(pair.one.memory.incidents) == ["i1"]

    timed(main)


def test_a_leader_of_old_is_told_by_the_journal_and_alerts_go_on() -> None:
    async def main(pair: Pair) -> None:
        await pair.lead("one", 1)
        await pair.journal.lead(2)
        async with asyncio.TaskGroup() as group:
            alert = group.create_task(pair.one.record(fired()))
            group.create_task(refused(pair.one, opened()))
        assert alert.done()
        assert pair.one.deposed.is_set()
        assert not pair.one.memory.incidents

    timed(main)


async def refused(recorder: SharedRecorder, event: ev.AnyEvent) -> None:
    with pytest.raises(Deposed):
        await recorder.record(event)


def test_what_was_decided_in_one_term_is_not_recorded_in_a_later_one() -> None:
    async def main(pair: Pair) -> None:
        await pair.lead("one", 1)
        pair.journal.halt_before = lambda _: True
        stuck = asyncio.get_running_loop().create_task(pair.one.record(fired()))
        await asyncio.sleep(0.1)
        late = asyncio.get_running_loop().create_task(pair.one.record(opened()))
        await asyncio.sleep(0.1)
        assert pair.journal.halted
        stuck.cancel()
        late.cancel()
        pair.one.term = 0
        await pair.lead("one", 3)
        batch = pair.one._taken()
        assert [waiting.term for waiting in batch] == [1]
        await pair.one._write(batch)
        assert not pair.journal.events

    timed(main)


def test_after_a_failed_write_nothing_is_taken_until_it_has_been_read_what_became_of_it() -> None:
    """The answer to a commit may get lost: then the events are there, and are followed like those of another."""

    async def main(pair: Pair) -> None:
        append = pair.journal.append

        async def loses_the_answer(events: Any, *, term: int = 0) -> Any:
            await append(events, term=term)
            raise JournalError("the connection broke")

        pair.journal.append = loses_the_answer  # type: ignore[method-assign]
        heard: list[ev.AnyEvent] = []
        pair.one.followed = heard.append
        with pytest.raises(JournalError, match="broke"):
            await pair.one.record(fired())
        pair.journal.append = append  # type: ignore[method-assign]
        since = [pair.one.unwritable_since]
        await asyncio.sleep(FOLLOW_SECONDS + 0.01)
        assert heard == [fired()]
        await pair.one.record(fired("e2", name="PodDown"))
        since.append(pair.one.unwritable_since)
        assert since[0] is not None
        assert since[1] is None
        assert pair.one.memory.seq == 2

    timed(main)


@pytest.mark.parametrize("deed", ["is behind", "holds something else"])
def test_a_journal_that_has_forgotten_what_it_acknowledged_ends_the_process(deed: str) -> None:
    async def lose() -> None:
        pair = Pair()
        async with pair.at_work():
            await pair.one.record(fired("e1"), fired("e2", name="PodDown"))
            del pair.journal._rows[1:]
            if deed == "holds something else":
                await pair.journal.append([fired("e3", name="OtherDown")])
            await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        sim_time.run(lose)
    assert caught.group_contains(JournalRewound, match="event 2, which it had acknowledged")


# The same alert at two replicas --------------------------------------------------------------------------------------


def test_one_alert_taken_by_two_replicas_at_once_is_one_episode_whatever_they_called_it() -> None:
    async def main(pair: Pair) -> None:
        await pair.one.record(fired("e1"))
        await pair.one.record(fired("e1+"))
        await pair.one.record(fired("e1"))
        memory = pair.one.memory
        assert list(memory.episodes) == ["e1"]
        assert [episode.id for episode in memory.firing.values()] == ["e1"]
        await pair.one.record(resolved("e1"))
        assert not memory.firing

    timed(main)


def test_an_end_that_two_replicas_tell_is_one() -> None:
    async def main(pair: Pair) -> None:
        await pair.lead("one", 1)
        await pair.one.record(fired(), opened())
        await pair.one.record(resolved(), resolved())
        said = [entry.text for entry in pair.one.memory.incidents["i1"].timeline]
        assert said.count("alert NodeDown resolved") == 1

    timed(main)
