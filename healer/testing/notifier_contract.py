"""What every notifier must do. Derive a class of tests from it and give it a fixture `notifier` whose other side works."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView, TimelineEntry
from healer.ports import Notifier
from healer.testing.operators import NobodyAsks
from healer.testing.views import a_view


class NotifierContract:
    """The tests. They are asynchronous and run under pytest-asyncio."""

    async def test_it_has_a_name(self, notifier: Notifier) -> None:
        assert notifier.name

    async def test_its_handle_stays_the_same_while_nothing_changes(self, notifier: Notifier) -> None:
        handle = await notifier.tell(a_view(), "")
        assert await notifier.tell(a_view(), handle) == handle

    @pytest.mark.parametrize("state", list(IncidentState))
    async def test_it_tells_of_every_state(self, notifier: Notifier, state: IncidentState) -> None:
        handle = await notifier.tell(a_view(state=state, page=state is IncidentState.ESCALATED), "")
        assert handle is not None

    @pytest.mark.parametrize("reason", list(Reason))
    async def test_it_tells_of_every_reason(self, notifier: Notifier, reason: Reason) -> None:
        handle = await notifier.tell(a_view(reason=reason), "")
        assert handle is not None

    async def test_it_tells_of_an_incident_without_a_target_a_plan_or_an_address(self, notifier: Notifier) -> None:
        handle = await notifier.tell(a_view(target=None, plan=None, alerts=(), timeline=(), url=""), "")
        assert handle is not None

    async def test_a_whole_life_is_told_with_the_handle_it_gave(self, notifier: Notifier) -> None:
        handle = ""
        for state in IncidentState:
            handle = await notifier.tell(a_view(state=state, page=state is IncidentState.ESCALATED), handle)
        assert await notifier.tell(a_view(state=IncidentState.CLOSED), handle) == handle

    async def test_a_megabyte_is_told_and_not_refused(self, notifier: Notifier) -> None:
        handle = await notifier.tell(large(), "")
        assert await notifier.tell(large(), handle) == handle

    async def test_a_handle_that_it_does_not_know_is_no_error(self, notifier: Notifier) -> None:
        handle = await notifier.tell(a_view(), "nonsense")
        assert await notifier.tell(a_view(), handle) == handle

    async def test_it_waits_for_answers_until_it_is_cancelled(self, notifier: Notifier) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(notifier.run(NobodyAsks()))
            done, _ = await asyncio.wait([task], timeout=0.05)
            assert not done
            task.cancel()

    async def test_it_may_be_closed_twice(self, notifier: Notifier) -> None:
        await notifier.tell(a_view(), "")
        await notifier.close()
        await notifier.close()

    async def test_its_routes_take_answers_only_where_hooks_are(self, notifier: Notifier) -> None:
        assert all(r.path.startswith("/hooks/") and r.method == "POST" for r in notifier.routes(NobodyAsks()))


def large() -> IncidentView:
    """An incident with 900 KB of logs, as nobody should attach them and somebody will."""
    view = a_view(state=IncidentState.ESCALATED, page=True, reason=Reason.STEP_FAILED, detail="log line 🔥\n" * 75_000)
    line = dataclasses.replace(view.timeline[0], text="x" * 900_000)
    lines = [TimelineEntry(at=line.at, text="\x00&<>`" * 500, seq=seq) for seq in range(2, 402)]
    alerts = tuple(dataclasses.replace(view.alerts[0], summary="y" * 900_000) for _ in range(60))
    return dataclasses.replace(view, timeline=(line, *lines), alerts=alerts, title="t" * 5000)
