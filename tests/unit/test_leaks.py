"""tests/conftest.py fails what leaves something behind, and nothing else."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern over pytest's own words)
import subprocess
import sys
from pathlib import Path

from tests.documents import ROOT

TESTS = """
import asyncio
import socket

from healer.sim.time import run


async def test_leaves_a_task():
    test_leaves_a_task.kept = asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="forgotten")


def test_leaves_a_task_on_a_loop_of_its_own():
    async def main():
        main.kept = asyncio.get_running_loop().create_task(asyncio.sleep(3600), name="forgotten, too")

    run(main)


async def test_leaves_a_socket_open():
    kept = [socket.socket()]
    kept.append(kept)


async def test_fails_for_another_reason_and_leaves_a_task():
    asyncio.get_running_loop().create_task(asyncio.Event().wait())
    raise ValueError("the reason")


async def test_ends_what_it_began():
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))


async def test_cancels_at_the_very_end():
    asyncio.get_running_loop().create_task(asyncio.Event().wait()).cancel()


def test_has_no_loop():
    pass
"""


def test_a_test_that_leaves_something_behind_fails_and_others_do_not(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-rA", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_it.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    verdicts = re.findall(r"^(PASSED|FAILED|ERROR) \S*::(\w+)", done.stdout, re.MULTILINE)
    assert {(verdict, name.removeprefix("test_")) for verdict, name in verdicts} == {
        ("PASSED", "leaves_a_task"),
        ("ERROR", "leaves_a_task"),
        ("PASSED", "leaves_a_task_on_a_loop_of_its_own"),
        ("ERROR", "leaves_a_task_on_a_loop_of_its_own"),
        ("PASSED", "leaves_a_socket_open"),
        ("ERROR", "leaves_a_socket_open"),
        ("FAILED", "fails_for_another_reason_and_leaves_a_task"),
        ("PASSED", "ends_what_it_began"),
        ("PASSED", "cancels_at_the_very_end"),
        ("PASSED", "has_no_loop"),
    }, done.stdout
    assert "forgotten, too" in done.stdout
