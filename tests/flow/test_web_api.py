"""The JSON API over a real operator: looking, answering, pausing; and server-sent events to one and to many."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from healer.loop.why import explain
from healer.model import events as ev
from healer.model.decisions import Answer, Reason
from healer.ports import AlertReport
from healer.testing.states import a_cluster, a_node, a_pod
from healer.testing.stories import Story
from healer.testing.views import a_plan
from healer.web.keys import Site
from healer.web.server import application, listening
from healer.web.shapes import event
from healer.web.streaming import HUB

TOKEN = "api-token-of-a-test"
DIGEST = a_plan().digest


@dataclasses.dataclass(frozen=True)
class Console:
    """The API as a client sees it. `hub`: what serves those who watch."""

    url: str
    story: Story
    session: aiohttp.ClientSession
    hub: Any

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(f"{self.url}/api/v1/{path}") as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        async with self.session.post(f"{self.url}/api/v1/{path}", data=data) as answer:
            return answer.status, await answer.json()

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Events]:
        async with self.session.get(f"{self.url}/api/v1/events", timeout=aiohttp.ClientTimeout(total=None)) as answer:
            assert answer.content_type == "text/event-stream"
            yield Events(answer)


class Events:
    """Server-sent events, one by one."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._text = b""

    async def next(self) -> tuple[str, Any]:
        while b"\n\n" not in self._text:
            chunk = await self._answer.content.readany()
            if not chunk:
                raise EOFError("the stream has ended")
            self._text += chunk
        block, _, self._text = self._text.partition(b"\n\n")
        name, data = block.split(b"\n")
        return name.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))

    async def until(self, name: str, **wanted: Any) -> Any:
        """The next event of that name whose value has these fields."""
        async with asyncio.timeout(20):
            while True:
                found, value = await self.next()
                if found == name and all(value.get(key) == val for key, val in wanted.items()):
                    return value


class NoSink:
    async def samples(self, batch: Any) -> Any:
        raise AssertionError(f"unexpected {batch}")

    async def alerts(self, report: AlertReport) -> None:
        raise AssertionError(f"unexpected {report}")


@contextlib.asynccontextmanager
async def a_console() -> AsyncIterator[Console]:
    state = a_cluster(
        a_node("node-a1", cluster="prod", ready="Unknown"),
        a_node("node-b1", cluster="prod", zone="b", unschedulable=True),
        a_pod("web-1", on="node-a1", cluster="prod", ready=False),
        a_pod("web-2", on="node-a1", cluster="prod"),
        name="prod",
    )
    async with (
        Story(state, external_url="https://healer.example") as story,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
    ):
        site = Site(
            operator=story.people,
            sink=NoSink(),
            hooks={},
            ready=lambda: (),
            api_token=TOKEN,
            hook_token=None,
            version="1.2.3",
            extra=lambda: {"now": story.now},
            why=lambda subject: [
                {"about": found.about, "now": found.now, "incident": found.incident and found.incident.id}
                for found in explain(story.recorder.memory, subject)
            ],
        )
        app = application(site)
        async with listening(app, "127.0.0.1", 0) as url:
            yield Console(url, story, session, app[HUB])


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    async with a_console() as found:
        yield found


# Looking -------------------------------------------------------------------------------------------------------------


async def test_incidents_come_newest_first_and_without_their_timelines(console: Console) -> None:
    first, second = await console.story.opens(), await console.story.opens(node="node-b1")
    status, found = await console.get("incidents")
    assert status == 200
    assert [incident["id"] for incident in found] == [second, first]
    assert all("timeline" not in incident for incident in found)
    assert found[0]["alerts"][0]["summary"] == "node-a1 does not answer"


async def test_only_open_ones_when_asked(console: Console) -> None:
    first, second = await console.story.opens(), await console.story.opens(node="node-b1")
    await console.story.closes(first)
    assert [incident["id"] for incident in (await console.get("incidents?open=1"))[1]] == [second]
    assert len((await console.get("incidents?limit=1"))[1]) == 1
    assert (await console.get("incidents?limit=0"))[1] == []


@pytest.mark.parametrize("limit", ["x", "-1", "1.5", "²", "9" * 30])
async def test_an_odd_limit_is_400(console: Console, limit: str) -> None:
    assert (await console.get(f"incidents?limit={limit}"))[0] == 400


async def test_one_incident_has_all_that_is_known(console: Console) -> None:
    incident = await console.story.opens()
    await console.story.asks(incident)
    status, found = await console.get(f"incidents/{incident}")
    assert status == 200
    assert found["state"] == "awaiting approval"
    assert found["plan"]["blast_radius"] == {"Node": 1, "Pod": 3}
    assert found["approval_digest"] == DIGEST
    assert len(found["timeline"]) == 3
    assert found["url"] == "https://healer.example/#incident=inc-1"


