"""`healer demo` as a user starts it: by itself, from a script, in a terminal, and with the real kubectl beside it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re  # noqa: TID251 (fixed patterns over our own output)
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.healers import HEALER, Said, healer, until

pytestmark = pytest.mark.timeout(180)  # real processes in real time, and the machine may be busy

ROOT = Path(__file__).resolve().parents[2]
LONG = 50.0
"""Seconds of real time; all of this takes 10 on a machine that has nothing else to do."""
FAULTS = {
    "node-death": ("NodeDown", "fixed"),
    "crash-loop": ("PodCrashLooping", "fixed"),
    "memory-pressure": ("NodeMemoryPressure", "fixed"),
    "zone-outage": ("NodeDown", "refused"),
}


def last(said: Said) -> Any:
    return json.loads(said.out.splitlines()[-1])


# From a script -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
async def test_once_ends_as_expected_with_outcome_and_times_in_its_last_line(fault: str, tmp_path: Path) -> None:
    alert, outcome = FAULTS[fault]
    said = await healer(
        "demo", "--once", "-o", "json", "--fault", fault, "--speed", "20", "--folder", tmp_path, within=LONG
    )
    ended = last(said)
    assert (said.code, ended["outcome"]) == (0, outcome), (said.out, said.err)
    assert (ended["fault"], ended["expected"], ended["mode"]) == (fault, outcome, "auto")
    assert alert in said.out
    assert "Traceback" not in said.err
    times = ended["times"]
    assert times["detect"] > 0
    if outcome == "fixed":
        assert times["decide"] >= 0
        assert times["act"] > 0
        assert times["verify"] >= 30
    verified = await healer("audit", "--verify", "-c", tmp_path / "healer.yaml")
    assert verified.code == 0, verified.err
    if fault == "zone-outage":
        await nothing_was_done(tmp_path / "healer.yaml", ended)


async def nothing_was_done(config: Path, ended: Any) -> None:
    assert ended["reason"] == "ZoneOutage"
    assert "zone-b" in ended["detail"]
    kinds = {line["event"]["type"] for line in (await healer("audit", "-c", config, "-o", "json")).lines}
    assert "Decided" in kinds
    assert not kinds & {"OperationStarted", "CallIntended", "ApprovalRequested"}
    why = await healer("why", ended["incident"], "-c", config)
    assert "ZoneOutage" in why.out


async def test_a_question_that_nobody_answers_ends_with_a_failure() -> None:
    said = await healer("demo", "--once", "-o", "json", "--mode", "approve", "--speed", "100", within=LONG)
    ended = last(said)
    assert said.code == 1, (said.out, said.err)
    assert ended["outcome"] != "fixed"
    assert ended["reason"] == "ApprovalExpired"


async def test_wrong_options_are_said_and_end_with_code_2() -> None:
    for options in (["--fault", "flood"], ["--mode", "maybe"], ["--speed", "0"], ["--listen", "here"]):
        said = await healer("demo", *options)
        assert said.code == 2, options
        assert options[1] in said.err
        assert "Traceback" not in said.err


# Over HTTP -----------------------------------------------------------------------------------------------------------


class Demo:
    """A demo at work, and its console's API."""

    def __init__(self, process: asyncio.subprocess.Process, session: aiohttp.ClientSession, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.said: list[str] = []
        self.url = ""
        self._token = ""
        self._session = session

    async def read_on(self) -> None:
        """Keep what it prints, and take the console's address from it."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            text = line.decode()
            self.said.append(text)
            if found := re.search(r"console: (http://\S+)/#token=(\S+)", text):
                self.url, self._token = found[1], found[2]

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        async with self._session.request(method, self.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def incident(self, title: str, **fields: Any) -> Any:
        _, found = await self.ask("GET", "/api/v1/incidents")
        return next(
            (one for one in found if one["title"] == title and all(one[k] == v for k, v in fields.items())), None
        )

    async def ready(self) -> bool:
        return not (await self.ask("GET", "/api/v1/status"))[1]["not_ready"]


@contextlib.asynccontextmanager
async def demo(folder: Path, *options: str) -> AsyncIterator[Demo]:
    """`healer demo` with these options, its console listening."""
    process = await asyncio.create_subprocess_exec(
        HEALER,
        "demo",
        "--folder",
        str(folder),
        *options,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            running = Demo(process, session, folder)
            reading = group.create_task(running.read_on(), name="output")
            try:
                await until("it tells its address", lambda: running.url)
                yield running
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
                await asyncio.wait([reading])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_in_approve_mode_it_waits_and_an_approval_from_the_console_ends_it_well(tmp_path: Path) -> None:
    options = ("--once", "-o", "json", "--mode", "approve", "--speed", "20")
    async with demo(tmp_path, *options) as running:
        asking = await until("it asks", lambda: running.incident("NodeDown", state="awaiting approval"))
        body = {"by": "kim", "digest": asking["approval_digest"]}
        status, answer = await running.ask("POST", f"/api/v1/incidents/{asking['id']}/approve", body)
        assert (status, answer["reason"]) == (200, "ok")
        async with asyncio.timeout(LONG):
            assert await running.process.wait() == 0, "".join(running.said)
        await until("it has said all", lambda: '"outcome"' in running.said[-1])
    ended = json.loads(running.said[-1])
    assert (ended["outcome"], ended["mode"]) == ("fixed", "approve")
    assert any("approved by kim" in line for line in running.said)


async def test_without_once_it_goes_on_and_more_harm_can_be_done_from_the_page(tmp_path: Path) -> None:
    async with demo(tmp_path, "--fault", "memory-pressure", "--speed", "30") as running:
        await until("the first ends", lambda: running.incident("NodeMemoryPressure", reason="Fixed"), within=LONG)
        assert running.process.returncode is None
        status, _ = await running.ask("POST", "/api/demo/harm/flood")
        assert status == 404
        status, harm = await running.ask("POST", "/api/demo/harm/crash-loop")
        assert (status, harm["target"].partition("/")[0]) == (200, "shop")
        await until("the second ends", lambda: running.incident("PodCrashLooping", reason="Fixed"), within=LONG)
        running.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(LONG):
            assert await running.process.wait() == 0
    assert not any("Traceback" in line for line in running.said)


async def test_harm_is_not_done_without_the_token(tmp_path: Path) -> None:
    async with (
        demo(tmp_path, "--speed", "1") as running,
        aiohttp.ClientSession() as session,
        session.post(f"{running.url}/api/demo/harm/node-death") as answer,
    ):
        assert answer.status == 401


# In a terminal -------------------------------------------------------------------------------------------------------


class Terminal:
    """A program in a pseudo-terminal of 100 x 50, its keys and what it has drawn."""

    def __init__(self, *command: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
        self.modes = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "50"},
        )
        self.shown = ""

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def read(self) -> None:
        self.shown += os.read(self._ours, 65536).decode(errors="replace")

    @property
    def text(self) -> str:
        """All that was drawn so far, without colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.modes

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextlib.asynccontextmanager
async def terminal(*command: str) -> AsyncIterator[Terminal]:
    loop = asyncio.get_running_loop()
    screen = Terminal(*command)
    loop.add_reader(screen._ours, screen.read)
    try:
        yield screen
    finally:
        loop.remove_reader(screen._ours)
        screen.close()


async def test_keys_approve_do_harm_and_quit_and_the_terminal_is_as_it_was(tmp_path: Path) -> None:
    command = (HEALER, "demo", "--mode", "approve", "--fault", "memory-pressure", "--speed", "20")
    async with terminal(*command, "--folder", str(tmp_path)) as screen:
        await until("it draws", lambda: "Healer demo" in screen.text)
        assert not screen.is_as_before()
        await until("it asks", lambda: "a approve" in screen.text, within=LONG)
        screen.press("a")
        await until("it was approved by a key", lambda: "approved by you" in screen.text)
        screen.press("3")
        await until("more harm is done", lambda: "memory-pressure of node-c2" in screen.text)
        screen.press("p")
        await until("it is paused", lambda: "paused by you" in screen.text)
        screen.press("q")
        code = await until("it ends", lambda: _ended(screen))
        assert code == [0]
        assert screen.is_as_before()
        assert screen.shown.count("\x1b[?1049h") == screen.shown.count("\x1b[?1049l") == 1
        assert screen.shown.rindex("\x1b[?25h") > screen.shown.rindex("\x1b[?25l")
    assert "Traceback" not in screen.text
    assert "Traceback" not in (tmp_path / "log").read_text()


def _ended(screen: Terminal) -> list[int]:
    code = screen.process.poll()
    return [] if code is None else [code]


async def test_ctrl_c_in_a_terminal_leaves_it_as_it_was(tmp_path: Path) -> None:
    async with terminal(HEALER, "demo", "--folder", str(tmp_path)) as screen:
        await until("it draws", lambda: "Healer demo" in screen.text)
        screen.process.send_signal(signal.SIGINT)
        assert await until("it ends", lambda: _ended(screen)) == [0]
        assert screen.is_as_before()
    assert "Traceback" not in screen.text


# With kubectl --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kubectl_path() -> Path:
    """The real kubectl, fetched the first time it is needed."""
    fetch = [sys.executable, str(ROOT / "tests" / "tools" / "fetch_kubectl.py")]
    folder = subprocess.run(fetch, check=True, capture_output=True, text=True).stdout.strip()
    return Path(folder) / "kubectl"


async def kubectl(path: Path, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "KUBECACHEDIR": str(folder / "cache")}
    process = await asyncio.create_subprocess_exec(
        path, *arguments, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_kubectl_shows_the_demo_s_cluster_and_healer_s_events_on_what_it_repairs(
    tmp_path: Path, kubectl_path: Path
) -> None:
    async with demo(tmp_path, "--fault", "memory-pressure", "--speed", "20") as running:
        nodes = await kubectl(kubectl_path, tmp_path, "get", "nodes")
        assert len(nodes.splitlines()) == 13
        assert nodes.count(" Ready ") == 12
        pods = await kubectl(kubectl_path, tmp_path, "get", "pods", "-n", "shop")
        assert "Running" in pods
        await until("it is closed", lambda: running.incident("NodeMemoryPressure", reason="Fixed"), within=LONG)

        async def told() -> str:
            text = await kubectl(kubectl_path, tmp_path, "describe", "node", "node-b3")
            return text if "closed (Fixed)" in text else ""

        text = await until("the end is told", told)
        for part in ("IncidentOpened", "RemedyStarted", "carrying out move-pods-off (cordon, drain, uncordon)"):
            assert part in text
        assert re.search(r"Normal +Fixed .* healer ", text)
        events = await kubectl(kubectl_path, tmp_path, "get", "events", "--field-selector", "source=healer")
        assert "node/node-b3" in events
