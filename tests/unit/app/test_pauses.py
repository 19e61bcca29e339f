"""While the service runs, the collector of cycles waits for quiet moments; afterwards everything is as it was."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable

import pytest

from healer.app import pauses
from healer.sim.time import run


def test_settings_of_the_interpreter_are_put_back_also_after_an_error() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    with contextlib.suppress(RuntimeError), pauses.steady():
        assert gc.get_threshold()[2] >= pauses.NEVER
        assert sys.getswitchinterval() == pytest.approx(pauses.SWITCH_SECONDS)
        raise RuntimeError
    assert (gc.get_threshold(), sys.getswitchinterval()) == before


def collections(monkeypatch: pytest.MonkeyPatch, progress: Callable[[], int], seconds: float) -> list[float]:
    """When everything was looked through within so many seconds."""
    found: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(gc, "collect", lambda: found.append(loop.time()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await pauses.collect_when_quiet(progress)

    run(main)
    return found


def test_in_quiet_everything_is_looked_through_every_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collections(monkeypatch, lambda: 7, 2000.0) == [600.0, 1200.0, 1800.0]


def test_while_there_is_work_it_is_put_off_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    work = iter(range(10**6))
    assert collections(monkeypatch, lambda: next(work), 7500.0) == [3600.0, 7200.0]
