"""What a decision is made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime

from healer.cluster.census import Census
from healer.loop.book import Book
from healer.loop.memory import Memory
from healer.model.cluster import ClusterState
from healer.model.decisions import Moment
from healer.safety.state import Disruption


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision is made from."""

    memory: Memory
    book: Book
    states: Mapping[str, ClusterState]
    moment: Moment
    since: datetime
    """When this process began to listen."""
    storming: frozenset[str] = frozenset()
    outages: Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    censuses: Mapping[str, Census] = dataclasses.field(default_factory=dict)
    disruptions: tuple[Disruption, ...] = ()
    """These three as in `safety.state.Fleet`."""
