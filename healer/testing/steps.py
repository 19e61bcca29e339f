"""A step's context for tests of actions: journalled calls kept in memory, and a crash wherever a test wants one.

    memory = Memory()
    context = FakeContext(target, kube=kube, state=caches.state, clock=clock, memory=memory)
    await Cordon(CordonSettings()).run(context)

A restart is a new context over the same `memory`. The rules are those of the engine: what is journalled as done is not
done again; what was begun and not ended is settled by reading.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypeVar

from healer.clock import Clock
from healer.errors import OutcomeUnknown, Permanent, Retryable, StoppedByOperator, TargetGone
from healer.model.cluster import ClusterState
from healer.model.fencing import FenceProof
from healer.model.targets import ObjectRef
from healer.ports import JSON, Action, Kube, Provider, Settled

T = TypeVar("T")


class Crashed(BaseException):
    """The process is dead. Not an Exception: nothing may catch it and go on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CrashAt:
    """Die at the so many-th call (from 1) of a process: before it is made, or `after` it, before its outcome is written."""

    call: int
    after: bool = False


@dataclasses.dataclass(slots=True)
class Memory:
    """What outlives a crash: calls begun and ended, notes, lines for the timeline. Shared by the steps of one operation."""

    calls: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    """(step, call) → "intended", "done" or "failed"."""
    results: dict[tuple[str, str], JSON | None] = dataclasses.field(default_factory=dict)
    notes: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)
    said: list[str] = dataclasses.field(default_factory=list)
    made: list[str] = dataclasses.field(default_factory=list)
    """Every call that was really made, in order, also the repeated ones."""


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


class _DeadKube:
    """What a dead process can do to a cluster."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Crashed(f"{name} after the crash")


class FakeContext:
    """`healer.ports.StepContext` for one step, `step`, of one operation."""

    def __init__(
        self,
        target: ObjectRef,
        *,
        kube: Kube,
        state: Callable[[], ClusterState],
        clock: Clock,
        changed: Callable[[float], Awaitable[object]] = _sleep,
        memory: Memory | None = None,
        operation: str = "op-1",
        step: str = "step",
        providers: Mapping[str, Provider] | None = None,
        crash: CrashAt | None = None,
        undo: bool = False,
    ) -> None:
        self.target = target
        self.operation = operation
        self.kube: Kube = kube
        self.clock = clock
        self.proof: FenceProof | None = None
        self.memory = memory or Memory()
        self.step = step
        self.cancelled = ""
        self._state = state
        self._changed = changed
        self._providers = providers or {}
        self._crash = crash
        self._calls = 0
        self._undo = undo
        self._dead = False

    def state(self) -> ClusterState:
        return self._state()

    def provider(self, name: str) -> Provider:
        if not name and len(self._providers) == 1:
            return next(iter(self._providers.values()))
        if name not in self._providers:
            raise Permanent(f"asking provider {name!r}: there is no provider of that name")
        return self._providers[name]

    async def once(
        self,
        call: str,
        on: ObjectRef | str,  # noqa: ARG002 — the engine journals it; here nobody reads it
        do: Callable[[str], Awaitable[JSON | None]],
        settle: Callable[[], Awaitable[Settled]],
        *,
        irreversible: bool = True,
    ) -> JSON | None:
        self._alive()
        name = (self.step, f"undo {call}" if self._undo else call)
        known = self.memory.calls.get(name)
        if known == "done":
            return self.memory.results[name]
        if known == "intended" and await self._settled(name, settle):
            return None
        if irreversible:
            self.check()
        self._calls += 1
        self.memory.calls[name] = "intended"
        self._die_if(after=False)
        self.memory.made.append(call)
        try:
            result = await do(f"{self.operation}-{self.step}-{call}")
        except OutcomeUnknown:
            if await self._settled(name, settle):
                return None
            raise Retryable(f"{call}: no answer came, and it was not done") from None
        except Exception:
            self.memory.calls[name] = "failed"
            raise
        self._die_if(after=True)
        self._done(name, result)
        return result

    async def _settled(self, name: tuple[str, str], settle: Callable[[], Awaitable[Settled]]) -> bool:
        match await settle():
            case Settled.DONE:
                self._done(name, None)
                return True
            case Settled.NOT_DONE:
                self.memory.calls[name] = "failed"
                return False
            case Settled.UNKNOWN:
                raise OutcomeUnknown(f"{name[1]}: it cannot be told whether it was done; a person must look")

    def _done(self, name: tuple[str, str], result: JSON | None) -> None:
        self.memory.calls[name] = "done"
        self.memory.results[name] = result

    def _die_if(self, *, after: bool) -> None:
        if self._crash == CrashAt(call=self._calls, after=after):
            self._dead = True
            dead: Any = _DeadKube()
            self.kube = dead
            raise Crashed(f"at call {self._calls}")

    def _alive(self) -> None:
        if self._dead:
            raise Crashed("the process is dead")

    def recall(self, name: str) -> Any:
        return self.memory.notes.get((self.step, name))

    async def remember(self, name: str, value: Any) -> None:
        self._alive()
        self.memory.notes[self.step, name] = value

    def recall_from(self, action: str, name: str) -> Any:
        return self.memory.notes.get((action, name)) if action != self.step else None

    async def say(self, text: str) -> None:
        self._alive()
        self.memory.said.append(text)

    async def changed(self, within_seconds: float) -> None:
        self._alive()
        await self._changed(within_seconds)

    def check(self) -> None:
        self._alive()
        if self._undo:
            return
        if self.cancelled:
            raise StoppedByOperator(f"cancelled by {self.cancelled}")
        found = self._state().find(self.target.kind, self.target.namespace, self.target.name)
        if found is not None and self.target.uid and found.uid != self.target.uid:
            raise TargetGone(f"{self.target} is another object now")


async def run_through_crashes(
    make: Callable[[CrashAt | None], FakeContext], action: Action, *, calls: int, after: bool
) -> FakeContext:
    """Run `action`, dying once at each of its first `calls` calls, and go on each time; then let it end."""
    for number in range(1, calls + 1):
        try:
            await action.run(context := make(CrashAt(call=number, after=after)))
        except Crashed:
            continue
        return context
    await action.run(context := make(None))
    return context
