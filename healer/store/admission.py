"""Which samples of a batch may be kept, as Prometheus decides it: in time order within a series, and not absurd."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from healer.model.series import Floats, Times
from healer.store.columns import Ids, Mask

OUT_OF_ORDER: Final = "out of order"
DUPLICATE: Final = "duplicate timestamp"
TOO_OLD: Final = "too old"
TOO_NEW: Final = "too far in the future"
TOO_MANY_SERIES: Final = "too many series"
BAD_LABEL: Final = "label is not valid UTF-8"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """`kept`: rows to keep. `repeated`: rows that say again what is already kept, and are neither kept nor refused."""

    kept: Mask
    repeated: int
    refused: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Times that are taken, both ends included."""

    oldest_ms: int
    newest_ms: int


ANY_TIME: Final = Bounds(oldest_ms=-(2**63) + 1, newest_ms=2**63 - 1)


def judge(times_ms: Times, values: Floats, newest: tuple[Times, Floats], bounds: Bounds) -> Verdicts:
    """Row i is a sample of a series whose newest sample so far is `newest[0][i], newest[1][i]`; no series is there twice."""
    last_ms, last_value = newest
    too_old = times_ms < bounds.oldest_ms
    too_new = times_ms > bounds.newest_ms
    fit = ~(too_old | too_new)
    again = fit & (times_ms == last_ms)
    repeated = again & (_bits(values) == _bits(last_value))
    refused = {
        TOO_OLD: int(too_old.sum()),
        TOO_NEW: int(too_new.sum()),
        DUPLICATE: int((again & ~repeated).sum()),
        OUT_OF_ORDER: int((fit & (times_ms < last_ms)).sum()),
    }
    return Verdicts(
        kept=fit & (times_ms > last_ms),
        repeated=int(repeated.sum()),
        refused={reason: count for reason, count in refused.items() if count},
    )


def rounds(ids: Ids) -> list[Times]:
    """Positions in `ids`, dealt out so that no series is twice in one round and its rows keep their order.

    A scrape is one round; a backlog of one series has as many as it has samples.
    """
    everything = np.arange(len(ids))
    order = np.argsort(ids, kind="stable")
    begins = np.ones(len(ids), dtype=np.bool_)
    begins[1:] = np.diff(ids[order]) != 0
    if begins.all():
        return [everything]
    rank = np.empty_like(everything)
    rank[order] = everything - np.maximum.accumulate(np.where(begins, everything, 0))
    by_rank = np.argsort(rank, kind="stable")
    return np.split(by_rank, np.flatnonzero(np.diff(rank[by_rank])) + 1)


def _bits(values: Floats) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(values).view(np.uint64)