async def test_an_unknown_incident_is_404_and_says_where_older_ones_are(console: Console) -> None:
    status, found = await console.get("incidents/inc-9")
    assert status == 404
    assert "healer audit" in found["error"]


async def test_the_status_has_each_node_with_its_health(console: Console) -> None:
    status, found = await console.get("status")
    assert status == 200
    assert found["version"] == "1.2.3"
    a1, b1 = found["clusters"][0]["nodes"]
    assert (a1["name"], a1["ready"], a1["pods"], a1["pods_not_ready"]) == ("node-a1", "Unknown", 2, 1)
    assert (b1["zone"], b1["unschedulable"]) == ("b", True)


async def test_why_answers_by_node_and_takes_slashes(console: Console) -> None:
    incident = await console.story.opens()
    assert [found["incident"] for found in (await console.get("why/node-a1"))[1]] == [incident]
    assert [found["incident"] for found in (await console.get("why/node%2Fnode-a1"))[1]] == [incident]
    assert (await console.get("why/nothing"))[1] == []


# Answering -----------------------------------------------------------------------------------------------------------


async def test_approve_counts_once(console: Console) -> None:
    incident = await console.story.opens()
    await console.story.asks(incident)
    body = {"by": "ann", "digest": DIGEST}
    assert await console.post(f"incidents/{incident}/approve", body) == (200, {"reason": "ok", "ok": True})
    assert await console.post(f"incidents/{incident}/approve", body) == (
        409,
        {"reason": "AlreadyDecided", "ok": False},
    )
    assert [(answer.by, answer.via, answer.accepted) for answer in console.story.answers()] == [
        ("ann", "console", True),
        ("ann", "console", False),
    ]


async def test_deny_counts(console: Console) -> None:
    incident = await console.story.opens()
    await console.story.asks(incident)
    assert (await console.post(f"incidents/{incident}/deny", {"by": "ann", "via": "cli"}))[0] == 200
    (answer,) = console.story.answers()
    assert not answer.approve
    assert answer.via == "cli"


async def test_approving_another_plan_than_the_one_shown_is_409(console: Console) -> None:
    incident = await console.story.opens()
    await console.story.asks(incident)
    status, found = await console.post(f"incidents/{incident}/approve", {"digest": "another"})
    assert (status, found["reason"]) == (409, Reason.PLAN_CHANGED)


async def test_cancel_stops_what_is_being_done(console: Console) -> None:
    incident = await console.story.opens()
    assert (await console.post(f"incidents/{incident}/cancel"))[0] == 409
    await console.story.starts(incident)
    assert (await console.post(f"incidents/{incident}/cancel", {"by": "ann"}))[0] == 200
    cancelled = [event for event in console.story.journal.events if isinstance(event, ev.OperationCancelled)]
    assert [event.by for event in cancelled] == ["ann"]


@pytest.mark.parametrize("verb", ["approve", "deny", "cancel"])
async def test_an_answer_to_an_unknown_incident_is_404_and_is_not_recorded(console: Console, verb: str) -> None:
    assert (await console.post(f"incidents/inc-9/{verb}"))[0] == 404
    assert console.story.journal.events == []


async def test_another_verb_is_404(console: Console) -> None:
    incident = await console.story.opens()
    assert (await console.post(f"incidents/{incident}/explode"))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {"by": "slack:U012AB3CD"},
        {"by": "console:ann"},
        {"via": "slack", "by": "U012AB3CD"},
        {"via": "cli", "by": "console"},
        {"by": "a\nb"},
        {"by": ["ann"]},
        {"digest": 7},
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
    ],
    ids=lambda body: str(body)[:30],
)
async def test_nobody_passes_for_somebody_from_slack_and_odd_bodies_are_400(console: Console, body: Any) -> None:
    incident = await console.story.opens()
    await console.story.asks(incident)
    status, found = await console.post(f"incidents/{incident}/approve", body)
    assert status == 400
    assert found["error"]
    assert console.story.answers() == []


async def test_an_answer_that_cannot_be_journalled_is_503_and_does_not_count(console: Console) -> None:
    incident = await console.story.opens()
    await console.story.asks(incident)
    with console.story.journal.failing():
        assert (await console.post(f"incidents/{incident}/approve", {"digest": DIGEST}))[0] == 503
        assert (await console.post("pause"))[0] == 503
    assert console.story.view(incident).approvals == ()
    assert console.story.people.paused() == ""
    assert (await console.post(f"incidents/{incident}/approve", {"digest": DIGEST}))[0] == 200


async def test_pause_and_resume_are_journalled_and_shown(console: Console) -> None:
    assert await console.post("pause", {"by": "ann", "why": "a deploy"}) == (200, {"paused": "ann: a deploy"})
    assert (await console.get("status"))[1]["paused"] == "ann: a deploy"
    assert await console.post("resume", {"by": "bob"}) == (200, {"paused": ""})
    kinds = [type(event).__name__ for event in console.story.journal.events]
    assert kinds == ["Paused", "Resumed"]


