"""Carries out one operation: step after step, then undoing what can be undone if a step failed. Safe to start again."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from healer.errors import (
    ActionError,
    Conflict,
    JournalError,
    NotFound,
    OutcomeUnknown,
    Permanent,
    Retryable,
    StoppedByOperator,
    TakenOver,
    TargetGone,
)
from healer.loop.book import Book, Cluster
from healer.loop.context import Gate, OperationContext
from healer.loop.recorder import Recorder
from healer.loop.records import Operation
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.fencing import FenceProof
from healer.ports import Action

STEP_TRIES: Final = 6
"""How often a step that could not be done for a passing reason is begun again."""
LONGEST_DELAY_SECONDS: Final = 30.0
AWAY_SECONDS: Final = 15.0
"""From so long a silence on the API server is away: something is asked of it at least every 10 s."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    reason: Reason
    detail: str


def failure(error: Exception) -> Failure:
    """What an exception of a step means. The one place where errors become outcomes."""
    match error:
        case StoppedByOperator():
            return Failure(Reason.CANCELLED, str(error))
        case TakenOver():
            return Failure(Reason.TAKEN_OVER, str(error))
        case TargetGone():
            return Failure(Reason.TARGET_GONE, str(error))
        case OutcomeUnknown():
            return Failure(Reason.OUTCOME_UNKNOWN, str(error))
        case Permanent() | Retryable() | Conflict() | ActionError():
            return Failure(getattr(error, "reason", Reason.STEP_FAILED), str(error))
        case _:
            return Failure(Reason.STEP_FAILED, f"{type(error).__name__}: {error}")


class Carrier:
    """Carries out one operation."""

    def __init__(
        self,
        operation: Operation,
        actions: Sequence[Action],
        *,
        cluster: Cluster,
        recorder: Recorder,
        book: Callable[[], Book],
        gate: Gate | None = None,
    ) -> None:
        self._operation = operation
        self._actions = actions
        self._cluster = cluster
        self._recorder = recorder
        self._book = book
        self._gate = gate or Gate()
        self._proof: FenceProof | None = None
        self._adopted = False

    async def run(self) -> bool:
        """True when every step is done. Journals everything; raises only what is not an outcome (cancellation, journal)."""
        if self._operation.ended is not None:
            return self._operation.ok
        failed: Failure | None = None
        for index, action in enumerate(self._actions):
            if self._operation.step(index).ok:
                continue
            failed = await self._step(index, action)
            if failed:
                break
        if failed and failed.reason is not Reason.TAKEN_OVER and failed.reason is not Reason.OUTCOME_UNKNOWN:
            await self.undo()
        await self._recorder.record(
            ev.OperationEnded(
                at=self._recorder.clock.now(),
                incident=self._operation.incident,
                operation=self._operation.id,
                ok=failed is None,
                reason=failed.reason if failed else Reason.OK,
                detail=failed.detail if failed else "",
            )
        )
        return failed is None

    def _context(self, index: int, *, undo: bool = False) -> OperationContext:
        context = OperationContext(
            self._operation,
            index,
            cluster=self._cluster,
            recorder=self._recorder,
            book=self._book,
            gate=self._gate,
            undo=undo,
        )
        context.proof = self._proof
        return context

    async def _step(self, index: int, action: Action) -> Failure | None:
        step = self._operation.step(index)
        if step.ended:
            return Failure(step.reason, step.detail)
        self._adopted = step.started
        if not step.started:
            await self._started(index, action, undo=False)
        failed = await self._try(action, index)
        await self._ended(index, action, failed, undo=False)
        return failed

    async def _try(self, action: Action, index: int) -> Failure | None:
        tries = 0
        while True:
            tries += 1
            context = self._context(index)
            try:
                if not self._adopted:
                    # A step that had begun before a restart may itself have put another object under the name.
                    context.check()
                await action.run(context)
            except Retryable as error:
                if tries >= STEP_TRIES and not self._is_away():
                    return failure(error)
                tries = await self._before_next_try(context, tries, error.delay_seconds)
            except JournalError:
                raise
            except Exception as error:  # noqa: BLE001 — whatever a plugin raises is an outcome, and is journalled
                return failure(error)
            else:
                self._proof = context.proof or self._proof
                return None

    def _is_away(self) -> bool:
        return self._cluster.state().freshness.silent_seconds > AWAY_SECONDS

    async def _before_next_try(self, context: OperationContext, tries: int, delay_seconds: float = 0.0) -> int:
        """Wait; how many tries count by then. None does while the API server is away: that says nothing about the step."""
        await asyncio.sleep(min(LONGEST_DELAY_SECONDS, max(delay_seconds, 2.0**tries / 2)))
        if not self._is_away():
            return tries
        await context.say("holding: the API server does not answer")
        while self._is_away():
            await self._cluster.changed(1.0)
        return 0

    async def undo(self) -> None:
        """Take back, in reverse, what has been begun. What cannot be taken back is journalled and left."""
        for index in reversed(range(len(self._actions))):
            step = self._operation.step(index)
            if not step.started or step.undone:
                continue
            action = self._actions[index]
            await self._started(index, action, undo=True)
            await self._ended(index, action, await self._try_undo(action, index), undo=True)

    async def _try_undo(self, action: Action, index: int) -> Failure | None:
        tries = 0
        while True:
            tries += 1
            context = self._context(index, undo=True)
            try:
                await action.undo(context)
            except (NotFound, TargetGone):
                return None
            except (Retryable, Conflict) as error:
                if tries >= STEP_TRIES and not self._is_away():
                    return failure(error)
                tries = await self._before_next_try(context, tries)
            except JournalError:
                raise
            except Exception as error:  # noqa: BLE001 — one failed undo must not keep the others from theirs
                return failure(error)
            else:
                return None

    async def _started(self, index: int, action: Action, *, undo: bool) -> None:
        await self._recorder.record(
            ev.StepStarted(
                at=self._recorder.clock.now(),
                incident=self._operation.incident,
                operation=self._operation.id,
                step=index,
                action=action.name,
                undo=undo,
            )
        )

    async def _ended(self, index: int, action: Action, failed: Failure | None, *, undo: bool) -> None:
        await self._recorder.record(
            *self._open_calls(index, undo=undo, ok=failed is None),
            ev.StepEnded(
                at=self._recorder.clock.now(),
                incident=self._operation.incident,
                operation=self._operation.id,
                step=index,
                action=action.name,
                ok=failed is None,
                reason=failed.reason if failed else Reason.OK,
                detail=failed.detail if failed else "",
                undo=undo,
            ),
        )

    def _open_calls(self, index: int, *, undo: bool, ok: bool) -> list[ev.CallEnded]:
        """Calls that a crash left without an outcome, and that the step has ended well without making again."""
        if undo or not ok:
            return []
        return [
            ev.CallEnded(
                at=self._recorder.clock.now(),
                incident=self._operation.incident,
                operation=self._operation.id,
                step=index,
                call=name,
                outcome="settled",
                detail="the step has ended well without it being made again",
            )
            for name, call in self._operation.step(index).calls.items()
            if not call.outcome
        ]
