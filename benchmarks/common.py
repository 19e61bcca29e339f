"""What the benchmarks share: options, tables, percentiles, servers on free loopback ports."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import socket
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from healer.clock import LoopClock, SystemClock
from healer.sim.api import Api
from healer.sim.driver import drive
from healer.sim.server import kubeconfig, serve
from healer.sim.world import World

HEALER = str(Path(sys.executable).parent / "healer")


def options(about: str) -> argparse.Namespace:
    """`--quick`: within 50 s on two cores. `--rounds`: how much of it, for tests of the benchmark itself."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, within 50 s")
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def report(title: str, rows: Sequence[tuple[str, Any]], figures: Mapping[str, Any]) -> None:
    """The table, then the line of JSON."""
    width = max(len(name) for name, _ in rows)
    print(f"\n{title}")
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")
    print(json.dumps(figures), flush=True)


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank; nan of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(percent / 100 * len(ordered) + 0.5) - 1))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder on a real disk, where fsync costs what it costs: under the working directory, not in a memory file system."""
    base = Path.cwd() / ".cache"
    base.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="benchmark-", dir=base))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.asynccontextmanager
async def served(world: World, place: Path, *, extra: Sequence[Any] = ()) -> AsyncIterator[tuple[Api, str]]:
    """A simulated cluster over HTTP, running in real time; its kubeconfig is `place/kubeconfig`."""
    clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
    api = Api(world.storage, now=lambda: world.now)
    async with serve(api, extra=extra) as url, asyncio.TaskGroup() as group:
        (place / "kubeconfig").write_text(kubeconfig(url), encoding="utf-8")
        driving = group.create_task(drive(world, clock))
        try:
            yield api, url
        finally:
            driving.cancel()


async def ready(port: int) -> None:
    """Until the service on that port says that it is ready."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)


def wall() -> datetime:
    return SystemClock().now().astimezone(UTC)


def seconds() -> float:
    return SystemClock().monotonic()
