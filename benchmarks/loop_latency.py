"""From the page that shows a fault to the first call that changes the cluster, beside Prometheus → Alertmanager → webhook.

One exporter is scraped by both chains every second. A trial makes the metric of one node say that it is broken. For each
chain the clock starts when the first page that shows this has been served to it. It stops for Healer (`healer run`: own
scrape, an eager rule without `for`, a remedy in mode auto that cordons) when the first PATCH of that node reaches the API
server, and for the peer (scrape and evaluation every second, `group_wait: 0s`) when the webhook for that node arrives:
the peer has only told somebody by then, and has done nothing yet.

How long the peer waits between scrape and evaluation is fixed at its start, by hashes of paths and labels. So it is
started anew several times within a run, each time from another folder, and its figures are over all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from benchmarks import common
from healer.kube.transport import Request, Response
from healer.sim.api import Api
from healer.sim.builders import a_world
from tests.servers import alertmanager, prometheus

STARTS: Final = 10
QUICK_STARTS: Final = 4
TRIALS_A_START: Final = 6
QUICK_TRIALS_A_START: Final = 4
TRIAL_LIMIT_SECONDS: Final = 15.0

RULES: Final = """\
groups:
  - name: broken
    interval: 1s
    {eager}
    rules:
      - alert: NodeBroken
        expr: node_broken == 1
"""
CONFIG: Final = """\
clusters: [{{name: bench, kubeconfig: {place}/kubeconfig}}]
collect:
  - prometheus: {{job: bench, interval: 1s, timeout: 1s, targets: ['127.0.0.1:{exporter}']}}
rules: [rules-healer.yaml]
remedies:
  - name: cordon-broken
    when: {{alertname: NodeBroken}}
    mode: auto
    steps: [cordon]
    verify: {{alert: ignored, for: 0s, timeout: 1m}}
    limits: {{per_hour: unlimited, per_zone: unlimited, max_in_flight: 1000, cooldown: 0s}}
safety: {{max_unhealthy: 100%, max_in_flight: 1000, max_in_flight_per_zone: 1000, grace_after_outage: 1s}}
store: {{embedded: {{path: {place}/data}}}}
journal: {{path: {place}/data/journal.db}}
web: {{listen: '127.0.0.1:{port}', token_file: {place}/data/token}}
"""
PROMETHEUS: Final = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ['{place}/rules.yaml']
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{alertmanager}']}}]}}]}}
scrape_configs: [{{job_name: bench, static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]}}]
"""
ALERTMANAGER: Final = """\
route: {{receiver: hook, group_by: [node], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{exporter}/peer', send_resolved: false}}]}}]
"""


