"""The eviction subresource: whether the disruption budgets let a pod go (registry/core/pod/storage/eviction.go)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from healer.sim import objects
from healer.sim.api_errors import ApiError, forbidden
from healer.sim.kinds import STORED
from healer.sim.objects import JSON
from healer.sim.storage import Storage

BEHIND_RETRY_SECONDS: Final = 10
MOST_DISRUPTED: Final = 2000
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_BUDGETS: Final = STORED["poddisruptionbudgets"]


def leave(storage: Storage, pod: JSON) -> JSON | None:
    """The budget to charge when `pod` is evicted, None for none. 429 when it says no, 500 for several, 403 for a broken one.

    A real server takes care with preconditions that the pod has not changed since; here nothing happens in between.
    """
    if pod.get("status", {}).get("phase") == "Pending" or objects.is_finished(pod) or objects.is_deleting(pod):
        return None
    found = budgets_of(storage, pod)
    if len(found) > 1:
        raise ApiError(500, _SEVERAL, reason="")
    if not found:
        return None
    budget = found[0]
    if not objects.is_ready(pod) and _lets_unready_go(budget):
        return None
    _check(budget)
    return budget


def budgets_of(storage: Storage, pod: JSON) -> list[JSON]:
    """Every budget that selects the pod; none for a pod without labels."""
    labels = objects.labels_of(pod)
    if not labels:
        return []
    return [
        budget
        for budget in storage.items("poddisruptionbudgets", pod["metadata"]["namespace"])
        if objects.selects(budget.get("spec", {}).get("selector"), labels)
    ]


def charge(storage: Storage, budget: JSON, pod: JSON, now: datetime) -> None:
    """Book the eviction in the budget's status, so that the next one is judged rightly before its controller looks."""
    name = pod["metadata"]["name"]

    def book(changed: JSON) -> None:
        status = changed["status"]
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[name] = objects.stamp(now)

    metadata = budget["metadata"]
    storage.update("poddisruptionbudgets", metadata["namespace"], metadata["name"], book, status=True)


def _lets_unready_go(budget: JSON) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    return desired > 0 and status.get("currentHealthy", 0) >= desired


def _check(budget: JSON) -> None:
    name = budget["metadata"]["name"]
    status = budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _blocked(
            f"The disruption budget {name} is still being processed by the server.", retry=BEHIND_RETRY_SECONDS
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(_BUDGETS, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MOST_DISRUPTED:
        raise forbidden(
            _BUDGETS, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if allowed == 0:
        raise _blocked(_why_none(budget, status))


def _why_none(budget: JSON, status: JSON) -> str:
    name = budget["metadata"]["name"]
    failed = objects.condition(budget, "DisruptionAllowed")
    if failed and failed["status"] == "False" and failed.get("reason") == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{failed.get('message', '')}"
        )
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"


def _blocked(why: str, *, retry: int = 0) -> ApiError:
    details: JSON = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry:
        details["retryAfterSeconds"] = retry
    return ApiError(429, _REFUSED, details=details)
