"""The scrapes of one target: its page becomes samples, and what is not there any more is marked as stale."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import numpy as np

from healer import telemetry
from healer.clock import Clock, external_work, milliseconds
from healer.collectors.discovery import Target
from healer.collectors.exposition import NO_TIME, Page, PageReader
from healer.collectors.fetching import Answer, Outcome, ScrapeFailed
from healer.errors import StoreError
from healer.model.series import METRIC_NAME, STALE, Batch, Floats, Labels
from healer.ports import Sink

logger = logging.getLogger(__name__)

REPORTS: Final = (
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
)
_IN_A_THREAD_BYTES: Final = 512 * 1024
"""Pages from here on are parsed in a thread, so that nobody waits for them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for the samples of a job. A limit of 0 is none."""

    honor_labels: bool = False
    honor_timestamps: bool = True
    sample_limit: int = 0
    label_limit: int = 0
    label_name_length_limit: int = 0
    label_value_length_limit: int = 0


Get = Callable[[Target], Awaitable[Answer]]


class TargetScraper:
    """Scrapes one target when told to."""

    def __init__(self, target: Target, rules: Rules, *, job: str, get: Get, sink: Sink, clock: Clock) -> None:
        self._target = target
        self._rules = rules
        self._job = job
        self._get = get
        self._sink = sink
        self._clock = clock
        self._reader = PageReader(self._finish)
        self._reports = tuple(target.labels.with_(**{METRIC_NAME: name}) for name in REPORTS)
        self._page = Page()
        self._tracked: frozenset[Labels] = frozenset()
        """Series whose end has to be marked: those of the last good page that had no time of their own."""
        self._rows: tuple[Labels, ...] = ()
        self._last_ms = NO_TIME
        self._outcome = Outcome.OK

    async def scrape(self) -> Outcome:
        """Read the page once and hand over what it says. Never raises for what the target or the store does."""
        begun = self._clock.monotonic()
        at_ms = max(milliseconds(self._clock.now()), self._last_ms + 1)
        try:
            page = await self._read()
            outcome, why = Outcome.OK, ""
        except ScrapeFailed as error:
            page, outcome, why = None, error.outcome, str(error)
        except Exception as error:
            # Whatever it is, it must not end the other targets' scrapes.
            logger.exception("scraping %s", self._target.url)
            page, outcome, why = None, Outcome.FAULT, repr(error)
        try:
            await self._hand_over(page, at_ms, self._clock.monotonic() - begun)
        except StoreError as error:
            outcome, why = Outcome.NOT_KEPT, str(error)
        self._tell(outcome, why)
        return outcome

    async def retire(self) -> None:
        """Mark everything of this target as stale: it is not scraped any more."""
        if self._last_ms == NO_TIME:
            return
        at_ms = max(milliseconds(self._clock.now()), self._last_ms + 1)
        gone = (*sorted(self._tracked), *self._reports)
        try:
            await self._sink.samples(_same_time(gone, at_ms, [STALE] * len(gone)))
        except StoreError as error:
            logger.warning("marking the series of %s as stale: %s", self._target.url, error)
        self._tracked, self._last_ms = frozenset(), NO_TIME

    async def _read(self) -> Page:
        answer = await self._get(self._target)
        if len(answer.body) < _IN_A_THREAD_BYTES:
            page = self._reader.read(answer.body, answer.content_type)
        else:
            with external_work():
                page = await asyncio.to_thread(self._reader.read, answer.body, answer.content_type)
        if page.errors:
            line, what = page.errors[0]
            kind = f" (of type {answer.content_type!r})" if line == 1 else ""
            raise ScrapeFailed(Outcome.BAD_PAGE, f"line {line}{kind}: {what}")
        if 0 < self._rules.sample_limit < len(page.labels):
            raise ScrapeFailed(
                Outcome.LIMIT,
                f"{len(page.labels)} samples are more than the sample_limit of {self._rules.sample_limit}",
            )
        return page

    async def _hand_over(self, page: Page | None, at_ms: int, seconds: float) -> None:
        read = page or Page()
        tracked, added = self._compare(read)
        vanished = sorted(self._tracked - tracked)
        numbers = [
            float(page is not None),
            seconds,
            float(len(read.labels) + read.duplicates),
            float(len(read.labels)),
            float(added),
        ]
        batch = self._batch(read, vanished, at_ms, numbers)
        # Should the store refuse, then what was known before may still have to be marked.
        self._tracked |= tracked
        self._last_ms = at_ms
        appended = await self._sink.samples(batch)
        self._page, self._tracked = read, tracked
        if appended.rejected:
            logger.debug("samples of %s were refused: %s", self._target.url, dict(appended.rejected))

    def _compare(self, page: Page) -> tuple[frozenset[Labels], int]:
        """The series of `page` to track, and how many were not there in the page before."""
        times = page.times_ms if self._rules.honor_timestamps else None
        if times is None and page.labels is self._page.labels and len(page.labels) == len(self._tracked):
            return self._tracked, 0
        added = len(set(page.labels) - set(self._page.labels))
        if times is None:
            return frozenset(page.labels), added
        return frozenset(labels for labels, time in zip(page.labels, times, strict=True) if time == NO_TIME), added

    def _batch(self, page: Page, vanished: Sequence[Labels], at_ms: int, numbers: list[float]) -> Batch:
        rows = (*page.labels, *self._reports, *vanished)
        if rows == self._rows:
            # The same object as before: the store then knows every series without looking it up.
            rows = self._rows
        self._rows = rows
        batch = _same_time(rows, at_ms, np.concatenate([page.values, numbers, [STALE] * len(vanished)]))
        if page.times_ms is not None and self._rules.honor_timestamps:
            own = page.times_ms != NO_TIME
            batch.times_ms[: len(own)][own] = page.times_ms[own]
        return batch

    def _finish(self, labels: Labels) -> Labels:
        """Final labels of a series of the page. ValueError when it breaks a limit."""
        merged = dict(labels.pairs)
        for name, value in self._target.labels.pairs:
            if name in merged:
                if self._rules.honor_labels:
                    continue
                other = f"exported_{name}"
                while other in merged or other in self._target.labels:
                    other = f"exported_{other}"
                merged[other] = merged[name]
            merged[name] = value
        self._check_limits(merged)
        return Labels(merged)

    def _check_limits(self, labels: dict[str, str]) -> None:
        rules = self._rules
        if 0 < rules.label_limit < len(labels):
            raise ValueError(f"{len(labels)} labels are more than the label_limit of {rules.label_limit}")
        for name, value in labels.items():
            if 0 < rules.label_name_length_limit < len(name.encode()):
                raise ValueError(f"label {name[:60]!r} is longer than the label_name_length_limit")
            if 0 < rules.label_value_length_limit < len(value.encode()):
                raise ValueError(f"the value of label {name!r} is longer than the label_value_length_limit")

    def _tell(self, outcome: Outcome, why: str) -> None:
        telemetry.SCRAPES.labels(self._job, outcome.value).inc()
        if outcome is not self._outcome:
            if outcome is Outcome.OK:
                logger.info("scraping %s: works again", self._target.url)
            else:
                logger.warning("scraping %s: %s: %s", self._target.url, outcome.value, why)
        self._outcome = outcome


def _same_time(labels: tuple[Labels, ...], at_ms: int, values: Sequence[float] | Floats) -> Batch:
    return Batch(
        labels=labels,
        times_ms=np.full(len(labels), at_ms, dtype=np.int64),
        values=np.asarray(values, dtype=np.float64),
    )
