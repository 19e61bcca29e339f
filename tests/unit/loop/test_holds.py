"""What counts as a metric that is back: the query of `verify`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from healer.clock import SystemClock, milliseconds
from healer.loop.evaluate import Evaluator
from healer.model.series import METRIC_NAME, Labels, batch
from healer.ports import AlertReport
from healer.rules.alerting import Surroundings
from healer.store.embedded import open_store

SAMPLES = {"errors": 0.0, "ready": 1.0, "load": 2.5, "broken": math.nan}


async def no_alerts(report: AlertReport) -> None:
    raise AssertionError(report)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("ready", True),
        ("load", True),
        ("errors", False),
        ("broken", False),
        ("ready == 1", True),
        ("ready == 0", False),
        ("errors == 0", True),
        ("(errors == 0)", True),
        ("errors > 0", False),
        ("errors == bool 0", True),
        ("errors == bool 1", False),
        ("ready == load", False),
        ("load > ready", True),
        ("1 > bool 0", True),
        ("nothing", None),
        ("nothing == 0", None),
        ("nothing == bool 0", None),
        ("errors == nothing", None),
    ],
)
async def test_a_query_holds_fails_or_cannot_be_told(query: str, wanted: bool | None, tmp_path: Path) -> None:
    clock = SystemClock()
    async with open_store(tmp_path, clock=clock) as store:
        at = milliseconds(clock.now())
        await store.append(batch((Labels({METRIC_NAME: name}), at, value) for name, value in SAMPLES.items()))
        evaluator = Evaluator(store, clock, report=no_alerts, around=Surroundings(cluster="prod"))
        assert await evaluator.holds(query) is wanted
