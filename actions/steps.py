"""What several actions share: errors that carry their reason, fresh reads, a call that is settled by what is read back."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final

from healer.errors import NotFound, Permanent, TargetGone
from healer.model.cluster import POOL_LABELS, ZONE_LABEL, Node
from healer.model.decisions import Reason
from healer.model.targets import ObjectRef
from healer.ports import JSON, Settled, StepContext

Doing = Callable[[str], Awaitable[JSON | None]]
Settling = Callable[[], Awaitable[Settled]]
"""What `StepContext.once` wants: how a call is made, and how it is found out whether it was."""
LONGEST_BACKOFF_SECONDS: Final = 30.0
POLL_SECONDS: Final = 5.0


class DeadlinePassed(Permanent):
    """A step took longer than it may; the text says what is left."""

    reason: ClassVar[Reason] = Reason.DEADLINE


class NotFenced(Permanent):
    """Nothing proves that the machine is dead, and so nothing may be forced."""

    reason: ClassVar[Reason] = Reason.NOT_FENCED


class CannotBeDone(Permanent):
    """The cluster does not allow it as it is; the text says the mend."""

    reason: ClassVar[Reason] = Reason.INFEASIBLE


async def read(context: StepContext, ref: ObjectRef) -> JSON | None:
    """A fresh read; None when the object is gone, or another one bears its name."""
    try:
        return await context.kube.get(ref)
    except (NotFound, TargetGone):
        return None


async def read_target(context: StepContext) -> JSON:
    """A fresh read of the target. TargetGone when it is not there any more."""
    found = await read(context, context.target)
    if found is None:
        raise TargetGone(f"reading {context.target}: it is gone, or another one bears its name")
    return found


def settled_when(read_back: Callable[[], Awaitable[bool]]) -> Settling:
    """Settles a call by one look: it was done if `read_back()` says so."""

    async def settle() -> Settled:
        return Settled.DONE if await read_back() else Settled.NOT_DONE

    return settle


def version_of(found: Mapping[str, Any]) -> str:
    return str(found.get("metadata", {}).get("resourceVersion", ""))


def annotations_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    return found.get("metadata", {}).get("annotations") or {}


def backoff(attempt: int, seed: str) -> float:
    """1, 2, 4 … 30 s, each up to a quarter longer so that many do not come back at once. The same over a restart."""
    base = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(attempt - 1, 5))
    return base * (1.0 + (zlib.crc32(f"{seed} {attempt}".encode()) % 1000) / 4000)


SILENT_SECONDS: Final = 15.0
"""From here on the API server counts as silent, and the time of a step stands still."""


class Deadline:
    """When a step must be over. A restart does not move it; time in which nothing could be done does not count.

    `at` is monotonic. Only over a restart is the wall clock asked.
    """

    def __init__(self, context: StepContext, at: float) -> None:
        self._context = context
        self.at = at

    @classmethod
    async def begin(cls, context: StepContext, within: timedelta, *, name: str = "began") -> Deadline:
        """The deadline of this step, `within` after it first began. `name`: where there are several in one step."""
        now = context.clock.now().timestamp()
        began = context.recall(name)
        if began is None:
            await context.remember(name, now)
            began = now
        gone = min(within.total_seconds(), max(0.0, now - float(began)))
        return cls(context, context.clock.monotonic() + within.total_seconds() - gone)

    @property
    def passed(self) -> bool:
        return self._context.clock.monotonic() >= self.at

    async def wait(self, seconds: float) -> None:
        """Until the cluster changes, at most so long, and not beyond the deadline."""
        before = self._context.clock.monotonic()
        await self._context.changed(max(0.01, min(seconds, self.at - before)))
        if self._context.state().freshness.silent_seconds > SILENT_SECONDS:
            self.at += self._context.clock.monotonic() - before

    def held(self, since: float) -> None:
        """Leave out the time since `since` (monotonic), in which we were kept from going on."""
        self.at += max(0.0, self._context.clock.monotonic() - since)


# Which machine ---------------------------------------------------------------------------------------------------------

_REMEMBERED: Final = ("cordon", "fence", "drain", "replace")


async def node_of(context: StepContext) -> Node:
    """The node that the operation began with, also when its object has gone meanwhile. TargetGone when it was never seen.

    What a provider needs to find the machine (provider id, boot id) and what its successor is compared with (zone, pool,
    version) is remembered at the first sight of it.
    """
    seen = context.state().nodes.get(context.target.name)
    if seen is not None and seen.ref.uid == context.target.uid:
        if context.recall("node") is None:
            await context.remember("node", _snapshot(seen))
        return seen
    known = context.recall("node") or next(filter(None, (context.recall_from(a, "node") for a in _REMEMBERED)), None)
    if known is None:
        raise TargetGone(f"looking for the machine of {context.target}: the node is gone")
    return Node(
        ref=context.target,
        labels={POOL_LABELS[0]: known["pool"], ZONE_LABEL: known["zone"]},
        provider_id=known["provider_id"],
        boot_id=known["boot_id"],
        kubelet_version=known["kubelet_version"],
    )


def _snapshot(node: Node) -> JSON:
    return {
        "provider_id": node.provider_id,
        "boot_id": node.boot_id,
        "zone": node.zone,
        "pool": node.pool,
        "kubelet_version": node.kubelet_version,
    }
