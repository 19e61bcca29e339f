"""Prints each change of an incident to standard output, one line each: what the default configuration does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from healer.config.fields import Section
from healer.model.incidents import IncidentView
from healer.notify import wording
from healer.ports import Operator

UNSAFE: Final = {code: "�" for code in (*range(32), *range(127, 160)) if code != 9}
"""Control characters in data could rewrite the reader's screen."""


class TerminalSettings(Section):
    """Nothing to set."""


class TerminalNotifier:
    """ports.Notifier. The handle is the number of the last line of the timeline that was printed."""

    Settings: ClassVar[type[TerminalSettings]] = TerminalSettings
    name = "terminal"

    def __init__(self, settings: TerminalSettings, *, write: Callable[[str], object] = sys.stdout.write) -> None:
        self.settings = settings
        self._write = write

    async def tell(self, view: IncidentView, handle: str) -> str:
        printed = int(handle) if handle.isdecimal() else 0
        news = [entry for entry in view.timeline if entry.seq > printed]
        for entry in news:
            self._write(f"{view.id} {view.title}: {wording.line(entry)}".translate(UNSAFE) + "\n")
        return str(max((entry.seq for entry in news), default=printed))

    async def run(self, operator: Operator) -> None:  # noqa: ARG002 — takes no answers
        await asyncio.Event().wait()

    def routes(self, operator: Operator) -> Sequence[Any]:  # noqa: ARG002 — takes no answers
        return ()

    async def close(self) -> None:
        return
