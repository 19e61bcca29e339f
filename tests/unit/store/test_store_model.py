"""Whatever is appended in whatever order, the store says what a plain dictionary would, also after a restart."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from healer.clock import LoopClock, milliseconds
from healer.model.matchers import Matcher, MatchOp
from healer.model.series import METRIC_NAME, Labels, batch
from healer.sim.time import run
from healer.store.columns import BYTES_PER_CHUNK
from healer.store.embedded import EmbeddedStore, open_store
from healer.testing.store_contract import Series, read, series

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = milliseconds(NOW)

LABELS = st.builds(
    lambda metric, a, b: series(metric, a=a, b=b), st.sampled_from("mn"), st.sampled_from(["", "1", "2"]), st.sampled_from(["", "1"])
)  # fmt: skip
ROWS = st.lists(st.tuples(LABELS, st.integers(0, 120), st.sampled_from([0.0, 1.0, 2.0])), max_size=40)
MATCHERS = st.lists(
    st.builds(
        Matcher,
        st.sampled_from([METRIC_NAME, "a", "b", "absent"]),
        st.sampled_from(MatchOp),
        st.sampled_from(["", "m", "1", "2", ".*", ".+", "m|1"]),
    ),
    max_size=3,
)


class Plain:
    """The obvious store."""

    def __init__(self) -> None:
        self.samples: dict[Labels, list[tuple[int, float]]] = {}

    def append(self, labels: Labels, at: int, value: float) -> str:
        known = self.samples.get(labels, [])
        if known and at < known[-1][0]:
            return "out of order"
        if known and at == known[-1][0]:
            return "" if value == known[-1][1] else "duplicate timestamp"
        self.samples.setdefault(labels, []).append((at, value))
        return ""

    def select(self, matchers: list[Matcher], start: int, end: int) -> Series:
        found = {
            str(labels): [row for row in rows if start <= row[0] <= end]
            for labels, rows in self.samples.items()
            if all(matcher.matches(labels) for matcher in matchers)
        }
        return {labels: rows for labels, rows in found.items() if rows}


async def agree(store: EmbeddedStore, plain: Plain, queries: list[tuple[list[Matcher], int, int]]) -> None:
    for matchers, start, length in queries:
        begin, end = NOW_MS + start, NOW_MS + start + length
        assert await read(store, *matchers, start_ms=begin, end_ms=end) == plain.select(matchers, begin, end)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(ROWS, st.booleans()), max_size=8),
    st.lists(st.tuples(MATCHERS, st.integers(-5, 130), st.integers(-2, 130)), min_size=1, max_size=5),
    st.sampled_from([500, 64 * 1024 * 1024]),
)
def test_the_store_agrees_with_a_dictionary(
    steps: list[tuple[list[tuple[Labels, int, float]], bool]],
    queries: list[tuple[list[Matcher], int, int]],
    segment_bytes: int,
) -> None:
    async def main(folder: Path) -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=NOW)
        plain = Plain()
        waiting = list(steps)
        restart = True
        while restart:
            restart = False
            async with open_store(
                folder, clock=clock, memory_limit_bytes=BYTES_PER_CHUNK * 400, segment_bytes=segment_bytes
            ) as store:
                await agree(store, plain, queries)
                while waiting and not restart:
                    rows, restart = waiting.pop(0)
                    shifted = [(labels, NOW_MS + at, value) for labels, at, value in rows]
                    reasons = [plain.append(*row) for row in shifted]
                    appended = await store.append(batch(shifted))
                    assert appended.accepted == reasons.count("")
                    assert dict(appended.rejected) == {r: reasons.count(r) for r in set(reasons) if r}
                await agree(store, plain, queries)

    with tempfile.TemporaryDirectory() as folder:
        run(lambda: main(Path(folder)))
