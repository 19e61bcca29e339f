"""What every journal must do. Derive a class of tests from it and give it a fixture `journal` (and `other`, if shared)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from healer.errors import Deposed, JournalError
from healer.journal import PostgresJournal, SqlJournal, Verification
from healer.model.decisions import Reason
from healer.model.events import AlertFired, AnyEvent, CallEnded, IncidentClosed, Paused, Recorded, StepProgress
from healer.testing.journals import MemoryJournal

AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def progress(text: str, *, incident: str = "i-1") -> StepProgress:
    """A small event."""
    return StepProgress(at=AT, incident=incident, operation="o-1", step=0, text=text)


class JournalContract:
    """The tests. Asynchronous ones run under pytest-asyncio or a loop with virtual time."""

    async def test_appended_events_are_read_back_in_order_and_equal(self, journal: SqlJournal | MemoryJournal) -> None:
        events: list[AnyEvent] = [
            Paused(at=AT, by="anna", why="deploy — «ä»\x00\n"),
            AlertFired(
                at=AT,
                cluster="eu",
                episode="e1",
                labels=(("alertname", "NodeDown"), ("ns", "{{ x }}")),
                starts_at=AT,
                source="webhook",
                value=0.1 + 0.2,
            ),
            CallEnded(
                at=AT, incident="i-1", operation="o", step=1, call="evict", outcome="done", result={"a": [1, None]}
            ),
        ]
        recorded = await journal.append(events)
        assert [r.event for r in recorded] == events
        assert await _all(journal) == list(recorded)

    async def test_sequence_numbers_count_from_one_without_gaps(self, journal: SqlJournal | MemoryJournal) -> None:
        await journal.append([progress("a"), progress("b")])
        await journal.append([progress("c")])
        assert [r.seq for r in await _all(journal)] == [1, 2, 3]

    async def test_appending_nothing_writes_nothing(self, journal: SqlJournal | MemoryJournal) -> None:
        assert list(await journal.append([])) == []
        assert await _all(journal) == []

    async def test_reading_after_a_number_leaves_out_what_is_before(self, journal: SqlJournal | MemoryJournal) -> None:
        await journal.append([progress(str(n)) for n in range(1, 6)])
        assert [r.seq async for r in journal.read(after=3)] == [4, 5]
        assert [r.seq async for r in journal.read(after=5)] == []

    async def test_reading_one_incident_leaves_out_the_others(self, journal: SqlJournal | MemoryJournal) -> None:
        await journal.append([progress("a"), progress("b", incident="i-2"), Paused(at=AT, by="x"), progress("c")])
        assert [r.seq async for r in journal.read(incident="i-1")] == [1, 4]
        assert [r.seq async for r in journal.read(incident="i-1", after=1)] == [4]

    async def test_many_pages_are_read_completely(self, journal: SqlJournal | MemoryJournal) -> None:
        await journal.append([progress(str(n)) for n in range(2500)])
        assert [r.seq for r in await _all(journal)] == list(range(1, 2501))

    async def test_concurrent_appends_keep_each_callers_events_together(
        self, journal: SqlJournal | MemoryJournal
    ) -> None:
        async def write(name: str) -> Sequence[Recorded]:
            return await journal.append([progress(f"{name}-{n}", incident=name) for n in range(3)])

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(write(f"i-{n}")) for n in range(50)]
        numbers = [[r.seq for r in task.result()] for task in tasks]
        assert all(three == list(range(three[0], three[0] + 3)) for three in numbers)
        assert sorted(seq for three in numbers for seq in three) == list(range(1, 151))
        assert (await journal.verify()).ok

    async def test_a_cancelled_append_leaves_all_of_its_events_or_none(
        self, journal: SqlJournal | MemoryJournal
    ) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(journal.append([progress("x", incident=f"i-{n}")] * 3)) for n in range(40)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
        await journal.append([progress("after", incident="")])
        for n in range(40):
            found = [r async for r in journal.read(incident=f"i-{n}")]
            assert len(found) == 3 if n % 2 else len(found) in (0, 3)
        assert (await journal.verify()).ok

    async def test_the_chain_verifies_from_any_place(self, journal: SqlJournal | MemoryJournal) -> None:
        recorded = await journal.append([progress(str(n)) for n in range(5)])
        whole = await journal.verify()
        assert whole == Verification(ok=True, events=5, digest=recorded[-1].digest)
        assert await journal.verify(after=3) == Verification(ok=True, events=2, digest=recorded[-1].digest)

    async def test_an_empty_journal_verifies(self, journal: SqlJournal | MemoryJournal) -> None:
        assert await journal.verify() == Verification(ok=True, events=0)

    async def test_an_event_without_json_form_is_refused_alone(self, journal: SqlJournal | MemoryJournal) -> None:
        odd = CallEnded(at=AT, operation="o", step=1, call="c", outcome="done", result=object())
        with pytest.raises(JournalError, match="CallEnded"):
            await journal.append([progress("good"), odd])
        await journal.append([IncidentClosed(at=AT, incident="i-1", reason=Reason.FIXED)])
        assert [r.seq for r in await _all(journal)] == [1]

    async def test_a_closed_journal_takes_nothing(self, journal: SqlJournal | MemoryJournal) -> None:
        await journal.append([progress("a")])
        await journal.close()
        await journal.close()
        with pytest.raises(JournalError, match="closed"):
            await journal.append([progress("b")])


class SharedJournalContract:
    """The tests of a journal with several writers. `journal` and `other` are two openings of the same one."""

    async def test_writers_share_one_chain(
        self, journal: PostgresJournal | MemoryJournal, other: PostgresJournal | MemoryJournal
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(60):
                writer = (journal, other)[n % 2]
                group.create_task(writer.append([progress(f"{n}-{m}", incident=f"i-{n}") for m in range(3)]))
        found = await _all(journal)
        assert [r.seq for r in found] == list(range(1, 181))
        texts = [r.event.text for r in found if isinstance(r.event, StepProgress)]
        assert [text.partition("-")[2] for text in texts] == ["0", "1", "2"] * 60
        assert await other.verify() == Verification(ok=True, events=180, digest=found[-1].digest)

    async def test_what_one_writes_the_other_reads(
        self, journal: PostgresJournal | MemoryJournal, other: PostgresJournal | MemoryJournal
    ) -> None:
        written = await journal.append([progress("a")])
        assert await _all(other) == list(written)
        await other.append([progress("b")])
        assert [r.seq async for r in journal.read(after=1)] == [2]

    async def test_a_leader_whose_term_is_over_writes_nothing_more(
        self, journal: PostgresJournal | MemoryJournal, other: PostgresJournal | MemoryJournal
    ) -> None:
        assert await journal.term() == 0
        await journal.lead(1)
        await journal.append([progress("by the first")], term=1)
        await other.lead(2)
        with pytest.raises(Deposed, match="term 2"):
            await journal.append([progress("too late")], term=1)
        await other.append([progress("by the second")], term=2)
        await journal.append([progress("by anybody")])
        assert await journal.term() == 2
        texts = [r.event.text for r in await _all(other) if isinstance(r.event, StepProgress)]
        assert texts == ["by the first", "by the second", "by anybody"]

    async def test_a_term_begins_once(
        self, journal: PostgresJournal | MemoryJournal, other: PostgresJournal | MemoryJournal
    ) -> None:
        await journal.lead(3)
        for term in (2, 3):
            with pytest.raises(Deposed, match="term 3"):
                await other.lead(term)
        assert await other.term() == 3

    async def test_what_is_refused_to_a_leader_of_old_does_not_take_others_with_it(
        self, journal: PostgresJournal | MemoryJournal
    ) -> None:
        await journal.lead(2)
        async with asyncio.TaskGroup() as group:
            kept = [group.create_task(journal.append([progress(str(n))])) for n in range(5)]
            late = [group.create_task(_deposed(journal)) for _ in range(5)]
        assert all(task.result() for task in late)
        assert sorted(task.result()[0].seq for task in kept) == [1, 2, 3, 4, 5]
        assert len(await _all(journal)) == 5


async def _deposed(journal: PostgresJournal | MemoryJournal) -> bool:
    try:
        await journal.append([progress("late")], term=1)
    except Deposed:
        return True
    return False


async def _all(journal: SqlJournal | MemoryJournal) -> list[Recorded]:
    return [recorded async for recorded in journal.read()]
