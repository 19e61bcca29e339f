"""What people ask of the loop: approve, deny, cancel, pause, look. Each answer is journalled, also one that does not count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from healer.loop.engine import Engine
from healer.loop.records import Incident
from healer.loop.views import view
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView
from healer.model.plans import Remedy


class People:
    """ports.Operator over an engine."""

    def __init__(self, engine: Engine, *, external_url: str = "") -> None:
        self._engine = engine
        self._recorder = engine.recorder
        self._memory = engine.memory
        self._external_url = external_url
        self._one_at_a_time = asyncio.Lock()

    # Looking ---------------------------------------------------------------------------------------------------------

    def incidents(self, *, open_only: bool = False) -> Sequence[IncidentView]:
        found = self._memory.open_incidents() if open_only else self._memory.incidents.values()
        return [self._view(incident) for incident in sorted(found, key=lambda i: i.seq, reverse=True)]

    def incident(self, id_: str) -> IncidentView | None:
        found = self._memory.incidents.get(id_)
        return self._view(found) if found else None

    def _view(self, incident: Incident) -> IncidentView:
        return view(self._memory, incident, external_url=self._external_url)

    def paused(self) -> str:
        return self._memory.paused

    def cluster_states(self) -> Sequence[ClusterState]:
        return [cluster.state() for cluster in self._engine.clusters.values()]

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[IncidentView]]:
        changed: dict[str, None] = {}
        wake = asyncio.Event()

        def note(event: ev.AnyEvent) -> None:
            if event.incident:
                changed[event.incident] = None
                wake.set()

        async def views() -> AsyncIterator[IncidentView]:
            while True:
                await wake.wait()
                wake.clear()
                while changed:
                    id_ = next(iter(changed))
                    del changed[id_]
                    if incident := self._memory.incidents.get(id_):
                        yield self._view(incident)

        stop = self._recorder.watch(note)
        try:
            yield views()
        finally:
            stop()

    # Asking ----------------------------------------------------------------------------------------------------------

    async def answer(self, incident: str, *, approve: bool, by: str, via: str, digest: str = "") -> Reason:
        # An answer is judged when those before it are recorded, so that of two at once only one counts.
        async with self._one_at_a_time:
            return await self._answer(incident, approve=approve, by=by, via=via, digest=digest)

    async def _answer(self, incident: str, *, approve: bool, by: str, via: str, digest: str) -> Reason:
        await self._recorder.current()
        found = self._memory.incidents.get(incident)
        if found is None:
            return Reason.TARGET_NOT_FOUND
        reason = self._counts(found, by=by, via=via, digest=digest)
        await self._recorder.record(
            ev.ApprovalAnswered(
                at=self._recorder.clock.now(),
                incident=incident,
                digest=found.approval.digest if found.approval else digest,
                approve=approve,
                by=by,
                via=via,
                accepted=reason is Reason.OK,
                reason=reason,
            )
        )
        self._engine.poke(incident)
        return reason

    def _counts(self, incident: Incident, *, by: str, via: str, digest: str) -> Reason:
        """OK when this answer counts, else the first reason why it does not."""
        approval = incident.approval
        if approval is None or incident.state is not IncidentState.AWAITING_APPROVAL:
            under_way = incident.state in (IncidentState.ACTING, IncidentState.VERIFYING, IncidentState.UNDOING)
            return Reason.ALREADY_DECIDED if under_way else Reason.NO_LONGER_NEEDED
        if self._recorder.clock.monotonic() > approval.expires:
            return Reason.APPROVAL_EXPIRED
        if digest and digest != approval.digest:
            return Reason.PLAN_CHANGED
        if by in approval.given or approval.complete:
            return Reason.ALREADY_DECIDED
        remedy = self._engine.book().remedies.get(approval.remedy)
        if remedy is None:
            return Reason.NO_LONGER_NEEDED
        return Reason.OK if self._allowed(remedy, by, via) else Reason.NOT_ALLOWED

    def _allowed(self, remedy: Remedy, by: str, via: str) -> bool:
        if not remedy.approval.groups:
            return True
        approvers = self._engine.book().approvers
        return any({via, f"{via}:{by}"} & approvers.get(group, frozenset()) for group in remedy.approval.groups)

    async def cancel(self, incident: str, *, by: str) -> Reason:
        await self._recorder.current()
        found = self._memory.incidents.get(incident)
        operation = self._memory.operation_of(found) if found else None
        if found is None or operation is None or operation.ended is not None:
            return Reason.NO_LONGER_NEEDED
        await self._recorder.record(
            ev.OperationCancelled(at=self._recorder.clock.now(), incident=incident, operation=operation.id, by=by)
        )
        return Reason.OK

    async def pause(self, *, by: str, why: str) -> None:
        await self._recorder.record(ev.Paused(at=self._recorder.clock.now(), by=by, why=why))
        self._engine.poke_all()

    async def resume(self, *, by: str, why: str) -> None:
        await self._recorder.record(ev.Resumed(at=self._recorder.clock.now(), by=by, why=why))
        self._engine.poke_all()
