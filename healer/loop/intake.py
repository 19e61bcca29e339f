"""Alerts come in: each is journalled before it is acknowledged, and becomes an episode with an identity."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from healer import telemetry
from healer.loop.recorder import Recorder
from healer.loop.records import Episode
from healer.model import events as ev
from healer.model.alerts import Alert, AlertStatus
from healer.model.series import Labels
from healer.ports import AlertReport
from healer.rules.identity import episode_id

EXAMPLES_KEPT: Final = 5
EXAMPLE_LENGTH: Final = 200
CONFIRM_SECONDS: Final = 600.0
"""How often it is told to the other replicas that an alert still fires."""


class Intake:
    """Takes reports. `changed` is called with the ids of the episodes that are new or over, once they are durable."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        changed: Callable[[Sequence[str]], None],
        storm_alerts: int = 500,
        storm_over_seconds: float = 60.0,
    ) -> None:
        self._recorder = recorder
        self._changed = changed
        self.storm_alerts = storm_alerts
        self.storm_over_seconds = storm_over_seconds
        self._arrivals: dict[str, deque[tuple[float, int]]] = {}
        self._arrived: dict[str, int] = {}
        """Their sums."""
        self._storming: set[str] = set()

    async def take(self, report: AlertReport) -> None:
        """Journal what is new in `report`. JournalError when that is impossible: the sender must keep it."""
        await self._recorder.current()
        events: list[ev.AnyEvent] = []
        touched: list[str] = []
        seen: dict[tuple[str, Labels], str] = {}
        now = self._recorder.clock.now()
        for alert in report.alerts:
            event = self._event(alert, now, seen, truncated=report.truncated > 0)
            if event is not None:
                events.append(event)
                touched.append(event.episode)
        if report.rejected:
            events.append(_rejected(report, now))
        events += self._storms(events, now)
        await self._recorder.record(*events)
        for alert in report.alerts:
            telemetry.ALERTS_RECEIVED.labels(report.source, alert.status).inc()
        for reason, _ in report.rejected:
            telemetry.ALERTS_REJECTED.labels(report.source, reason).inc()
        if touched:
            self._changed(touched)

    def heard(self, event: ev.AnyEvent) -> None:
        """Another replica has taken something: a storm is one also when it is spread over several."""
        match event:
            case ev.AlertFired():
                self._arrived_now(event.cluster, 1)
                self._changed([event.episode])
            case ev.AlertResolved():
                self._changed([event.episode])
            case ev.StormNoticed():
                self._storming.add(event.cluster)
            case _:
                return

    def storming(self, cluster: str) -> bool:
        """Whether so many alerts arrive that acting on each would do harm."""
        return cluster in self._storming and self._pressure(cluster) >= self.storm_alerts / 2

    def _event(
        self, alert: Alert, now: datetime, seen: dict[tuple[str, Labels], str], *, truncated: bool
    ) -> ev.AlertFired | ev.AlertResolved | None:
        memory = self._recorder.memory
        known = memory.firing.get(alert.identity)
        current = seen.get(alert.identity, known.id if known else "")
        if alert.status is AlertStatus.RESOLVED:
            if not current or (known and alert.ends_at is not None and alert.ends_at < known.starts_at):
                # Not known to fire, or the late end of an earlier occurrence: the newer one goes on.
                return None
            if known and known.id == current and alert.source not in known.sources:
                # Whoever never said that it fires cannot know that it is over.
                return None
            if not known or known.sources == {alert.source}:
                seen[alert.identity] = ""
            ends_at = min(alert.ends_at or now, now)
            return ev.AlertResolved(
                at=now,
                incident=known.incident if known else "",
                cluster=alert.cluster,
                episode=current,
                ends_at=ends_at,
                source=alert.source,
            )
        if current and known and known.id == current:
            confirmed, known.heard_at = known.heard_at, now
            if alert.source in known.sources and not self._is_news(confirmed, now):
                return None
            return _also_from(alert, known, now)
        if current:
            return None
        id_ = episode_id(alert.cluster, alert.labels, alert.starts_at)
        while id_ in memory.episodes:
            # The same start again after an end: some senders keep it. It is another occurrence all the same.
            id_ += "+"
        seen[alert.identity] = id_
        notes = []
        if alert.starts_at > now:
            notes.append(f"its start {alert.starts_at.isoformat()} lies in the future and was taken as now")
        if truncated:
            notes.append("its batch was cut off by the sender")
        return ev.AlertFired(
            at=now,
            cluster=alert.cluster,
            episode=id_,
            labels=alert.labels.pairs,
            annotations=dict(alert.annotations),
            starts_at=min(alert.starts_at, now),
            source=alert.source,
            generator_url=alert.generator_url,
            value=alert.value,
            notes=tuple(notes),
            incomplete=truncated,
        )

    def _is_news(self, confirmed: datetime, now: datetime) -> bool:
        """Whether the others should know that it still fires: they might lead after us."""
        return self._recorder.shared and (now - confirmed).total_seconds() >= CONFIRM_SECONDS

    def _storms(self, events: Sequence[ev.AnyEvent], now: datetime) -> list[ev.AnyEvent]:
        fresh: dict[str, int] = {}
        for event in events:
            if isinstance(event, ev.AlertFired):
                fresh[event.cluster] = fresh.get(event.cluster, 0) + 1
        notices: list[ev.AnyEvent] = []
        for cluster, count in fresh.items():
            pressure = self._arrived_now(cluster, count)
            if pressure >= self.storm_alerts and cluster not in self._storming:
                self._storming.add(cluster)
                notices.append(
                    ev.StormNoticed(at=now, cluster=cluster, alerts=pressure, over_seconds=self.storm_over_seconds)
                )
        return notices

    def _arrived_now(self, cluster: str, count: int) -> int:
        """The pressure with these."""
        self._pressure(cluster)  # a storm that is over is over before another begins
        self._arrivals.setdefault(cluster, deque()).append((self._recorder.clock.monotonic(), count))
        self._arrived[cluster] = self._arrived.get(cluster, 0) + count
        return self._pressure(cluster)

    def _pressure(self, cluster: str) -> int:
        """New alerts within the window; ends the storm when it has fallen to half."""
        arrivals = self._arrivals.get(cluster)
        if arrivals is None:
            return 0
        oldest = self._recorder.clock.monotonic() - self.storm_over_seconds
        while arrivals and arrivals[0][0] < oldest:
            self._arrived[cluster] -= arrivals.popleft()[1]
        pressure = self._arrived[cluster]
        if pressure < self.storm_alerts / 2:
            self._storming.discard(cluster)
        return pressure


def _also_from(alert: Alert, known: Episode, now: datetime) -> ev.AlertFired:
    """Another sender tells of the same occurrence: it is over when none of them says any more that it fires."""
    return ev.AlertFired(
        at=now,
        incident=known.incident,
        cluster=known.cluster,
        episode=known.id,
        labels=known.labels.pairs,
        annotations=known.annotations,
        starts_at=known.starts_at,
        source=alert.source,
    )


def _rejected(report: AlertReport, now: datetime) -> ev.AlertsRejected:
    counts: dict[str, int] = {}
    for reason, _ in report.rejected:
        counts[reason] = counts.get(reason, 0) + 1
    examples = tuple(example[:EXAMPLE_LENGTH] for _, example in report.rejected[:EXAMPLES_KEPT])
    return ev.AlertsRejected(at=now, source=report.source, counts=counts, examples=examples)
