"""What a cut off webhook leaves out is read from the Alertmanager itself, if the user has named it."""

from __future__ import annotations

import asyncio
import functools
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from healer.collectors.alertmanager import parse_webhook
from healer.collectors.alertmanager_list import AlertmanagerList
from healer.model.series import Batch
from healer.ports import AlertReport, Appended
from healer.sim import time as sim_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PARSE = functools.partial(parse_webhook, default_cluster="prod", now=NOW)


class Taken:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.reports: list[AlertReport] = []
        self.arrived = asyncio.Event()

    async def samples(self, batch: Batch) -> Appended:
        return Appended(accepted=len(batch))

    async def alerts(self, report: AlertReport) -> None:
        self.reports.append(report)
        self.arrived.set()


def served(asked: list[str], *, failures: int = 0) -> web.Application:
    async def listed(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        if len(asked) <= failures:
            return web.Response(status=502)
        rows: list[Any] = [
            {
                "labels": {"alertname": "A", "n": str(n)},
                "startsAt": "2025-12-31T23:00:00Z",
                "status": {"state": "active"},
            }
            for n in range(50)
        ]
        return web.json_response([*rows, 7, {"labels": {}}])

    app = web.Application()
    app.router.add_get("/api/v2/alerts", listed)
    return app


def cut_off(url: str) -> AlertReport:
    return AlertReport(source="alertmanager", alerts=(), truncated=9500, complete_url=f"{url}/api/v2/alerts")


@pytest.mark.parametrize("failures", [0, 2])
def test_the_whole_list_is_read_and_a_failure_is_tried_again(failures: int) -> None:
    async def main() -> None:
        asked: list[str] = []
        async with TestServer(served(asked, failures=failures)) as server, asyncio.TaskGroup() as group:
            url = str(server.make_url("")).rstrip("/")
            rest, sink = AlertmanagerList([url], parse=PARSE), Taken()
            working = group.create_task(rest.run(sink))
            rest.missing(cut_off(url))
            await sink.arrived.wait()
            working.cancel()
        (report,) = sink.reports
        assert len(report.alerts) == 50
        assert len(report.rejected) == 1
        assert len(asked) == failures + 1
        assert "silenced=false" in asked[0]

    sim_time.run(main)


def test_an_address_that_nobody_has_named_is_never_asked() -> None:
    async def main() -> None:
        asked: list[str] = []
        async with TestServer(served(asked)) as server, asyncio.TaskGroup() as group:
            rest, sink = AlertmanagerList(["http://alertmanager.example:9093"], parse=PARSE), Taken()
            working = group.create_task(rest.run(sink))
            rest.missing(cut_off(str(server.make_url("")).rstrip("/")))
            await asyncio.sleep(60)
            working.cancel()
        assert not asked
        assert not sink.reports

    sim_time.run(main)
