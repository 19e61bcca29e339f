"""A leader is killed, stopped, or cut off from the API server: how soon does another do its work, and what does it still do?

Two `healer run` processes, with the settings of the leader as they are by default, over one PostgreSQL (real, synced) and
one simulated cluster behind HTTP; each reaches that over a line of its own. Alerts about nodes stream in at both of them
all the time, ten a second; the remedy cordons the node and gives it back. Then, at random moments:

- SIGKILL of the leader: until the lease has another holder, and until that changes something in the cluster;
- SIGSTOP of the leader, and SIGCONT when another leads and has acted;
- the leader's line hangs, and does not any more when another leads and has acted.

What the old leader writes after the new one has taken the lease is counted: changes of the API server's objects, and
events in the journal that only a leader may write.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks import common
from healer.loop.sharing import ANYBODYS
from healer.model import events as ev
from healer.sim.world import World
from tests.healers import TOKEN, small_world, until
from tests.postgres import postgres
from tests.replicas import Replicas, replicas, takeover

NODES: Final = 40
ALERTS_PER_SECOND: Final = 10.0
AFTERWARDS_SECONDS: Final = 1.0
"""How long one that has woken is watched."""
TEXT: Final = """
remedies:
  - name: touch-node
    when: {alertname: NodeOdd}
    mode: auto
    steps: [cordon, uncordon]
    verify: {alert: ignored, for: 0s, timeout: 5s}
    limits: {cooldown: 0s, per_hour: unlimited, per_zone: unlimited, max_in_flight: 40}
safety:
  grace_after_outage: 0s
  max_in_flight: 40
  max_in_flight_per_zone: 40
  max_unhealthy: 100%
  zone_outage_share: 100%
  storm: {alerts: 1000000}
