"""How a kubelet writes the status of a pod. Each function changes the copy that `Storage.update` hands out."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Final

from healer.sim import objects
from healer.sim.objects import JSON

START_SECONDS: Final = "sim.healer.dev/start-seconds"
READY_SECONDS: Final = "sim.healer.dev/ready-seconds"
SHUTDOWN_SECONDS: Final = "sim.healer.dev/shutdown-seconds"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Why and when a container ended."""

    reason: str
    exit_code: int
    began: datetime
    ended: datetime


def asked(pod: JSON, annotation: str, otherwise: float) -> float:
    """Seconds that the pod asks for by an annotation, so that a test can have slow pods."""
    text = objects.annotations_of(pod).get(annotation)
    return otherwise if text is None else float(text)


def claims_of(pod: JSON) -> list[str]:
    """The PersistentVolumeClaims that the pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]


def creating(pod: JSON, now: datetime, addresses: tuple[str, str]) -> None:
    at = objects.stamp(now)
    status = _begun(pod, at, addresses)
    status["phase"] = "Pending"
    _readiness(pod, at, ready=False)
    status["containerStatuses"] = [
        _container(container, ready=False, restarts=0, state={"waiting": {"reason": "ContainerCreating"}})
        for container in pod["spec"]["containers"]
    ]


def running(pod: JSON, now: datetime, addresses: tuple[str, str], restarts: int, *, ready: bool) -> None:
    at = objects.stamp(now)
    status = _begun(pod, at, addresses)
    status["phase"] = "Running"
    before = {held["name"]: held for held in status.get("containerStatuses", ())}
    fresh = []
    for index, container in enumerate(pod["spec"]["containers"]):
        held = before.get(container["name"])
        if index and held is not None and "running" in held["state"]:
            fresh.append({**held, "ready": ready})
            continue
        made = _container(
            container, ready=ready, restarts=0 if index else restarts, state={"running": {"startedAt": at}}
        )
        if held is not None and held.get("lastState"):
            made["lastState"] = held["lastState"]
        fresh.append(made)
    status["containerStatuses"] = fresh
    _readiness(pod, at, ready=ready)


def ready(pod: JSON, now: datetime) -> None:
    for held in pod["status"].get("containerStatuses", ()):
        held["ready"] = True
    _readiness(pod, objects.stamp(now), ready=True)


def died(pod: JSON, now: datetime, death: Death, restarts: int, back_off: float | None, *, finite: bool) -> None:
    """The first container ended; it waits `back_off` seconds for its restart, or is never started again when `finite`."""
    at = objects.stamp(now)
    terminated = {
        "reason": death.reason,
        "exitCode": death.exit_code,
        "startedAt": objects.stamp(death.began),
        "finishedAt": objects.stamp(death.ended),
    }
    first = pod["status"]["containerStatuses"][0]
    first["ready"] = first["started"] = False
    if finite:
        first["state"] = {"terminated": terminated}
        pod["status"]["phase"] = "Failed" if death.exit_code else "Succeeded"
        _readiness(pod, at, ready=False)
        return
    first["restartCount"] = restarts
    first["lastState"] = {"terminated": terminated}
    if back_off is None:
        first["state"] = {"terminated": terminated}
    else:
        message = f"back-off {back_off:g}s restarting failed container={first['name']} pod={pod['metadata']['name']}"
        first["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    _readiness(pod, at, ready=False)


def stopped(pod: JSON, now: datetime) -> None:
    """The containers have ended, and only a finalizer keeps the object."""
    at = objects.stamp(now)
    for held in pod["status"].get("containerStatuses", ()):
        held["ready"] = held["started"] = False
        held["state"] = {"terminated": {"reason": "Completed", "exitCode": 0, "finishedAt": at}}
    _readiness(pod, at, ready=False)


def not_ready(pod: JSON, now: datetime) -> None:
    """Somebody who has not heard of the node says so of its pods."""
    objects.set_condition(pod, "Ready", "False", reason="NodeNotReady", at=objects.stamp(now))


def _begun(pod: JSON, at: str, addresses: tuple[str, str]) -> JSON:
    status: JSON = pod.setdefault("status", {})
    status.setdefault("startTime", at)
    status["hostIP"], status["podIP"] = addresses
    status["podIPs"] = [{"ip": addresses[1]}]
    objects.set_condition(pod, "Initialized", "True", reason="", at=at)
    return status


def _readiness(pod: JSON, at: str, *, ready: bool) -> None:
    status, reason = ("True", "") if ready else ("False", "ContainersNotReady")
    objects.set_condition(pod, "ContainersReady", status, reason=reason, at=at)
    objects.set_condition(pod, "Ready", status, reason=reason, at=at)


def _container(container: JSON, *, ready: bool, restarts: int, state: JSON) -> JSON:
    running_ = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "ready": ready,
        "started": running_,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
