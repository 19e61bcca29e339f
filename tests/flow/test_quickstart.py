"""docs/quickstart.md does what it says: its files are written, its commands are run, in order, against a simulated cluster.

Real `healer` processes in real time. A comment `<!-- test: NAME -->` in the document is where the world does something.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re  # noqa: TID251 (fixed patterns over our own document)
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from healer.clock import SystemClock
from healer.sim.api import Api
from healer.sim.builders import a_world
from healer.sim.driver import drive
from healer.sim.faults import Fault
from healer.sim.server import kubeconfig, serve
from healer.sim.world import World
from tests.documents import DOCS, Block, blocks
from tests.servers import alertmanager

DOCUMENT: Final = DOCS / "quickstart.md"
MARK: Final = re.compile(r"<!-- test: ([a-z-]+) -->")
POLL_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 60.0
IMPATIENT: Final = "safety: {grace_after_outage: 1s}\n"
"""Added to the document's configuration: a reader has a minute, a test has not."""


def pieces() -> Iterator[Block | str]:
    """The document's blocks and the names of its marks, in order."""
    text = DOCUMENT.read_text("utf-8")
    marks: list[tuple[int, Block | str]] = [
        (text.count("\n", 0, found.start()) + 1, found[1]) for found in MARK.finditer(text)
    ]
    found = sorted([*((block.line, block) for block in blocks(DOCUMENT)), *marks], key=lambda pair: pair[0])
    return (piece for _, piece in found)