class Stopwatch:
    """What was shown to whom when, and what came of it when; seconds on one clock."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.begun: dict[str, float] = {}
        self.shown: dict[tuple[str, str], float] = {}
        self.done: dict[tuple[str, str], float] = {}
        self.news = asyncio.Event()

    async def page(self, request: web.Request) -> web.Response:
        """The exporter. Who scrapes is told by the User-Agent."""
        who = "peer" if request.headers.get("User-Agent", "").startswith("Prometheus/") else "healer"
        lines = ["# TYPE node_broken gauge"] + [f'node_broken{{node="{node}"}} 1' for node in self.broken]
        response = web.Response(text="\n".join(lines) + "\n", content_type="text/plain")
        await response.prepare(request)
        await response.write_eof()
        now = common.seconds()
        for node in self.broken:
            self.shown.setdefault((who, node), now)
        return response

    async def hook(self, request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read())
        for alert in body["alerts"]:
            self.note("peer", alert["labels"]["node"])
        return web.Response()

    def note(self, who: str, node: str) -> None:
        self.done.setdefault((who, node), common.seconds())
        self.news.set()

    def watch(self, api: Api) -> None:
        """Note the first change of each node that reaches the API server."""
        handle: Callable[[Request], Awaitable[Response]] = api.handle

        async def noted(request: Request) -> Response:
            if request.method == "PATCH" and request.path.startswith("/api/v1/nodes/"):
                self.note("healer", request.path.rsplit("/", 1)[-1])
            return await handle(request)

        api.handle = noted  # type: ignore[method-assign]

    async def trial(self, node: str) -> bool:
        """Break one node; whether both chains have answered in time."""
        self.broken.append(node)
        self.begun[node] = common.seconds()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRIAL_LIMIT_SECONDS):
                while not all((who, node) in self.done for who in ("healer", "peer")):
                    await self.news.wait()
                    self.news.clear()
                return True
        return False

    def taken(self, who: str) -> list[float]:
        return [at - self.shown[key] for key, at in self.done.items() if key[0] == who and key in self.shown]

    def taken_from_change(self, who: str) -> list[float]:
        """The same from the moment at which the metric changed, the wait for the next scrape included."""
        return [at - self.begun[node] for (told, node), at in self.done.items() if told == who]


@contextlib.asynccontextmanager
async def exporter(watch: Stopwatch) -> AsyncIterator[int]:
    app = web.Application()
    app.add_routes([web.get("/metrics", watch.page), web.post("/peer", watch.hook)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def healer(place: Path, port: int) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        common.HEALER,
        "run",
        "-c",
        str(place / "healer.yaml"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await common.ready(port)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def measure(starts: int, trials: int) -> tuple[Stopwatch, int]:
    """Both chains side by side, `trials` after each start of the peer; the readings and how many trials one of them missed."""
    watch, missed = Stopwatch(), 0
    world = a_world(starts * trials + 9, 3, start=common.wall(), with_apps=False)
    nodes = iter(sorted(world.kubelets.by_node))
    phase = random.Random(7)  # noqa: S311 — when in the second a fault begins; repeatable
    with common.folder() as place, contextlib.ExitStack() as servers:
        async with exporter(watch) as scraped, common.served(world, place) as (api, _):
            watch.watch(api)
            port = common.free_port()
            (place / "rules-healer.yaml").write_text(RULES.format(eager="eager: true"), encoding="utf-8")
            text = CONFIG.format(place=place, exporter=scraped, port=port)
            (place / "healer.yaml").write_text(text, encoding="utf-8")
            # In threads: servers are waited for with blocking calls, and the exporter has to answer meanwhile.
            told = await asyncio.to_thread(
                servers.enter_context, alertmanager(place, ALERTMANAGER.format(exporter=scraped))
            )
            async with healer(place, port):
                for start in range(starts):
                    async with peer(place / f"peer{start}", told.address, scraped):
                        await asyncio.sleep(2.5)
                        for _ in range(trials):
                            await asyncio.sleep(phase.random())
                            missed += not await watch.trial(next(nodes))
                    watch.broken.clear()
    return watch, missed


@contextlib.asynccontextmanager
async def peer(folder: Path, told: str, scraped: int) -> AsyncIterator[None]:
    """A fresh Prometheus in a folder of its own."""
    text = _written(folder, told, scraped)
    with contextlib.ExitStack() as server:
        await asyncio.to_thread(server.enter_context, prometheus(folder, text))
        yield
        await asyncio.to_thread(server.close)


def _written(folder: Path, told: str, scraped: int) -> str:
    folder.mkdir()
    (folder / "rules.yaml").write_text(RULES.format(eager=""), encoding="utf-8")
    return PROMETHEUS.format(place=folder, alertmanager=told, exporter=scraped)


def main() -> None:
    parsed = common.options(__doc__ or "")
    starts = parsed.rounds or (QUICK_STARTS if parsed.quick else STARTS)
    trials = QUICK_TRIALS_A_START if parsed.quick or parsed.rounds else TRIALS_A_START
    watch, missed = asyncio.run(measure(starts, trials))
    ours, theirs = watch.taken("healer"), watch.taken("peer")
    figures: dict[str, Any] = {
        "trials": starts * trials,
        "missed": missed,
        "healer_p50_s": round(common.percentile(ours, 50), 4),
        "healer_p99_s": round(common.percentile(ours, 99), 4),
        "peer_p50_s": round(common.percentile(theirs, 50), 4),
        "peer_p99_s": round(common.percentile(theirs, 99), 4),
    }
    for who in ("healer", "peer"):
        figures[f"{who}_from_change_p50_s"] = round(common.percentile(watch.taken_from_change(who), 50), 4)
    figures["ratio"] = round(figures["peer_p50_s"] / figures["healer_p50_s"], 1)
    common.report(
        "From the page that shows the fault to the first change of the cluster",
        [
            ("trials (missed by one of them)", f"{starts * trials} ({missed})"),
            ("Healer, p50, s", figures["healer_p50_s"]),
            ("Healer, p99, s", figures["healer_p99_s"]),
            ("Prometheus → Alertmanager → webhook, p50, s", figures["peer_p50_s"]),
            ("Prometheus → Alertmanager → webhook, p99, s", figures["peer_p99_s"]),
            ("ratio of the medians", figures["ratio"]),
            ("from the change of the metric: Healer, p50, s", figures["healer_from_change_p50_s"]),
            ("from the change of the metric: peer, p50, s", figures["peer_from_change_p50_s"]),
        ],
        figures,
    )


if __name__ == "__main__":
    main()
