"""What holds for every test: nothing is left behind, and the same examples are tried on every machine."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from aiohttp import web_protocol

import healer

ROOT: Final = Path(__file__).parents[1]
SETTLING_ROUNDS: Final = 50
"""So often what is about to end may have its turn before it counts as left behind."""
PASSED: Final = pytest.StashKey[bool]()

hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test something else than what stands here, or more leniently than pyproject.toml says."""
    if Path(healer.__file__).parent.resolve() != ROOT / "healer":
        raise pytest.UsageError(f"healer is imported from {healer.__file__}, not from here; run: make test")
    if config.getini("asyncio_mode") != "auto" or "error" not in config.getini("filterwarnings"):
        raise pytest.UsageError(
            "the settings of pyproject.toml are not in force; run pytest in the root of the repository"
        )


def pytest_collection_finish() -> None:
    """What has been imported stays: with it out of the way, looking for garbage after a test takes no time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    if call.when == "call":
        item.stash[PASSED] = call.excinfo is None
    return (yield)


class Loops:
    """Looks into every event loop just before its runner closes it, which cancels without a word what still runs."""

    def __init__(self) -> None:
        self.closed = 0
        self.left: list[str] = []

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        self.closed += 1
        self.left += loop.run_until_complete(_left_behind())


async def _left_behind() -> list[str]:
    me = asyncio.current_task()
    left: list[asyncio.Task[Any]] = []
    for _ in range(SETTLING_ROUNDS):
        left = [task for task in asyncio.all_tasks() if task is not me and not _is_of_a_server(task)]
        if not left:
            break
        await asyncio.sleep(0)
    return [repr(task) for task in left]


def _is_of_a_server(task: asyncio.Task[Any]) -> bool:
    """aiohttp lets a handler whose peer has hung up run on when its server is closed; only the loop ends it."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_filename == web_protocol.__file__


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that passed and left a task running. Files, sockets and sessions left open fail it, too: they warn when they
    are collected, and warnings are errors.
    """
    loops, close = Loops(), asyncio.Runner.close

    def look_and_close(runner: asyncio.Runner) -> None:
        try:
            loops.look(runner.get_loop())
        finally:
            close(runner)

    monkeypatch.setattr(asyncio.Runner, "close", look_and_close)
    yield
    if loops.closed:
        gc.collect()
    if loops.left and request.node.stash.get(PASSED, False):
        pytest.fail("left behind, and cancelled by the end of the loop:\n" + "\n".join(loops.left), pytrace=False)
