"""Guards that ask whose object it is: our own, protected, opted out, in another's hands, or locked by one of our operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from healer.model.cluster import ClusterState, Node
from healer.model.decisions import GO, Decision, Moment, Reason, refuse, wait
from healer.model.targets import Level, ObjectRef
from healer.safety.state import HARMLESS, Disruption, Fleet, Request

SKIP: Final = "healer.dev/skip"
OPT_OUTS: Final = frozenset(
    {
        SKIP,
        "cluster.x-k8s.io/skip-remediation",
        "karpenter.sh/do-not-disrupt",
        "remediation.medik8s.io/exclude-from-remediation",
    }
)
"""Labels and annotations by which people keep an object out of every automatic repair; any value but "false" counts."""
CLAIMS: Final = (
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/",
    "node.machine.sapcloud.io/trigger-deletion-by-mcm",
    "remediator.aks.microsoft.com/",
    "remediation.medik8s.io/",
)
"""Beginnings of taints, annotations and labels by which another system says that it is at work on a node."""


def self_protection(request: Request, fleet: Fleet, _now: Moment) -> Decision:
    """We do not saw off the branch we sit on, unless a person holds the ladder."""
    if request.approved_by_person or (fleet.self_cluster and fleet.self_cluster != request.cluster.name):
        return GO
    if request.is_node and fleet.self_node and request.target.name == fleet.self_node:
        return refuse(
            Reason.SELF_PROTECTION, f"Healer itself runs on {request.target.name}; a person must approve this"
        )
    if fleet.self_namespace and fleet.self_namespace in (request.target.namespace, request.owner.namespace):
        return refuse(
            Reason.SELF_PROTECTION,
            f"{request.target} is in Healer's own namespace {fleet.self_namespace}; a person must approve this",
        )
    return GO


def protection(request: Request, fleet: Fleet, _now: Moment) -> Decision:
    """Protected namespaces, objects that opt out, nodes that another system is at work on."""
    if request.approved_by_person:
        return GO
    if request.target.namespace in fleet.protected_namespaces and request.target.namespace:
        return refuse(
            Reason.PROTECTED, f"namespace {request.target.namespace} is protected; a person must approve this"
        )
    for ref in _concerned(request):
        if name := opted_out(request.cluster, ref):
            return refuse(Reason.PROTECTED, f"{ref} is kept out by {name}; a person must approve this")
    for name in sorted(_nodes(request)):
        node = request.cluster.nodes.get(name)
        if node and (claim := claimed_by(node)):
            return refuse(Reason.PROTECTED, f"another system is at work on {name}: it carries {claim}")
    return GO


def _concerned(request: Request) -> Iterator[ObjectRef]:
    """Target, owner, every object that would be disturbed, and whatever owns it; each once."""
    seen: set[tuple[str, str, str, str]] = set()
    touched = (t.ref for t in request.plan.touches if t.effect not in HARMLESS)
    for ref in (request.target, request.owner, *touched):
        for candidate in (ref, request.cluster.owner_of(ref)):
            if candidate.key not in seen:
                seen.add(candidate.key)
                yield candidate


def _nodes(request: Request) -> set[str]:
    touched = {t.ref.name for t in request.plan.touches if t.ref.kind == "Node" and t.effect not in HARMLESS}
    return touched | ({request.target.name} if request.is_node else set())


def opted_out(state: ClusterState, ref: ObjectRef) -> str:
    """The label or annotation by which an object is kept out, as `name=value`; empty when it is not."""
    for metadata in _metadata(state, ref):
        for name in OPT_OUTS & metadata.keys():
            if metadata[name].lower() != "false":
                return f"{name}={metadata[name]}"
    return ""


def _metadata(state: ClusterState, ref: ObjectRef) -> tuple[Mapping[str, str], ...]:
    match ref.kind:
        case "Node":
            node = state.nodes.get(ref.name)
            return (node.labels, node.annotations) if node else ()
        case "Pod":
            pod = state.pods.get((ref.namespace, ref.name))
            return (pod.labels, pod.annotations) if pod else ()
        case _:
            workload = state.workloads.get((ref.kind, ref.namespace, ref.name))
            return (workload.labels, workload.annotations, workload.template_annotations) if workload else ()


def claimed_by(node: Node) -> str:
    """The taint, annotation or label by which another system says that it is at work on this node."""
    names: Iterable[str] = (*(taint.key for taint in node.taints), *node.annotations, *node.labels)
    return next((name for name in names if name.startswith(CLAIMS) and name not in OPT_OUTS), "")


# Locks ---------------------------------------------------------------------------------------------------------------


def lock(request: Request, fleet: Fleet, _now: Moment) -> Decision:
    """One operation at a time: on the object, on the workload that owns it, on the node that carries it."""
    for running in fleet.in_flight(request.cluster.name):
        if why := _overlaps(request, running):
            return wait(Reason.LOCKED, f"operation {running.operation} ({running.remedy}) is at work {why}")
    return GO


def _overlaps(request: Request, running: Disruption) -> str:
    """A higher operation covers what lies below it: node over workload over pod. A lower one does not hold a higher one up."""
    if running.target.key == request.target.key:
        return f"on {running.target}"
    if running.owner.key == request.owner.key:
        return f"on {running.target}, of the same {running.owner.kind} {running.owner.name}"
    if running.target.key == request.owner.key:
        return f"on {running.target}, which owns {request.target}"
    if running.target.level is Level.NODE and not request.is_node and running.target.name in _hosts(request):
        return f"on {running.target}, which carries pods of {request.target}"
    return ""


def _hosts(request: Request) -> set[str]:
    """The nodes that carry the target, or its pods."""
    if request.target.kind == "Pod":
        pod = request.cluster.pods.get((request.target.namespace, request.target.name))
        return {pod.node_name} if pod else set()
    return {pod.node_name for pod in request.cluster.pods_of(request.target)}
