"""The terminal: every line once, and no control characters from outside."""

from __future__ import annotations

import sys

import pytest

from healer.model.incidents import TimelineEntry
from healer.notify.terminal import TerminalNotifier, TerminalSettings
from healer.testing.views import AT, a_view


async def test_each_line_is_printed_once() -> None:
    printed: list[str] = []
    notifier = TerminalNotifier(TerminalSettings(), write=printed.append)
    first = TimelineEntry(at=AT, text="one", seq=3)
    handle = await notifier.tell(a_view(timeline=(first,)), "")
    handle = await notifier.tell(a_view(timeline=(first, TimelineEntry(at=AT, text="two", seq=7))), handle)
    assert printed == ["inc-1 NodeDown: 02:59:40 one\n", "inc-1 NodeDown: 02:59:40 two\n"]
    assert handle == "7"


@pytest.mark.parametrize("nasty", ["\x1b[2J", "\r", "\n", "\x07", "\x9b1A", "\u202e", "\u2066"])
async def test_data_cannot_move_the_cursor_or_turn_text_around(nasty: str) -> None:
    printed: list[str] = []
    notifier = TerminalNotifier(TerminalSettings(), write=printed.append)
    await notifier.tell(a_view(title=f"a{nasty}b", timeline=(TimelineEntry(at=AT, text=nasty, seq=1),)), "")
    assert nasty not in printed[0].removesuffix("\n")


async def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    monkeypatch.setattr(sys, "stdout", Closed())
    notifier = TerminalNotifier(TerminalSettings())
    assert await notifier.tell(a_view(), "") == "1"
