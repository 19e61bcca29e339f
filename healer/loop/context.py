"""What an action sees while it runs: the journalled call, its memory over a restart, the checks before each change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from healer.clock import Clock
from healer.errors import OutcomeUnknown, Permanent, Retryable, StoppedByOperator, TargetGone
from healer.loop.book import Book, Cluster
from healer.loop.recorder import Recorder
from healer.loop.records import CallRecord, Operation, StepRecord
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.fencing import FenceProof
from healer.model.targets import Level, ObjectRef
from healer.ports import JSON, Kube, Provider, Settled

LOOK_AGAIN_SECONDS: Final = 5.0


class Gate:
    """Calls to the outside that are under way. Once it is closed none begins, so that the service can end between two.

    What lies between calls needs no time to end: the journal lets it go on after the next start.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """From the intent to the outcome of one call. Never begins when the gate is closed."""
        if self._closed:
            await asyncio.Event().wait()
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def close(self) -> None:
        self._closed = True

    @property
    def is_idle(self) -> bool:
        return self._idle.is_set()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        await self._idle.wait()


class OperationContext:
    """ports.StepContext for one step of one operation. `undo`: taking back is neither paused nor cancelled."""

    def __init__(
        self,
        operation: Operation,
        index: int,
        *,
        cluster: Cluster,
        recorder: Recorder,
        book: Callable[[], Book],
        gate: Gate | None = None,
        undo: bool = False,
    ) -> None:
        self.target: ObjectRef = operation.plan.target
        self.operation: str = operation.id
        self.kube: Kube = cluster.kube
        self.clock: Clock = recorder.clock
        self.proof: FenceProof | None = None
        self._record = operation
        self._index = index
        self._cluster = cluster
        self._recorder = recorder
        self._book = book
        self._gate = gate or Gate()
        self._undo = undo

    @property
    def _step(self) -> StepRecord:
        return self._record.step(self._index)

    def state(self) -> ClusterState:
        return self._cluster.state()

    def provider(self, name: str) -> Provider:
        providers = self._book().providers
        if not name and len(providers) == 1:
            return next(iter(providers.values()))
        if name not in providers:
            known = ", ".join(sorted(providers)) or "none"
            raise Permanent(f"asking provider {name!r}: there is no provider of that name; configured are {known}")
        return providers[name]

    def recall(self, name: str) -> Any:
        return self._step.notes.get(name)

    async def remember(self, name: str, value: Any) -> None:
        if self._step.notes.get(name) == value and name in self._step.notes:
            return
        await self._recorder.record(
            ev.StepNoted(
                at=self.clock.now(),
                incident=self._record.incident,
                operation=self.operation,
                step=self._index,
                name=name,
                value=value,
            )
        )

    def recall_from(self, action: str, name: str) -> Any:
        for index, preview in enumerate(self._record.plan.previews):
            if preview.action == action and index != self._index and name in self._record.step(index).notes:
                return self._record.step(index).notes[name]
        return None

    async def say(self, text: str) -> None:
        await self._recorder.record(
            ev.StepProgress(
                at=self.clock.now(),
                incident=self._record.incident,
                operation=self.operation,
                step=self._index,
                text=text,
            )
        )

    async def changed(self, within_seconds: float) -> None:
        await self._cluster.changed(within_seconds)

    # Whether to go on ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        if self._undo:
            return
        if self._record.cancelled_by:
            raise StoppedByOperator(f"cancelled by {self._record.cancelled_by}")
        self._check_identity()

    def _check_identity(self) -> None:
        """The same object under that name, or none: both are for the action to see. Another one ends the operation."""
        state = self.state()
        found = state.find(self.target.kind, self.target.namespace, self.target.name)
        if found is not None and self.target.uid and found.uid != self.target.uid:
            raise TargetGone(f"{self.target} is another object now: UID {found.uid}, not {self.target.uid}")
        if self.target.level is Level.NODE and found is not None and self._record.identity:
            provider_id = state.nodes[self.target.name].provider_id
            if provider_id != self._record.identity.provider_id:
                raise TargetGone(f"{self.target} is another machine now: {provider_id}")

    async def _may_change(self) -> None:
        """Hold while everything is paused or the API server does not answer: a change would be made blindly."""
        said = ""
        while not self._undo:
            self.check()
            why = self._obstacle()
            if not why:
                return
            if why != said:
                await self.say(f"holding before the next change: {why}")
                said = why
            await self.changed(LOOK_AGAIN_SECONDS)

    def _obstacle(self) -> str:
        if paused := self._recorder.memory.paused:
            return f"paused by {paused}"
        freshness = self.state().freshness
        settings = self._book().safety
        if freshness.silent_seconds > settings.stale_after_seconds or not freshness.synced:
            return f"the API server has not answered for {freshness.silent_seconds:.0f} s"
        return ""

    # The journalled call ---------------------------------------------------------------------------------------------

    async def once(
        self,
        call: str,
        on: ObjectRef | str,
        do: Callable[[str], Awaitable[JSON | None]],
        settle: Callable[[], Awaitable[Settled]],
        *,
        irreversible: bool = True,
    ) -> JSON | None:
        name = f"undo {call}" if self._undo else call
        known = self._step.calls.get(name)
        if known is not None and known.outcome:
            result: JSON | None = known.result
            return result
        if known is not None:
            settled = await self._settle(call, known, settle)
            if settled is Settled.DONE:
                return None
        if irreversible:
            await self._may_change()
        async with self._gate.call():
            return await self._call(call, on, do, settle)

    async def _call(
        self,
        call: str,
        on: ObjectRef | str,
        do: Callable[[str], Awaitable[JSON | None]],
        settle: Callable[[], Awaitable[Settled]],
    ) -> JSON | None:
        """Intent, call, outcome."""
        key = f"{self.operation}-{self._index}-{call}"
        await self._recorder.record(
            ev.CallIntended(
                at=self.clock.now(),
                incident=self._record.incident,
                operation=self.operation,
                step=self._index,
                call=call,
                key=key,
                on=str(on),
                undo=self._undo,
            )
        )
        self._recorder.check_leading()
        try:
            done = await do(key)
        except OutcomeUnknown:
            settled = await self._settle(call, CallRecord(key=key), settle)
            if settled is Settled.DONE:
                return None
            raise Retryable(f"{call}: no answer came, and it was not done") from None
        except Exception as error:
            await self._ended(call, "failed", detail=str(error))
            raise
        await self._ended(call, "done", result=done)
        return done

    async def _settle(self, call: str, known: CallRecord, settle: Callable[[], Awaitable[Settled]]) -> Settled:
        """Find out by reading; never by doing it again."""
        settled = await settle()
        match settled:
            case Settled.DONE:
                await self._ended(call, "settled", detail="found done")
            case Settled.NOT_DONE:
                await self._ended(call, "void", detail="found not done")
            case Settled.UNKNOWN:
                raise OutcomeUnknown(f"{call} ({known.key}): it cannot be told whether it was done; a person must look")
        return settled

    async def _ended(self, call: str, outcome: str, *, result: JSON | None = None, detail: str = "") -> None:
        await self._recorder.record(
            ev.CallEnded(
                at=self.clock.now(),
                incident=self._record.incident,
                operation=self.operation,
                step=self._index,
                call=call,
                outcome=outcome,
                result=result,
                detail=detail,
                undo=self._undo,
            )
        )
