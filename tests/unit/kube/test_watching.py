import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from healer import errors
from healer.clock import LoopClock
from healer.kube import wire
from healer.kube.client import KubeClient
from healer.kube.watching import Reflector
from healer.sim import time as sim_time

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PODS = "/api/v1/pods"


class Seen:
    """A handler that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def replace(self, items: Sequence[str]) -> None:
        self.told.append(("replace", list(items)))

    def put(self, obj: str) -> None:
        self.told.append(("put", obj))

    def remove(self, obj: str) -> None:
        self.told.append(("remove", obj))


def pod(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version}}


def event(type_: str, name: str, version: str) -> dict[str, Any]:
    return {"type": type_, "object": pod(name, version)}


def bookmark(version: str) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": version}}}


def expired() -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def follow(server: Any, seconds: float, during: Callable[[Any], None] | None = None) -> tuple[Seen, Any]:
    """Run a reflector for so long; `during` is called in the middle."""

    async def main() -> tuple[Seen, Any]:
        clock = LoopClock(asyncio.get_running_loop(), epoch=START)
        client = KubeClient(server, cluster="test", clock=clock)
        seen = Seen()
        chance = random.Random(1)  # noqa: S311 — jitter
        reflector = Reflector(
            client, "Pod", wire.Pod, lambda found: found.metadata.name, seen, clock=clock, chance=chance
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reflector.run())
            await asyncio.sleep(seconds / 2)
            if during:
                during(reflector)
            await asyncio.sleep(seconds / 2)
            task.cancel()
        return seen, reflector

    return sim_time.run(main)


def versions(server: Any) -> list[str]:
    """From where each watch went on."""
    return [r.query["resourceVersion"] for r in server.asked("GET", PODS) if r.query.get("watch")]


def lists(server: Any) -> int:
    return sum("watch" not in request.query for request in server.asked("GET", PODS))


def test_a_list_is_followed_by_a_watch_from_its_version(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [pod("a")], version="5")
    server.watches(PODS, script_lines([event("ADDED", "b", "6"), event("DELETED", "a", "7")], stays=True))
    seen, reflector = follow(server, 2)
    assert seen.told == [("replace", ["a"]), ("put", "b"), ("remove", "a")]
    assert reflector.resource_version == "7"
    assert reflector.settled.is_set()
    (watch,) = [request for request in server.requests if request.query.get("watch")]
    assert watch.query["resourceVersion"] == "5"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 240 <= int(watch.query["timeoutSeconds"]) < 300


def test_a_watch_that_ends_goes_on_from_the_last_version_without_a_list(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([event("ADDED", "a", "6")]))
    server.watches(PODS, script_lines([event("MODIFIED", "a", "7")], stays=True))
    seen, _ = follow(server, 4)
    assert versions(server) == ["5", "6"]
    assert lists(server) == 1
    assert seen.told == [("replace", []), ("put", "a"), ("put", "a")]


def test_a_bookmark_moves_the_version_on(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([bookmark("90")]))
    seen, _ = follow(server, 4)
    assert versions(server) == ["5", "90"]
    assert seen.told == [("replace", [])]


@pytest.mark.parametrize("inline", [True, False], ids=["ERROR event", "HTTP status"])
def test_a_version_that_is_too_old_leads_to_a_new_list(server: Any, script_lines: Any, inline: bool) -> None:
    server.lists(PODS, [pod("a")], version="5")
    server.lists(PODS, [pod("b")], version="50")
    gone = script_lines([expired()]) if inline else script_lines([expired()["object"]], status=410)
    server.watches(PODS, gone)
    seen, _ = follow(server, 4)
    assert seen.told == [("replace", ["a"]), ("replace", ["b"])]
    assert versions(server) == ["5", "50"]


def test_a_broken_connection_is_taken_up_again_where_it_broke(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([event("ADDED", "a", "6")], error=errors.SourceError("reset")))
    follow(server, 4)
    assert versions(server) == ["5", "6"]
    assert lists(server) == 1


def test_a_line_that_is_cut_off_breaks_the_watch_and_not_the_service(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([event("ADDED", "a", "6"), b'{"type":"ADDED","obj']))
    seen, _ = follow(server, 4)
    assert versions(server) == ["5", "6"]
    assert ("put", "a") in seen.told


def test_an_object_that_cannot_be_read_is_left_out_alone(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [{"metadata": {"name": ["?"]}}, pod("a")], version="5")
    bad = {"type": "ADDED", "object": {"metadata": {"name": "x", "labels": 5, "resourceVersion": "6"}}}
    server.watches(PODS, script_lines([bad, event("ADDED", "b", "7")], stays=True))
    seen, _ = follow(server, 2)
    assert seen.told == [("replace", ["a"]), ("put", "b")]


def test_an_event_of_an_unknown_type_is_passed_over(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([event("RENAMED", "a", "6"), event("ADDED", "b", "7")], stays=True))
    seen, _ = follow(server, 2)
    assert seen.told == [("replace", []), ("put", "b")]


def test_a_silent_watch_is_begun_anew(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([], stays=True))
    follow(server, 400)
    assert len(versions(server)) == 3
    assert lists(server) == 1


def test_a_server_that_is_down_is_asked_less_and_less_often(server: Any) -> None:
    server.answers("GET", PODS, error=errors.Unreachable("refused"))
    follow(server, 300)
    assert 12 < len(server.requests) < 30


def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_pause(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    for _ in range(1000):
        server.watches(PODS, script_lines([]))
    follow(server, 300)
    assert len(server.requests) < 30


def test_the_server_is_given_the_time_it_asks_for(server: Any) -> None:
    server.answers("GET", PODS, {}, status=429, headers={"retry-after": "100"})
    follow(server, 150)
    assert len(server.requests) == 2


def test_a_kind_that_may_not_be_read_is_reported_and_tried_again(server: Any) -> None:
    server.answers("GET", PODS, {"message": "pods is forbidden"}, status=403)
    server.lists(PODS, [pod("a")], version="5")
    states = []
    seen, reflector = follow(server, 8, lambda found: states.append((found.settled.is_set(), found.unavailable)))
    assert states[0][0]
    assert "pods is forbidden" in states[0][1]
    assert reflector.unavailable == ""
    assert seen.told == [("replace", ["a"])]


def test_a_watch_that_is_refused_as_wrong_leads_to_a_new_list(server: Any, script_lines: Any) -> None:
    server.lists(PODS, [], version="5")
    server.watches(PODS, script_lines([{"code": 400, "message": "invalid resource version"}], status=400))
    follow(server, 4)
    assert lists(server) == 2


def test_five_thousand_pods_are_read_in_ten_pages(server: Any) -> None:
    for page in range(10):
        pods = [pod(f"p{page * 500 + number}") for number in range(500)]
        server.lists(PODS, pods, version="5", more=f"page-{page + 1}" if page < 9 else "")
    seen, _ = follow(server, 2)
    assert len(seen.told[0][1]) == 5000
    assert lists(server) == 10
