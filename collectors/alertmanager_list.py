"""The whole list of an Alertmanager's alerts, read when one of its webhooks was cut off (`max_alerts`).

Only Alertmanagers that the user has named are asked: the address in a webhook is data from outside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from healer.errors import BadPayload, JournalError
from healer.ports import AlertReport, Sink

log = logging.getLogger(__name__)

PATH: Final = "/api/v2/alerts"
TIMEOUT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 10.0
TRIES: Final = 6


class AlertmanagerList:
    """A Collector that reads when it is told that something is missing. `parse` takes a webhook's body."""

    name = "alertmanager/list"

    def __init__(self, urls: Sequence[str], *, parse: Callable[[bytes], AlertReport]) -> None:
        self._allowed = {url.rstrip("/") for url in urls}
        self._parse = parse
        self._wanted: dict[str, None] = {}
        self._wake = asyncio.Event()

    def missing(self, report: AlertReport) -> None:
        """Note that the sender has cut this report off."""
        base = report.complete_url.removesuffix(PATH).rstrip("/")
        if base in self._allowed:
            self._wanted[base] = None
            self._wake.set()
        elif base:
            log.warning(
                "a batch of alerts was cut off; %s may not be asked for the rest: name it under web.alertmanagers", base
            )

    async def run(self, sink: Sink) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as session:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._wanted:
                    base = next(iter(self._wanted))
                    del self._wanted[base]
                    await self._complete(session, base, sink)

    async def _complete(self, session: aiohttp.ClientSession, base: str, sink: Sink) -> None:
        for _ in range(TRIES):
            try:
                report = self._parse(await self._read(session, base))
                await sink.alerts(report)
            except (aiohttp.ClientError, TimeoutError, JournalError, BadPayload) as error:
                log.warning("reading the alerts of %s: %s: %s", base, type(error).__name__, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                log.info("read %d alerts of %s", len(report.alerts), base)
                return

    async def _read(self, session: aiohttp.ClientSession, base: str) -> bytes:
        """The list, in the shape of a webhook."""
        query = {"active": "true", "silenced": "false", "inhibited": "false"}
        async with session.get(base + PATH, params=query, allow_redirects=False) as answer:
            answer.raise_for_status()
            body = await answer.read()
        try:
            listed = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise BadPayload(f"the list of alerts is not JSON: {error}") from error
        rows = [_as_webhook(row) for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        return msgspec.json.encode({"version": "4", "alerts": rows})


def _as_webhook(row: dict[str, Any]) -> dict[str, Any]:
    names = ("labels", "annotations", "startsAt", "generatorURL", "fingerprint")
    return {"status": "firing", **{name: row[name] for name in names if name in row}}