"""


@dataclasses.dataclass(slots=True)
class Found:
    """`late`: what leaders of old wrote after they were succeeded, by the kind of their mishap."""

    elected: list[float] = dataclasses.field(default_factory=list)
    first_write: list[float] = dataclasses.field(default_factory=list)
    rounds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    late: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    lost: int = 0
    taken: int = 0
    operations: int = 0
    twice: int = 0


class Bench:
    """The replicas under load. Each round leaves them as it found them: two at work, one leading."""

    def __init__(self, found: Replicas, world: World, stack: contextlib.AsyncExitStack) -> None:
        self._replicas = found
        self._world = world
        self._stack = stack
        self._names = itertools.count(3)
        self._chance = random.Random(1)  # noqa: S311 — the same in every run
        self.taken: list[str] = []
        self.found = Found()

    # The load --------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        async with (
            asyncio.TaskGroup() as group,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session,
        ):
            stop = asyncio.Event()
            sending = group.create_task(self._send(session, stop))
            try:
                yield
            finally:
                stop.set()
                await sending

    async def _send(self, session: aiohttp.ClientSession, stop: asyncio.Event) -> None:
        """Each alert differs from all before it by its number; it ends the one before it on its node."""
        before: dict[str, dict[str, Any]] = {}
        nodes = itertools.cycle(sorted(self._world.kubelets.by_node))
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                if stop.is_set():
                    return
                node, now = next(nodes), common.wall().isoformat()
                labels = {"alertname": "NodeOdd", "node": node, "number": str(number)}
                alert = {"status": "firing", "labels": labels, "startsAt": now}
                ended = [{**before[node], "status": "resolved", "endsAt": now}] if node in before else []
                before[node] = alert
                group.create_task(self._deliver(session, [*ended, alert], number))
                await asyncio.sleep(1 / ALERTS_PER_SECOND)

    async def _deliver(self, session: aiohttp.ClientSession, alerts: list[dict[str, Any]], number: int) -> None:
        """To each in turn until one has it: as Alertmanager does."""
        body = {"version": "4", "alerts": alerts}
        for attempt in itertools.count(number):
            targets = list(self._replicas.at_work.values())
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                url = f"{targets[attempt % len(targets)].url}/hooks/alertmanager"
                async with session.post(url, json=body, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                    if answer.status == 200:
                        self.taken.append(str(number))
                        return
            await asyncio.sleep(0.1)

    # Rounds ----------------------------------------------------------------------------------------------------------

    async def kill(self) -> None:
        leader = await self._steady()
        before, began = len(self._replicas.changes), asyncio.get_running_loop().time()
        victim = self._replicas.at_work.pop(leader)
        await victim.end(signal.SIGKILL)
        index = await self._succeeded(leader, before)
        changes = self._replicas.changes
        first = next(change for change in changes[index:] if not change.is_lease)
        self.found.elected.append(changes[index].at - began)
        self.found.first_write.append(first.at - began)
        self.found.rounds["killed"] += 1
        await self._stack.enter_async_context(self._replicas.started(f"r{next(self._names)}"))

    async def stop(self) -> None:
        leader = await self._steady()
        process, before = self._replicas.at_work[leader].process, len(self._replicas.changes)
        process.send_signal(signal.SIGSTOP)
        try:
            index = await self._succeeded(leader, before)
        finally:
            process.send_signal(signal.SIGCONT)
        await self._watch("stopped", leader, index)

    async def hang(self) -> None:
        leader = await self._steady()
        line, before = self._replicas.lines[leader], len(self._replicas.changes)
        line.hang()
        try:
            index = await self._succeeded(leader, before)
        finally:
            line.hang(on=False)
        await self._watch("cut off", leader, index)

    async def _steady(self) -> str:
        """Who leads, once all are ready; at a random moment after that."""
        for running in self._replicas.at_work.values():
            await until("it is ready", running.is_ready)
        leader = await self._replicas.elected()
        await asyncio.sleep(self._chance.uniform(0.2, 0.7))
        return leader

    async def _succeeded(self, leader: str, before: int) -> int:
        """Where in `changes` another has taken the lease; returns when that one has changed something else as well."""

        def acted() -> int:
            index, by = takeover(self._replicas.changes, before)
            if by in ("", leader):
                return 0
            return index if any(c.by == by and not c.is_lease for c in self._replicas.changes[index:]) else 0

        index: int = await until("another leads and acts", acted, within=60)
        return index

    async def _watch(self, kind: str, old: str, index: int) -> None:
        await asyncio.sleep(AFTERWARDS_SECONDS)
        changes = self._replicas.changes[index:]
        again, by = takeover(self._replicas.changes, index + 1)
        if by == old:
            changes = self._replicas.changes[index:again]
        self.found.rounds[kind] += 1
        self.found.late[kind] += sum(change.by == old for change in changes)

    # The end ---------------------------------------------------------------------------------------------------------

    async def reckon(self) -> Found:
        """What was lost, done twice, or written to the journal by one who did not lead."""
        await asyncio.sleep(2)
        rows = self._replicas.postgres.run(
            "SELECT seq, kind, writer, data FROM events ORDER BY seq", self._replicas.url
        )
        anybodys = {kind.__name__ for kind in ANYBODYS}
        leader, fired = "", set[str]()
        for _, kind, writer, data in rows:
            if kind == ev.LeaderElected.__name__:
                leader = writer
            elif kind == ev.AlertFired.__name__:
                fired.add(dict(ev.decode(data).labels)["number"])  # type: ignore[union-attr]
            # The first began to lead before there was a column.
            if kind not in anybodys and leader and writer != leader:
                self.found.late["in the journal"] += 1
        cordons = collections.Counter(
            change.body["metadata"]["annotations"]["healer.dev/cordoned-by"]
            for change in self._replicas.changes
            if change.method == "PATCH" and change.body.get("spec", {}).get("unschedulable")
        )
        self.found.operations = len(cordons)
        self.found.taken = len(self.taken)
        self.found.lost = len(set(self.taken) - fired)
        self.found.twice = sum(count - 1 for count in cordons.values())
        return self.found


async def main(kills: int, stops: int, hangs: int) -> Found:
    with postgres(durable=True) as server, common.folder() as place:
        world = small_world(NODES)
        async with replicas(Path(place), server, TEXT, world=world) as found, contextlib.AsyncExitStack() as stack:
            # Who writes which event, for the reckoning: a column of the benchmark's own.
            server.run(
                "ALTER TABLE events ADD COLUMN writer text DEFAULT current_setting('application_name')", found.url
            )
            bench = Bench(found, world, stack)
            async with bench.load():
                for _ in range(stops):
                    await bench.stop()
                for _ in range(hangs):
                    await bench.hang()
                for _ in range(kills):
                    await bench.kill()
            return await bench.reckon()


def rounds(arguments: Any) -> tuple[int, int, int]:
    if arguments.rounds:
        return (arguments.rounds,) * 3
    return (4, 4, 3) if arguments.quick else (50, 200, 200)


if __name__ == "__main__":
    result = asyncio.run(main(*rounds(common.options(__doc__ or ""))))
    late = sum(result.late.values())
    figures = {
        "elected_p99_s": round(common.percentile(result.elected, 99), 3),
        "first_write_p99_s": round(common.percentile(result.first_write, 99), 3),
        "elected_p50_s": round(common.median(result.elected), 3),
        "first_write_p50_s": round(common.median(result.first_write), 3),
        "writes_by_old_leader": late,
        **{name.replace(" ", "_"): count for name, count in result.rounds.items()},
        "lost": result.lost,
        "done_twice": result.twice,
    }
    common.report(
        "Failover",
        [
            (
                "leaders killed, stopped, cut off",
                ", ".join(str(result.rounds[k]) for k in ("killed", "stopped", "cut off")),
            ),
            ("killed: another elected, p50 / p99, s", f"{figures['elected_p50_s']} / {figures['elected_p99_s']}"),
            (
                "killed: first change by it, p50 / p99, s",
                f"{figures['first_write_p50_s']} / {figures['first_write_p99_s']}",
            ),
            ("writes by a leader after another led", f"{late} {dict(result.late)}"),
            ("alerts taken (lost)", f"{result.taken} ({result.lost})"),
            ("operations; nodes cordoned twice by one", f"{result.operations}; {result.twice}"),
        ],
        figures,
    )
