"""Alertmanager's side of the door, with all of Healer behind it: what it is answered, and what is kept. Rows R9 and R34."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from healer.app import Adapters, assembled, prepare_text
from healer.model import events as ev
from healer.testing.journals import MemoryJournal
from healer.testing.scenario import an_alert

CONFIG = "web: {listen: '127.0.0.1:0', token_file: %s, max_body: 100KiB}\n"
NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Door:
    """Where alerts are sent to."""

    def __init__(self, url: str, token: str, session: aiohttp.ClientSession, journal: MemoryJournal) -> None:
        self.journal = journal
        self._session = session
        self._url = f"{url}/hooks/alertmanager"
        self._headers = {"Authorization": f"Bearer {token}"}

    async def send(self, body: bytes) -> tuple[int, Any, Any]:
        """Status, body and headers of the answer."""
        async with self._session.post(self._url, data=body, headers=self._headers) as answer:
            return answer.status, await answer.json(), answer.headers

    @property
    def fired(self) -> list[str]:
        """The alerts that were kept."""
        return [dict(e.labels)["alertname"] for e in self.journal.events if isinstance(e, ev.AlertFired)]


@contextlib.asynccontextmanager
async def door(folder: Path) -> AsyncIterator[Door]:
    journal = MemoryJournal()

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[MemoryJournal]:
        yield journal

    stop = asyncio.Event()
    prepared = prepare_text(CONFIG % (folder / "token"), folder / "healer.yaml")
    async with (
        assembled(prepared, Adapters(journal=opened)) as service,
        aiohttp.ClientSession() as session,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(service.run(stop))
        await service.listening.wait()
        try:
            yield Door(service.address, service.api_token, session, journal)
        finally:
            stop.set()


def body(*alerts: object) -> bytes:
    return json.dumps({"version": "4", "status": "firing", "alerts": alerts}).encode()


def alert(name: str) -> dict[str, Any]:
    return an_alert({"alertname": name}, status="firing", starts_at=NOW, ends_at=NOW)


async def test_R9_a_full_journal_is_503_with_retry_after_and_the_alert_sent_again_is_taken_once(tmp_path: Path) -> None:
    async with door(tmp_path) as d:
        with d.journal.failing():
            for _ in range(3):
                status, _, headers = await d.send(body(alert("A")))
                assert status == 503
                assert int(headers["Retry-After"]) > 0
        for _ in range(3):
            status, answer, _ = await d.send(body(alert("A")))
            assert status == 200
            assert answer["accepted"] == 1
        assert d.fired == ["A"]


async def test_R34_good_alerts_are_taken_from_a_batch_with_bad_ones_and_the_answer_counts_both(tmp_path: Path) -> None:
    async with door(tmp_path) as d:
        bad = [
            {"labels": {}},
            {"status": "firing", "labels": {"pod": "x"}, "startsAt": "2026-01-05T09:00:00Z"},
            None,
            7,
        ]
        status, answer, _ = await d.send(body(*bad, alert("A"), *bad, alert("B")))
        assert (status, answer["accepted"], answer["rejected"]) == (200, 2, 8)
        assert d.fired == ["A", "B"]


REFUSED = {
    "too large": (b'{"alerts": [' + b" " * 200_000 + b"]}", 413),
    "not UTF-8": (b'{"alerts": [\xff]}', 400),
    "not JSON": (b"alerts=A", 400),
    "nothing": (b"", 400),
    "another shape": (b'{"version": "4"}', 400),
    "hundreds of levels": (b'{"alerts": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400),
}


@pytest.mark.parametrize(("text", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_R34_what_is_no_webhook_is_refused_with_a_sentence_logged_and_does_no_harm(
    text: bytes, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with door(tmp_path) as d:
        with caplog.at_level(logging.WARNING):
            got, answer, _ = await d.send(text)
        assert got == status
        assert answer["error"]
        assert "alertmanager" in caplog.text
        assert (await d.send(body(alert("A"))))[0] == 200
        assert d.fired == ["A"]


async def test_R34_fifty_levels_within_an_alert_and_an_empty_list_are_answered_200(tmp_path: Path) -> None:
    async with door(tmp_path) as d:
        deep: Any = "x"
        for _ in range(50):
            deep = {"in": deep}
        assert (await d.send(body({**alert("A"), "annotations": {"summary": deep}})))[0] == 200
        assert (await d.send(body()))[:2] == (200, {"accepted": 0, "rejected": 0, "rejections": []})
        assert d.fired == ["A"]
