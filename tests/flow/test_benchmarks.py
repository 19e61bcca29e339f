"""Each benchmark ends, prints a table for people, and its figures as the last line. How fast it was is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.documents import ROOT


def figures(name: str, rounds: int) -> dict[str, Any]:
    """What the shortest run of a benchmark finds."""
    ran = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--rounds", str(rounds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    *table, last = ran.stdout.strip().splitlines()
    assert table, "there is no table"
    found: dict[str, Any] = json.loads(last)
    return found


def test_the_loop_is_measured_beside_prometheus_and_alertmanager() -> None:
    found = figures("loop_latency", 1)
    assert found["missed"] == 0
    assert 0 < found["healer_p50_s"] <= found["healer_p99_s"]
    assert 0 < found["peer_p50_s"] <= found["peer_p99_s"]
    assert found["ratio"] > 0


def test_intake_loses_nothing() -> None:
    found = figures("intake", 1)
    assert found["lost"] == 0
    assert found["refused"] == 0
    assert found["alerts_per_s"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_the_footprint_is_measured() -> None:
    found = figures("footprint", 2)
    assert 10 < found["idle_rss_mb"] <= found["idle_rss_highest_mb"]
    assert found["help_s"] > 0


def test_a_killed_repair_ends_as_one_that_was_not() -> None:
    found = figures("crash", 4)
    assert found["points"] == found["same_end_state"] == 4
    assert found["killed"] >= 3
    assert found["repeated_provider_calls"] == 0
    assert found["lost_alerts"] == 0


def test_a_failover_is_measured_and_the_leader_of_old_writes_nothing() -> None:
    found = figures("failover", 1)
    assert (found["killed"], found["stopped"], found["cut_off"]) == (1, 1, 1)
    assert 0 < found["elected_p99_s"] <= found["first_write_p99_s"]
    assert found["writes_by_old_leader"] == 0
    assert (found["lost"], found["done_twice"]) == (0, 0)
