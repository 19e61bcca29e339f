"""When a maintenance window is open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from healer.safety.windows import MaintenanceWindow, WindowError, open_windows


def a_window(schedule: str, hours: float = 2, timezone: str = "UTC") -> MaintenanceWindow:
    return MaintenanceWindow(name="w", schedule=schedule, duration_seconds=hours * 3600, timezone=timezone)


def at(day: int, hour: int, minute: int = 0, *, month: int = 6, second: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, second, tzinfo=UTC)


def test_a_window_opens_at_its_time_and_closes_exactly_at_its_end() -> None:
    window = a_window("30 2 * * *")
    assert window.open_until(at(3, 2, 29, second=59)) is None
    assert window.open_until(at(3, 2, 30)) == at(3, 4, 30)
    assert window.open_until(at(3, 4, 29, second=59)) == at(3, 4, 30)
    assert window.open_until(at(3, 4, 30)) is None


def test_a_window_may_run_over_midnight() -> None:
    assert a_window("0 23 * * *", hours=3).open_until(at(4, 1)) == at(4, 2)


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        ("0", {7}),
        ("7", {7}),
        ("sun", {7}),
        ("1-5", {1, 2, 3, 4, 5}),
        ("sat,sun", {6, 7}),
        ("0-6/3", {7, 3, 6}),
        ("*/6", {7, 6}),
    ],
)
def test_weekdays_are_those_of_cron_where_0_and_7_are_sunday(weekday: str, days: set[int]) -> None:
    # 1 June 2026 is a Monday.
    window = a_window(f"0 12 * * {weekday}", hours=1)
    assert {day for day in range(1, 8) if window.open_until(at(day, 12, 30))} == days


def test_day_of_month_or_weekday_where_both_are_given_as_in_cron() -> None:
    window = a_window("0 12 10 * mon", hours=1)
    assert [day for day in range(1, 16) if window.open_until(at(day, 12, 30))] == [1, 8, 10, 15]


def test_the_schedule_follows_the_summer_time_of_its_zone() -> None:
    window = a_window("0 3 * * *", hours=1, timezone="Europe/Berlin")
    assert window.open_until(at(10, 2, 30, month=1)) == at(10, 3, month=1)
    assert window.open_until(at(10, 1, 30, month=7)) == at(10, 2, month=7)
    local = datetime(2026, 7, 10, 3, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert window.open_until(local) == at(10, 2, month=7)


def test_only_open_windows_are_told() -> None:
    morning, evening = a_window("0 6 * * *"), a_window("0 18 * * *")
    found = open_windows((morning, evening), at(3, 7))
    assert [(w.name, w.until) for w in found] == [("w", at(3, 8))]
    assert open_windows((morning, evening), at(3, 12)) == ()
    assert found[0].until - at(3, 7) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "timezone", "words"),
    [
        ("0 2 * *", "UTC", "has 4 fields"),
        ("61 2 * * *", "UTC", "61"),
        ("0 2 * * 8", "UTC", "not a weekday"),
        ("0 2 * * fri-mon", "UTC", "backwards"),
        ("0 2 * * *", "Mars/Olympus", "Mars/Olympus"),
    ],
)
def test_a_window_that_cannot_be_says_why(schedule: str, timezone: str, words: str) -> None:
    with pytest.raises(WindowError, match=words):
        a_window(schedule, timezone=timezone)


def test_a_window_that_never_opens_is_a_mistake() -> None:
    with pytest.raises(WindowError, match="above 0"):
        a_window("0 2 * * *", hours=0)
