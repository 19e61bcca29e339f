"""Functions of single values: rounding, limits, and the calendar (in UTC)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from healer.model.series import Floats, Labels
from healer.rules.promql.calls import Implementation, Site, each, numbers, vector
from healer.rules.promql.labelling import drop_names
from healer.rules.promql.values import Scalar, Value, Vector

Days = npt.NDArray[np.datetime64]


def round_to(site: Site, args: Sequence[Value]) -> Vector:
    """To the nearest multiple of the second argument (1 by default), halves upwards."""
    inverse = 1 / numbers(args[1]) if len(args) > 1 else np.ones(site.steps)
    return vector(each(lambda values: np.floor(values * inverse + 0.5) / inverse)(site, args[:1]))


def clamp(_: Site, args: Sequence[Value]) -> Vector:
    """Within both limits; nothing where the lower is above the upper."""
    of, least, most = vector(args[0]), numbers(args[1]), numbers(args[2])
    values = np.maximum(least, np.minimum(most, of.values))
    return drop_names(Vector(labels=of.labels, values=values, present=of.present & ~(least > most)))


def scalar(_: Site, args: Sequence[Value]) -> Scalar:
    """The value of the only sample; NaN when there are several or none."""
    of = vector(args[0])
    only = of.present.sum(axis=0) == 1
    return Scalar(values=np.where(only, np.where(of.present, of.values, 0.0).sum(axis=0), np.nan))


def to_vector(site: Site, args: Sequence[Value]) -> Vector:
    return _single(site, numbers(args[0]))


def _single(site: Site, values: Floats) -> Vector:
    shape = (1, site.steps)
    return Vector(labels=(Labels(),), values=values.reshape(shape), present=np.ones(shape, dtype=np.bool_))


def constant(site: Site, value: float) -> Scalar:
    return Scalar(values=np.full(site.steps, value))


def timestamp(site: Site, args: Sequence[Value]) -> Vector:
    """The time of evaluation, where there is a sample."""
    of = vector(args[0])
    values = np.broadcast_to(site.times_ms / 1000, of.values.shape)
    return drop_names(Vector(labels=of.labels, values=values, present=of.present))


def time(site: Site, _: Sequence[Value]) -> Scalar:
    return Scalar(values=site.times_ms / 1000)


def query_number(of: Callable[[Site], int]) -> Implementation:
    """A function without arguments that tells milliseconds of the query, in seconds."""
    return lambda site, _: Scalar(values=np.full(site.steps, of(site) / 1000))


def calendar(field: Callable[[npt.NDArray[np.datetime64]], npt.NDArray[np.int64]]) -> Implementation:
    """A field of the time that each value is, in seconds since the epoch; of the time of evaluation by default."""

    def call(site: Site, args: Sequence[Value]) -> Vector:
        of = vector(args[0]) if args else _single(site, site.times_ms / 1000)
        known = np.isfinite(of.values) & (np.abs(of.values) < 1e11)
        moments = np.where(known, of.values, 0.0).astype(np.int64).astype("datetime64[s]")
        values = np.where(known, field(moments).astype(np.float64), np.nan)
        return drop_names(Vector(labels=of.labels, values=values, present=of.present))

    return call


def year(moments: Days) -> npt.NDArray[np.int64]:
    return moments.astype("datetime64[Y]").astype(np.int64) + 1970


def month(moments: Days) -> npt.NDArray[np.int64]:
    return moments.astype("datetime64[M]").astype(np.int64) % 12 + 1


def day_of_month(moments: Days) -> npt.NDArray[np.int64]:
    return _days(moments) - moments.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + 1


def day_of_year(moments: Days) -> npt.NDArray[np.int64]:
    return _days(moments) - moments.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64) + 1


def day_of_week(moments: Days) -> npt.NDArray[np.int64]:
    return (_days(moments) + 4) % 7


def days_in_month(moments: Days) -> npt.NDArray[np.int64]:
    this = moments.astype("datetime64[M]")
    days: npt.NDArray[np.int64] = _days(this + 1) - _days(this)
    return days


def hour(moments: Days) -> npt.NDArray[np.int64]:
    return moments.astype(np.int64) // 3600 % 24


def minute(moments: Days) -> npt.NDArray[np.int64]:
    return moments.astype(np.int64) // 60 % 60


def _days(moments: Days) -> npt.NDArray[np.int64]:
    return moments.astype("datetime64[D]").astype(np.int64)
