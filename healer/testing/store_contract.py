"""What every store of time series must do. Derive a class of tests from it and give it a fixture `store`.

The tests write around the time of the fixture `clock`, the system's unless overridden; a store begins empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from healer.clock import Clock, SystemClock, milliseconds
from healer.model.matchers import Matcher, MatchOp
from healer.model.series import METRIC_NAME, STALE, Columns, Labels, batch, is_stale
from healer.ports import Store

MINUTE = 60_000
Series = dict[str, list[tuple[int, float]]]


def series(metric: str, **labels: str) -> Labels:
    """A label set with a metric name."""
    return Labels({METRIC_NAME: metric, **labels})


def match(name: str, value: str, op: MatchOp = MatchOp.EQUAL) -> Matcher:
    """A matcher; `=` unless told otherwise."""
    return Matcher(name, op, value)


def named(metric: str) -> Matcher:
    """The matcher for a metric name."""
    return Matcher(METRIC_NAME, MatchOp.EQUAL, metric)


def unfold(columns: Columns) -> Series:
    """Columns as a dictionary from the printed labels to (time, value) pairs; the shape is checked on the way."""
    assert len(columns.offsets) == len(columns) + 1
    assert columns.offsets[0] == 0
    assert columns.offsets[-1] == len(columns.times_ms) == len(columns.values)
    found: Series = {}
    for row, labels in enumerate(columns.labels):
        part = slice(int(columns.offsets[row]), int(columns.offsets[row + 1]))
        times = columns.times_ms[part]
        assert (np.diff(times) > 0).all()
        assert str(labels) not in found
        found[str(labels)] = list(zip(times.tolist(), columns.values[part].tolist(), strict=True))
    return found


async def read(store: Store, *matchers: Matcher, start_ms: int, end_ms: int) -> Series:
    """What `store` has, unfolded."""
    return unfold(await store.select(matchers, start_ms, end_ms))


class StoreContract:
    """The tests. Asynchronous ones run under pytest-asyncio or a loop with virtual time."""

    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()

    @pytest.fixture
    def now_ms(self, clock: Clock) -> int:
        return milliseconds(clock.now())

    async def test_samples_come_back_as_they_were_given(self, store: Store, now_ms: int) -> None:
        values = [0.0, -0.0, 0.1 + 0.2, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]
        times = [now_ms - MINUTE + i for i in range(len(values))]
        appended = await store.append(batch((series("m", a="b"), t, v) for t, v in zip(times, values, strict=True)))
        assert (appended.accepted, dict(appended.rejected)) == (len(values), {})
        found = await read(store, named("m"), start_ms=times[0], end_ms=times[-1])
        assert repr(found) == repr({'m{a="b"}': list(zip(times, values, strict=True))})

    async def test_stale_markers_and_other_nan_keep_their_bits(self, store: Store, now_ms: int) -> None:
        await store.append(batch([(series("m"), now_ms - 2, STALE), (series("m"), now_ms - 1, math.nan)]))
        columns = await store.select([named("m")], now_ms - 2, now_ms)
        assert is_stale(columns.values).tolist() == [True, False]
        assert np.isnan(columns.values).all()

    async def test_both_ends_of_the_range_belong_to_it(self, store: Store, now_ms: int) -> None:
        times = [now_ms - 3000, now_ms - 2000, now_ms - 1000, now_ms]
        await store.append(batch((series("m"), t, 1.0) for t in times))
        found = await read(store, named("m"), start_ms=times[1], end_ms=times[2])
        assert [t for t, _ in found["m"]] == times[1:3]

    async def test_a_series_without_a_sample_in_the_range_is_left_out(self, store: Store, now_ms: int) -> None:
        await store.append(batch([(series("m", a="old"), now_ms - MINUTE, 1.0), (series("m", a="new"), now_ms, 2.0)]))
        assert set(await read(store, named("m"), start_ms=now_ms - 1000, end_ms=now_ms)) == {'m{a="new"}'}
        assert await read(store, named("m"), start_ms=now_ms - 9000, end_ms=now_ms - 8000) == {}

    @pytest.mark.parametrize(
        ("matchers", "expected"),
        [
            ([named("up")], {"1", "2", "3"}),
            ([named("up"), match("job", "node")], {"1", "2"}),
            ([named("up"), match("job", "node", MatchOp.NOT_EQUAL)], {"3"}),
            ([named("up"), match("zone", "")], {"2", "3"}),
            ([named("up"), match("zone", "", MatchOp.NOT_EQUAL)], {"1"}),
            ([named("up"), match("zone", "a|", MatchOp.REGEXP)], {"1", "2", "3"}),
            ([named("up"), match("zone", ".+", MatchOp.REGEXP)], {"1"}),
            ([named("up"), match("zone", ".+", MatchOp.NOT_REGEXP)], {"2", "3"}),
            ([named("up"), match("job", "nod", MatchOp.REGEXP)], set()),
            ([named("up"), match("job", "n.*|k.*", MatchOp.REGEXP), match("n", "1", MatchOp.NOT_REGEXP)], {"2", "3"}),
            ([match(METRIC_NAME, "u.|down", MatchOp.REGEXP)], {"1", "2", "3", "4"}),
            ([match("job", "node")], {"1", "2", "4"}),
            ([named("up"), match("job", "nobody")], set()),
            ([named("absent")], set()),
        ],
    )
    async def test_matchers_select_as_in_prometheus(
        self, store: Store, now_ms: int, matchers: Sequence[Matcher], expected: set[str]
    ) -> None:
        rows = [
            series("up", n="1", job="node", zone="a"),
            series("up", n="2", job="node"),
            series("up", n="3", job="ksm"),
            series("down", n="4", job="node"),
        ]
        await store.append(batch((labels, now_ms, 1.0) for labels in rows))
        columns = await store.select(matchers, now_ms - 1000, now_ms)
        assert {labels["n"] for labels in columns.labels} == expected

    async def test_what_is_late_is_refused_and_the_rest_goes_on(self, store: Store, now_ms: int) -> None:
        await store.append(batch([(series("m"), now_ms - 1000, 1.0)]))
        appended = await store.append(
            batch(
                [(series("m"), now_ms - 2000, 9.0), (series("other"), now_ms - 2000, 2.0), (series("m"), now_ms, 3.0)]
            )
        )
        assert (appended.accepted, dict(appended.rejected)) == (2, {"out of order": 1})
        found = await read(store, named("m"), start_ms=now_ms - MINUTE, end_ms=now_ms)
        assert found == {"m": [(now_ms - 1000, 1.0), (now_ms, 3.0)]}

    async def test_the_same_sample_again_is_accepted_and_kept_once(self, store: Store, now_ms: int) -> None:
        for value in (1.0, math.nan):
            at = now_ms if value == 1.0 else now_ms + 1
            for _ in range(2):
                appended = await store.append(batch([(series("m"), at, value)]))
                assert (appended.accepted, dict(appended.rejected)) == (1, {})
        found = await read(store, named("m"), start_ms=now_ms, end_ms=now_ms + 1)
        assert [t for t, _ in found["m"]] == [now_ms, now_ms + 1]

    async def test_another_value_for_the_same_time_is_refused(self, store: Store, now_ms: int) -> None:
        await store.append(batch([(series("m"), now_ms, 1.0)]))
        appended = await store.append(batch([(series("m"), now_ms, 2.0)]))
        assert (appended.accepted, dict(appended.rejected)) == (0, {"duplicate timestamp": 1})
        assert await read(store, named("m"), start_ms=now_ms, end_ms=now_ms) == {"m": [(now_ms, 1.0)]}

    async def test_what_is_far_in_the_future_is_refused(self, store: Store, now_ms: int) -> None:
        appended = await store.append(batch([(series("m"), now_ms + 60 * MINUTE, 1.0)]))
        assert (appended.accepted, dict(appended.rejected)) == (0, {"too far in the future": 1})
        assert await read(store, named("m"), start_ms=now_ms, end_ms=now_ms + 120 * MINUTE) == {}

    async def test_rows_of_one_series_in_one_batch_are_judged_in_their_order(self, store: Store, now_ms: int) -> None:
        a, b = series("m", s="a"), series("m", s="b")
        rows = [(a, 3, 1.0), (b, 1, 1.0), (a, 2, 2.0), (a, 4, 3.0), (b, 1, 9.0), (a, 4, 3.0), (b, 5, 2.0)]
        appended = await store.append(batch((labels, now_ms - 10 + t, v) for labels, t, v in rows))
        assert (appended.accepted, dict(appended.rejected)) == (5, {"out of order": 1, "duplicate timestamp": 1})
        found = await read(store, named("m"), start_ms=now_ms - 10, end_ms=now_ms)
        assert {key: [(t - now_ms + 10, v) for t, v in rows] for key, rows in found.items()} == {
            'm{s="a"}': [(3, 1.0), (4, 3.0)],
            'm{s="b"}': [(1, 1.0), (5, 2.0)],
        }

    async def test_an_empty_batch_is_nothing(self, store: Store) -> None:
        appended = await store.append(batch([]))
        assert (appended.accepted, dict(appended.rejected)) == (0, {})

    async def test_many_scrapes_of_many_series_come_back_whole(self, store: Store, now_ms: int) -> None:
        labels = tuple(series("m", n=str(n)) for n in range(300))
        start = now_ms - 100 * 1000
        for scrape in range(100):
            await store.append(batch((one, start + scrape * 1000, float(scrape)) for one in labels))
        columns = await store.select([named("m")], start + 10_000, start + 89_000)
        assert len(columns) == 300
        assert (columns.values.reshape(300, 80) == np.arange(10.0, 90.0)).all()
        one = await read(store, named("m"), match("n", "7"), start_ms=start, end_ms=now_ms)
        assert one == {'m{n="7"}': [(start + s * 1000, float(s)) for s in range(100)]}
