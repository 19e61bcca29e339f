"""One incident as spans, from its events. Times are those of the journal, never those of now."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

from healer.model import events as ev
from healer.model.decisions import Reason, Verdict

GUARDS_SHOWN: Final = 50
TEXT_LIMIT: Final = 2000
Attributes = Mapping[str, str | int | float | bool]


class Ids(RandomIdGenerator):
    """Random ids, but for a root span, whose ids are known before: its children are sent first."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_trace_id(self) -> int:
        return self.trace or super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.span or super().generate_span_id()


class Spans:
    """Makes spans with given times. `muted`: they are made, but sent nowhere."""

    def __init__(self, provider: TracerProvider, ids: Ids) -> None:
        self.muted = False
        self._tracer = provider.get_tracer("healer")
        self._ids = ids

    def start(self, name: str, parent: SpanContext, at: datetime, attributes: Attributes) -> Span:
        context = set_span_in_context(NonRecordingSpan(parent), Context())
        return self._tracer.start_span(name, context, attributes=attributes, start_time=_ns(at))

    def root(self, name: str, me: SpanContext, at: datetime, attributes: Attributes) -> Span:
        self._ids.trace, self._ids.span = me.trace_id, me.span_id
        try:
            return self._tracer.start_span(name, Context(), attributes=attributes, start_time=_ns(at))
        finally:
            self._ids.trace = self._ids.span = 0

    def end(self, span: Span, at: datetime, *, error: str | None = None) -> None:
        if self.muted:
            return
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error[:TEXT_LIMIT]))
        # The wall clock may have been put back meanwhile; no span ends before it began.
        span.end(max(_ns(at), getattr(span, "start_time", None) or 0))


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000


