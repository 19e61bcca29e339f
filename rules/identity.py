"""Which reports are about the same occurrence of the same alert.

An Alertmanager fingerprint names the label set, not the occurrence, and does not know the cluster. Here the
fingerprint is of cluster and labels, and an episode is one occurrence: it begins when an alert fires and outlives short
gaps, so that a flapping alert stays one episode.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Iterable
from typing import Final

from healer.model.alerts import Alert, AlertStatus
from healer.model.series import Labels

START_TOLERANCE: Final = dt.timedelta(seconds=5)
"""How far the start of one occurrence may differ between reports: senders round and re-evaluate."""


def fingerprint(cluster: str, labels: Labels) -> str:
    """16 hex digits that name (cluster, labels), the same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (cluster, *(part for pair in labels.pairs for part in pair)):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()


def episode_id(cluster: str, labels: Labels, starts_at: dt.datetime) -> str:
    """Names the occurrence that began at `starts_at`. Ask `follow` first whether a known one goes on."""
    return f"{fingerprint(cluster, labels)}-{int(starts_at.timestamp() * 1000):x}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One occurrence of an alert. `changes`: when it began and stopped firing, oldest first, the newest few."""

    id: str
    starts_at: dt.datetime
    status: AlertStatus
    changed_at: dt.datetime
    changes: tuple[dt.datetime, ...] = ()

    def transitions_within(self, window: dt.timedelta, now: dt.datetime) -> int:
        """How often it changed in the last `window`."""
        return sum(now - window < changed <= now for changed in self.changes)

    def is_flapping(self, *, now: dt.datetime, window: dt.timedelta, threshold: int) -> bool:
        """Whether it changed at least `threshold` times in the last `window`."""
        return self.transitions_within(window, now) >= threshold


MOST_CHANGES: Final = 64


def follow(
    known: Episode | None,
    alert: Alert,
    *,
    now: dt.datetime,
    hold: dt.timedelta = dt.timedelta(0),
    tolerance: dt.timedelta = START_TOLERANCE,
) -> Episode:
    """The episode that `alert` belongs to: `known` (the newest of its fingerprint) going on, or a new one.

    An episode that is over goes on when the alert fires again within `hold` of its end, or when the report has the same
    start within `tolerance` (it came late). A firing one goes on whatever start is reported.
    """
    if known is None or _is_new(known, alert, now, hold, tolerance):
        return Episode(
            id=episode_id(alert.cluster, alert.labels, alert.starts_at),
            starts_at=alert.starts_at,
            status=alert.status,
            changed_at=now,
            changes=(now,),
        )
    if known.status is alert.status:
        return known
    if _is_late(known, alert, tolerance):
        return known
    changes = (*known.changes, now)[-MOST_CHANGES:]
    return dataclasses.replace(known, status=alert.status, changed_at=now, changes=changes)


def _is_new(known: Episode, alert: Alert, now: dt.datetime, hold: dt.timedelta, tolerance: dt.timedelta) -> bool:
    if known.status is AlertStatus.FIRING or alert.status is AlertStatus.RESOLVED:
        return False
    if alert.starts_at - known.starts_at <= tolerance:
        return False
    return now - known.changed_at > hold


def _is_late(known: Episode, alert: Alert, tolerance: dt.timedelta) -> bool:
    """A report of an earlier time than what is known: a resolution of an older occurrence."""
    return (
        alert.status is AlertStatus.RESOLVED
        and alert.ends_at is not None
        and alert.ends_at < known.starts_at - tolerance
    )


def newest(episodes: Iterable[Episode]) -> Episode | None:
    return max(episodes, key=lambda episode: episode.starts_at, default=None)