@dataclasses.dataclass(kw_only=True)
class Reader:
    """Somebody who does everything that the document says."""

    folder: Path
    world: World
    api: Api
    port: int
    stack: contextlib.AsyncExitStack
    healer: asyncio.subprocess.Process | None = None
    said: str = ""
    asked: str = ""

    # Reading ---------------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        for piece in pieces():
            if isinstance(piece, str):
                await getattr(self, "mark_" + piece.replace("-", "_"))()
            elif piece.language == "yaml":
                await self._write(piece)
            elif piece.language == "text":
                await self._compare(piece)
            elif piece.language == "sh":
                await self._run(piece)
            else:
                assert piece.language == "console", f"{piece.place}: what is to be done with {piece.language}?"

    def _mine(self, text: str) -> str:
        return text.replace("9095", str(self.port)).replace("i1234567", self.asked)

    async def _write(self, block: Block) -> None:
        text = self._mine(block.text) + (IMPATIENT if block.name == "healer.yaml" else "")
        (self.folder / block.name).write_text(text)
        if block.name == "alertmanager.yml":
            await self._through_alertmanager(text)

    async def _run(self, block: Block) -> None:
        self.asked = await self._incident_that_asks() if "i1234567" in block.text else ""
        command = self._mine(block.text)
        if command.startswith("healer run"):
            self.healer = await self._start(command)
            return
        code, self.said = await self.shell(command)
        self._command = command
        assert code == 0, f"{block.place}: {command}{self.said}\n{self._log()}"

    async def _compare(self, block: Block) -> None:
        """Every line, `…` standing for anything; what takes its time may be asked for again."""

        def missing() -> list[str]:
            lines = (line.split("…") for line in self._mine(block.text).splitlines())
            return [part for parts in lines for part in parts if part not in self.said]

        async def same() -> bool:
            if missing() and self._command.startswith("healer "):
                _, self.said = await self.shell(self._command)
            return not missing()

        await self.until(same, lambda: f"{block.place}: {missing()} is not in\n{self.said}")

    # Marks -----------------------------------------------------------------------------------------------------------

    async def mark_crash_loop(self) -> None:
        self.world.inject(Fault(name="crash-loop", target="shop/cart"))
        await self.until_said("healer incidents --open", "PodCrashLooping")
        await self.until(self._printed, lambda: "what happens is not printed where healer runs")
        assert self.changes() == []

    async def _printed(self) -> bool:
        return "PodCrashLooping: " in self._log()

    async def mark_stop(self) -> None:
        """Ctrl-C"""
        assert self.healer is not None
        self.healer.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await self.healer.wait() == 0, self._log()

    async def mark_suggested(self) -> None:
        assert self.repairs() == []
        await self.until_said("healer why PodCrashLooping", "now: refuse because Suggested (mode)")

    async def mark_asked(self) -> None:
        await self.until_said("healer why PodCrashLooping", "now: awaiting approval")
        assert self.repairs() == []

    async def mark_acted(self) -> None:
        async def acted() -> bool:
            return any("/deployments/cart" in change for change in self.repairs())

        await self.until(acted, lambda: f"nothing was done: {self.repairs()}\n{self._log()}")

    async def _through_alertmanager(self, config: str) -> None:
        """An alert that a real Alertmanager was given arrives with the token from the file."""
        server = await asyncio.to_thread(lambda: self.stack.enter_context(alertmanager(self.folder, config)))
        alert = {"labels": {"alertname": "NodeDown", "node": "node-b1"}}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.url}/api/v2/alerts", json=[alert]) as answer,
        ):
            assert answer.status == 200
        await self.until_said("healer why node-b1", "now: refuse because Shadow (mode)")

    # Looking ---------------------------------------------------------------------------------------------------------

    def changes(self) -> list[str]:
        """What was written to the cluster."""
        return [f"{r.method} {r.path}" for r in self.api.requests if r.method not in ("GET", "HEAD")]

    def repairs(self) -> list[str]:
        """What was changed, telling left out."""
        return [change for change in self.changes() if not change.endswith("/events")]

    async def shell(self, command: str) -> tuple[int, str]:
        process = await self._process(command, stderr=asyncio.subprocess.STDOUT, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, _ = await process.communicate()
        return process.returncode or 0, out.decode()

    async def until_said(self, command: str, wanted: str) -> None:
        async def does() -> bool:
            _, self.said = await self.shell(command)
            return wanted in self.said

        await self.until(does, lambda: f"{command}: {wanted!r} is not in\n{self.said}")

    async def until(self, happened: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await happened():  # noqa: ASYNC110 (other processes set no events of ours)
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            pytest.fail(f"{what()}\n{self._log()}")

    async def _incident_that_asks(self) -> str:
        _, said = await self.shell("healer incidents --open -o json")
        return next(str(view["id"]) for view in json.loads(said) if view["title"] == "PodCrashLooping")

    # Processes -------------------------------------------------------------------------------------------------------

    async def _start(self, command: str) -> asyncio.subprocess.Process:
        log = self.stack.enter_context((self.folder / "run.log").open("ab"))
        # In place of the shell, so that a signal reaches it as Ctrl-C would.
        return await self._process(f"exec {command}", stdout=log, stderr=log)

    async def _process(self, command: str, **where: Any) -> asyncio.subprocess.Process:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", command),
            cwd=self.folder,
            env={"PATH": path, "HOME": str(self.folder / "home"), "LC_ALL": "C.UTF-8"},
            stdin=asyncio.subprocess.DEVNULL,
            **where,
        )

    def _log(self) -> str:
        return (self.folder / "run.log").read_text()[-4000:]


@contextlib.asynccontextmanager
async def a_reader(folder: Path) -> AsyncIterator[Reader]:
    clock = SystemClock()
    world = a_world(12, 3, start=clock.now())
    api = Api(world.storage, now=lambda: world.now)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve(api))
        config = folder / "home" / ".kube" / "config"
        config.parent.mkdir(parents=True)
        config.write_text(kubeconfig(url))
        reader = Reader(folder=folder, world=world, api=api, port=_free_port(), stack=stack)
        async with asyncio.TaskGroup() as group:
            driving = group.create_task(drive(world, clock), name="world")
            try:
                yield reader
            finally:
                driving.cancel()
                if reader.healer is not None and reader.healer.returncode is None:
                    reader.healer.kill()
                    await reader.healer.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.timeout(300)
async def test_the_quick_start_works_as_it_is_written(tmp_path: Path) -> None:
    async with a_reader(tmp_path) as reader:
        await reader.follow()
        assert [change for change in reader.repairs() if "/nodes/" in change] == []
        assert "the journal is whole" in reader.said


def test_every_mark_of_the_document_is_played_and_every_command_is_run() -> None:
    found = list(pieces())
    assert {piece for piece in found if isinstance(piece, str)} == {
        name.removeprefix("mark_").replace("_", "-") for name in vars(Reader) if name.startswith("mark_")
    }
    languages = [piece.language for piece in found if isinstance(piece, Block)]
    assert languages.count("console") == 1, "only the installation is not run"
    assert len([language for language in languages if language == "sh"]) >= 15
