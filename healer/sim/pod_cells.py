"""The cells of a pod's row: above all the STATUS column, which sums up phase, containers and deletion in one word."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from healer.sim import objects
from healer.sim.ages import age, since
from healer.sim.objects import JSON

NONE: Final = "<none>"


def pod_cells(pod: JSON, now: datetime) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(1 for container in containers if container.get("ready"))
    gates = spec.get("readinessGates") or []
    passed = sum(1 for gate in gates if objects.condition_status(pod, gate["conditionType"]) == "True")
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers') or ())}",
        status_word(pod),
        _restarts(containers, now),
        age(pod, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def _restarts(containers: list[JSON], now: datetime) -> str:
    count = sum(container.get("restartCount", 0) for container in containers)
    ends = [
        ended
        for container in containers
        if (ended := ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return f"{count} ({since(max(ends), now)} ago)" if count and ends else str(count)


def status_word(pod: JSON) -> str:
    """What `kubectl get pods` shows as STATUS."""
    status = pod.get("status") or {}
    word = status.get("reason") or status.get("phase") or "Unknown"
    if any(
        c["type"] == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()
    ):
        word = "SchedulingGated"
    word = _init_word(pod) or _container_word(pod, word)
    if objects.is_deleting(pod):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if not objects.is_finished(pod):
            return "Terminating"
    return word


def _init_word(pod: JSON) -> str:
    """What an init container that is not done yet makes of it."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    for done, container in enumerate(statuses):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated and terminated.get("exitCode", 0) == 0:
            continue
        if terminated:
            return f"Init:{terminated.get('reason') or 'ExitCode:' + str(terminated.get('exitCode'))}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{done}/{len((pod.get('spec') or {}).get('initContainers') or ())}"
    return ""


def _container_word(pod: JSON, word: str) -> str:
    running = False
    for container in reversed((pod.get("status") or {}).get("containerStatuses") or []):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = waiting["reason"]
        elif terminated and terminated.get("reason"):
            word = terminated["reason"]
        elif terminated:
            signal = terminated.get("signal")
            word = f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"
        elif container.get("ready") and state.get("running"):
            running = True
    if word == "Completed" and running:
        return "Running" if objects.is_ready(pod) else "NotReady"
    return word
