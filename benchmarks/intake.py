"""How many alerts a second become decisions on the disk, and how long one takes: webhook → journalled decision.

The service runs as a process of its own over a simulated cluster (a third process) of 1,000 pods in 100 Deployments,
with 200 remedies in shadow mode, its journal on a disk with fsync. A fourth process sends over HTTP what Alertmanager
would send, with labels that make each alert findable: a pod, whose Deployment is the owner of its incident. The
threshold of a storm is raised, so that each alert gets a whole decision: target, owner, remedies, plan, guards.

An alert is decided when the Decided event of its remedy in its incident has been committed (see `intake_service`). It is
lost when it was answered 200 and the journal, read afterwards by another process, has no such event. Measured:

- in batches of 100 over 4 connections, as fast as they are answered: decisions a second, from the first request to the
  last decision;
- one alert a request, 1,000 requests a second at fixed times: from when the request was due to its decision;
- the same in groups of ten alerts a request;
- the same batches with the usual threshold: a storm, in which incidents wait for their common cause (told, not judged).

Each part has a new service and an empty journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks import common
from benchmarks.intake_sender import Alerts, Plan
from benchmarks.intake_service import decisions
from healer.journal import read_journal
from healer.model import events as ev
from healer.sim.builders import a_world, add_deployment
from healer.sim.world import World

REMEDIES: Final = 200
DEPLOYMENTS: Final = 100
PODS_EACH: Final = 10
BATCH: Final = 100
PER_SECOND: Final = 1000
GROUP: Final = 10
MOST_ROUNDS: Final = 18
"""With more, and those sent beforehand, a workload would see the same alert name twice, and its remedy be judged only once."""

CONFIG: Final = """\
clusters: [{{name: bench, kubeconfig: {place}/kubeconfig}}]
store: {{embedded: {{path: {place}/data}}}}
journal: {{path: {place}/data/journal.db}}
web: {{listen: '127.0.0.1:{port}', token_file: {place}/data/token}}
safety: {{storm: {{alerts: {storm}, over: 1m}}}}
telemetry: {{log_level: warning}}
remedies:
"""

REMEDY: Final = """\
  - name: symptom{number:03d}
    when: {{alertname: Symptom{number:03d}, severity: '=~"critical|warning"', namespace: '!~"kube-.*"'}}
    mode: shadow
    steps: [{action}]
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one part measured. `decided`: number of alert → time; `sent` likewise."""

    sent: dict[str, float]
    decided: dict[str, float]
    refused: int
    lost: int
    batches: int

    @property
    def rate(self) -> float:
        return len(self.decided) / (max(self.decided.values()) - min(self.sent.values())) if self.decided else 0.0

    @property
    def latencies_ms(self) -> list[float]:
        return [(self.decided[number] - at) * 1000 for number, at in self.sent.items() if number in self.decided]


def the_world() -> World:
    world = a_world(40, 4, start=common.wall(), with_apps=False)
    for index in range(DEPLOYMENTS):
        add_deployment(
            world,
            f"team-{index % 10}",
            f"app-{index:03d}",
            replicas=PODS_EACH,
            cpu="10m",
            memory="16Mi",
            memory_limit="32Mi",
        )
    world.settle()
    return world


def pods_of(world: World) -> list[tuple[str, str]]:
    """(namespace, name), those of a Deployment beside each other."""
    found = [pod["metadata"] for pod in world.storage.items("pods")]
    mine = [(meta["namespace"], meta["name"]) for meta in found if meta["name"].startswith("app-")]
    return sorted(mine, key=lambda pod: pod[1])


def write_config(place: Path, port: int, *, storm: int) -> Path:
    path = place / "healer.yaml"
    actions = ("restart", "rollout-restart")
    remedies = (REMEDY.format(number=number, action=actions[number % 2]) for number in range(REMEDIES))
    path.write_text(CONFIG.format(place=place, port=port, storm=storm) + "".join(remedies), encoding="utf-8")
    return path


@contextlib.asynccontextmanager
async def service(place: Path, *, storm: int) -> AsyncIterator[int]:
    """Its port. On leaving it has ended, and written `place/notes.json`."""
    port = common.free_port()
    config = write_config(place, port, storm=storm)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.intake_service", str(config), str(place / "notes.json")
    )
    try:
        await common.ready(port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def measure(world: World, alerts: Alerts, *, count: int, batch: int, rate: float = 0.0, storm: int) -> Part:
    """One part: a service, `count` alerts, and what the journal says afterwards."""
    with common.folder() as place:
        async with common.served(world, place):
            async with service(place, storm=storm) as port:
                token = (place / "data/token").read_text(encoding="utf-8").strip()
                # The first of every kind of work is slower (imports, caches): it is done before, by other alerts.
                await send(place, Plan("127.0.0.1", port, token, alerts, 0, 300, 10, 4))
                plan = Plan("127.0.0.1", port, token, alerts, len(alerts.pods), count, batch, 32 if rate else 4, rate)
                told = await send(place, plan)
                await quiet(place / "data/journal.db")
            noted = json.loads((place / "notes.json").read_bytes())
            kept = await in_journal(place / "data/journal.db")
    sent = told["sent"]
    return Part(
        sent=sent,
        decided={number: at for number, at in noted.items() if number in sent},
        refused=told["refused"],
        lost=sum(1 for number in sent if number not in kept),
        batches=len(told["answered"]),
    )


async def send(place: Path, plan: Plan) -> Any:
    (place / "plan.json").write_bytes(msgspec.json.encode(plan))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.intake_sender", str(place / "plan.json"), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return json.loads(out)


async def quiet(journal: Path) -> None:
    """Until nothing new has come into the journal for a second."""
    before = -1
    while True:
        async with read_journal(journal) as reader:
            head = (await reader.head()).seq
        if head == before:
            return
        before = head
        await asyncio.sleep(1.0)


async def in_journal(journal: Path) -> set[str]:
    """Numbers of the alerts whose decision stands in the journal."""
    async with read_journal(journal) as reader:
        found: list[tuple[float, ev.AnyEvent]] = [(0.0, recorded.event) async for recorded in reader.read()]
    return set(decisions(found))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    batches: Part
    groups: Part
    singles: Part
    storm: Part

    def total(self, what: Callable[[Part], int]) -> int:
        return sum(map(what, (self.batches, self.groups, self.singles, self.storm)))


async def parts(*, count: int, seconds: int) -> Parts:
    world = the_world()
    started = (world.now - timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    alerts = Alerts(pods_of(world), PODS_EACH, REMEDIES, started)
    raised = 10**7
    paced = PER_SECOND * seconds
    return Parts(
        batches=await measure(world, alerts, count=count, batch=BATCH, storm=raised),
        groups=await measure(world, alerts, count=paced, batch=GROUP, rate=PER_SECOND / GROUP, storm=raised),
        singles=await measure(world, alerts, count=paced, batch=1, rate=PER_SECOND, storm=raised),
        storm=await measure(world, alerts, count=count, batch=BATCH, storm=500),
    )


def main() -> None:
    options = common.options(__doc__ or "")
    rounds = options.rounds or (5 if options.quick else MOST_ROUNDS)
    found = asyncio.run(parts(count=1000 * rounds, seconds=min(10, rounds)))
    single, grouped = found.singles.latencies_ms, found.groups.latencies_ms
    figures = {
        "alerts_per_s": round(found.batches.rate),
        "p50_ms": round(common.percentile(single, 50), 2),
        "p99_ms": round(common.percentile(single, 99), 2),
        "grouped_p50_ms": round(common.percentile(grouped, 50), 2),
        "grouped_p99_ms": round(common.percentile(grouped, 99), 2),
        "lost": found.total(lambda part: part.lost),
        "refused": found.total(lambda part: part.refused),
        "storm_alerts_per_s": round(found.storm.rate),
    }
    common.report(
        "Intake: webhook → journalled decision, 200 remedies, fsync on",
        [
            (f"batches of {BATCH}, {len(found.batches.sent)} alerts: decisions a second", figures["alerts_per_s"]),
            (f"{PER_SECOND} alerts a second, one a request, {len(single)} of them: p50, ms", figures["p50_ms"]),
            ("p99, ms", figures["p99_ms"]),
            (
                f"{PER_SECOND} alerts a second, {GROUP} a request, {len(grouped)} of them: p50, ms",
                figures["grouped_p50_ms"],
            ),
            ("p99, ms", figures["grouped_p99_ms"]),
            ("lost", figures["lost"]),
            ("requests not answered 200", figures["refused"]),
            (f"in a storm, {len(found.storm.sent)} alerts: decisions a second", figures["storm_alerts_per_s"]),
        ],
        figures,
    )


if __name__ == "__main__":
    main()
