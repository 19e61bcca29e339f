"""`healer demo`: one incident from the fault to the proof of its cure, on a simulated cluster, live."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from healer.cli import logs
from healer.cli.shared import fail

if TYPE_CHECKING:
    from healer.cli.demo_setup import Demo

FAULTS: Final = ("node-death", "crash-loop", "memory-pressure", "zone-outage")
CALM_SECONDS: Final = 12.0
"""How long the cluster is shown at rest before harm is done; in the demo's own time."""
LIMIT_SECONDS: Final = 1200.0
"""After so long, in the demo's own time, `--once` gives up."""
FRAMES_A_SECOND: Final = 8


@click.command()
@click.option("--fault", type=click.Choice(FAULTS), default="node-death", show_default=True, help="What goes wrong.")
@click.option("--mode", type=click.Choice(["approve", "auto"]), default="auto", show_default=True, help="Ask first?")
@click.option(
    "--speed", type=click.FloatRange(0.1, 100), default=10.0, show_default=True, help="Times as fast as life."
)
@click.option("--once", is_flag=True, help="End with the incident; exit code 0 only if it ended as it should.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="json: the last line is JSON."
)
@click.option("--listen", default="127.0.0.1:0", show_default=True, help="Where the console listens.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=None, help="Keep its files here.")
def demo(fault: str, mode: str, speed: float, output: str, listen: str, folder: Path | None, *, once: bool) -> None:
    """Show it all on a simulated cluster of 12 nodes: a fault, the alert, the plan, the repair, the proof."""
    from healer.sim.time import ScaledTimeLoop  # noqa: PLC0415 — heavy

    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="healer-demo-")))
        place.mkdir(parents=True, exist_ok=True)
        live = sys.stdout.isatty() and output == "text"
        # On a screen that is drawn, log lines would only leave holes.
        logs.set_up("warning", "text", stack.enter_context((place / "log").open("w")) if live else sys.stderr)
        show = Show(
            fault=fault,
            mode=mode,
            speed=speed,
            once=once,
            output=output,
            listen=_listen(listen),
            folder=place,
            live=live,
        )
        with (
            asyncio.Runner(loop_factory=lambda: ScaledTimeLoop(speed)) as runner,
            contextlib.suppress(KeyboardInterrupt),
        ):
            code = runner.run(show.run())
            sys.exit(code)


