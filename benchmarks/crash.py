"""SIGKILL at every journalled point of a node repair: does a restart always end the same, and is nothing done twice?

A simulated cluster with a dead machine serves its API and its provider over HTTP from a process of its own. Healer
(another process, real journal on disk) repairs it: cordon, fence, drain, replace, verify. It is killed at one point; a
second Healer over the same journal goes on. A point is a transaction of the journal, taken twice: killed just before it
is written (what was done to the cluster meanwhile is not recorded) and just after it is durable (nothing of what follows
has been done). The end is compared with that of a run that nobody killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from benchmarks import common
from healer.app import Adapters, assembled, prepare
from healer.clock import Clock, LoopClock
from healer.journal.opening import SqlJournal, open_journal
from healer.model.decisions import Reason
from healer.model.events import AnyEvent, Recorded
from healer.model.incidents import IncidentState
from healer.sim.api import Api
from healer.sim.builders import a_world
from healer.sim.cloud_http import cloud_routes
from healer.sim.driver import drive
from healer.sim.faults import Fault
from healer.sim.server import kubeconfig, serve
from healer.sim.time import ScaledTimeLoop
from healer.sim.world import World

SPEED: Final = 25.0
NODE: Final = "node-a1"
SECRET: Final = "for the benchmark only"  # noqa: S105 — signs requests on loopback
LIMIT_SECONDS: Final = 40.0
"""Real time after which a run counts as not ended."""
REST_SECONDS: Final = 0.2
REST_LIMIT_SECONDS: Final = 5.0
LANES: Final = 2

CONFIG: Final = """\
clusters: [{{name: bench, kubeconfig: {place}/kubeconfig}}]
providers: {{cloud: {{webhook: {{url: '{url}/provider', secret_file: {place}/secret}}}}}}
remedies:
  - name: replace-dead-node
    when: {{alertname: NodeDown}}
    mode: auto
    steps: [cordon, fence, {{drain: {{timeout: 3m}}}}, {{replace: {{join_timeout: 5m}}}}]
    verify: {{alert: ignored, object: healthy, for: 2s, timeout: 3m}}
safety: {{grace_after_outage: 1s}}
store: {{embedded: {{path: {place}/data}}}}
journal: {{path: {place}/data/journal.db}}
web: {{listen: '127.0.0.1:{port}', token_file: {place}/data/token}}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """The so many-th transaction (from 1); `after` it is durable, or before it is written. 0: nobody is killed."""

    number: int
    after: bool


class KillingJournal:
    """The real journal, that kills this process at one point."""

    def __init__(self, journal: SqlJournal, point: Point, count: Callable[[], None]) -> None:
        self._journal = journal
        self._point = point
        self._written = 0
        self._count = count

    async def append(self, events: Sequence[AnyEvent]) -> Sequence[Recorded]:
        self._written += 1
        if self._written == self._point.number and not self._point.after:
            os.kill(os.getpid(), signal.SIGKILL)
        recorded = await self._journal.append(events)
        if self._written == self._point.number:
            os.kill(os.getpid(), signal.SIGKILL)
        self._count()
        return recorded

    def read(self, *, after: int = 0, incident: str = "") -> AsyncIterator[Recorded]:
        return self._journal.read(after=after, incident=incident)

    async def close(self) -> None:
        await self._journal.close()


# The processes -------------------------------------------------------------------------------------------------------


