"""Series by name and their samples, in bounded memory. Knows no clock and no disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from healer.model.matchers import Matcher
from healer.model.series import NO_COLUMNS, Columns, Floats, Labels, Times
from healer.store import admission
from healer.store.columns import NEVER, Ids, SampleColumns
from healer.store.index import SeriesIndex

EVICTED_AT_ONCE: Final = 16
"""One part in so many of the memory is given up when it is full, so that it is not full again at once."""

Write = Callable[[Ids, Times, Floats], None]
"""Makes rows durable before they are taken; raises StoreError when it cannot."""


class SeriesMemory:
    """Takes samples in time order per series and gives them back by matcher."""

    def __init__(self, *, memory_limit_bytes: int, max_series: int, forgotten: Callable[[Iterable[int]], None]) -> None:
        self._columns = SampleColumns(memory_limit_bytes=memory_limit_bytes)
        # At most half of the chunks are the newest of a series, so that dropping the oldest always makes room.
        self._max_series = min(max_series, max(1, self._columns.capacity // 2))
        self._at_once = max(1, self._columns.capacity // 4)
        self._index = SeriesIndex()
        self._layouts = _Layouts()
        self._forgotten = forgotten
        self.evicted_until_ms = NEVER
        """What ends up to here was dropped to make room."""
        self.evicted_samples = 0

    def __len__(self) -> int:
        return len(self._index)

    def labels(self, id_: int) -> Labels:
        return self._index.labels(id_)

    def take(
        self, labels: Sequence[Labels], times_ms: Times, values: Floats, *, bounds: admission.Bounds, write: Write
    ) -> tuple[int, Mapping[str, int]]:
        """Keep rows of (labels, time, value): how many were accepted, and how many not, by reason.

        When `write` raises, that much of the rows is not kept.
        """
        accepted = 0
        refused: Counter[str] = Counter()
        for start in range(0, len(labels), self._at_once):
            end = start + self._at_once
            part = labels if len(labels) <= self._at_once else labels[start:end]
            self._make_room(len(part))
            ids, added = self._resolve(part, refused)
            try:
                accepted += self._take(ids, times_ms[start:end], values[start:end], bounds, write, refused)
            finally:
                self._forget([id_ for id_ in added if self._columns.newest_ms(id_) == NEVER])
        return accepted, dict(refused)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Columns:
        """Every series that matches and has a sample in [start_ms, end_ms]."""
        ids = self._index.select(matchers)
        if not len(ids) or end_ms < start_ms:
            return NO_COLUMNS
        rows = self._columns.read(ids, start_ms, end_ms)
        offsets = np.zeros(len(rows.ids) + 1, dtype=np.int64)
        np.cumsum(rows.counts, out=offsets[1:])
        return Columns(
            labels=tuple(map(self._index.labels, rows.ids.tolist())),
            offsets=offsets,
            times_ms=rows.times_ms,
            values=rows.values,
        )

    def drop_until(self, time_ms: int) -> int:
        """Drop what ends at or before `time_ms`; how many samples that were."""
        emptied, samples = self._columns.drop_until(time_ms)
        self._forget(emptied.tolist())
        return samples

    def _make_room(self, rows: int) -> None:
        missing = rows - self._columns.chunks_free
        if missing > 0:
            until_ms = self._columns.oldest_ms(max(missing, self._columns.capacity // EVICTED_AT_ONCE))
            self.evicted_samples += self.drop_until(until_ms)
            self.evicted_until_ms = max(self.evicted_until_ms, until_ms)

    def _resolve(self, labels: Sequence[Labels], refused: Counter[str]) -> tuple[Ids, list[int]]:
        """The number of each row's series, -1 where it cannot be had; and those that are new."""
        known = self._layouts.find(labels)
        if known is not None:
            return known, []
        found = self._index.find_all(labels)
        added: list[int] = []
        if None in found:
            for row, id_ in enumerate(found):
                if id_ is None:
                    found[row] = self._add(labels[row], added, refused)
            self._columns.make_room(self._index.capacity)
        ids = np.array(found, dtype=np.int32)
        if not added and (ids >= 0).all():
            self._layouts.remember(labels, ids)
        return ids, added

    def _add(self, labels: Labels, added: list[int], refused: Counter[str]) -> int:
        before = len(self._index)
        if before >= self._max_series and self._index.find_all([labels]) == [None]:
            refused[admission.TOO_MANY_SERIES] += 1
            return -1
        if not _is_text(labels):
            refused[admission.BAD_LABEL] += 1
            return -1
        id_ = self._index.add(labels)
        if len(self._index) > before:
            added.append(id_)
        return id_

    def _take(
        self, ids: Ids, times_ms: Times, values: Floats, bounds: admission.Bounds, write: Write, refused: Counter[str]
    ) -> int:
        accepted = 0
        valid = ids >= 0
        if not valid.all():
            ids, times_ms, values = ids[valid], times_ms[valid], values[valid]
        for rows in admission.rounds(ids):
            turn = (ids[rows], times_ms[rows], values[rows])
            verdicts = admission.judge(turn[1], turn[2], self._columns.newest(turn[0]), bounds)
            kept = (turn[0][verdicts.kept], turn[1][verdicts.kept], turn[2][verdicts.kept])
            if len(kept[0]):
                write(*kept)
                self._columns.append(*kept)
            accepted += len(kept[0]) + verdicts.repeated
            refused.update(verdicts.refused)
        return accepted

    def _forget(self, ids: list[int]) -> None:
        if ids:
            self._index.remove(ids)
            self._layouts.clear()
            self._forgotten(ids)


class _Layouts:
    """Numbers of whole tuples of labels. A target that shows the same series again and again hands over the same tuple."""

    LIMIT_ROWS: Final = 1_000_000

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sequence[Labels], Ids]] = {}
        self._rows = 0

    def find(self, labels: Sequence[Labels]) -> Ids | None:
        known = self._known.get(id(labels))
        return known[1] if known is not None and known[0] is labels else None

    def remember(self, labels: Sequence[Labels], ids: Ids) -> None:
        if self._rows + len(labels) > self.LIMIT_ROWS:
            self.clear()
        # The entry holds on to the tuple, so that its identity cannot be taken by another one.
        self._known[id(labels)] = (labels, ids)
        self._rows += len(labels)

    def clear(self) -> None:
        self._known.clear()
        self._rows = 0


def _is_text(labels: Labels) -> bool:
    try:
        for name, value in labels.pairs:
            name.encode()
            value.encode()
    except UnicodeEncodeError:
        return False
    return True
