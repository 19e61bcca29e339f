"""Two replicas on one PostgreSQL: whatever happens to the leader, no alert is lost and nothing is done twice."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from healer.model import events as ev
from tests.healers import healer, small_world, until
from tests.postgres import Postgres
from tests.postgres import postgres as a_server
from tests.replicas import Replicas, Stream, replicas, takeover

pytestmark = pytest.mark.timeout(180)  # real processes in real time, and the machine may be busy

NODES = 12
TEXT = """
remedies:
  - name: keep-pods-away
    when: {alertname: NodeSick}
    mode: MODE
    steps: [cordon]
    verify: {alert: ignored, for: 0s, timeout: 20s}
    limits: {cooldown: 0s, per_hour: unlimited, max_in_flight: 6}
safety: {grace_after_outage: 0s, max_in_flight: 6, max_in_flight_per_zone: 6, max_unhealthy: 100%, storm: {alerts: 100000}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with a_server(durable=True) as server:
        yield server


@contextlib.asynccontextmanager
async def two(folder: Path, server: Postgres, mode: str = "auto") -> AsyncIterator[Replicas]:
    async with replicas(folder, server, TEXT.replace("MODE", mode), world=small_world(NODES)) as found:
        yield found


def other(found: Replicas, name: str) -> str:
    return next(each for each in found.at_work if each != name)


def node_sick(node: str) -> Any:
    labels = {"alertname": "NodeSick", "node": node, "severity": "critical"}
    return {"version": "4", "alerts": [{"status": "firing", "labels": labels, "startsAt": "2026-01-01T00:00:00Z"}]}


async def tell(found: Replicas, to: str, node: str) -> None:
    status, body = await found.at_work[to].ask("POST", "/hooks/alertmanager", node_sick(node))
    assert status == 200, body


def cordons(found: Replicas) -> collections.Counter[str]:
    return collections.Counter(
        change.path.rpartition("/")[2] for change in found.changes if change.path.startswith("/api/v1/nodes/")
    )


async def test_a_standby_is_ready_and_takes_alerts_and_answers_and_the_leader_acts(
    tmp_path: Path, server: Postgres
) -> None:
    async with two(tmp_path, server, mode="approve") as found:
        leader = await found.leader()
        standby = other(found, leader)
        assert await found.at_work[standby].metric("healer_leader") == 0
        await tell(found, standby, "node-a1")
        shown = await until(
            "the standby shows the question",
            lambda: found.at_work[standby].incident("NodeSick", state="awaiting approval"),
        )
        status, body = await found.at_work[standby].ask(
            "POST", f"/api/v1/incidents/{shown['id']}/approve", {"by": "anna", "via": "cli"}
        )
        assert status == 200, body
        await until("it is done", lambda: found.cluster.is_cordoned("node-a1"))
        await until("both know", lambda: found.at_work[standby].incident("NodeSick", state="closed"))
        assert {change.by for change in found.changes if not change.is_lease} == {leader}
        assert cordons(found) == {"node-a1": 1}


async def test_who_ends_in_order_is_followed_at_once(tmp_path: Path, server: Postgres) -> None:
    async with two(tmp_path, server) as found:
        leader = await found.leader()
        assert await found.at_work[leader].end() == 0
        began = asyncio.get_running_loop().time()
        await found.elected(but=[leader])
        assert asyncio.get_running_loop().time() - began < 1.5


@contextlib.asynccontextmanager
async def under_load(found: Replicas, *, every: float = 0.02) -> AsyncIterator[None]:
    """A stream of alerts meanwhile, and repairs among them; afterwards all has been taken and done, and once."""
    async with Stream(found, {"alertname": "Noise"}, every=every).running() as noise:
        yield
    nodes = sorted(found.cluster.world.kubelets.by_node)
    await until("every node is cordoned", lambda: all(map(found.cluster.is_cordoned, nodes)), within=60)
    assert cordons(found) == dict.fromkeys(nodes, 1)
    fired = [dict(event.labels) for event in await found.events() if isinstance(event, ev.AlertFired)]
    numbers = {labels.get("number") for labels in fired}
    assert set(noise.taken) <= numbers
    assert len(noise.taken) > 10


async def spread(found: Replicas, nodes: range, *, to: str) -> None:
    names = sorted(found.cluster.world.kubelets.by_node)
    for index in nodes:
        await tell(found, to, names[index])


async def test_a_leader_that_is_killed(tmp_path: Path, server: Postgres) -> None:
    async with two(tmp_path, server) as found, under_load(found):
        leader = await found.leader()
        standby = other(found, leader)
        await spread(found, range(6), to=standby)
        await until("it is at work", lambda: cordons(found))
        await found.at_work[leader].end(signal.SIGKILL)
        del found.at_work[leader]
        assert await found.elected(within=5) == standby
        await spread(found, range(6, NODES), to=standby)


async def test_a_leader_that_is_stopped_and_wakes_does_nothing_more(tmp_path: Path, server: Postgres) -> None:
    async with two(tmp_path, server) as found, under_load(found):
        leader = await found.leader()
        standby = other(found, leader)
        await spread(found, range(6), to=standby)
        await until("it is at work", lambda: cordons(found))
        process, before = found.at_work[leader].process, len(found.changes)
        process.send_signal(signal.SIGSTOP)
        try:
            assert await found.elected(but=[leader], within=8) == standby
            await spread(found, range(6, 9), to=standby)
        finally:
            process.send_signal(signal.SIGCONT)
        await until("it knows that it does not lead", lambda: not_leading(found, leader))
        await spread(found, range(9, NODES), to=leader)
        index, by = takeover(found.changes, before)
        assert by == standby
        assert {change.by for change in found.changes[index:]} == {standby}


async def not_leading(found: Replicas, name: str) -> bool:
    return not await found.at_work[name].metric("healer_leader")


async def test_a_leader_whose_way_to_the_api_server_hangs(tmp_path: Path, server: Postgres) -> None:
    async with two(tmp_path, server) as found, under_load(found):
        leader = await found.leader()
        standby = other(found, leader)
        await spread(found, range(6), to=standby)
        await until("it is at work", lambda: cordons(found))
        before = len(found.changes)
        found.lines[leader].hang()
        assert await found.elected(but=[leader], within=8) == standby
        found.lines[leader].hang(on=False)
        await spread(found, range(6, NODES), to=leader)
        index, by = takeover(found.changes, before)
        assert by == standby
        assert {change.by for change in found.changes[index:]} == {standby}


async def test_a_database_that_starts_anew(tmp_path: Path) -> None:
    with a_server(durable=True) as own:
        async with two(tmp_path, own) as found, under_load(found):
            leader = await found.leader()
            await spread(found, range(6), to=leader)
            await until("it is at work", lambda: cordons(found))
            own.stop()
            status, body = await found.at_work[leader].ask("POST", "/hooks/alertmanager", node_sick("node-a1"))
            assert status == 503, body
            await asyncio.to_thread(own.start)
            await until("both are ready", found.at_work[leader].is_ready)
            await spread(found, range(6, NODES), to=other(found, leader))


async def test_a_rolling_upgrade_loses_no_alert(tmp_path: Path, server: Postgres) -> None:
    async with two(tmp_path, server) as found, contextlib.AsyncExitStack() as stack, under_load(found, every=0.01):
        nodes = iter(range(NODES))
        for old, new in (("one", "three"), ("two", "four")):
            await stack.enter_async_context(found.started(new))
            await spread(found, range(next(nodes), next(nodes) + 1), to=new)
            ending = found.at_work.pop(old)
            await asyncio.sleep(0.5)  # what a load balancer has sent is on its way
            assert await ending.end() == 0
            await found.elected(within=5)
            await spread(found, range(next(nodes), next(nodes) + 1), to=new)
        await spread(found, range(next(nodes), NODES), to="four")


async def test_commands_read_and_pause_a_shared_journal(tmp_path: Path, server: Postgres) -> None:
    async with two(tmp_path, server) as found:
        config = tmp_path / other(found, await found.leader()) / "healer.yaml"
        said = await healer("pause", "-c", config, "--why", "change freeze")
        assert said.code == 0, said.err
        await tell(found, await found.leader(), "node-a1")
        await until("the leader knows", lambda: found.at_work["one"].incident("NodeSick", reason="Paused"))
        said = await healer("incidents", "-c", config, "--open")
        assert "change freeze" in said.out
        for name in ("one", "two"):
            assert await found.at_work[name].end() == 0
        assert (await healer("resume", "-c", config)).code == 0
        said = await healer("audit", "--verify", "-c", config)
        assert "the journal is whole" in said.out, said.err
        kinds = [line["event"]["type"] for line in (await healer("audit", "-c", config, "-o", "json")).lines]
        assert kinds[-1] == "Resumed"
        assert "LeaderElected" in kinds
        assert not cordons(found)


async def test_a_database_that_has_forgotten_what_it_acknowledged_is_read_anew(
    tmp_path: Path, server: Postgres
) -> None:
    async with two(tmp_path, server) as found:
        await tell(found, "one", "node-a1")
        for running in found.at_work.values():
            await until("each knows that it is done", functools.partial(running.incident, "NodeSick", state="closed"))
        server.run("ALTER TABLE events DISABLE TRIGGER ALL; DELETE FROM events WHERE seq > 5", found.url)
        server.run(
            "UPDATE newest SET seq = 5, digest = (SELECT digest FROM events WHERE seq = 5)",
            found.url,
        )
        for running in found.at_work.values():
            async with asyncio.timeout(10):
                assert await running.process.wait() == 1
            assert "which it had acknowledged, is not in it any more" in running.said().splitlines()[-1]
        async with found.started("three"):
            await found.elected()
