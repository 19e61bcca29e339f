"""Maintenance windows: times at which people are at work and nothing new is started. Pure computation on wall time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from healer.model.decisions import GO, Decision, Moment, Reason, wait
from healer.model.matchers import Matcher
from healer.safety.state import ActiveWindow, Fleet, Request

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger

DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Final = 5


class WindowError(ValueError):
    """A window that cannot be; the text says why, and the mend."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """Opens whenever `schedule` (cron: minute hour day month weekday, 0 and 7 are Sunday) says, for `duration_seconds`.

    `timezone` is an IANA name; the schedule follows its summer time. Raises WindowError.
    """

    name: str
    schedule: str
    duration_seconds: float
    timezone: str = "UTC"
    matchers: tuple[Matcher, ...] = ()
    _triggers: tuple[CronTrigger, ...] = dataclasses.field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        if self.duration_seconds <= 0:
            raise WindowError(f"window {self.name!r}: a duration of {self.duration_seconds:g} s must be above 0")
        object.__setattr__(self, "_triggers", _triggers(self.name, self.schedule, self.timezone))

    def open_until(self, at: datetime) -> datetime | None:
        """The end of the window that is open at `at`; None when there is none."""
        duration = timedelta(seconds=self.duration_seconds)
        begins = [
            began for trigger in self._triggers if (began := _first_after(trigger, at - duration)) and began <= at
        ]
        return (min(begins) + duration).astimezone(UTC) if begins else None


def open_windows(windows: Iterable[MaintenanceWindow], at: datetime) -> tuple[ActiveWindow, ...]:
    """Those that are open at `at`."""
    return tuple(
        ActiveWindow(name=window.name, until=until, matchers=window.matchers)
        for window in windows
        if (until := window.open_until(at)) is not None
    )


def maintenance_window(request: Request, fleet: Fleet, now: Moment) -> Decision:
    """Wait for the end of a window that covers what is asked for; then it is looked at anew."""
    labels = {
        "cluster": request.cluster.name,
        "kind": request.target.kind,
        "namespace": request.target.namespace,
        "name": request.target.name,
        "zone": request.zone,
        "pool": request.pool,
        "remedy": request.remedy.name,
    }
    covering = [w for w in fleet.windows if w.until > now.wall and all(m.matches(labels) for m in w.matchers)]
    if not covering:
        return GO
    last = max(covering, key=lambda window: window.until)
    left = (last.until - now.wall).total_seconds()
    return wait(
        Reason.MAINTENANCE_WINDOW,
        f"maintenance window {last.name!r} is open until {last.until:%Y-%m-%d %H:%M} UTC, {left / 60:.0f} min more",
        seconds=left,
    )


def _first_after(trigger: CronTrigger, at: datetime) -> datetime | None:
    """The first time strictly after `at`, so that a window closes exactly at its end."""
    found: datetime | None = trigger.get_next_fire_time(None, at + timedelta(microseconds=1))
    return found


def _triggers(name: str, schedule: str, timezone: str) -> tuple[CronTrigger, ...]:
    """As cron does it, day of month *or* weekday where both are restricted: the trigger alone would demand both."""
    fields = schedule.split()
    if len(fields) != FIELDS:
        raise WindowError(
            f"window {name!r}: schedule {schedule!r} has {len(fields)} fields; minute hour day month weekday are 5"
        )
    # Imported here: it costs memory that only configurations with windows need.
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    minute, hour, day, month, weekday = fields
    try:
        zone = ZoneInfo(timezone)
        named = _weekdays(weekday)
        pairs = [(day, named)] if "*" in (day, weekday) else [(day, "*"), ("*", named)]
        return tuple(
            CronTrigger(minute=minute, hour=hour, day=d, month=month, day_of_week=w, timezone=zone) for d, w in pairs
        )
    except (ValueError, KeyError, OSError) as error:
        raise WindowError(f"window {name!r}: schedule {schedule!r} in {timezone!r}: {error}") from error


def _weekdays(field: str) -> str:
    """Cron's weekdays by name: the trigger counts from Monday, cron from Sunday."""
    if field == "*":
        return "*"
    found: list[str] = []
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "-", "6") if span == "*" else span.partition("-")
        begin, end = _weekday(first), _weekday(last or first)
        if end < begin:
            raise ValueError(f"weekdays {span!r} run backwards; write them as a list")
        found += [DAYS[day % 7] for day in range(begin, end + 1, int(step or 1))]
    return ",".join(found)


def _weekday(text: str) -> int:
    if text in DAYS:
        return DAYS.index(text)
    if not text.isdigit() or int(text) > len(DAYS):
        raise ValueError(f"{text!r} is not a weekday: 0–7 or {', '.join(DAYS)}")
    return int(text)
