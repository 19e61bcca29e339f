"""A ports.Operator whom nobody asks anything, for notifiers that are only told things."""

# ruff: noqa: ARG002 — the port's signatures

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from healer.model.cluster import ClusterState
from healer.model.decisions import Reason
from healer.model.incidents import IncidentView


class NobodyAsks:
    """Knows no incident; every answer is one too many."""

    def incidents(self, *, open_only: bool = False) -> Sequence[IncidentView]:
        return ()

    def incident(self, id_: str) -> IncidentView | None:
        return None

    async def answer(self, incident: str, *, approve: bool, by: str, via: str, digest: str = "") -> Reason:
        return Reason.TARGET_NOT_FOUND

    async def cancel(self, incident: str, *, by: str) -> Reason:
        return Reason.NO_LONGER_NEEDED

    async def pause(self, *, by: str, why: str) -> None:
        return

    async def resume(self, *, by: str, why: str) -> None:
        return

    def paused(self) -> str:
        return ""

    def cluster_states(self) -> Sequence[ClusterState]:
        return ()

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[IncidentView]]:
        async def nothing() -> AsyncIterator[IncidentView]:
            nobody: tuple[IncidentView, ...] = ()
            for view in nobody:
                yield view

        yield nothing()
