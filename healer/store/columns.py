"""Samples in memory: fixed chunks in one preallocated pool, chained per series from the newest backwards.

A batch goes in, and any number of series come out, by a few numpy operations, never by a loop over samples. The pool is
reserved at once and touched as it fills, so that its size is a limit on memory that is not paid for in advance.
Series are numbers here; what they are called is the index's business.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
import numpy.typing as npt

from healer.errors import StoreError
from healer.model.series import Floats, Times

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

CHUNK: Final = 32
"""Samples in a chunk: eight minutes at 15 s, so that an instant query reads one or two."""
BYTES_PER_CHUNK: Final = CHUNK * 16 + 4 + 4 + 8 + 8
NONE: Final = -1
NEVER: Final = -(2**63)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Samples of some series: row i of `counts` says how many of the following belong to series `ids[i]`."""

    ids: Ids
    counts: Times
    times_ms: Times
    values: Floats


class SampleColumns:
    """The samples of every series, in time order within each."""

    def __init__(self, *, memory_limit_bytes: int) -> None:
        self.capacity = max(1, memory_limit_bytes // BYTES_PER_CHUNK)
        try:
            self._times = np.empty((self.capacity, CHUNK), dtype=np.int64)
            self._values = np.empty((self.capacity, CHUNK), dtype=np.float64)
        except MemoryError as error:
            raise StoreError(
                f"reserving {memory_limit_bytes} bytes for samples: the system refused; lower the store's memory_limit"
            ) from error
        self._filled = np.zeros(self.capacity, dtype=np.int32)
        self._previous = np.empty(self.capacity, dtype=np.int32)  # Written when a chunk is taken; not touched before.
        self._first_ms = np.zeros(self.capacity, dtype=np.int64)
        self._last_ms = np.zeros(self.capacity, dtype=np.int64)
        self._used = 0  # Chunks from here on were never touched.
        self._free: list[int] = []
        self._head = np.full(0, NONE, dtype=np.int32)
        self._newest_ms = np.full(0, NEVER, dtype=np.int64)
        self._newest_value = np.zeros(0, dtype=np.float64)

    @property
    def chunks_free(self) -> int:
        return self.capacity - self._used + len(self._free)

    def newest(self, ids: Ids) -> tuple[Times, Floats]:
        """Time and value of the newest sample of each series; NEVER for one that has none."""
        return self._newest_ms[ids], self._newest_value[ids]

    def newest_ms(self, id_: int) -> int:
        """Time of the newest sample of one series; NEVER if there is none."""
        return int(self._newest_ms[id_])

    def make_room(self, series: int) -> None:
        """Know series 0 … `series` - 1."""
        known = len(self._head)
        if series > known:
            more = max(series, known * 2, 1024) - known
            self._head = np.concatenate([self._head, np.full(more, NONE, dtype=np.int32)])
            self._newest_ms = np.concatenate([self._newest_ms, np.full(more, NEVER, dtype=np.int64)])
            self._newest_value = np.concatenate([self._newest_value, np.zeros(more)])

    def append(self, ids: Ids, times_ms: Times, values: Floats) -> None:
        """One sample for each of `ids`, all different, each newer than what its series has. There must be free chunks."""
        full = ids[self._is_full(ids)]
        if len(full):
            chunks = self._take(len(full))
            self._previous[chunks] = self._head[full]
            self._filled[chunks] = 0
            self._head[full] = chunks
        heads = self._head[ids]
        slots = self._filled[heads]
        self._times[heads, slots] = times_ms
        self._values[heads, slots] = values
        self._filled[heads] = slots + 1
        begun = slots == 0
        self._first_ms[heads[begun]] = times_ms[begun]
        self._last_ms[heads] = times_ms
        self._newest_ms[ids] = times_ms
        self._newest_value[ids] = values

    def read(self, ids: Ids, start_ms: int, end_ms: int) -> Rows:
        """What `ids` have in [start_ms, end_ms], oldest first; series without any are left out."""
        chunks, owners = self._chunks_of(ids, start_ms, end_ms)
        times = self._times[chunks]
        wanted = (np.arange(CHUNK) < self._filled[chunks][:, None]) & (times >= start_ms) & (times <= end_ms)
        counts = np.bincount(owners, weights=wanted.sum(axis=1), minlength=len(ids)).astype(np.int64)
        some = counts > 0
        return Rows(ids=ids[some], counts=counts[some], times_ms=times[wanted], values=self._values[chunks][wanted])

    def oldest_ms(self, chunks: int) -> int:
        """The time up to which to drop, so that at least `chunks` chunks come free."""
        ends = self._last_ms[: self._used][self._in_use()]
        return int(np.partition(ends, chunks - 1)[chunks - 1])

    def drop_until(self, time_ms: int) -> tuple[Ids, int]:
        """Let go of every chunk that ends at or before `time_ms`: the series that are now empty, and the samples dropped.

        A chunk goes as a whole; one that straddles the time stays.
        """
        used = self._used
        dropped = self._in_use() & (self._last_ms[:used] <= time_ms)
        if not dropped.any():
            return np.zeros(0, dtype=np.int32), 0
        chunks = np.flatnonzero(dropped)
        samples = int(self._filled[chunks].sum())
        previous = self._previous[:used]
        previous[(previous != NONE) & dropped[previous]] = NONE
        emptied = np.flatnonzero((self._head != NONE) & dropped[self._head]).astype(np.int32)
        self._head[emptied] = NONE
        self._newest_ms[emptied] = NEVER
        self._filled[chunks] = 0
        self._free.extend(chunks.tolist())
        return emptied, samples

    def _is_full(self, ids: Ids) -> Mask:
        heads = self._head[ids]
        full: Mask = (heads == NONE) | (self._filled[heads] == CHUNK)
        return full

    def _in_use(self) -> Mask:
        return self._filled[: self._used] > 0

    def _take(self, count: int) -> Ids:
        recycled = self._free[max(0, len(self._free) - count) :]
        del self._free[len(self._free) - len(recycled) :]
        fresh = count - len(recycled)
        chunks = np.array([*recycled, *range(self._used, self._used + fresh)], dtype=np.int32)
        self._used += fresh
        return chunks

    def _chunks_of(self, ids: Ids, start_ms: int, end_ms: int) -> tuple[Ids, Times]:
        """Chunks that overlap the range, with the position in `ids` of each; by series, then oldest first."""
        chunks = self._head[ids]
        owners = np.arange(len(ids))
        found: list[tuple[Ids, Times]] = []
        while True:
            older = (chunks != NONE) & (self._last_ms[chunks] >= start_ms)
            chunks, owners = chunks[older], owners[older]
            if not len(chunks):
                break
            within = self._first_ms[chunks] <= end_ms
            found.append((chunks[within], owners[within]))
            chunks = self._previous[chunks]
        if not found:
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        every = np.concatenate([one[0] for one in reversed(found)])
        owning = np.concatenate([one[1] for one in reversed(found)])
        order = np.argsort(owning, kind="stable")
        return every[order], owning[order]
