"""Debian's Alertmanager in front of `healer run`: what it sends becomes incidents, and what it could not send is not lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from healer.app import Adapters, assembled, prepare
from healer.clock import SystemClock
from healer.model import events as ev
from healer.ports import Journal
from healer.testing.journals import MemoryJournal
from tests.healers import TOKEN, at_work, configured, free_port, simulated, until
from tests.servers import Server, alertmanager

pytestmark = pytest.mark.timeout(180)  # real processes in real time, and the machine may be busy

ALERTMANAGER = """
route: {{receiver: healer, group_by: {group_by}, group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: healer
    webhook_configs:
      - url: http://127.0.0.1:{port}/hooks/alertmanager
        send_resolved: true
        max_alerts: {max_alerts}
        http_config: {{authorization: {{credentials_file: {token}}}}}
"""
REMEDIES = """
remedies:
  - name: keep-pods-away
    when: {alertname: NodeSick}
    mode: auto
    steps: [cordon]
    verify: {for: 0s, timeout: 50s}
    limits: {cooldown: 0s, per_hour: unlimited, per_zone: unlimited, max_in_flight: 20}
safety: {grace_after_outage: 0s, max_unhealthy: 100%, max_in_flight: 20, max_in_flight_per_zone: 20}
"""


@contextlib.contextmanager
def sending(
    folder: Path, port: int, *, token: str = TOKEN, group_by: str = "[alertname]", max_alerts: int = 0
) -> Iterator[Server]:
    """An Alertmanager that sends to `port` on this machine."""
    file = folder / "alertmanager-token"
    file.write_text(token, encoding="utf-8")
    text = ALERTMANAGER.format(port=port, token=file, group_by=group_by, max_alerts=max_alerts)
    with alertmanager(folder, text) as server:
        yield server


async def post(server: Server, *nodes: str, name: str = "NodeSick", resolved: bool = False) -> None:
    """What Prometheus would post for an alert on each of these nodes."""
    now = SystemClock().now().astimezone(UTC).isoformat()
    alerts: list[dict[str, Any]] = [
        {
            "labels": {"alertname": name, "node": node, "severity": "critical"},
            "annotations": {"summary": f"{node} is sick"},
            **({"endsAt": now} if resolved else {}),
        }
        for node in nodes
    ]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/api/v2/alerts", json=alerts) as answer,
    ):
        assert answer.status == 200, await answer.text()


async def failures(server: Server) -> float:
    """How many notifications by webhook have failed for good or for now."""
    body, _ = await asyncio.to_thread(server.get, "/metrics", Accept="text/plain")
    wanted = ("alertmanager_notifications_failed_total", "alertmanager_notification_requests_failed_total")
    return sum(
        sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name in wanted and sample.labels.get("integration") == "webhook"
    )


async def test_an_alert_is_acted_upon_and_its_end_closes_the_incident(tmp_path: Path) -> None:
    port = free_port()
    config = configured(tmp_path, port, REMEDIES)
    with sending(tmp_path, port) as server:
        async with simulated(tmp_path) as cluster, at_work(config, port) as running:
            await post(server, "node-a1")
            await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
            found = await running.incident("NodeSick")
            assert found["alerts"][0]["source"] == "alertmanager"
            assert found["alerts"][0]["summary"] == "node-a1 is sick"
            assert (found["cluster"], found["severity"]) == ("prod", "critical")
            await post(server, "node-a1", resolved=True)
            ended = await until("it is closed", lambda: running.incident("NodeSick", state="closed"))
            assert (ended["id"], ended["reason"]) == (found["id"], "Fixed")
        assert await failures(server) == 0


async def test_alerts_of_one_group_become_one_incident_for_each_node(tmp_path: Path) -> None:
    port = free_port()
    config = configured(tmp_path, port, REMEDIES)
    with sending(tmp_path, port) as server:
        async with simulated(tmp_path) as cluster, at_work(config, port) as running:
            await post(server, "node-a1", "node-b1")
            await until("both are cordoned", lambda: all(map(cluster.is_cordoned, ("node-a1", "node-b1"))))
            # The next message of the group has all three in it; the first two are known.
            await post(server, "node-c1")
            await until("the third is too", lambda: cluster.is_cordoned("node-c1"))
            assert sorted(found["target"]["name"] for found in await running.incidents()) == [
                "node-a1",
                "node-b1",
                "node-c1",
            ]
            assert all(len(cluster.api.asked("PATCH", f"/nodes/node-{name}1")) == 1 for name in "abc")


async def test_with_a_wrong_token_alertmanager_sees_401_and_healer_takes_nothing(tmp_path: Path) -> None:
    port = free_port()
    config = configured(tmp_path, port, REMEDIES)
    with sending(tmp_path, port, token="another") as server:
        async with simulated(tmp_path) as cluster, at_work(config, port) as running:
            await post(server, "node-a1")
            await until("alertmanager says that it failed", lambda: failures(server))
            await until("it says why", lambda: "401" in server.log.read_text())
            assert await running.metric("healer_http_requests_total", status="401") >= 1
            assert await running.metric("healer_alerts_received_total") == 0
            assert await running.incidents() == []
            assert not cluster.is_cordoned("node-a1")
            # The mend, as the message says: the file is read anew for each message.
            (tmp_path / "alertmanager-token").write_text(TOKEN)
            await post(server, "node-a1", "node-b1")
            await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))


async def test_what_fired_while_healer_was_down_is_delivered_when_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    config = configured(tmp_path, port, REMEDIES)
    with sending(tmp_path, port) as server:
        await post(server, "node-a1")
        await until("alertmanager could not deliver", lambda: failures(server))
        async with simulated(tmp_path) as cluster:
            async with at_work(config, port) as running:
                await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
                assert await running.end() == 0
            await post(server, "node-a1", resolved=True)
            before = await failures(server)
            await until("alertmanager could not deliver", lambda: _more(server, before))
            async with at_work(config, port) as running:
                found = await until("it is closed", lambda: running.incident("NodeSick", state="closed"))
                assert found["reason"] == "Fixed"
                assert len(await running.incidents()) == 1
            assert len(cluster.api.asked("PATCH", "/nodes/node-a1")) == 1


async def _more(server: Server, before: float) -> bool:
    return await failures(server) > before


async def test_alerts_cut_off_by_max_alerts_are_marked_on_the_incident(tmp_path: Path) -> None:
    port = free_port()
    config = configured(tmp_path, port, REMEDIES)
    with sending(tmp_path, port, max_alerts=2) as server:
        async with simulated(tmp_path) as cluster, at_work(config, port) as running:
            await post(server, "node-a1", "node-b1", "node-c1", "node-a2")
            found = await until("two arrive", lambda: _incidents(running, 2))
            whole = [await running.get(f"/api/v1/incidents/{one['id']}") for one in found]
            assert all("cut off" in json.dumps(one["timeline"]) for one in whole)
            cordoned = [name for name in ("node-a1", "node-b1", "node-c1", "node-a2") if cluster.is_cordoned(name)]
            assert len(cordoned) <= 2


async def _incidents(running: Any, count: int) -> list[Any]:
    found: list[Any] = await running.incidents()
    return found if len(found) >= count else []


# In one process, so that its journal can fail -------------------------------------------------------------------------


async def test_while_the_journal_cannot_be_written_alertmanager_keeps_the_alerts_and_sends_them_again(
    tmp_path: Path,
) -> None:
    port = free_port()
    journal = MemoryJournal()

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Journal]:
        yield journal

    config = configured(tmp_path, port, REMEDIES)
    with sending(tmp_path, port) as server:
        async with simulated(tmp_path) as cluster:
            adapters = Adapters(journal=opened)
            async with assembled(prepare(config), adapters) as service, asyncio.TaskGroup() as group:
                stop = asyncio.Event()
                running = group.create_task(service.run(stop), name="healer")
                try:
                    await until("healer is ready", lambda: service.listening.is_set() and not service.ready())
                    await until("its start is noted", lambda: journal.events)
                    journal.writable = False
                    await post(server, "node-a1", "node-b1")
                    await until("alertmanager could not deliver", lambda: failures(server))
                    assert service.ready() == ["the journal cannot be written"]
                    assert not service.people.incidents()
                    assert not cluster.is_cordoned("node-a1")
                    journal.writable = True
                    await until("both are cordoned", lambda: all(map(cluster.is_cordoned, ("node-a1", "node-b1"))))
                    await until("it is ready again", lambda: not service.ready())
                finally:
                    stop.set()
                    await running
    fired = [event for event in journal.events if isinstance(event, ev.AlertFired)]
    assert sorted(dict(event.labels)["node"] for event in fired) == ["node-a1", "node-b1"]