class Trace:
    """One incident from its opening, or its coming back, to its end. `over` when the root span has been sent."""

    def __init__(self, opened: ev.IncidentOpened, since: datetime, spans: Spans, *, again: int) -> None:
        self.opened = opened
        self.over = False
        self._since = since
        self._spans = spans
        self._root = _root_context(opened, again)
        self._again = again
        self._remedy = ""
        self._open: dict[str, Span] = {}
        self._guards = 0
        if not again:
            self._once("detect", since, opened.at, {"healer.alert": opened.title})
            self._start("decide", opened.at)

    # Events ----------------------------------------------------------------------------------------------------------

    def take(self, event: ev.AnyEvent) -> None:
        """Take one event in; of most kinds nothing is shown."""
        match event:
            case ev.Decided():
                self._decided(event)
            case ev.IncidentReopened():
                self._deciding(event.at)
            case ev.ApprovalRequested():
                self._said(event, "approval asked for", remedy=event.remedy, digest=event.digest)
            case ev.ApprovalAnswered():
                word = "approved" if event.approve else "denied"
                self._said(event, word, by=event.by, via=event.via, accepted=event.accepted, reason=event.reason)
            case ev.OperationStarted():
                self._remedy = event.remedy
                self._stop("decide", event.at)
            case ev.StepStarted():
                name = f"undo {event.action}" if event.undo else f"step {event.action}"
                said: Attributes = {"healer.step": event.step, "healer.operation": event.operation}
                self._start(_step(event), event.at, name, said)
            case ev.CallIntended() | ev.CallEnded():
                self._called(event)
            case ev.StepEnded():
                self._stop(_step(event), event.at, error=None if event.ok else f"{event.reason}: {event.detail}")
            case ev.OperationEnded() if not event.ok:
                self._deciding(event.at)
            case ev.VerificationStarted():
                self._start("verify", event.at)
            case ev.Verified():
                self._verified(event)
            case ev.IncidentClosed() | ev.Escalated():
                self._end(event)
            case _:
                pass

    def _decided(self, event: ev.Decided) -> None:
        decide = self._open.get("decide")
        if decide is None:
            return
        said: Attributes = {
            "healer.answer": event.answer,
            "healer.reason": event.reason,
            "healer.detail": event.detail,
            "healer.remedy": event.remedy,
        }
        name = f"guard {event.guard or 'none'}"
        decide.add_event(name, said, timestamp=_ns(event.at))
        self._guards += 1
        if self._guards <= GUARDS_SHOWN:
            self._once(name, event.at, event.at, said, parent=decide.get_span_context())

    def _deciding(self, at: datetime) -> None:
        """What was done did not help, or did not get done: it is being decided anew."""
        if "decide" not in self._open:
            self._guards = 0
            self._start("decide", at)

    def _said(self, event: ev.AnyEvent, name: str, **said: str | bool) -> None:
        if decide := self._open.get("decide"):
            decide.add_event(name, {f"healer.{key}": value for key, value in said.items()}, timestamp=_ns(event.at))

    def _called(self, event: ev.CallIntended | ev.CallEnded) -> None:
        if span := self._open.get(_step(event)):
            said = (
                {"healer.on": event.on, "healer.key": event.key}
                if isinstance(event, ev.CallIntended)
                else {"healer.outcome": event.outcome, "healer.detail": event.detail}
            )
            name = f"intend {event.call}" if isinstance(event, ev.CallIntended) else event.call
            span.add_event(name, said, timestamp=_ns(event.at))

    def _verified(self, event: ev.Verified) -> None:
        if span := self._open.get("verify"):
            span.set_attributes({"healer.verdict": event.verdict, "healer.evidence": list(event.evidence)})
        fixed = event.verdict is Verdict.FIXED
        self._stop("verify", event.at, error=None if fixed else f"{event.verdict}: {'; '.join(event.evidence)}")
        if not fixed:
            self._deciding(event.at)

    def _end(self, event: ev.IncidentClosed | ev.Escalated) -> None:
        """Send what is still open, and the root."""
        for name in list(self._open):
            self._stop(name, event.at)
        target = self.opened.target or self.opened.owner
        root = self._spans.root(
            f"incident {self.opened.title}",
            self._root,
            self._since,
            {
                "healer.incident": self.opened.incident,
                "healer.cluster": self.opened.cluster,
                "healer.target": str(target),
                "healer.severity": self.opened.severity,
                "healer.remedy": self._remedy,
                "healer.reason": event.reason,
                "healer.outcome": "escalated" if isinstance(event, ev.Escalated) else "closed",
                "healer.times_back": self._again,
            },
        )
        if isinstance(event, ev.IncidentClosed) and event.reason is Reason.FIXED:
            root.set_status(Status(StatusCode.OK))
        error = f"{event.reason}: {event.detail}" if isinstance(event, ev.Escalated) else None
        self._spans.end(root, event.at, error=error)
        self.over = True

    # Spans -----------------------------------------------------------------------------------------------------------

    def _start(self, key: str, at: datetime, name: str = "", attributes: Attributes | None = None) -> None:
        same = {"healer.incident": self.opened.incident, "healer.cluster": self.opened.cluster}
        if self._remedy:
            same["healer.remedy"] = self._remedy
        self._open[key] = self._spans.start(name or key, self._root, at, {**same, **(attributes or {})})

    def _stop(self, key: str, at: datetime, *, error: str | None = None) -> None:
        if span := self._open.pop(key, None):
            self._spans.end(span, at, error=error)

    def _once(
        self, name: str, since: datetime, until: datetime, attributes: Attributes, *, parent: SpanContext | None = None
    ) -> None:
        self._spans.end(self._spans.start(name, parent or self._root, since, attributes), until)


def _step(event: ev.StepStarted | ev.StepEnded | ev.CallIntended | ev.CallEnded) -> str:
    return f"{event.operation} {event.step}{' undo' if event.undo else ''}"


def _root_context(opened: ev.IncidentOpened, again: int) -> SpanContext:
    """The same for everybody who reads the same journal: after a restart the trace goes on under the same root."""
    try:
        trace = int(opened.trace_id, 16) % 2**128
    except ValueError:
        trace = 0
    made = hashlib.sha256(f"{opened.trace_id} {opened.incident} {again}".encode()).digest()
    trace = trace or int.from_bytes(made[8:24])
    return SpanContext(trace, int.from_bytes(made[:8]) or 1, is_remote=False, trace_flags=TraceFlags(1))
