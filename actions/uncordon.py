"""Let new pods onto a node again: by default only where the cordon is ours."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from healer.actions import cordon, steps
from healer.cluster import health
from healer.config.fields import Flag, Section
from healer.errors import Conflict, Retryable
from healer.model.cluster import ClusterState
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import Finding, StepContext, Verb

FOREIGN: Final = "cordoned, but not by us; only_ours: false would uncordon it"


class UncordonSettings(Section):
    """`uncordon`: let new pods onto the node again."""

    only_ours: Flag = Field(
        True,
        description="Leave a node alone that somebody else has cordoned: there was a reason, and it may still hold.",
    )


class Uncordon:
    """Marks a node as schedulable."""

    Settings: ClassVar[type[UncordonSettings]] = UncordonSettings
    name: ClassVar[str] = "uncordon"
    kinds: ClassVar[frozenset[str]] = frozenset({"Node"})
    verbs: ClassVar[tuple[Verb, ...]] = cordon.Cordon.verbs
    disruptive: ClassVar[bool] = False

    def __init__(self, settings: UncordonSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        node = state.nodes.get(target.name)
        summary = f"let new pods onto {target.name} again"
        if node is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"there is no node {target.name!r} any more")
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        touched = Touched(ref=target, effect=Effect.UNCORDON)
        if node.unschedulable and self.settings.only_ours and cordon.CORDONED_BY not in node.annotations:
            touched = Touched(ref=target, effect=Effect.NONE, note=FOREIGN)
        return Preview(action=self.name, target=target, summary=summary, touches=(touched,))

    async def run(self, context: StepContext) -> None:
        for _ in range(cordon.CONFLICTS):
            node = await steps.read_target(context)
            if not cordon.is_cordoned(node):
                return
            if self.settings.only_ours and not cordon.is_cordoned_by(node, ""):
                await context.say(f"{context.target.name} is {FOREIGN}")
                return
            try:
                await cordon.uncordon(context, node, irreversible=True)
            except Conflict:
                continue
            await context.say(f"{context.target.name} takes new pods again")
            return
        raise Retryable(f"uncordoning {context.target}: it changed {cordon.CONFLICTS} times while we tried")

    async def verify(self, context: StepContext) -> Finding:
        node = context.state().nodes.get(context.target.name)
        if node is None or node.ref.uid != context.target.uid:
            return Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{context.target.name} is gone",))
        problems = (*health.node_problems(node), *(["it is cordoned"] if node.unschedulable else []))
        if problems:
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"{node.name}: {', '.join(problems)}",))
        return Finding(verdict=Verdict.FIXED, evidence=(f"{node.name} is Ready and takes new pods",))

    async def undo(self, context: StepContext) -> None:
        """Nothing is taken back: a node that takes pods is how it should be."""
