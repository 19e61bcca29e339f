"""Each incident is one trace, with the times of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from healer.clock import LoopClock
from healer.loop import tracing as module
from healer.loop.memory import Memory
from healer.loop.recorder import Recorder
from healer.loop.tracing import Tracing
from healer.model import events as ev
from healer.model.decisions import Answer, Reason, Verdict
from healer.sim.time import run
from healer.testing.stories import Story
from healer.testing.views import AT

Tell = Callable[[Story], Awaitable[None]]


def traced(tell: Tell) -> dict[str, list[ReadableSpan]]:
    """What is exported of a story, by the names of spans."""
    exporter = InMemorySpanExporter()

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=AT)
        async with Story(clock=clock) as story:
            tracing = Tracing(story.recorder, exporter=exporter)
            tracing.install()
            await tell(story)
            await tracing.close()

    run(main)
    return by_name(exporter)


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


async def a_repair(story: Story) -> None:
    incident = await story.opens(since=4)
    await asyncio.sleep(1)
    await story.decides(incident, Answer.WAIT, Reason.COOLDOWN, "20 s left", guard="cooldown")
    await asyncio.sleep(1)
    await story.asks(incident)
    await asyncio.sleep(10)
    await story.people.answer(incident, approve=True, by="ann", via="console")
    operation = await story.starts(incident)
    await asyncio.sleep(3)
    await story.steps(incident, operation, "cordon", index=0)
    await story.steps(incident, operation, "drain", index=1)
    await asyncio.sleep(2)
    await story.done(incident, operation)
    await asyncio.sleep(30)
    await story.verified(incident, operation)


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    zero = AT.timestamp() * 1e9
    return round((span.start_time - zero) / 1e9, 3), round((span.end_time - zero) / 1e9, 3)


def test_a_repair_is_one_trace_with_a_root_and_the_times_of_the_journal() -> None:
    spans = traced(a_repair)
    assert {name: [seconds(span) for span in found] for name, found in spans.items()} == {
        "detect": [(-4, 0)],
        "guard cooldown": [(1, 1)],
        "decide": [(0, 12)],
        "step cordon": [(15, 15)],
        "step drain": [(15, 15)],
        "verify": [(17, 47)],
        "incident NodeDown": [(-4, 47)],
    }


def test_all_spans_lie_under_the_root_in_the_trace_that_the_journal_names() -> None:
    spans = traced(a_repair)
    (root,) = spans.pop("incident NodeDown")
    (guard,) = spans.pop("guard cooldown")
    assert root.parent is None
    assert root.context.trace_id == 1
    for (span,) in spans.values():
        assert span.context.trace_id == root.context.trace_id
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
    assert guard.parent is not None
    assert guard.parent.span_id == spans["decide"][0].context.span_id


def test_spans_say_what_was_decided_called_and_found() -> None:
    spans = traced(a_repair)
    (root,), (decide,), (step,), (verify,) = (
        spans[name] for name in ("incident NodeDown", "decide", "step cordon", "verify")
    )
    assert root.attributes is not None
    wanted = {
        "healer.incident": "inc-1",
        "healer.cluster": "prod",
        "healer.remedy": "replace-dead-node",
        "healer.target": "node/node-a1",
        "healer.reason": "Fixed",
    }
    assert {name: root.attributes[name] for name in wanted} == wanted
    assert root.status.status_code is StatusCode.OK
    assert root.resource.attributes["service.name"] == "healer"
    assert [event.name for event in decide.events] == ["guard cooldown", "approval asked for", "approved"]
    assert [event.name for event in step.events] == ["intend patch node/node-a1", "patch node/node-a1"]
    assert verify.attributes is not None
    assert verify.attributes["healer.verdict"] == "fixed"


async def a_failure(story: Story) -> None:
    incident = await story.opens()
    operation = await story.starts(incident)
    await story.steps(incident, operation, "cordon")
    await story.steps(incident, operation, "drain", index=1, ok=False)
    await story.steps(incident, operation, "cordon", undo=True)
    await story.done(incident, operation, ok=False)
    await asyncio.sleep(5)
    await story.escalates(incident, Reason.STEP_FAILED, "drain did not work")


def test_what_failed_is_marked_as_an_error_and_what_was_undone_is_shown() -> None:
    spans = traced(a_failure)
    errors = {name for name, found in spans.items() if found[-1].status.status_code is StatusCode.ERROR}
    assert errors == {"step drain", "incident NodeDown"}
    assert spans["step drain"][0].status.description == "StepFailed: the API server answered 500"
    assert "undo cordon" in spans
    assert len(spans["decide"]) == 2  # before, and again after the failure
    assert len(spans["incident NodeDown"]) == 1


@pytest.mark.parametrize("verdict", [Verdict.NOT_FIXED, Verdict.WORSE, Verdict.INCONCLUSIVE])
def test_a_cure_that_is_not_proven_is_an_error_and_deciding_goes_on(verdict: Verdict) -> None:
    async def tell(story: Story) -> None:
        incident = await story.opens()
        operation = await story.starts(incident)
        await story.done(incident, operation)
        await story.verified(incident, operation, verdict)
        await story.closes(incident)

    spans = traced(tell)
    assert spans["verify"][0].status.status_code is StatusCode.ERROR
    assert len(spans["decide"]) == 2
    assert spans["incident NodeDown"][0].status.status_code is StatusCode.UNSET


def test_an_incident_that_comes_back_goes_on_in_the_same_trace_under_another_root() -> None:
    async def tell(story: Story) -> None:
        incident = await story.opens()
        await story.closes(incident)
        await asyncio.sleep(60)
        await story.record(ev.IncidentReopened(at=story.now, incident=incident, episode="ep-1", flaps=1))
        await asyncio.sleep(5)
        await story.closes(incident)

    first, second = traced(tell)["incident NodeDown"]
    assert first.context.trace_id == second.context.trace_id
    assert first.context.span_id != second.context.span_id
    assert seconds(second) == (60, 65)


def test_what_comes_after_the_end_makes_no_second_root() -> None:
    async def tell(story: Story) -> None:
        incident = await story.opens()
        await story.escalates(incident)
        await story.decides(incident, Answer.REFUSE, Reason.FLAPPING)
        await story.closes(incident)

    assert len(traced(tell)["incident NodeDown"]) == 1


def test_a_clock_that_is_put_back_makes_no_span_that_ends_before_it_began() -> None:
    async def tell(story: Story) -> None:
        incident = await story.opens()
        assert isinstance(story.clock, LoopClock)
        story.clock.wall_offset_seconds = -90
        operation = await story.starts(incident)
        await story.steps(incident, operation, "cordon")
        await story.closes(incident)

    for found in traced(tell).values():
        for span in found:
            began, ended = seconds(span)
            assert began <= ended


@pytest.mark.parametrize("trace_id", ["", "not hex", "0" * 32, "f" * 64])
def test_an_odd_trace_id_still_gives_a_trace(trace_id: str) -> None:
    async def tell(story: Story) -> None:
        at, owner = story.now, story.node("n")
        await story.record(
            ev.IncidentOpened(
                at=at,
                incident="inc-x",
                cluster="prod",
                owner=owner,
                title="X",
                severity="",
                episode="e",
                trace_id=trace_id,
            )
        )
        await story.closes("inc-x")

    (root,) = traced(tell)["incident X"]
    assert 0 < root.context.trace_id < 2**128


# Over a restart ------------------------------------------------------------------------------------------------------


def test_a_successor_goes_on_with_the_trace_under_the_same_root_and_sends_nothing_twice() -> None:
    before, after = InMemorySpanExporter(), InMemorySpanExporter()

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=AT)
        async with Story(clock=clock) as story:
            first = Tracing(story.recorder, exporter=before)
            first.install()
            incident = await story.opens()
            operation = await story.starts(incident)
            await story.steps(incident, operation, "cordon")
            await first.close()

            successor = Recorder(story.journal, Memory(), clock)
            await successor.load()
            second = Tracing(successor, exporter=after)
            await second.catch_up(story.journal)
            second.install()
            async with asyncio.TaskGroup() as group:
                work = group.create_task(successor.work())
                story.recorder = successor
                await asyncio.sleep(9)
                await story.steps(incident, operation, "drain", index=1)
                await story.done(incident, operation)
                await story.verified(incident, operation)
                work.cancel()
            await second.close()

    run(main)
    earlier, later = by_name(before), by_name(after)
    assert set(earlier) == {"detect", "decide", "step cordon"}
    assert set(later) == {"step drain", "verify", "incident NodeDown"}
    root = later["incident NodeDown"][0]
    assert seconds(root) == (-4, 9)
    parents = {span.parent.span_id for found in earlier.values() for span in found if span.parent}
    assert parents == {root.context.span_id}


# Bounds and faults ---------------------------------------------------------------------------------------------------


def test_unfinished_incidents_are_held_only_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNFINISHED_KEPT", 10)

    async def tell(story: Story) -> None:
        incidents = [await story.opens(node=f"node-{n}") for n in range(30)]
        for incident in incidents:
            await story.closes(incident)

    assert len(traced(tell)["incident NodeDown"]) == 10


def test_a_storm_of_decisions_makes_no_storm_of_spans() -> None:
    async def tell(story: Story) -> None:
        incident = await story.opens()
        for n in range(500):
            await story.decides(incident, Answer.WAIT, Reason.COOLDOWN, f"{n}", guard="cooldown")
        await story.closes(incident)

    spans = traced(tell)
    assert len(spans["guard cooldown"]) == 50
    assert len(spans["decide"][0].events) <= 128


def test_a_fault_in_tracing_does_not_reach_the_journal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> datetime:
        raise RuntimeError("a fault of tracing")

    async def tell(story: Story) -> None:
        monkeypatch.setattr(Tracing, "_alert_start", broken)
        incident = await story.opens()
        await story.closes(incident)
        assert len(story.journal.events) == 3

    assert traced(tell) == {}
    assert "a fault of tracing" in caplog.text


class Stuck(SpanExporter):
    """A collector that fails, or never answers."""

    def __init__(self) -> None:
        self.tries = 0

    def export(self, spans: object) -> SpanExportResult:
        self.tries += 1
        raise OSError("the collector is down")


def test_a_collector_that_is_down_changes_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Stuck()

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=AT)
        async with Story(clock=clock) as story:
            tracing = Tracing(story.recorder, exporter=exporter)
            tracing.install()
            await a_repair(story)
            await tracing.close()
            assert story.view("inc-1").reason is Reason.FIXED
            assert story.now - AT < timedelta(minutes=2)

    run(main)
    assert exporter.tries >= 1


def test_after_closing_nothing_is_watched_any_more() -> None:
    exporter = InMemorySpanExporter()

    async def main() -> None:
        async with Story() as story:
            tracing = Tracing(story.recorder, exporter=exporter)
            tracing.install()
            await tracing.close()
            await tracing.close()
            await story.closes(await story.opens())

    run(main)
    assert exporter.get_finished_spans() == ()