def forked(main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """A process of its own for `main`, on a loop that runs `SPEED` times as fast; exit code 1 when it raises."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with asyncio.Runner(loop_factory=lambda: ScaledTimeLoop(SPEED)) as runner:
            runner.run(main())
        code = 0
    except BaseException:  # noqa: BLE001 — a child must never return into its parent's code
        traceback.print_exc(file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


async def cluster(place: Path, world: World) -> None:
    """The cluster and its provider, until killed. GET /bench/state tells how things stand."""
    clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
    api = Api(world.storage, now=lambda: world.now)

    async def state(_: web.Request) -> web.Response:
        return web.json_response(picture(world))

    extra = [*cloud_routes(world, secret=SECRET), web.get("/bench/state", state)]
    async with serve(api, extra=extra) as url, asyncio.TaskGroup() as group:
        (place / "kubeconfig").write_text(kubeconfig(url), encoding="utf-8")
        (place / "secret").write_text(SECRET, encoding="utf-8")
        (place / "url.new").write_text(url, encoding="utf-8")
        (place / "url.new").rename(place / "url")
        group.create_task(drive(world, clock, tick_seconds=0.5))


def picture(world: World) -> dict[str, Any]:
    """What must be the same at the end, whatever happened in between."""
    nodes = sorted(
        (
            node["metadata"]["name"],
            next((c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"), ""),
            bool(node["spec"].get("unschedulable")),
            sorted(taint["key"] for taint in node["spec"].get("taints", [])),
        )
        for node in world.storage.items("nodes")
    )
    ready = {
        f"{w['metadata']['namespace']}/{w['metadata']['name']}": w.get("status", {}).get("readyReplicas", 0)
        for kind in ("deployments", "statefulsets")
        for w in world.storage.items(kind)
    }
    replaced = [call.token for call in world.cloud.calls if call.verb == "replace" and call.outcome != "error"]
    return {"nodes": nodes, "ready": ready, "replace_calls": len(replaced), "replace_keys": len(set(replaced))}


async def healer(place: Path, point: Point, started: float) -> None:
    """Healer, until it is killed or its incident has been closed. Tells the figures of an unkilled run in a file."""
    clock = LoopClock(asyncio.get_running_loop(), epoch=common.wall())
    count = [0]

    @contextlib.asynccontextmanager
    async def journal() -> AsyncIterator[KillingJournal]:
        async with open_journal(place / "data" / "journal.db", clock=clock) as found:
            yield KillingJournal(found, point, lambda: count.__setitem__(0, count[0] + 1))

    stop = asyncio.Event()
    adapters = Adapters(clock=clock, journal=journal)
    async with assembled(prepare(place / "healer.yaml"), adapters) as service, asyncio.TaskGroup() as group:
        running = group.create_task(service.run(stop))
        while not running.done():
            closed = [v for v in service.people.incidents() if v.state is IncidentState.CLOSED]
            if closed or common.seconds() - started > LIMIT_SECONDS:
                break
            await asyncio.sleep(1)
        result = {
            "transactions": count[0],
            "fixed": [v.reason is Reason.FIXED for v in service.people.incidents()],
            "alerts": sum(1 for e in service.recorder.memory.episodes.values() if e.name == "NodeDown"),
        }
        (place / "result.json").write_text(json.dumps(result), encoding="utf-8")
        stop.set()


# One run -------------------------------------------------------------------------------------------------------------


async def _deliver(place: Path, port: int, alive: Callable[[], bool]) -> bool:
    """Send the alert as Alertmanager would: again and again until it is taken. False when the receiver died before."""
    url = f"http://127.0.0.1:{port}/hooks/alertmanager"
    alert = {
        "status": "firing",
        "labels": {"alertname": "NodeDown", "node": NODE, "severity": "critical"},
        "startsAt": common.wall().isoformat(),
    }
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while alive():
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                token = (place / "data" / "token").read_text(encoding="utf-8").strip()
                async with session.post(
                    url, json={"version": "4", "alerts": [alert]}, headers={"Authorization": f"Bearer {token}"}
                ) as answer:
                    if answer.status == 200:
                        return True
            await asyncio.sleep(0.02)
    return False


async def _end(place: Path) -> dict[str, Any]:
    """The state of the cluster when it has come to rest: the same for a while, and no dead node left."""
    url = (place / "url").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    calm_since = common.seconds()
    deadline = calm_since + REST_LIMIT_SECONDS
    async with aiohttp.ClientSession() as session:
        while common.seconds() < min(deadline, calm_since + REST_SECONDS):
            async with session.get(f"{url}/bench/state") as answer:
                now = await answer.json()
            if now != found or any(ready != "True" for _, ready, _, _ in now["nodes"]):
                found, calm_since = now, common.seconds()
            await asyncio.sleep(0.02)
    return found


def _lives(pid: int, code: list[int]) -> bool:
    """Whether a child still runs; its exit status goes into `code` when it does not."""
    if not code:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code.append(status)
    return not code


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def repair(point: Point, world: World) -> dict[str, Any]:
    """One repair, killed at `point` and carried on; what came of it."""
    with common.folder() as place:
        port = common.free_port()
        serving = forked(lambda: cluster(place, world))
        try:
            while not (place / "url").exists():
                os.sched_yield()
            url = (place / "url").read_text(encoding="utf-8")
            (place / "healer.yaml").write_text(CONFIG.format(place=place, url=url, port=port), encoding="utf-8")
            acknowledged, killed = False, False
            for attempt in (point, Point(0, after=True)):
                started = common.seconds()
                code: list[int] = []
                pid = forked(functools.partial(healer, place, attempt, started))
                try:
                    if not acknowledged:
                        acknowledged = asyncio.run(_deliver(place, port, functools.partial(_lives, pid, code)))
                    if not code:
                        code.append(os.waitpid(pid, 0)[1])
                finally:
                    if not code:
                        _kill(pid)
                killed = killed or (os.WIFSIGNALED(code[0]) and os.WTERMSIG(code[0]) == signal.SIGKILL)
                if (place / "result.json").exists():
                    break
            result: dict[str, Any] = json.loads((place / "result.json").read_text(encoding="utf-8"))
            return {**result, "killed": killed, "acknowledged": acknowledged, "end": asyncio.run(_end(place))}
        finally:
            _kill(serving)


def lane(points: Sequence[Point], world: World, place: Path) -> int:
    """A process that takes its points one after the other and writes what came of them."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with place.open("w", encoding="utf-8") as file:
            for point in points:
                try:
                    found = repair(point, world)
                except Exception as error:  # noqa: BLE001 — a run that failed is a result
                    found = {"error": f"{type(error).__name__}: {error}"}
                file.write(json.dumps({"number": point.number, "after": point.after, **found}) + "\n")
                file.flush()
        code = 0
    finally:
        os._exit(code)


# All of them ---------------------------------------------------------------------------------------------------------


def dead_node(clock: Clock | None = None) -> World:
    """A cluster in which one machine has died a minute ago, and whatever takes time takes little."""
    world = a_world(6, 3, start=clock.now() if clock else common.wall())
    world.cloud.timing.boot_seconds = 4.0
    world.cloud.timing.boot_jitter_seconds = 0.0
    world.options.join_seconds = 2.0
    world.options.node_ready_seconds = 1.0
    world.inject(Fault(name="machine-death", target=NODE))
    world.run_for(60)
    return world


def main() -> None:
    parsed = common.options(__doc__ or "")
    world = dead_node()
    calm = repair(Point(0, after=True), world)
    everything = [Point(number, after) for number in range(1, calm["transactions"] + 1) for after in (False, True)]
    wanted = parsed.rounds or (32 if parsed.quick else len(everything))
    step = max(1.0, len(everything) / wanted)
    points = [everything[int(index * step)] for index in range(min(wanted, len(everything)))]
    runs = carried_out(points, world)
    same = [run for run in runs if run.get("end") is not None and same_end(run, calm)]
    repeated = sum(max(0, run["end"]["replace_calls"] - 1) for run in runs if run.get("end"))
    lost = sum(1 for run in runs if run.get("acknowledged") and run.get("alerts") != 1)
    for run in runs:
        if run not in same:
            print(f"not the same end: {run}", file=sys.stderr)
    figures = {
        "points": len(runs),
        "killed": sum(bool(run.get("killed")) for run in runs),
        "transactions": calm["transactions"],
        "same_end_state": len(same),
        "repeated_provider_calls": repeated,
        "lost_alerts": lost,
    }
    common.report(
        "A node repair killed at its journalled points",
        [
            ("transactions of the journal in one repair", calm["transactions"]),
            ("points at which Healer was killed", figures["killed"]),
            ("of them with the same end", figures["same_end_state"]),
            ("provider calls made twice", repeated),
            ("acknowledged alerts lost", lost),
        ],
        figures,
    )


def same_end(run: dict[str, Any], calm: dict[str, Any]) -> bool:
    return bool(run["end"] == calm["end"] and run["fixed"] == calm["fixed"] == [True])


def carried_out(points: Sequence[Point], world: World) -> list[dict[str, Any]]:
    """All points, in a few lanes beside each other."""
    with common.folder() as place:
        lanes = [
            (place / f"{number}.jsonl", lane(points[number::LANES], world, place / f"{number}.jsonl"))
            for number in range(LANES)
        ]
        for _, pid in lanes:
            os.waitpid(pid, 0)
        lines = [line for file, _ in lanes for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
