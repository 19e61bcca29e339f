"""What a replica makes of an event that another has written: what it would have made of it had it come to itself."""

from __future__ import annotations

from healer.loop.engine import Engine
from healer.model import events as ev


def hear(engine: Engine, event: ev.AnyEvent) -> None:
    """`event` is in memory by now. An engine that is not at work takes everything up when it begins."""
    engine.intake.heard(event)
    match event:
        case ev.ApprovalAnswered() | ev.OperationCancelled():
            engine.poke(event.incident)
        case ev.Paused() | ev.Resumed():
            engine.poke_all()
        case ev.OperationStarted():
            # Our own: the answer to the commit got lost, and the journal has it after all.
            engine.carry_on(event.operation)
        case _:
            return
