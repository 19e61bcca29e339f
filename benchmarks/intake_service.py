"""The service of the intake benchmark, a process of its own: what `healer run` runs, with a note of when things were durable.

`python -m benchmarks.intake_service CONFIG NOTES` ends on SIGTERM and writes NOTES: for each alert, by its label
`number`, the monotonic time at which the decision about it had been committed to the journal.

What is the decision about an alert? The Decided event that names its remedy in its incident: "this would have been done"
for the remedy that is preferred, "superseded by …" for the others. Each alert of the benchmark has a remedy of its own
in its incident, so each gets such an event. The recorder calls its watchers after the commit, never before.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from benchmarks import common
from healer.app import Adapters, assembled, pauses, prepare
from healer.cli import logs
from healer.model import events as ev


class Notes:
    """Notes what is durable when; sorts it out at the end, when nothing is measured any more."""

    def __init__(self) -> None:
        self._heard: list[tuple[float, ev.AnyEvent]] = []

    def take(self, event: ev.AnyEvent) -> None:
        self._heard.append((common.seconds(), event))

    def decided(self) -> dict[str, float]:
        """Number of alert → when its decision was durable."""
        return decisions(self._heard)


def decisions(heard: list[tuple[float, ev.AnyEvent]]) -> dict[str, float]:
    """Number of alert → the time beside the first decision about it, from events in the order of the journal."""
    alerts: dict[str, tuple[str, str]] = {}
    waiting: dict[tuple[str, str], list[str]] = {}
    found: dict[str, float] = {}
    for at, event in heard:
        match event:
            case ev.AlertFired():
                labels = dict(event.labels)
                alerts[event.episode] = (labels.get("number", ""), labels["alertname"].lower())
            case ev.IncidentOpened() | ev.AlertAttached():
                number, remedy = alerts[event.episode]
                waiting.setdefault((event.incident, remedy), []).append(number)
            case ev.Decided():
                for number in waiting.pop((event.incident, event.remedy), ()):
                    found[number] = at
            case _:
                pass
    return found


async def serve(config: Path, notes: Notes) -> None:
    prepared = prepare(config)
    logs.set_up(prepared.config.telemetry.log_level, prepared.config.telemetry.log_format)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with assembled(prepared, Adapters()) as service:
        service.recorder.watch(notes.take)
        await service.run(stop)


def main() -> None:
    notes = Notes()
    with pauses.steady():
        asyncio.run(serve(Path(sys.argv[1]), notes))
    Path(sys.argv[2]).write_text(json.dumps(notes.decided()), encoding="utf-8")


if __name__ == "__main__":
    main()
