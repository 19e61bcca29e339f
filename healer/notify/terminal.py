"""Prints each change of an incident to standard output, one line each: what the default configuration does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from healer.clock import Clock
from healer.config.fields import Section
from healer.model.incidents import IncidentView
from healer.notify import wording
from healer.ports import Operator

LINE_LIMIT: Final = 2000
UNSAFE: Final = dict.fromkeys(
    (*range(9), *range(10, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)
"""Control characters in data could rewrite the reader's screen, and direction marks the order of its text."""


class TerminalSettings(Section):
    """Nothing to set."""


class TerminalNotifier:
    """ports.Notifier. The handle is the number of the last line of the timeline that was printed."""

    Settings: ClassVar[type[TerminalSettings]] = TerminalSettings
    name = "terminal"
    shadow = True

    def __init__(
        self,
        settings: TerminalSettings,
        *,
        clock: Clock | None = None,  # noqa: ARG002 — every notifier is made alike
        write: Callable[[str], object] | None = None,
    ) -> None:
        self.settings = settings
        self._write = write or _print

    async def tell(self, view: IncidentView, handle: str) -> str:
        printed = int(handle) if handle.isascii() and handle.isdecimal() else 0
        news = [entry for entry in view.timeline if entry.seq > printed]
        for entry in news:
            text = wording.cut(f"{view.id} {view.title}: {wording.line(entry)}", LINE_LIMIT)
            self._write(text.translate(UNSAFE) + "\n")
        return str(max((entry.seq for entry in news), default=printed))

    async def run(self, operator: Operator) -> None:  # noqa: ARG002 — takes no answers
        await asyncio.Event().wait()

    def routes(self, operator: Operator) -> Sequence[Any]:  # noqa: ARG002 — takes no answers
        return ()

    async def close(self) -> None:
        return


def _print(text: str) -> None:
    """To whatever standard output is now. A closed or full pipe is no reason to stop a repair."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError):
        return
