"""Each incident as one OpenTelemetry trace, made from the events of the journal. Nothing waits for it, or fails with it.

Under a root span `incident …` lie `detect`, `decide` (with a span per answer of a guard), a span per step and per undone
step (with its calls as events), and `verify`. Import this only where traces are wanted: it brings OpenTelemetry along.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from healer import __version__
from healer.clock import external_work
from healer.loop.recorder import Recorder
from healer.loop.traces import TEXT_LIMIT, Ids, Spans, Trace
from healer.model import events as ev

if TYPE_CHECKING:
    from healer.ports import Journal

log = logging.getLogger(__name__)

UNFINISHED_KEPT: Final = 1000
"""Incidents under way whose spans are held; the oldest are let go of when there are more."""
ENDED_KEPT: Final = 1000
"""Ended incidents whose trace can still be gone on with, should their alert come back."""
CLOSE_SECONDS: Final = 5.0
T = TypeVar("T")


class Tracing:
    """Call `install` once the recorder is loaded, and `close` at the end."""

    def __init__(self, recorder: Recorder, *, exporter: SpanExporter) -> None:
        self._recorder = recorder
        self._ids = Ids()
        self._provider = TracerProvider(
            resource=Resource({"service.name": "healer", "service.version": __version__}),
            sampler=ALWAYS_ON,
            id_generator=self._ids,
            span_limits=SpanLimits(max_attribute_length=TEXT_LIMIT, max_span_attribute_length=TEXT_LIMIT),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._spans = Spans(self._provider, self._ids)
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._ended: OrderedDict[str, ev.IncidentOpened] = OrderedDict()
        self._stop: Callable[[], None] = lambda: None

    def install(self) -> None:
        """From now on, make spans of what is recorded."""
        self._stop = self._recorder.watch(self.note)

    def mute(self, *, on: bool) -> None:
        """While it is on, follow the events but send nothing: another replica does."""
        self._spans.muted = on

    async def catch_up(self, journal: Journal) -> None:
        """Go on with the traces of incidents that a predecessor left open. What it has sent is not sent again."""
        self._spans.muted = True
        try:
            for incident in list(self._recorder.memory.open_incidents()):
                async for recorded in journal.read(incident=incident.id):
                    self.note(recorded.event)
        finally:
            self._spans.muted = False

    def note(self, event: ev.AnyEvent) -> None:
        """Take one event in. Whatever goes wrong here is logged: it must not reach the writer of the journal."""
        try:
            self._note(event)
        except Exception:
            log.exception("tracing %s of incident %s", ev.kind(event), event.incident)

    def _note(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.IncidentOpened():
                self._begin(event, self._alert_start(event), again=0)
            case ev.IncidentReopened() if opened := self._ended.pop(event.incident, None):
                self._begin(opened, event.at, again=event.flaps)
        trace = self._traces.get(event.incident)
        if trace is None:
            return
        trace.take(event)
        if trace.over:
            del self._traces[event.incident]
            _keep(self._ended, event.incident, trace.opened, ENDED_KEPT)

    def _begin(self, opened: ev.IncidentOpened, since: datetime, *, again: int) -> None:
        _keep(self._traces, opened.incident, Trace(opened, since, self._spans, again=again), UNFINISHED_KEPT)

    def _alert_start(self, opened: ev.IncidentOpened) -> datetime:
        episode = self._recorder.memory.episodes.get(opened.episode)
        return min(episode.starts_at, opened.at) if episode else opened.at

    async def close(self) -> None:
        """Send what has ended, within a few seconds; then the rest is given up."""
        self._stop()
        self._stop = lambda: None
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop may be over by then
                loop.call_soon_threadsafe(done.set)

        # A thread of its own, since the loop's executor would be waited for at the end of the process.
        threading.Thread(target=work, name="end of tracing", daemon=True).start()
        with contextlib.suppress(TimeoutError), external_work():
            async with asyncio.timeout(CLOSE_SECONDS):
                await done.wait()


def _keep(kept: OrderedDict[str, T], key: str, value: T, limit: int) -> None:
    kept[key] = value
    if len(kept) > limit:
        kept.popitem(last=False)


def otlp_exporter(endpoint: str) -> SpanExporter:
    """Sends by OTLP over HTTP to a collector at `endpoint`, e.g. `http://tempo:4318`."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 — heavy

    url = endpoint.rstrip("/")
    return OTLPSpanExporter(endpoint=url if url.endswith("/v1/traces") else f"{url}/v1/traces", timeout=CLOSE_SECONDS)
