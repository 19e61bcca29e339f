"""What names an alert, and one occurrence of it.

An Alertmanager fingerprint names the label set, not the occurrence, and does not know the cluster. Here the
fingerprint is of cluster and labels, and an episode is one occurrence.
"""

from __future__ import annotations

import datetime as dt
import hashlib

from healer.model.series import Labels


def fingerprint(cluster: str, labels: Labels) -> str:
    """16 hex digits that name (cluster, labels), the same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (cluster, *(part for pair in labels.pairs for part in pair)):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()


def episode_id(cluster: str, labels: Labels, starts_at: dt.datetime) -> str:
    """Names the occurrence that began at `starts_at`."""
    return f"{fingerprint(cluster, labels)}-{int(starts_at.timestamp() * 1000):x}"
