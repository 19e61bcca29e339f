"""Watches: from where they begin, what they tell, how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from healer.errors import SourceError
from healer.sim.api import Api
from healer.sim.storage import Storage

JSON = dict[str, Any]
Client = Any
Make = Any
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


async def read(lines: AsyncIterator[bytes], count: int) -> list[JSON]:
    return [json.loads(await anext(lines)) for _ in range(count)]


def told(events: list[JSON]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def relabel(storage: Storage, name: str, **labels: str) -> None:
    storage.update("pods", "shop", name, lambda copy: copy["metadata"].update(labels=labels))


async def test_a_watch_goes_on_from_the_version_of_a_list(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    version = (await client.ok("GET", NODES))["metadata"]["resourceVersion"]
    storage.create("nodes", node("n2"))
    async with client.watching(NODES, resourceVersion=version) as stream:
        assert told(await read(stream.lines, 1)) == [("ADDED", "n2")]
        storage.update("nodes", "", "n1", lambda copy: copy["spec"].update(unschedulable=True))
        storage.delete("nodes", "", "n2")
        modified, deleted = await read(stream.lines, 2)
    assert told([modified, deleted]) == [("MODIFIED", "n1"), ("DELETED", "n2")]
    assert modified["object"] == storage.get("nodes", "", "n1")
    assert deleted["object"]["metadata"]["resourceVersion"] == str(storage.version)


async def test_a_watch_without_a_version_begins_with_what_is_there(
    client: Client, storage: Storage, node: Make
) -> None:
    storage.create("nodes", node("n2"))
    storage.create("nodes", node("n1"))
    async with client.watching(NODES) as stream:
        storage.create("nodes", node("n3"))
        assert told(await read(stream.lines, 3)) == [("ADDED", "n1"), ("ADDED", "n2"), ("ADDED", "n3")]


async def test_initial_events_end_with_a_marked_bookmark(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with client.watching(NODES, **query) as stream:
        added, bookmark = await read(stream.lines, 2)
    assert told([added]) == [("ADDED", "n1")]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(storage.version)
    async with client.watching(NODES, sendInitialEvents="true") as stream:
        assert stream.status == 422


async def test_bookmarks_come_every_minute_with_the_newest_version(
    client: Client, storage: Storage, node: Make
) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    storage.create("pods", {"metadata": {"name": "p"}, "spec": {}})
    async with client.watching(NODES, resourceVersion="1", allowWatchBookmarks="true") as stream:
        for minute in (1, 2):
            (bookmark,) = await read(stream.lines, 1)
            assert bookmark["type"] == "BOOKMARK"
            assert bookmark["object"]["kind"] == "Node"
            assert bookmark["object"]["metadata"]["resourceVersion"] == str(storage.version)
            assert loop.time() - start == pytest.approx(60 * minute)
            storage.create("pods", {"metadata": {"name": f"p{minute}"}, "spec": {}})


async def test_a_watch_ends_after_its_time_and_without_bookmarks_says_nothing(client: Client, storage: Storage) -> None:
    loop = asyncio.get_running_loop()
    async with client.watching(NODES, resourceVersion="0", timeoutSeconds="90") as stream:
        assert [line async for line in stream.lines] == []
    assert loop.time() == pytest.approx(90)


async def test_what_comes_to_match_is_added_and_what_no_longer_does_is_deleted(
    client: Client, storage: Storage, pod: Make
) -> None:
    storage.create("pods", pod("p1", labels={"app": "web"}))
    storage.create("pods", pod("p2", labels={"app": "api"}))
    version = str(storage.version)
    async with client.watching(PODS, resourceVersion=version, labelSelector="app=web") as stream:
        relabel(storage, "p2", app="web")
        relabel(storage, "p2", app="web", more="x")
        relabel(storage, "p1", app="api")
        relabel(storage, "p1", app="api", more="x")
        storage.remove("pods", "shop", "p1")
        storage.remove("pods", "shop", "p2")
        events = await read(stream.lines, 4)
    assert told(events) == [("ADDED", "p2"), ("MODIFIED", "p2"), ("DELETED", "p1"), ("DELETED", "p2")]
    assert events[2]["object"]["metadata"]["labels"] == {"app": "web"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)


async def test_a_watch_keeps_to_its_namespace_and_fields(client: Client, storage: Storage, pod: Make) -> None:
    version = str(storage.create("namespaces", {"metadata": {"name": "shop"}})["metadata"]["resourceVersion"])
    path = "/api/v1/namespaces/shop/pods"
    async with client.watching(path, resourceVersion=version, fieldSelector="spec.nodeName=n1") as stream:
        storage.create("pods", pod("p1", namespace="other"))
        storage.create("pods", pod("p2", node="n2"))
        storage.create("pods", pod("p3"))
        assert told(await read(stream.lines, 1)) == [("ADDED", "p3")]
    async with client.watching(f"{path}/p2", resourceVersion=version) as stream:
        assert told(await read(stream.lines, 1)) == [("ADDED", "p2")]


async def test_a_version_that_is_forgotten_is_an_error_within_the_stream(
    client: Client, storage: Storage, node: Make
) -> None:
    storage.create("nodes", node("n1"))
    storage.create("nodes", node("n2"))
    client.api.faults.compact()
    async with client.watching(NODES, resourceVersion="1") as stream:
        assert stream.status == 200
        (event,) = await read(stream.lines, 1)
        assert [line async for line in stream.lines] == []
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    client.api.faults.gone_as_http = True
    async with client.watching(NODES, resourceVersion="1") as stream:
        assert stream.status == 410


async def test_a_watch_that_is_up_to_date_survives_a_compaction(client: Client, storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    async with client.watching(NODES, resourceVersion=str(storage.version)) as stream:
        client.api.faults.compact()
        storage.create("nodes", node("n2"))
        assert told(await read(stream.lines, 1)) == [("ADDED", "n2")]


async def test_a_watch_that_falls_too_far_behind_is_told_so(client: Client, now: Any, node: Make) -> None:
    storage = Storage(now=now, history=3)
    client = type(client)(Api(storage, now=now))
    storage.create("nodes", node("n0"))
    async with client.watching(NODES, resourceVersion="1") as stream:
        for count in range(1, 20):
            storage.create("nodes", node(f"n{count}"))
        (event,) = await read(stream.lines, 1)
    assert event["type"] == "ERROR"


async def test_a_version_yet_to_come_is_refused(client: Client) -> None:
    async with client.watching(NODES, resourceVersion="12") as stream:
        assert stream.status == 504
        (answer,) = await read(stream.lines, 1)
    assert answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_lag_delays_what_is_told_but_neither_reads_nor_the_order(
    client: Client, storage: Storage, node: Make
) -> None:
    loop = asyncio.get_running_loop()
    storage.create("nodes", node("n1"))
    client.api.faults.watch_lag_seconds = 30
    async with client.watching(NODES, resourceVersion=str(storage.version)) as stream, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read(stream.lines, 3))
        await asyncio.sleep(1)
        storage.create("nodes", node("n2"))
        await asyncio.sleep(5)
        storage.create("nodes", node("n3"))
        assert len((await client.ok("GET", NODES))["items"]) == 3
        await asyncio.sleep(1)
        client.api.faults.watch_lag_seconds = 0
        storage.create("nodes", node("n4"))
        assert told(await reading) == [("ADDED", "n2"), ("ADDED", "n3"), ("ADDED", "n4")]
        assert loop.time() == pytest.approx(36)


async def test_dropped_watches_break_and_new_ones_do_not(client: Client, storage: Storage, node: Make) -> None:
    async with client.watching(NODES) as stream, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(_breaks(stream.lines))
        await asyncio.sleep(1)
        client.api.faults.drop_watches()
        assert await reading
    async with client.watching(NODES) as stream:
        storage.create("nodes", node("n1"))
        assert told(await read(stream.lines, 1)) == [("ADDED", "n1")]


async def test_a_server_that_goes_down_takes_its_watches_along(client: Client) -> None:
    async with client.watching(NODES) as stream, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(_breaks(stream.lines))
        await asyncio.sleep(1)
        client.api.faults.down = True
        assert await reading
    with pytest.raises(SourceError):
        async with client.watching(NODES):
            raise AssertionError("a watch was opened on a server that is down")


async def test_a_hanging_server_tells_everything_once_it_goes_on(client: Client, storage: Storage, node: Make) -> None:
    async with client.watching(NODES) as stream, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read(stream.lines, 1))
        await asyncio.sleep(1)
        client.api.faults.hang = True
        storage.create("nodes", node("n1"))
        await asyncio.sleep(100)
        assert not reading.done()
        client.api.faults.hang = False
        assert told(await reading) == [("ADDED", "n1")]


async def test_a_table_watch_sends_rows_and_its_columns_once(client: Client, storage: Storage, node: Make) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with client.watching(NODES, accept=accept) as stream:
        storage.create("nodes", node("n1"))
        storage.create("nodes", node("n2"))
        first, second = await read(stream.lines, 2)
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "n2"


async def test_a_watch_that_is_left_lets_go_of_the_storage(client: Client, storage: Storage, node: Make) -> None:
    async with client.watching(NODES) as stream:
        storage.create("nodes", node("n1"))
        await read(stream.lines, 1)
        held = [len(storage._wakes), len(client.api.faults._wakes)]
    left = [len(storage._wakes), len(client.api.faults._wakes)]
    assert (held, left) == ([1, 1], [0, 0])


async def _breaks(lines: AsyncIterator[bytes]) -> bool:
    with pytest.raises(SourceError):
        await anext(lines)
    return True
