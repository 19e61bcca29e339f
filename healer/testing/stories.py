"""Incidents told event by event, over a real recorder, engine and operator, but without a cluster and without rules.

    async with Story() as story:
        incident = await story.opens("NodeDown", "node-a1")
        await story.asks(incident)
        await story.people.answer(incident, approve=True, by="you", via="console")

For tests of what shows incidents and takes answers: nothing happens unless it is told.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from healer.clock import Clock, SystemClock
from healer.loop import recorder as recorders
from healer.loop.book import Book, Cluster
from healer.loop.engine import Engine
from healer.loop.memory import Memory
from healer.loop.people import People
from healer.loop.recorder import Recorder
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.decisions import Answer, Reason, Verdict
from healer.model.incidents import IncidentView
from healer.model.plans import ApprovalSpec, Mode, Remedy, StepSpec
from healer.model.targets import ObjectRef
from healer.rules.remedies import RemedyIndex
from healer.safety.state import SafetySettings
from healer.testing.journals import MemoryJournal
from healer.testing.views import a_plan

REMEDY = "replace-dead-node"


class Story:
    """`people` is the operator; `journal` says what was recorded. `states`: clusters as they are to be shown."""

    def __init__(
        self,
        *states: ClusterState,
        clock: Clock | None = None,
        groups: tuple[str, ...] = (),
        approvers: Mapping[str, frozenset[str]] | None = None,
        cluster: str = "prod",
        external_url: str = "",
    ) -> None:
        self.clock = clock or SystemClock()
        self.journal = MemoryJournal()
        self.recorder = Recorder(self.journal, Memory(), self.clock)
        self.states = {state.name: state for state in states}
        self.cluster = cluster
        remedy = Remedy(
            name=REMEDY, matchers=(), steps=(StepSpec(action="cordon"),), mode=Mode.APPROVE, approval=_approval(groups)
        )
        self._book = Book(
            remedies={REMEDY: remedy},
            index=RemedyIndex((remedy,)),
            actions={REMEDY: ()},
            safety=SafetySettings(),
            approvers=approvers or {},
        )
        self.engine = Engine(
            self.recorder,
            clusters={name: self._cluster(name) for name in self.states},
            book=lambda: self._book,
            query=_no_data,
        )
        self.people = People(self.engine, external_url=external_url)
        self._count = itertools.count(1)
        self._stack = contextlib.AsyncExitStack()

    def _cluster(self, name: str) -> Cluster:
        nobody: Any = None  # nothing is done in a story
        return Cluster(name=name, kube=nobody, state=lambda: self.states[name], changed=_never)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(recorders.running(self.recorder))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def record(self, *events: ev.AnyEvent) -> None:
        await self.recorder.record(*events)

    def view(self, incident: str) -> IncidentView:
        found = self.people.incident(incident)
        assert found is not None, f"there is no incident {incident!r}"
        return found

    def answers(self) -> list[ev.ApprovalAnswered]:
        """Every answer that was recorded, also those that do not count."""
        return [event for event in self.journal.events if isinstance(event, ev.ApprovalAnswered)]

    # What happens ----------------------------------------------------------------------------------------------------

    async def opens(
        self,
        title: str = "NodeDown",
        node: str = "node-a1",
        *,
        summary: str = "node-a1 does not answer",
        since: float = 4.0,
        **labels: str,
    ) -> str:
        """An alert about a node becomes an incident, whose id is given. `since`: seconds for which it had fired."""
        number = next(self._count)
        incident, episode = f"inc-{number}", f"ep-{number}"
        given = {"alertname": title, "node": node, "severity": "critical"} | labels
        ref = self.node(node)
        await self.record(
            ev.AlertFired(
                at=self.now,
                cluster=self.cluster,
                episode=episode,
                labels=tuple(sorted(given.items())),
                annotations={"summary": summary},
                starts_at=self.now - timedelta(seconds=since),
                source="rules",
            ),
            ev.IncidentOpened(
                at=self.now,
                incident=incident,
                cluster=self.cluster,
                owner=ref,
                title=title,
                severity=given["severity"],
                episode=episode,
                target=ref,
                trace_id=f"{number:032x}",
            ),
        )
        return incident

    def node(self, name: str) -> ObjectRef:
        return ObjectRef(cluster=self.cluster, kind="Node", name=name, uid=f"uid-{name}")

    def target(self, incident: str) -> ObjectRef:
        return self.recorder.memory.incidents[incident].owner

    async def plans(self, incident: str, *, mode: str = "approve") -> None:
        plan = a_plan(self.cluster, self.target(incident).name)
        await self.record(ev.Planned(at=self.now, incident=incident, plan=plan, mode=mode))

    async def asks(self, incident: str, *, seconds: float = 900.0, needed: int = 1) -> None:
        """Planned, and people are asked."""
        await self.plans(incident)
        await self.record(
            ev.ApprovalRequested(
                at=self.now,
                incident=incident,
                remedy=REMEDY,
                digest=a_plan(self.cluster).digest,
                expires_at=self.now + timedelta(seconds=seconds),
                needed=needed,
            )
        )

    async def decides(
        self, incident: str, answer: Answer, reason: Reason, detail: str = "", *, guard: str = "fleet breaker"
    ) -> None:
        await self.record(
            ev.Decided(
                at=self.now,
                incident=incident,
                cluster=self.cluster,
                answer=answer,
                reason=reason,
                detail=detail,
                guard=guard,
                remedy=REMEDY,
                target=self.target(incident),
            )
        )

    async def starts(self, incident: str) -> str:
        """The plan is carried out from now on; gives the operation."""
        operation = f"{incident}-{REMEDY}-1"
        plan = a_plan(self.cluster, self.target(incident).name)
        await self.record(
            ev.OperationStarted(
                at=self.now,
                incident=incident,
                operation=operation,
                cluster=self.cluster,
                remedy=REMEDY,
                attempt=1,
                plan=plan,
            )
        )
        return operation

    async def steps(
        self, incident: str, operation: str, action: str, *, index: int = 0, ok: bool = True, undo: bool = False
    ) -> None:
        """A step from its start to its end, with one call."""
        same: dict[str, Any] = {"incident": incident, "operation": operation, "step": index}
        call = f"patch {self.target(incident)}"
        await self.record(
            ev.StepStarted(at=self.now, action=action, undo=undo, **same),
            ev.CallIntended(at=self.now, call=call, key=f"{operation}-{index}", on=call, undo=undo, **same),
            ev.CallEnded(at=self.now, call=call, outcome="done" if ok else "failed", undo=undo, **same),
        )
        reason = Reason.OK if ok else Reason.STEP_FAILED
        detail = "" if ok else "the API server answered 500"
        await self.record(
            ev.StepEnded(at=self.now, action=action, ok=ok, reason=reason, detail=detail, undo=undo, **same)
        )

    async def done(self, incident: str, operation: str, *, ok: bool = True) -> None:
        """The operation is over; where it went well, its cure is being verified."""
        reason = Reason.OK if ok else Reason.STEP_FAILED
        await self.record(
            ev.OperationEnded(at=self.now, incident=incident, operation=operation, ok=ok, reason=reason),
            *([ev.VerificationStarted(at=self.now, incident=incident, operation=operation)] if ok else []),
        )

    async def verified(self, incident: str, operation: str, verdict: Verdict = Verdict.FIXED) -> None:
        """With its verdict; `fixed` closes the incident."""
        evidence = ("every alert has resolved",)
        await self.record(
            ev.AlertResolved(
                at=self.now, cluster=self.cluster, episode=incident.replace("inc", "ep"), ends_at=self.now
            ),
            ev.Verified(at=self.now, incident=incident, operation=operation, verdict=verdict, evidence=evidence),
        )
        if verdict is Verdict.FIXED:
            await self.closes(incident, Reason.FIXED)

    async def closes(self, incident: str, reason: Reason = Reason.RESOLVED_ON_ITS_OWN) -> None:
        await self.record(ev.IncidentClosed(at=self.now, incident=incident, reason=reason))

    async def escalates(
        self, incident: str, reason: Reason = Reason.NOT_FIXED, detail: str = "it did not help"
    ) -> None:
        await self.record(ev.Escalated(at=self.now, incident=incident, reason=reason, detail=detail))


def _approval(groups: tuple[str, ...]) -> ApprovalSpec:
    return ApprovalSpec(groups=groups)


async def _no_data(query: str) -> bool | None:  # noqa: ARG001 — the signature of a query
    return None


async def _never(seconds: float) -> None:  # noqa: ARG001 — the signature of a wait
    return


@contextlib.asynccontextmanager
async def a_story(*states: ClusterState, **options: Any) -> AsyncIterator[Story]:
    """A story under way, for a fixture."""
    async with Story(*states, **options) as story:
        yield story
