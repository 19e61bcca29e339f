"""Have a machine replaced by its provider, and wait for the node of the new one: known by its identity, never by counting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Final

from pydantic import Field

from healer.actions import steps
from healer.actions.steps import Deadline
from healer.cluster import health
from healer.config.fields import Flag, PositiveDuration, Section
from healer.errors import OutcomeUnknown, Retryable
from healer.model.cluster import ClusterState, Node
from healer.model.decisions import Reason, Verdict
from healer.model.fencing import Replacement
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, Provider, Settled, StepContext, Verb

LOOK_SECONDS: Final = 5.0


class ReplaceSettings(Section):
    """`replace`: terminate the machine and have a new one take its place."""

    provider: str = Field(
        "", description="Which provider replaces it, by its name under `providers`. Default: the only one."
    )
    join_timeout: PositiveDuration = Field(
        timedelta(minutes=10), description="How long the new machine may take until its node is Ready and takes pods."
    )
    same_version: Flag = Field(
        True, description="Whether the new node must run the same kubelet version to count as a cure."
    )


class Replace:
    """Replaces a machine."""

    Settings: ClassVar[type[ReplaceSettings]] = ReplaceSettings
    name: ClassVar[str] = "replace"
    kinds: ClassVar[frozenset[str]] = frozenset({"Node"})
    verbs: ClassVar[tuple[Verb, ...]] = (
        Verb(group="", resource="nodes", verb="list"),
        Verb(group="", resource="nodes", verb="watch"),
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: ReplaceSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        node = state.nodes.get(target.name)
        summary = f"replace the machine of {target.name}"
        blocked = None
        if node is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"there is no node {target.name!r} any more")
        elif not node.provider_id:
            detail = f"{target.name} has no providerID, so that no provider can replace its machine"
            blocked = Blocked(reason=Reason.INFEASIBLE, detail=detail)
        if node is None or blocked:
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        where = ", ".join(filter(None, (node.pool and f"pool {node.pool}", node.zone and f"zone {node.zone}")))
        return Preview(
            action=self.name,
            target=target,
            summary=f"{summary} by a new one" + (f" in {where}" if where else ""),
            touches=(Touched(ref=target, effect=Effect.REPLACE, note=node.provider_id),),
            warnings=(f"{target.name} is Ready: what runs there ends",) if node.ready else (),
            reversible=False,
        )

    async def run(self, context: StepContext) -> None:
        node = await steps.node_of(context)
        provider = context.provider(self.settings.provider)
        if context.recall("known") is None:
            await context.remember("known", sorted(n.ref.uid for n in context.state().nodes.values()))
        await self._order(context, provider, node)
        await self._join(context, provider, node)

    # Ordering --------------------------------------------------------------------------------------------------------

    async def _order(self, context: StepContext, provider: Provider, node: Node) -> None:
        """Order it once. The key is kept before the request goes out: by it the request is found again after a crash."""

        async def order(key: str) -> JSON | None:
            await context.remember("key", key)
            return _told(await provider.replace(node, key=key))

        async def ordered() -> Settled:
            key = context.recall("key")
            if key is None:
                return Settled.NOT_DONE
            return Settled.DONE if await provider.find(node, key=key) is not None else Settled.NOT_DONE

        result = await context.once("replace", node.provider_id or str(node.ref), order, ordered)
        if result is None:
            found = await self._find(context, provider, node)
            result = _told(found) if found else None
        if result is not None and context.recall("machine") is None and result["machine"]:
            await context.remember("machine", result["machine"])
            await context.say(f"{provider.name} replaces the machine of {node.name} by {result['machine']}")

    async def _find(self, context: StepContext, provider: Provider, node: Node) -> Replacement | None:
        try:
            return await provider.find(node, key=str(context.recall("key") or ""))
        except (Retryable, OutcomeUnknown):
            return None

    # Joining ---------------------------------------------------------------------------------------------------------

    async def _join(self, context: StepContext, provider: Provider, node: Node) -> None:
        """Wait for the new node. Nothing here changes anything, so that nobody need stop it."""
        deadline = await Deadline.begin(context, self.settings.join_timeout)
        asked = context.clock.monotonic()
        while True:
            state = context.state()
            machine = str(context.recall("machine") or "")
            new = _successor(state.nodes.values(), node, frozenset(context.recall("known")), machine)
            if new is not None and health.is_node_usable(new):
                await context.remember("new", {"name": new.name, "uid": new.ref.uid, "provider_id": new.provider_id})
                await context.say(f"{new.name} has joined in place of {node.name}")
                return
            if deadline.passed:
                seconds = self.settings.join_timeout.total_seconds()
                raise steps.DeadlinePassed(f"replacing {node.name}: after {seconds:g} s {_waiting(new, machine)}")
            if not machine and context.clock.monotonic() - asked >= LOOK_SECONDS:
                asked = context.clock.monotonic()
                found = await self._find(context, provider, node)
                if found and found.machine and found.machine.id:
                    await context.remember("machine", found.machine.id)
            await deadline.wait(LOOK_SECONDS)

    # After -----------------------------------------------------------------------------------------------------------

    async def verify(self, context: StepContext) -> Finding:
        """The new node: Ready, taking pods, and of the same zone, pool and version as the old one."""
        new, old = context.recall("new"), context.recall("node")
        if new is None or old is None:
            return Finding(verdict=Verdict.INCONCLUSIVE, evidence=("no new node is known",))
        node = context.state().nodes.get(new["name"])
        if node is None or node.ref.uid != new["uid"]:
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"the new node {new['name']} is gone",))
        wrong = list(health.node_problems(node))
        wrong += ["it is cordoned"] if node.unschedulable else []
        wrong += [f"its {what} is {is_}, not {was}" for what, is_, was in self._differences(node, old)]
        if wrong:
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"{node.name}: {'; '.join(wrong)}",))
        told = f"{node.name} is Ready and takes pods: zone {node.zone or '-'}, pool {node.pool or '-'}, {node.kubelet_version}"
        return Finding(verdict=Verdict.FIXED, evidence=(told,))

    def _differences(self, node: Node, old: JSON) -> Iterable[tuple[str, str, str]]:
        pairs = [("zone", node.zone, old["zone"]), ("pool", node.pool, old["pool"])]
        if self.settings.same_version:
            pairs.append(("kubelet version", node.kubelet_version, old["kubelet_version"]))
        return [(what, is_, was) for what, is_, was in pairs if is_ != was]

    async def undo(self, context: StepContext) -> None:
        """A machine that was terminated does not come back; the request goes on at the provider."""
        if context.recall("key") is not None:
            await context.say(
                f"the replacement of {context.target.name} cannot be taken back; it goes on at the provider"
            )


def _told(replacement: Replacement) -> JSON:
    machine = replacement.machine
    return {
        "request": replacement.request,
        "machine": machine.id if machine else "",
        "zone": machine.zone if machine else "",
    }


def _successor(nodes: Iterable[Node], old: Node, known: frozenset[str], machine: str) -> Node | None:
    """The node of the new machine: by its id where the provider has told it, else a new one of the pool, best of the zone."""
    new = [n for n in nodes if n.ref.uid not in known and n.provider_id != old.provider_id]
    if machine:
        return next((n for n in new if n.provider_id.rpartition("/")[2] == machine or n.provider_id == machine), None)
    alike = [n for n in new if n.pool == old.pool]
    alike.sort(key=lambda n: (n.zone != old.zone, not health.is_node_usable(n), n.name))
    return alike[0] if alike else None


def _waiting(new: Node | None, machine: str) -> str:
    if new is None:
        return (
            f"machine {machine} has not joined"
            if machine
            else "the provider has not named a new machine, and none has joined"
        )
    problems = [*health.node_problems(new), *(["it is cordoned"] if new.unschedulable else [])]
    return f"{new.name} has joined but is not well: {'; '.join(problems)}"
