"""Whether a node, a pod, a workload is healthy, and if not, in which words."""

from __future__ import annotations

from typing import Final

from healer.model.cluster import OUT_OF_SERVICE_TAINT, Node, Pod, Workload

BAD_WHEN_TRUE: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
"""Node conditions that every cluster has and that say "bad" when they are True."""
WAITING_BADLY: Final = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)


def node_problems(node: Node) -> tuple[str, ...]:
    """What is wrong with a node, worst first; empty when it is healthy. A cordon is not an illness."""
    problems = []
    if node.deleting:
        problems.append("it is being deleted")
    if not node.ready:
        ready = node.conditions.get("Ready")
        why = f" ({ready.reason})" if ready and ready.reason else ""
        problems.append(f"Ready is {node.condition('Ready') or 'not reported'}{why}")
    problems += [f"{name} is True" for name in BAD_WHEN_TRUE if node.condition(name) == "True"]
    if any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.taints):
        problems.append("it is marked out of service")
    return tuple(problems)


def is_node_healthy(node: Node) -> bool:
    return not node_problems(node)


def is_node_usable(node: Node) -> bool:
    """Healthy, and new pods may go there."""
    return is_node_healthy(node) and not node.unschedulable


def pod_problems(pod: Pod) -> tuple[str, ...]:
    """What is wrong with a pod; empty when it is Ready, or has finished well."""
    if pod.phase == "Succeeded":
        return ()
    problems = []
    if pod.deleting_since is not None:
        problems.append("it is being deleted")
    if pod.phase == "Failed":
        problems.append(f"it failed ({pod.reason})" if pod.reason else "it failed")
    waiting = [
        f"container {container.name} waits: {container.waiting_reason} (restarts: {container.restarts})"
        for container in pod.containers
        if container.waiting_reason in WAITING_BADLY
    ]
    problems += waiting
    if not pod.ready and pod.phase != "Failed" and not waiting:
        problems.append(f"it is not Ready (phase {pod.phase or 'unknown'})")
    return tuple(problems)


def is_pod_healthy(pod: Pod) -> bool:
    return not pod_problems(pod)


def restarts(pod: Pod) -> int:
    return sum(container.restarts for container in pod.containers)


def workload_problems(workload: Workload) -> tuple[str, ...]:
    """What keeps a workload from what is wanted of it; empty when it is all there."""
    if workload.ref.kind == "Job":
        return (f"{workload.failed} of its pods failed",) if workload.failed and not workload.succeeded else ()
    problems = []
    if workload.observed_generation < workload.generation:
        problems.append("its controller has not seen the newest change yet")
    if workload.ready < workload.replicas:
        problems.append(f"{workload.ready} of {workload.replicas} pods are Ready")
    return tuple(problems)


def rollout_left(workload: Workload) -> str:
    """What is left to do of a rollout, as `kubectl rollout status` counts it; empty when it is complete."""
    if workload.observed_generation < workload.generation:
        return "its controller has not seen the newest change yet"
    if workload.updated < workload.replicas:
        return f"{workload.updated} of {workload.replicas} pods are updated"
    if workload.current > workload.updated:
        return f"{workload.current - workload.updated} old pods are still there"
    if workload.ready < workload.replicas:
        return f"{workload.ready} of {workload.replicas} pods are Ready"
    if workload.ref.kind == "Deployment" and workload.available < workload.replicas:
        return f"{workload.available} of {workload.replicas} pods are available"
    return ""
