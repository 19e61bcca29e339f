"""One TaskGroup owns every worker; one event stops them all, in order and within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any

from healer.errors import HealerError


class WorkerExited(HealerError):
    """A worker that should run until it is cancelled has returned."""


Worker = Callable[[], Coroutine[Any, Any, None]]


async def forever(name: str, work: Coroutine[Any, Any, None]) -> None:
    """WorkerExited when `work` ends by itself."""
    await work
    raise WorkerExited(f"worker {name!r} returned")


async def supervise(
    workers: Mapping[str, Worker],
    *,
    stop: asyncio.Event,
    drain: Callable[[], Awaitable[None]],
    grace_seconds: float,
) -> None:
    """Run `workers` until `stop` is set or one of them fails.

    On `stop`, `drain` has `grace_seconds` for what is in flight (TimeoutError when that is not enough), then the workers
    are cancelled. A worker's error cancels the others and comes out in an ExceptionGroup; a return is an error too.
    """
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        tasks = [group.create_task(forever(name, work()), name=name) for name, work in workers.items()]

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        stack.callback(cancel)
        await stop.wait()
        try:
            async with asyncio.timeout(grace_seconds):
                await drain()
        finally:
            cancel()
