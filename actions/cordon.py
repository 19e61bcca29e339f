"""Keep new pods away from a node, and remember whose cordon it is: another's is never taken away."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from healer.actions import steps
from healer.cluster import health
from healer.config.fields import Flag, Section
from healer.errors import Conflict, NotFound, Retryable
from healer.model.cluster import ClusterState
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, StepContext, Verb

CORDONED_BY: Final = "healer.dev/cordoned-by"
"""Annotation: the operation that cordoned this node. Set in the same patch as the cordon, taken away with it."""
CORDON_KEPT: Final = "healer.dev/cordon-kept"
"""Annotation: why a cordon of ours was left in place."""
CONFLICTS: Final = 5


class CordonSettings(Section):
    """`cordon`: keep new pods away."""

    keep_when_bad: Flag = Field(
        False,
        description="Whether a node that is still bad stays cordoned when the operation fails (with a note on it). By default what we cordoned is given back in any case: a node that is not Ready gets no pods anyway.",
    )


class Cordon:
    """Marks a node as unschedulable."""

    Settings: ClassVar[type[CordonSettings]] = CordonSettings
    name: ClassVar[str] = "cordon"
    kinds: ClassVar[frozenset[str]] = frozenset({"Node"})
    verbs: ClassVar[tuple[Verb, ...]] = (
        Verb(group="", resource="nodes", verb="get"),
        Verb(group="", resource="nodes", verb="patch"),
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: CordonSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        node = state.nodes.get(target.name)
        summary = f"keep new pods away from {target.name}"
        if node is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"there is no node {target.name!r} any more")
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        if node.unschedulable:
            owner = node.annotations.get(CORDONED_BY)
            who = f"operation {owner} of ours" if owner else "somebody else"
            touched = Touched(ref=target, effect=Effect.NONE, note=f"cordoned already by {who}, and stays so")
        else:
            touched = Touched(ref=target, effect=Effect.CORDON)
        return Preview(action=self.name, target=target, summary=summary, touches=(touched,))

    async def run(self, context: StepContext) -> None:
        await steps.node_of(context)
        for _ in range(CONFLICTS):
            node = await steps.read_target(context)
            if is_cordoned(node) and not is_cordoned_by(node, context.operation):
                await context.remember("ours", False)
                await context.say(f"{context.target.name} was cordoned already, not by us; it will stay so")
                return
            try:
                await self._cordon(context, node)
            except Conflict:
                continue
            await context.remember("ours", True)
            await context.say(f"{context.target.name} is cordoned")
            return
        raise Retryable(f"cordoning {context.target}: it changed {CONFLICTS} times while we tried")

    async def _cordon(self, context: StepContext, node: JSON) -> None:
        async def patch(_key: str) -> JSON | None:
            if not is_cordoned_by(node, context.operation):
                body = {"metadata": {"annotations": {CORDONED_BY: context.operation}}, "spec": {"unschedulable": True}}
                await context.kube.patch(context.target, body, resource_version=steps.version_of(node))
            return None

        async def done() -> bool:
            found = await steps.read(context, context.target)
            return found is not None and is_cordoned_by(found, context.operation)

        await context.once("cordon", context.target, patch, steps.settled_when(done))

    async def verify(self, context: StepContext) -> Finding:
        """A cordon cures nothing; it is there, or the node is gone, or somebody has taken it away."""
        node = context.state().nodes.get(context.target.name)
        if node is None or node.ref.uid != context.target.uid:
            return Finding(verdict=Verdict.FIXED, evidence=(f"{context.target.name} is gone",))
        if node.unschedulable:
            return Finding(verdict=Verdict.FIXED, evidence=(f"{node.name} is cordoned",))
        return Finding(verdict=Verdict.FIXED, evidence=(f"{node.name} takes new pods again",))

    async def undo(self, context: StepContext) -> None:
        """Give the node back, if the cordon is ours; somebody else's stays."""
        for _ in range(CONFLICTS):
            node = await steps.read(context, context.target)
            if node is None or not is_cordoned_by(node, context.operation):
                return
            kept = self._kept(context)
            try:
                await uncordon(context, node, kept=kept)
            except Conflict:
                continue
            except NotFound:
                return
            await context.say(
                f"{context.target.name} stays cordoned: {kept}" if kept else f"{context.target.name} is given back"
            )
            return
        raise Retryable(f"uncordoning {context.target}: it changed {CONFLICTS} times while we tried")

    def _kept(self, context: StepContext) -> str:
        node = context.state().nodes.get(context.target.name)
        if not self.settings.keep_when_bad or node is None or node.ref.uid != context.target.uid:
            return ""
        return "; ".join(health.node_problems(node))


def is_cordoned(node: JSON) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def is_cordoned_by(node: JSON, operation: str) -> bool:
    """Whether a cordon is in place and ours; any of our operations when `operation` is empty."""
    owner = steps.annotations_of(node).get(CORDONED_BY, "")
    return is_cordoned(node) and bool(owner) and operation in ("", owner)


async def uncordon(context: StepContext, node: JSON, *, kept: str = "", irreversible: bool = False) -> None:
    """Take the cordon away in one patch on exactly this version of the node; with `kept`, leave it and say why."""

    async def patch(_key: str) -> JSON | None:
        body: JSON = {"metadata": {"annotations": {CORDONED_BY: None, CORDON_KEPT: kept or None}}}
        if not kept:
            body["spec"] = {"unschedulable": None}
        await context.kube.patch(context.target, body, resource_version=steps.version_of(node))
        return None

    async def done() -> bool:
        found = await steps.read(context, context.target)
        return found is None or CORDONED_BY not in steps.annotations_of(found)

    await context.once("uncordon", context.target, patch, steps.settled_when(done), irreversible=irreversible)
