"""Scrapes Prometheus metrics: every target in its own loop, at its own place in the interval.

Nothing a target does (silence, garbage, an endless page) can hold up another one.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from typing import ClassVar, Final

import aiohttp

from healer import telemetry
from healer.clock import Clock, external_work, milliseconds
from healer.collectors import discovery, fetching, scraping
from healer.collectors.discovery import Target
from healer.collectors.prometheus_settings import PrometheusSettings
from healer.ports import Sink

logger = logging.getLogger(__name__)

_RETIRE_SECONDS: Final = 5.0
_FILES_SECONDS: Final = 5.0


class PrometheusCollector:
    """A `healer.ports.Collector`."""

    Settings: ClassVar = PrometheusSettings

    def __init__(self, settings: PrometheusSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._interval = settings.interval.total_seconds()
        self._timeout = min(settings.timeout.total_seconds(), self._interval)
        defaults = settings.defaults()
        self._static = tuple(discovery.target(address, {}, defaults) for address in settings.targets)
        self._files = discovery.FileDiscovery(settings.files, defaults)
        self._rules = scraping.Rules(
            honor_labels=settings.honor_labels,
            honor_timestamps=settings.honor_timestamps,
            sample_limit=settings.sample_limit,
            label_limit=settings.label_limit,
            label_name_length_limit=settings.label_name_length_limit,
            label_value_length_limit=settings.label_value_length_limit,
        )

    @property
    def name(self) -> str:
        return f"prometheus/{self._settings.job}"

    async def run(self, sink: Sink) -> None:
        """See `healer.ports.Collector`. When cancelled, the series of every target are marked as stale."""
        async with self._session() as session, asyncio.TaskGroup() as group:
            running: dict[Target, asyncio.Task[None]] = {}
            while True:
                wanted = dict.fromkeys((*self._static, *await self._listed()))
                for target in running.keys() - wanted.keys():
                    running.pop(target).cancel()
                for target in wanted.keys() - running.keys():
                    running[target] = group.create_task(self._follow(target, session, sink), name=target.url)
                await asyncio.sleep(_FILES_SECONDS if self._settings.files else 3600)

    async def _listed(self) -> tuple[Target, ...]:
        if not self._settings.files:
            return ()
        # In a thread, since long YAML takes long.
        with external_work():
            return await asyncio.to_thread(self._files.read)

    async def _follow(self, target: Target, session: aiohttp.ClientSession, sink: Sink) -> None:
        """Scrape `target` at its place in every interval, until cancelled."""

        async def get(one: Target) -> fetching.Answer:
            return await fetching.fetch(
                session,
                one.url,
                headers=self._settings.headers(self._timeout),
                timeout_seconds=self._timeout,
                limit_bytes=self._settings.body_size_limit,
            )

        scraper = scraping.TargetScraper(
            target, self._rules, job=self._settings.job, get=get, sink=sink, clock=self._clock
        )
        tick = self._clock.monotonic() + first_delay(target, self._interval, milliseconds(self._clock.now()))
        try:
            while True:
                await asyncio.sleep(tick - self._clock.monotonic())
                await scraper.scrape()
                tick = self._next(tick)
        finally:
            await _retire(scraper, target)

    def _next(self, tick: float) -> float:
        """The next tick that is still to come; those that have passed are counted and left out."""
        late = self._clock.monotonic() - tick
        missed = max(0, int(late / self._interval - 1e-9))
        if missed:
            telemetry.TICKS_MISSED.labels(self.name).inc(missed)
        return tick + (missed + 1) * self._interval

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=2 * self._interval, ssl=self._settings.tls.context()
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),  # fetching has its own, for the whole exchange.
            auto_decompress=False,
            trust_env=False,
        )


def first_delay(target: Target, interval_seconds: float, now_ms: int) -> float:
    """Seconds until the first scrape. The place in the interval is the target's own, also after a restart."""
    interval_ms = max(1, round(interval_seconds * 1000))
    place = zlib.crc32(f"{target.url} {target.labels}".encode()) * interval_ms // 2**32
    return (place - now_ms) % interval_ms / 1000


async def _retire(scraper: scraping.TargetScraper, target: Target) -> None:
    try:
        async with asyncio.timeout(_RETIRE_SECONDS):
            await scraper.retire()
    except TimeoutError:
        logger.warning("marking the series of %s as stale: the store took over %g s", target.url, _RETIRE_SECONDS)
