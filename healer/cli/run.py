"""`healer run`: the service itself. SIGTERM and SIGINT end it in order; SIGHUP reads the configuration anew."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healer.cli import logs
from healer.cli.shared import config_option, running

if TYPE_CHECKING:
    from healer.app import Adapters, Prepared, Service

WATCH_SECONDS = 2.0


@click.command()
@config_option
def run(config: Path) -> None:
    """Watch the clusters of the configuration and repair them, each remedy in the mode it has."""
    running(_run(config))


async def _run(path: Path) -> None:
    from healer.app import Adapters, pauses, prepare  # noqa: PLC0415 — heavy
    from healer.notify.terminal import TerminalNotifier, TerminalSettings  # noqa: PLC0415 — heavy

    prepared = prepare(path)
    telemetry = prepared.config.telemetry
    logs.set_up(telemetry.log_level, telemetry.log_format)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Who has nobody told reads it here.
    printing = () if prepared.config.notify else (TerminalNotifier(TerminalSettings()),)
    with pauses.steady():
        await _serve(prepared, Adapters(notifiers=printing), stop)


async def _serve(prepared: Prepared, adapters: Adapters, stop: asyncio.Event) -> None:
    from healer.app import assembled, pauses  # noqa: PLC0415 — heavy

    loop = asyncio.get_running_loop()
    async with assembled(prepared, adapters) as service, asyncio.TaskGroup() as group:
        reload = asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, reload.set)
        watching = [
            group.create_task(_reload_when(reload, service), name="reload"),
            group.create_task(_watch(lambda: service.files, reload.set), name="watch files"),
            group.create_task(pauses.collect_when_quiet(lambda: service.recorder.memory.seq), name="pauses"),
        ]
        click.echo(f"healer is working; it listens on {prepared.config.web.listen}", err=True)
        try:
            await service.run(stop)
        finally:
            for task in watching:
                task.cancel()


async def _reload_when(wanted: asyncio.Event, service: Service) -> None:
    while True:
        await wanted.wait()
        wanted.clear()
        await service.reload()


async def _watch(files: Callable[[], tuple[Path, ...]], changed: Callable[[], None]) -> None:
    """Notice changed files by looking: editors and Kubernetes replace them, which watching by inode misses."""
    before = _stamps(files())
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        now = _stamps(files())
        if now != before:
            before = now
            changed()


def _stamps(files: tuple[Path, ...]) -> dict[Path, tuple[int, int] | None]:
    stamps: dict[Path, tuple[int, int] | None] = {}
    for file in files:
        try:
            found = file.stat()
            stamps[file] = (found.st_mtime_ns, found.st_size)
        except OSError:
            stamps[file] = None
    return stamps
