"""Prove that a machine is dead, then free what it holds: force needs proof, and only its provider can give it.

With the proof the node gets the out-of-service taint: its pods are removed and its volumes detached at once. The taint is
always taken away again; Kubernetes never does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Final

from pydantic import Field

from healer.actions import steps
from healer.actions.steps import Deadline
from healer.cluster import domains
from healer.config.fields import Duration, Flag, PositiveDuration, Section
from healer.errors import Conflict, NotFound, Permanent, Retryable, TargetGone
from healer.model.cluster import OUT_OF_SERVICE_TAINT, ClusterState, Node, Pod, Taint
from healer.model.decisions import Reason, Verdict
from healer.model.fencing import FenceProof, Machine, MachineState
from healer.model.plans import Blocked, Effect, Preview, Touched
from healer.model.targets import ObjectRef
from healer.ports import JSON, Finding, Provider, StepContext, Verb

FENCED_BY: Final = "healer.dev/fenced-by"
"""Annotation: the operation that has put the taint there. Set and taken away in one patch with it."""
TAINT: Final = Taint(key=OUT_OF_SERVICE_TAINT, value="nodeshutdown", effect="NoExecute")
DEAD: Final = (MachineState.STOPPED, MachineState.TERMINATED)
CONFLICTS: Final = 5
LOOK_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 15.0
"""Kubelets renew their leases every 10 s."""
LATE_SECONDS: Final = 5.0
"""So much later than the proof a sign of life may still have been on its way to us."""


class FenceSettings(Section):
    """`fence`: prove that the machine is dead, then free its pods and volumes."""

    provider: str = Field(
        "", description="Which provider is asked, by its name under `providers`. Default: the only one."
    )
    power_off: Flag = Field(
        False,
        description="Whether a machine that still runs is ordered off. Without it such a node is not fenced. A node that is Ready and heard of is not ordered off in any case.",
    )
    timeout: PositiveDuration = Field(
        timedelta(minutes=3), description="How long it may take: until the proof, and as long again until all is free."
    )
    force_delete_after: Duration = Field(
        timedelta(seconds=20),
        description="How long the cluster may take to remove the pods of the dead machine before they are deleted one by one. It looks every 20 s, and only at nodes that it has noticed to be down.",
    )


class Fence:
    """Proves a machine dead and frees what it holds."""

    Settings: ClassVar[type[FenceSettings]] = FenceSettings
    name: ClassVar[str] = "fence"
    kinds: ClassVar[frozenset[str]] = frozenset({"Node"})
    verbs: ClassVar[tuple[Verb, ...]] = (
        Verb(group="", resource="nodes", verb="get"),
        Verb(group="", resource="nodes", verb="patch"),
        Verb(group="", resource="pods", verb="get"),
        Verb(group="", resource="pods", verb="delete"),
        Verb(group="storage.k8s.io", resource="volumeattachments", verb="list"),
    )
    disruptive: ClassVar[bool] = True

    def __init__(self, settings: FenceSettings) -> None:
        self.settings = settings

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        node = state.nodes.get(target.name)
        summary = f"prove that the machine of {target.name} is dead, then free its pods and volumes"
        if node is None:
            blocked = Blocked(reason=Reason.TARGET_NOT_FOUND, detail=f"there is no node {target.name!r} any more")
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        if not node.provider_id:
            detail = f"{target.name} has no providerID, so that no provider can say anything about its machine"
            blocked = Blocked(reason=Reason.NOT_FENCED, detail=detail)
            return Preview(action=self.name, target=target, summary=summary, blocked=blocked)
        held = [
            Touched(ref=pod.ref, effect=Effect.DELETE, note="only with the proof") for pod in _held(state, target.name)
        ]
        warnings = [f"{target.name} is Ready: its machine seems to run"] if node.ready else []
        if self.settings.power_off:
            warnings.append("a machine that still runs is powered off")
        return Preview(
            action=self.name,
            target=target,
            summary=summary,
            touches=(Touched(ref=target, effect=Effect.TAINT), *held),
            warnings=tuple(warnings),
            reversible=False,
        )

    async def run(self, context: StepContext) -> None:
        node = await steps.node_of(context)
        provider = context.provider(self.settings.provider)
        machine = await self._dead(context, provider, node)
        context.proof = FenceProof(identity=node.identity, machine=machine, provider=provider.name)
        await context.say(f"{provider.name} says that machine {machine.id} of {node.name} is {machine.state}")
        try:
            if not context.recall("freed"):
                await self._free(context, context.proof, provider, node)
                await context.remember("freed", True)
        except Exception:
            await self._untaint(context)
            raise
        await self._untaint(context)

    # The proof -------------------------------------------------------------------------------------------------------

    async def _dead(self, context: StepContext, provider: Provider, node: Node) -> Machine:
        deadline = await Deadline.begin(context, self.settings.timeout, name="began proof")
        ordered = False
        while True:
            context.check()
            try:
                machine = await provider.describe(node)
                if machine.state in DEAD:
                    return machine
                if machine.state is not MachineState.STOPPING and not ordered:
                    await self._order_off(context, provider, node, machine, deadline)
                    ordered = True
                detail = f"machine {machine.id} is {machine.state}"
            except Retryable as error:
                detail = str(error)
            if deadline.passed:
                seconds = self.settings.timeout.total_seconds()
                raise steps.NotFenced(f"fencing {node.name}: not proven dead after {seconds:g} s: {detail}")
            await deadline.wait(LOOK_SECONDS)

    async def _order_off(
        self, context: StepContext, provider: Provider, node: Node, machine: Machine, deadline: Deadline
    ) -> None:
        if not self.settings.power_off:
            raise steps.NotFenced(
                f"fencing {node.name}: {provider.name} says that machine {machine.id} is {machine.state}; nothing may be"
                " forced while it could run (power_off: true would stop it)"
            )
        if machine.state is MachineState.UNKNOWN:
            raise steps.NotFenced(
                f"fencing {node.name}: {provider.name} does not know the state of machine {machine.id}"
            )

        _believed_dead(context.state(), node, context.clock.monotonic())
        asked = context.clock.monotonic()

        async def power_off(key: str) -> JSON | None:
            deadline.held(since=asked)
            await provider.power_off(node, key=key)
            return None

        async def stopping() -> bool:
            return (await provider.describe(node)).state in (MachineState.STOPPING, *DEAD)

        await context.once("power-off", node.provider_id, power_off, steps.settled_when(stopping))

    # Freeing ---------------------------------------------------------------------------------------------------------

    async def _free(self, context: StepContext, proof: FenceProof, provider: Provider, node: Node) -> None:
        if not await self._taint(context, proof):
            return
        deadline = await Deadline.begin(context, self.settings.timeout, name="began freeing")
        proven_at = context.clock.monotonic()
        forced_from = proven_at + self.settings.force_delete_after.total_seconds()
        while True:
            context.check()
            state = context.state()
            _still_dead(state, proof, proven_at)
            pods, volumes = _held(state, context.target.name), _attached(state, context.target.name)
            if not pods and not volumes:
                return
            if deadline.passed:
                raise steps.DeadlinePassed(f"freeing {context.target}: {_still_held(pods, volumes)}")
            if pods and context.clock.monotonic() >= forced_from:
                await self._force_delete(
                    context, provider, node, lambda: _still_dead(context.state(), proof, proven_at)
                )
            await deadline.wait(LOOK_SECONDS)

    async def _taint(self, context: StepContext, proof: FenceProof) -> bool:
        """False when there is no such node any more: then there is nothing to free by a taint."""
        for _ in range(CONFLICTS):
            node = await steps.read(context, context.target)
            if node is None or not _is_machine(node, proof):
                return False
            if _has_taint(node) and not _is_ours(node, context):
                return True
            try:
                await context.once(
                    "taint", context.target, self._tainting(context, node, proof), self._settle(context, tainted=True)
                )
            except Conflict:
                continue
            except NotFound:
                return False
            return True
        raise Retryable(f"tainting {context.target}: it changed {CONFLICTS} times while we tried")

    def _tainting(self, context: StepContext, node: JSON, proof: FenceProof) -> steps.Doing:
        async def taint(_key: str) -> JSON | None:
            if _is_ours(node, context):
                return None
            _require(proof, node)
            mine: JSON = {"key": TAINT.key, "value": TAINT.value, "effect": TAINT.effect}
            body = _patch(node, [*_taints(node), mine], fenced_by=context.operation)
            await context.kube.patch(context.target, body, resource_version=steps.version_of(node))
            return None

        return taint

    async def _untaint(self, context: StepContext) -> None:
        """Take our taint away, whatever happened in between; one that somebody else has put there stays."""
        for attempt in range(1, CONFLICTS + 1):
            try:
                node = await steps.read(context, context.target)
                if node is None or not _is_ours(node, context):
                    return
                await context.once(
                    "untaint",
                    context.target,
                    self._untainting(context, node),
                    self._settle(context, tainted=False),
                    irreversible=False,
                )
            except (Conflict, Retryable) as error:
                if attempt == CONFLICTS:
                    raise Retryable(f"removing the taint of {context.target}: {error}") from error
                if isinstance(error, Retryable):
                    await context.changed(steps.backoff(attempt, context.operation))
            except (NotFound, TargetGone):
                return
            else:
                return

    def _untainting(self, context: StepContext, node: JSON) -> steps.Doing:
        async def untaint(_key: str) -> JSON | None:
            body = _patch(node, [t for t in _taints(node) if t.get("key") != TAINT.key], fenced_by=None)
            await context.kube.patch(context.target, body, resource_version=steps.version_of(node))
            return None

        return untaint

    def _settle(self, context: StepContext, *, tainted: bool) -> steps.Settling:
        async def is_so() -> bool:
            node = await steps.read(context, context.target)
            if node is None:
                return not tainted
            return _is_ours(node, context) is tainted

        return steps.settled_when(is_so)

    async def _force_delete(
        self, context: StepContext, provider: Provider, node: Node, check_dead: Callable[[], None]
    ) -> None:
        """Without a grace period, which only the kubelet could keep: there is none, as is proven once more just before."""
        try:
            machine = await provider.describe(node)
        except Retryable:
            return
        if machine.state not in DEAD:
            raise steps.NotFenced(f"freeing {node.name}: machine {machine.id} is {machine.state} again")
        for pod in _held(context.state(), context.target.name):
            if pod.deleting_since is not None and not pod.finalizers:
                check_dead()
                await self._force_delete_pod(context, pod)

    async def _force_delete_pod(self, context: StepContext, pod: Pod) -> None:
        async def delete(_key: str) -> JSON | None:
            await context.kube.delete(pod.ref, grace_seconds=0)
            return None

        async def gone() -> bool:
            return await steps.read(context, pod.ref) is None

        call = f"force-delete {pod.ref.namespace}/{pod.ref.name} {pod.ref.uid}"
        # Gone, or another pod bears its name, or not now: the next look tells.
        with contextlib.suppress(NotFound, Conflict, Retryable):
            await context.once(call, pod.ref, delete, steps.settled_when(gone))

    # After -----------------------------------------------------------------------------------------------------------

    async def verify(self, context: StepContext) -> Finding:
        state = context.state()
        node = state.nodes.get(context.target.name)
        if node is None or node.ref.uid != context.target.uid:
            return Finding(verdict=Verdict.FIXED, evidence=(f"node {context.target.name} is gone",))
        if node.annotations.get(FENCED_BY) == context.operation:
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"{node.name} still carries our taint",))
        return Finding(verdict=Verdict.FIXED, evidence=(f"{node.name} carries no taint of ours",))

    async def undo(self, context: StepContext) -> None:
        """The taint is taken away. Pods that were removed are made anew elsewhere; a machine that was stopped stays so."""
        await self._untaint(context)


def _believed_dead(state: ClusterState, node: Node, now: float) -> None:
    """NotFenced while the cluster itself hears of the node: one report that it is dead is not enough to make it so."""
    seen = state.nodes.get(node.name)
    if seen is None or not seen.ready or domains.is_silent(state, seen, now, SILENT_SECONDS):
        return
    heard = domains.silent_seconds(state, node.name, now)
    raise steps.NotFenced(
        f"fencing {node.name}: it is Ready and was heard of {heard:.0f} s ago; a machine that works is not powered off"
    )


def _still_dead(state: ClusterState, proof: FenceProof, proven_at: float) -> None:
    """A proof is for one life of one machine. Raises NotFenced when it has begun another, or when the dead node speaks."""
    node = next((n for n in state.nodes.values() if n.ref.uid == proof.identity.uid), None)
    if node is None:
        return
    if proof.identity.boot_id and node.boot_id != proof.identity.boot_id:
        raise steps.NotFenced(f"freeing {node.name}: its machine has booted again")
    if node.ready and state.heartbeats.get(node.name, proven_at) > proven_at + LATE_SECONDS:
        raise steps.NotFenced(
            f"freeing {node.name}: it has renewed its lease although {proof.provider} says that machine"
            f" {proof.machine.id} is {proof.machine.state}; is its providerID right?"
        )


def _held(state: ClusterState, node_name: str) -> list[Pod]:
    """Pods that the taint drives away and that are still there."""
    return [
        pod
        for pod in state.pods_on(node_name)
        if not pod.is_mirror
        and not pod.is_finished
        and not (pod.owner is not None and pod.owner.kind == "DaemonSet")
        and not any(toleration.tolerates(TAINT) for toleration in pod.tolerations)
    ]


def _attached(state: ClusterState, node_name: str) -> list[str]:
    return sorted(name for name, node in state.attachments.items() if node == node_name)


def _still_held(pods: list[Pod], volumes: list[str]) -> str:
    parts = [f"{pod.ref}" + (f" (finalizers {', '.join(pod.finalizers)})" if pod.finalizers else "") for pod in pods]
    parts += [f"volume attachment {name}" for name in volumes]
    return f"{len(parts)} are left: {'; '.join(parts[:10])}"


def _taints(node: JSON) -> list[JSON]:
    return list(node.get("spec", {}).get("taints") or [])


def _has_taint(node: JSON) -> bool:
    return any(taint.get("key") == TAINT.key and taint.get("effect") == TAINT.effect for taint in _taints(node))


def _is_ours(node: JSON, context: StepContext) -> bool:
    return steps.annotations_of(node).get(FENCED_BY) == context.operation


def _patch(node: JSON, taints: list[JSON], *, fenced_by: str | None) -> JSON:
    """A merge patch replaces the whole list: it is only right for the version of `node` from which the list was taken."""
    if not steps.version_of(node):
        raise Permanent("changing taints without knowing the version of the node")
    return {"metadata": {"annotations": {FENCED_BY: fenced_by}}, "spec": {"taints": taints}}


def _is_machine(node: JSON, proof: FenceProof) -> bool:
    """Whether a node as read now is the machine, in the life, that was proven dead."""
    booted = node.get("status", {}).get("nodeInfo", {}).get("bootID", "")
    same_boot = not proof.identity.boot_id or not booted or booted == proof.identity.boot_id
    return bool(node.get("spec", {}).get("providerID", "") == proof.identity.provider_id and same_boot)


def _require(proof: FenceProof, node: JSON) -> None:
    """The one gate of all force. Raises NotFenced."""
    if not _is_machine(node, proof):
        raise steps.NotFenced(
            f"tainting node {node['metadata']['name']!r}: the proof is of another machine, or of another life of it"
        )