# Watching ------------------------------------------------------------------------------------------------------------


async def test_the_stream_begins_with_everything_as_it_is_now(console: Console) -> None:
    incident = await console.story.opens()
    async with console.watching() as events:
        name, status = await events.next()
        assert (name, status["clusters"][0]["name"]) == ("status", "prod")
        name, incidents = await events.next()
        assert (name, [found["id"] for found in incidents]) == ("incidents", [incident])


async def test_every_change_is_shown_whole(console: Console) -> None:
    async with console.watching() as events:
        await events.next()
        incident = await console.story.opens()
        found = await events.until("incident", id=incident)
        assert found["timeline"][0]["text"].startswith("incident opened")
        await console.story.asks(incident)
        assert await events.until("incident", state="awaiting approval")
        await console.post(f"incidents/{incident}/approve", {"by": "ann", "digest": DIGEST})
        assert await events.until("incident", approvals=["ann"])
        operation = await console.story.starts(incident)
        await console.story.steps(incident, operation, "cordon")
        await console.story.done(incident, operation)
        await console.story.verified(incident, operation)
        assert await events.until("incident", state="closed", reason="Fixed")


async def test_a_pause_is_shown_within_a_moment(console: Console) -> None:
    async with console.watching() as events:
        await events.next()
        await console.post("pause", {"by": "ann"})
        assert await events.until("status", paused="ann")


async def test_something_comes_at_least_every_second_or_so(console: Console) -> None:
    loop = asyncio.get_running_loop()
    async with console.watching() as events:
        for _ in range(2):
            await events.next()
        began = loop.time()
        await events.until("tick")
        await events.until("tick")
        assert loop.time() - began < 10


def tasks_of_the_console() -> int:
    return sum(1 for task in asyncio.all_tasks() if task.get_name() == "console changes")


async def settled(console: Console) -> None:
    """Wait until nobody watches any more."""
    async with asyncio.timeout(15):
        while console.hub.clients or tasks_of_the_console():  # noqa: ASYNC110 — what is awaited is the absence of everything
            await asyncio.sleep(0.05)


async def test_who_goes_away_leaves_nothing_behind(console: Console) -> None:
    before = len(asyncio.all_tasks())
    for _ in range(5):
        async with console.watching() as events:
            await events.next()
    await settled(console)
    assert len(asyncio.all_tasks()) <= before + 1
    async with console.watching() as events:  # and it begins anew
        await events.next()
        incident = await console.story.opens()
        assert await events.until("incident", id=incident)


async def test_a_hundred_watch_and_all_see_the_same(console: Console) -> None:
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(console.watching()) for _ in range(100)]
        for reader in readers:
            await reader.next()
        incident = await console.story.opens()
        await console.story.closes(incident)
        for reader in readers:
            assert await reader.until("incident", id=incident, state="closed")
        assert tasks_of_the_console() == 1
    await settled(console)


async def test_one_too_many_is_503(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("healer.web.streaming.CLIENTS_LIMIT", 1)
    async with console.watching() as events:
        await events.next()
        assert (await console.get("events"))[0] == 503


async def test_who_does_not_read_misses_versions_and_gets_the_newest(console: Console) -> None:
    async with console.hub.client() as client:
        await client.next()
        incident = await console.story.opens()
        for n in range(300):
            await console.story.decides(incident, Answer.WAIT, Reason.COOLDOWN, f"{n} s left", guard=f"guard {n}")
        async with asyncio.timeout(10):
            data = b""
            while b"299 s left" not in data:
                data = await client.next()
        assert data.count(b"event: incident\n") == 1


async def test_a_fault_while_showing_ends_the_streams_and_not_the_service(
    console: Console, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(view: Any) -> Any:
        raise ValueError(f"cannot show {view.id}")

    async with console.watching() as events:
        await events.next()
        with monkeypatch.context() as patch:
            patch.setattr("healer.web.shapes.whole", broken)
            await console.story.opens()
            with pytest.raises(EOFError):
                await events.until("never")
    assert "cannot show" in caplog.text
    async with console.watching() as events:
        await events.next()
        incident = await console.story.opens(node="node-b1")
        assert await events.until("incident", id=incident)


async def test_the_end_of_the_service_ends_the_streams_at_once() -> None:
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack, a_console() as console:
        events = await stack.enter_async_context(console.watching())
        await events.next()
        began = loop.time()
    assert loop.time() - began < 1.5


def test_an_event_is_one_line_of_data_whatever_is_in_it() -> None:
    data = event("incident", {"text": "a\nb\r\n\n<script>"})
    assert data.count(b"\n") == 3
    assert msgspec.json.decode(data.split(b"\n")[1].removeprefix(b"data: ")) == {"text": "a\nb\r\n\n<script>"}
