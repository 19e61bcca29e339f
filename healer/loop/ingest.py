"""Where collectors put what they bring: samples to the store and the eager rules, alerts to the intake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from healer.model.series import Batch
from healer.ports import AlertReport, Appended, Store


class Ingest:
    """ports.Sink."""

    def __init__(
        self,
        store: Store,
        *,
        arrived: Callable[[Batch], None],
        take: Callable[[AlertReport], Awaitable[None]],
        incomplete: Callable[[AlertReport], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._arrived = arrived
        self._take = take
        self._incomplete = incomplete

    async def samples(self, batch: Batch) -> Appended:
        appended = await self._store.append(batch)
        if appended.accepted:
            self._arrived(batch)
        return appended

    async def alerts(self, report: AlertReport) -> None:
        await self._take(report)
        if report.truncated:
            self._incomplete(report)
