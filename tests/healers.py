"""Healer as its users have it: the real command in its own process, beside a simulated cluster served over HTTP in this one.

Everything here lives in real time; conditions are polled, with a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from healer.clock import LoopClock, SystemClock
from healer.sim.api import Api
from healer.sim.builders import a_world
from healer.sim.core import Options
from healer.sim.driver import drive
from healer.sim.metrics import metrics_routes
from healer.sim.server import kubeconfig, serve
from healer.sim.world import World

HEALER: Final = str(Path(sys.executable).parent / "healer")
PATIENCE_SECONDS: Final = 30.0
"""Far more than anything here takes, since the machine may be busy."""
POLL_SECONDS: Final = 0.05
TOKEN: Final = "token-of-a-test"
BRISK: Final = Options(
    node_delete_seconds=1,
    start_seconds=0.5,
    start_jitter_seconds=0.5,
    ready_seconds=0.5,
    join_seconds=2,
    node_ready_seconds=1,
)
"""A cluster in which everything happens soon, for tests in real time."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def until(what: str, happened: Callable[[], Any], *, within: float = PATIENCE_SECONDS) -> Any:
    """Ask (or await) until the answer is true; gives it. AssertionError says `what` has not come, and the last answer."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        answer = happened()
        found = await answer if isinstance(answer, Awaitable) else answer
        if found:
            return found
        assert asyncio.get_running_loop().time() < deadline, f"not within {within:.0f} s: {what}; last: {found!r}"
        await asyncio.sleep(POLL_SECONDS)


# The cluster ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A simulated cluster behind HTTP."""

    world: World
    api: Api
    url: str
    kubeconfig: Path

    def node(self, name: str) -> dict[str, Any]:
        found = self.world.storage.get("nodes", "", name)
        assert found is not None, name
        return found

    def is_cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))


def small_world(nodes: int = 6, zones: int = 3, **options: Any) -> World:
    """A world whose time is now."""
    return a_world(nodes, zones, start=SystemClock().now(), options=dataclasses.replace(BRISK), **options)


@contextlib.asynccontextmanager
async def simulated(folder: Path, world: World | None = None) -> AsyncIterator[Simulated]:
    """Serve `world` and let its time pass; its kubeconfig is `folder/kubeconfig`."""
    world = world or small_world()
    clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
    api = Api(world.storage, now=lambda: world.now)
    async with serve(api, extra=metrics_routes(world)) as url, asyncio.TaskGroup() as group:
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(url), encoding="utf-8")
        driving = group.create_task(drive(world, clock, tick_seconds=0.25), name="world")
        try:
            yield Simulated(world=world, api=api, url=url, kubeconfig=config)
        finally:
            driving.cancel()


# Healer --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Output of one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


async def healer(*arguments: str | Path, environment: Mapping[str, str] | None = None, within: float = 60.0) -> Said:
    """Run `healer` with these arguments to its end."""
    process = await asyncio.create_subprocess_exec(
        HEALER,
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    try:
        async with asyncio.timeout(within):
            out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    return Said(code=process.returncode or 0, out=out.decode(), err=err.decode())


def configured(folder: Path, port: int, text: str) -> Path:
    """`text` with clusters, journal, store and web put before it, as `folder/healer.yaml`; its token is TOKEN."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / "token").write_text(TOKEN, encoding="utf-8")
    (data / "token").chmod(0o600)
    base = (
        f"clusters: [{{name: prod, kubeconfig: {folder}/kubeconfig}}]\n"
        f"store: {{embedded: {{path: {data}}}}}\n"
        f"journal: {{path: {data}/journal.db}}\n"
        f"web: {{listen: '127.0.0.1:{port}', token_file: {data}/token}}\n"
    )
    path = folder / "healer.yaml"
    path.write_text(base + text, encoding="utf-8")
    return path


class Running:
    """`healer run` at work, and what may be asked of it over HTTP."""

    def __init__(
        self, process: asyncio.subprocess.Process, url: str, log: Path, session: aiohttp.ClientSession
    ) -> None:
        self.process = process
        self.url = url
        self.log = log
        self._session = session

    async def ask(self, method: str, path: str, body: Any = None, *, token: str = TOKEN) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with self._session.request(method, self.url + path, json=body, headers=headers) as answer:
            text = await answer.text()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    async def get(self, path: str) -> Any:
        status, body = await self.ask("GET", path)
        assert status == 200, (path, status, body)
        return body

    async def incidents(self) -> list[Any]:
        """As the API lists them, newest first."""
        found: list[Any] = await self.get("/api/v1/incidents")
        return found

    async def incident(self, title: str, **fields: Any) -> Any:
        """The newest of this title that has these values; None when there is none yet."""
        for found in await self.incidents():
            if found["title"] == title and all(found.get(name) == value for name, value in fields.items()):
                return await self.get(f"/api/v1/incidents/{found['id']}")
        return None

    async def metric(self, name: str, **labels: str) -> float:
        """The sum over its series that have these labels; 0 of none."""
        _, text = await self.ask("GET", "/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    async def is_ready(self) -> bool:
        assert self.process.returncode is None, self.said()
        try:
            return (await self.ask("GET", "/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    def said(self) -> str:
        """What it has written to standard error."""
        return self.log.read_text(encoding="utf-8")

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it `number` and wait for its end; its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()


async def _story(running: Running) -> str:
    """What a person needs to know when a test fails: what it has logged, and each incident with its timeline."""
    lines = ["healer has logged:", *running.said().splitlines()[-40:]]
    with contextlib.suppress(aiohttp.ClientError, AssertionError, TimeoutError):
        for brief in await running.incidents():
            found = await running.get(f"/api/v1/incidents/{brief['id']}")
            lines.append(
                f"incident {found['id']} {found['title']}: {found['state']}, {found['reason']} {found['detail']}"
            )
            lines += [f"  {entry['at']} {entry['text']}" for entry in found["timeline"]]
    return "\n".join(lines)


@contextlib.asynccontextmanager
async def at_work(config: Path, port: int, *, ready: bool = True) -> AsyncIterator[Running]:
    """`healer run -c config`, ready; ended with the block unless it has ended by then."""
    log = config.with_suffix(".log")
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            HEALER, "run", "-c", str(config), stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            running = Running(process, f"http://127.0.0.1:{port}", log, session)
            if ready:
                await until("healer is ready", running.is_ready, within=45)
            try:
                yield running
            except BaseException as error:
                error.add_note(await _story(running))
                raise
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(15):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