def _listen(text: str) -> str:
    """A fixed port: the address must be known before anything is served, since it stands in the configuration."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        fail(f"--listen must be host:port, not {text!r}", code=2)
    return text


class Show:
    """One run of the demo."""

    def __init__(
        self, *, fault: str, mode: str, speed: float, once: bool, output: str, listen: str, folder: Path, live: bool
    ) -> None:
        self.fault, self.mode, self.speed = fault, mode, speed
        self.once, self.output, self.listen, self.folder = once, output, listen, folder
        self.note = ""
        self._stop = asyncio.Event()
        self._live = live

    async def run(self) -> int:
        from healer.cli.demo_setup import demo as set_up  # noqa: PLC0415 — heavy
        from healer.clock import LoopClock  # noqa: PLC0415 — heavy
        from healer.notify.terminal import TerminalNotifier, TerminalSettings  # noqa: PLC0415 — heavy
        from healer.sim.driver import drive  # noqa: PLC0415 — heavy

        clock = LoopClock(asyncio.get_running_loop(), epoch=datetime.fromtimestamp(_wall(), UTC))
        lines = () if self._live else (TerminalNotifier(TerminalSettings(), write=_print),)
        async with set_up(self.folder, mode=self.mode, listen=self.listen, clock=clock, notifiers=lines) as running:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(drive(running.world, clock, tick_seconds=0.5), name="world"),
                    group.create_task(self._follow_nodes(running), name="targets"),
                ]
                service = group.create_task(running.service.run(self._stop), name="healer")
                await running.service.listening.wait()
                address = f"{running.service.address}/#token={running.service.api_token}"
                if not self._live:
                    _print(f"console: {address}\n")
                outcome = await self._watch(running, address)
                self._stop.set()
                await service
                for task in background:
                    task.cancel()
            # Only now: while it works, its terminal notifier may still have a line to print, and ours must be the last.
            return self._end(running, outcome) if outcome else 0

    async def _watch(self, running: Demo, address: str) -> str:
        """Show, take keys, and see how it ends; an empty string when somebody has ended it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        harmed = False
        with self._keys(running), self._screen() as draw:
            while not self._stop.is_set():
                now = loop.time() - began
                if not harmed and now >= CALM_SECONDS and not running.service.ready():
                    target = running.harm(self.fault)
                    self._say(f"{self.fault} of {target}")
                    harmed = True
                draw(running, address)
                outcome = running.outcome(self.fault) if harmed else ""
                if self.once and (outcome or now > LIMIT_SECONDS):
                    draw(running, address)
                    return outcome or "nothing came of it"
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.speed / FRAMES_A_SECOND):
                        await self._stop.wait()
        return ""

    def _end(self, running: Demo, outcome: str) -> int:
        from healer.cli.demo_setup import HARMS, expected  # noqa: PLC0415 — heavy
        from healer.cli.demo_view import summary  # noqa: PLC0415 — heavy

        wanted = expected(self.fault)
        view = running.view(HARMS[self.fault].alert)
        if self.output == "json":
            said: dict[str, Any] = {
                "fault": self.fault,
                "mode": self.mode,
                "outcome": outcome,
                "expected": wanted,
                "incident": view.id if view else None,
                "reason": view.reason if view else None,
                "detail": view.detail if view else None,
                "times": msgspec.to_builtins(view.times) if view else None,
            }
            _print(msgspec.json.encode(said).decode() + "\n")
        elif view:
            _print(summary(view) + "\n")
        return 0 if outcome == wanted else 1

    def _say(self, text: str) -> None:
        self.note = text
        if not self._live:
            _print(f"harm: {text}\n")

    async def _follow_nodes(self, running: Demo) -> None:
        """Discovery by file: nodes that join are scraped, nodes that are gone are not."""
        from healer.cli.demo_setup import write_targets  # noqa: PLC0415 — heavy

        known: list[str] = []
        while True:
            now = sorted(running.world.kubelets.by_node)
            if now != known:
                known = now
                write_targets(self.folder, running.world, running.api_url)
            await asyncio.sleep(2)

    # The terminal ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _screen(self) -> Iterator[Any]:
        if not self._live:
            yield lambda *_: None
            return
        from rich.console import Console  # noqa: PLC0415 — heavy
        from rich.live import Live  # noqa: PLC0415 — heavy

        from healer.cli.demo_view import screen  # noqa: PLC0415 — heavy

        console = Console()
        with Live(console=console, auto_refresh=False, screen=not self.once) as live:

            def draw(running: Demo, address: str) -> None:
                shown = screen(running, speed=self.speed, address=address, height=console.height, note=self.note)
                live.update(shown, refresh=True)

            yield draw

    @contextlib.contextmanager
    def _keys(self, running: Demo) -> Iterator[None]:
        """Single keys, without Enter, while standard input is a terminal."""
        if not sys.stdin.isatty():
            yield
            return
        import termios  # noqa: PLC0415 — only where there is a terminal
        import tty  # noqa: PLC0415 — the same

        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        before = termios.tcgetattr(stdin)
        pressed: set[asyncio.Task[None]] = set()

        def read() -> None:
            for key in os.read(stdin, 16).decode("utf-8", "ignore"):
                task = loop.create_task(self._press(key, running))
                pressed.add(task)
                task.add_done_callback(pressed.discard)

        tty.setcbreak(stdin)
        loop.add_reader(stdin, read)
        try:
            yield
        finally:
            loop.remove_reader(stdin)
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)

    async def _press(self, key: str, running: Demo) -> None:
        from healer.cli.demo_view import KEYS  # noqa: PLC0415 — heavy

        people = running.service.people
        if key == "q":
            self._stop.set()
        elif key in KEYS:
            self._say(f"{KEYS[key]} of {running.harm(KEYS[key])}")
        elif key == "p":
            if people.paused():
                await people.resume(by="you", why="")
            else:
                await people.pause(by="you", why="a key")
        elif key in "ad":
            for view in people.incidents(open_only=True):
                if view.approval_digest:
                    reason = await people.answer(
                        view.id, approve=key == "a", by="you", via="console", digest=view.approval_digest
                    )
                    self.note = f"{'approve' if key == 'a' else 'deny'} {view.id}: {reason}"
                    break


def _wall() -> float:
    from healer.clock import SystemClock  # noqa: PLC0415 — heavy

    return SystemClock().now().timestamp()


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
