"""One leader at a time, whatever happens to the replicas, their connections and their clocks."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from healer.clock import LoopClock
from healer.errors import JournalError
from healer.kube.client import KubeClient
from healer.kube.leader import Elector, LeaseRecord, Standing, Timing
from healer.model.targets import ObjectRef
from healer.sim import time as sim_time
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport
from healer.sim.builders import a_world
from healer.testing.lines import Line

TIMING = Timing()
LEASE = ObjectRef(cluster="c", kind="Lease", namespace="default", name="healer")
START = datetime(2026, 3, 1, tzinfo=UTC)


def record(holder: str = "a", *, term: int = 1, version: str = "1", seconds: float = TIMING.lease) -> LeaseRecord:
    return LeaseRecord(holder=holder, term=term, lease_seconds=seconds, version=version)


# What one replica knows ----------------------------------------------------------------------------------------------


def test_a_lease_that_was_let_go_is_free_at_once() -> None:
    standing = Standing("b", TIMING)
    standing.saw(record(holder=""), 100.0)
    assert standing.free_at() <= 100.0


def test_a_lease_that_is_not_there_may_have_been_deleted_a_moment_ago() -> None:
    standing = Standing("b", TIMING)
    standing.saw(None, 100.0)
    standing.saw(None, 101.0)
    assert standing.free_at() == 100.0 + TIMING.lease
    standing.saw(record(seconds=7.0), 103.0)
    standing.saw(None, 104.0)
    assert standing.free_at() == 111.0


def test_a_lease_that_does_not_change_is_free_after_the_time_that_its_holder_asked_for() -> None:
    standing = Standing("b", TIMING)
    standing.saw(record(seconds=7.0), 100.0)
    standing.saw(record(seconds=7.0), 104.0)
    assert standing.free_at() == 107.0


def test_every_change_begins_that_time_anew() -> None:
    standing = Standing("b", TIMING)
    standing.saw(record(version="1"), 100.0)
    standing.saw(record(version="2"), 101.0)
    assert standing.free_at() == 101.0 + TIMING.lease


def test_a_leader_counts_from_before_it_asked() -> None:
    standing = Standing("a", TIMING)
    standing.renewed(record(), 100.0)
    assert standing.leads(100.0 + TIMING.renew - 0.01)
    assert not standing.leads(100.0 + TIMING.renew)


def test_a_term_is_newer_than_any_in_the_lease_and_in_the_journal() -> None:
    standing = Standing("b", TIMING)
    assert standing.next_term(0) == 1
    standing.saw(record(term=4), 0.0)
    assert standing.next_term(0) == 5
    assert standing.next_term(9) == 10


@pytest.mark.parametrize(
    "wrong", [{"call": 1.0}, {"renew": 1.5}, {"lease": 1.0}, {"retry": 1.0}, {"call": 0.0}, {"retry": 0.0}]
)
def test_times_that_would_let_two_lead_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be below"):
        dataclasses.replace(TIMING, **wrong)


# Several of them -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Replica:
    """`runs`: its task; `leading_since` and `left_at` on the shared clock."""

    name: str
    line: Line
    clock: LoopClock
    elector: Elector
    terms: list[int] = dataclasses.field(default_factory=list)
    reasons: list[str] = dataclasses.field(default_factory=list)
    willing: bool = True
    reads_journal: bool = True
    working: bool = False
    newest: int = 0
    tasks: list[asyncio.Task[None]] = dataclasses.field(default_factory=list)

    def kill(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def run(self, releases: bool) -> None:
        while True:
            await self.elector.elected(willing=lambda: self.willing, newest_term=self._newest)
            self.terms.append(self.elector.term)
            self.working = True
            self.reasons.append(await self.elector.held())
            self.working = False
            if releases:
                await self.elector.release()

    async def _newest(self) -> int:
        if not self.reads_journal:
            raise JournalError("reading the journal: it is away")
        return self.newest


class Cluster:
    """An API server and three replicas; watches that no two lead at once, and that terms only grow."""

    def __init__(self, timing: Timing = TIMING, count: int = 3) -> None:
        self.api = Api(a_world(1, 1).storage, now=lambda: START)
        self.loop = asyncio.get_running_loop()
        self.replicas = [self._replica(f"r{n}", timing) for n in range(count)]
        self.history: list[tuple[int, str]] = []

    def _replica(self, name: str, timing: Timing) -> Replica:
        line, clock = Line(self.api), LoopClock(self.loop, epoch=START)
        client = KubeClient(line, cluster="c", clock=clock, timeout_seconds=timing.call)
        return Replica(name, line, clock, Elector(client, LEASE, me=name, timing=timing, clock=clock))

    def leaders(self) -> list[Replica]:
        return [found for found in self.replicas if found.elector.leads()]

    async def until(self, happened: Callable[[], Any], within: float = 30.0) -> float:
        began = self.loop.time()
        while not happened():
            self.look()
            assert self.loop.time() - began < within, [r.reasons for r in self.replicas]
            await asyncio.sleep(0.01)
        return self.loop.time() - began

    async def last(self, seconds: float) -> None:
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            self.look()
            await asyncio.sleep(0.01)

    def look(self) -> None:
        leaders = self.leaders()
        assert len(leaders) <= 1, [leader.name for leader in leaders]
        for leader in leaders:
            found = (leader.elector.term, leader.name)
            if not self.history or self.history[-1] != found:
                assert not self.history or found[0] > self.history[-1][0], (self.history, found)
                self.history.append(found)


@contextlib.asynccontextmanager
async def cluster(timing: Timing = TIMING, *, count: int = 3, releases: bool = True) -> AsyncIterator[Cluster]:
    made = Cluster(timing, count)
    async with asyncio.TaskGroup() as group:
        for replica in made.replicas:
            replica.tasks.append(group.create_task(replica.run(releases)))
        yield made
        for replica in made.replicas:
            replica.kill()


def timed(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    sim_time.run(main)


def test_one_is_elected_soon_and_stays() -> None:
    async def main() -> None:
        async with cluster() as c:
            assert await c.until(c.leaders) < TIMING.lease + 0.1
            await c.last(300)
            assert len(c.history) == 1

    timed(main)


def test_after_a_kill_another_leads_within_two_seconds() -> None:
    async def main() -> None:
        worst = 0.0
        for seed in range(40):
            async with cluster() as c:
                await c.until(c.leaders)
                await c.last(1 + seed / 20)
                (leader,) = c.leaders()
                leader.kill()
                leader.elector.step_down()
                worst = max(worst, await c.until(lambda: len(c.history) == 2))
        assert TIMING.renew < worst <= 1.85

    timed(main)


def test_who_lets_go_is_followed_at_once() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.until(c.leaders)
            (leader,) = c.leaders()
            leader.kill()
            await leader.elector.release()
            assert await c.until(c.leaders) <= TIMING.retry + 0.05

    timed(main)


@pytest.mark.parametrize("releases", [True, False], ids=["and lets go", "and does not"])
def test_a_leader_whose_connection_hangs_has_stopped_before_another_begins(releases: bool) -> None:
    async def main() -> None:
        async with cluster(releases=releases) as c:
            await c.until(c.leaders)
            (leader,) = c.leaders()
            leader.line.hang()
            stopped = await c.until(lambda: not leader.working)
            assert stopped <= TIMING.renew + 0.02
            assert not c.leaders()
            await c.until(c.leaders, within=3)
            assert "could not be renewed within 1 s" in leader.reasons[0]
            leader.line.hang(on=False)
            await c.last(10)
            assert len(c.history) == 2

    timed(main)


def test_a_leader_that_was_stopped_and_wakes_does_not_lead_for_a_moment() -> None:
    """Nothing of it runs meanwhile; what it asks itself on waking is enough."""

    async def main() -> None:
        async with cluster() as c:
            await c.until(c.leaders)
            (leader,) = c.leaders()
            leader.kill()
            await c.last(TIMING.renew + 0.01)
            assert not leader.elector.leads()

    timed(main)


def test_answers_that_get_lost_cost_no_leadership_while_the_renewals_arrive() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.until(c.leaders)
            (leader,) = c.leaders()
            for _ in range(20):
                leader.line.loses_answers = True
                await c.last(0.3)
                leader.line.loses_answers = False
                await c.last(0.6)
            assert c.leaders() == [leader]
            assert leader.reasons == []

    timed(main)


def test_no_step_of_any_wall_clock_makes_a_leader_or_unmakes_one() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.until(c.leaders)
            for number, hours in enumerate((-5, 5, 24 * 400, 0)):
                for replica in c.replicas[number % 3 :]:
                    replica.clock.wall_offset_seconds = timedelta(hours=hours).total_seconds()
                await c.last(10)
            assert len(c.history) == 1

    timed(main)


def test_a_slow_api_server_is_borne_up_to_the_time_for_a_call() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.until(c.leaders)
            for replica in c.replicas:
                replica.line.latency_seconds = 0.35
            await c.last(60)
            assert len(c.history) == 1
            for replica in c.replicas:
                replica.line.latency_seconds = 0.6
            await c.last(5)
            assert not c.leaders()
            for replica in c.replicas:
                replica.line.latency_seconds = 0.01
            assert await c.until(c.leaders) < 2

    timed(main)


def test_a_lease_that_is_deleted_gives_a_new_leader_with_a_newer_term() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.until(c.leaders)
            (leader,) = c.leaders()
            for replica in c.replicas:
                replica.newest = 41
            await KubeClient(SimTransport(c.api), cluster="c", clock=leader.clock).delete(LEASE)
            await c.until(lambda: leader.reasons)
            assert "nobody's now" in leader.reasons[0]
            await c.until(c.leaders)
            assert c.leaders()[0].elector.term == 42

    timed(main)


def test_who_is_not_willing_or_cannot_read_the_journal_does_not_stand() -> None:
    async def main() -> None:
        async with cluster() as c:
            c.replicas[0].willing = False
            c.replicas[1].reads_journal = False
            await c.until(c.leaders)
            await c.last(5)
            assert c.history == [(1, "r2")]
            c.replicas[2].line.hang()
            await c.last(10)
            assert not c.leaders()
            c.replicas[1].reads_journal = True
            await c.until(c.leaders)
            assert c.leaders() == [c.replicas[1]]

    timed(main)


def test_a_holder_of_another_version_with_a_longer_lease_is_waited_for() -> None:
    async def main() -> None:
        long = Timing(lease=15.0, renew=10.0, call=5.0, retry=2.0)
        made = Cluster(count=1)
        old = made._replica("old", long)
        await old.elector.elected(willing=lambda: True, newest_term=old._newest)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(made.replicas[0].run(releases=True))
            began = made.loop.time()
            await made.until(made.leaders)
            assert 14.5 < made.loop.time() - began < 15.5
            task.cancel()

    timed(main)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_never_do_two_lead(seed: int) -> None:
    """Kept by `look`, a hundred times a second."""

    async def main() -> None:
        chance = random.Random(seed)  # noqa: S311 — the same in every run
        async with cluster(releases=bool(seed % 2)) as c:
            for _ in range(60):
                line = chance.choice(c.replicas).line
                match chance.randrange(5):
                    case 0:
                        line.hang(on=not line.hangs)
                    case 1:
                        line.loses_answers = not line.loses_answers
                    case 2:
                        line.latency_seconds = chance.choice((0.001, 0.1, 0.39, 1.0))
                    case 3:
                        chance.choice(c.replicas).willing = chance.random() < 0.7
                    case _:
                        c.api.faults.down = not c.api.faults.down
                await c.last(chance.uniform(0.05, 3))
            c.api.faults.down = False
            for replica in c.replicas:
                replica.line.hang(on=False)
                replica.line.loses_answers = False
                replica.line.latency_seconds, replica.willing = 0.01, True
            await c.until(c.leaders, within=5)

    timed(main)
