"""The eviction subresource, case by case as the real one decides."""

from __future__ import annotations

from typing import Any

import pytest

from healer.sim.storage import Storage

JSON = dict[str, Any]
Client = Any
Make = Any
POD = "/api/v1/namespaces/shop/pods/web-1"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(uid: str = "") -> JSON:
    options = {"preconditions": {"uid": uid}} if uid else {}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}, "deleteOptions": options}


def status_of(storage: Storage, name: str = "web") -> JSON:
    found = storage.get("poddisruptionbudgets", "shop", name)
    assert found is not None
    status: JSON = found["status"]
    return status


def is_leaving(storage: Storage) -> bool:
    pod = storage.get("pods", "shop", "web-1")
    return pod is None or "deletionTimestamp" in pod["metadata"]


async def test_a_pod_without_a_budget_goes(client: Client, storage: Storage, pod: Make) -> None:
    storage.create("pods", pod())
    response = await client.send("POST", f"{POD}/eviction", evict())
    assert response.status == 201
    assert is_leaving(storage)


async def test_an_eviction_is_charged_to_the_budget(client: Client, storage: Storage, pod: Make, budget: Make) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget(allowed=2))
    await client.ok("POST", f"{POD}/eviction", evict())
    assert status_of(storage)["disruptionsAllowed"] == 1
    assert status_of(storage)["disruptedPods"] == {"web-1": "2026-03-01T12:00:00Z"}


async def test_a_spent_budget_says_how_many_are_needed(
    client: Client, storage: Storage, pod: Make, budget: Make
) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget(allowed=0, healthy=2, desired=2))
    response = await client.send("POST", f"{POD}/eviction", evict())
    assert "retry-after" not in response.headers
    answer = await client.refused(429, "POST", f"{POD}/eviction", evict())
    assert (answer["reason"], answer["message"]) == ("TooManyRequests", REFUSED)
    assert answer["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
        }
    ]
    assert not is_leaving(storage)


async def test_a_budget_that_its_controller_has_not_seen_asks_for_ten_seconds(
    client: Client, storage: Storage, pod: Make, budget: Make
) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget(allowed=1))
    storage.update("poddisruptionbudgets", "shop", "web", lambda copy: copy["spec"].update(minAvailable=1))
    response = await client.send("POST", f"{POD}/eviction", evict())
    assert (response.status, response.headers["retry-after"]) == (429, "10")
    assert b"still being processed by the server" in response.body


async def test_a_budget_that_failed_to_sync_says_so(client: Client, storage: Storage, pod: Make, budget: Make) -> None:
    storage.create("pods", pod())
    made = budget(allowed=0)
    made["status"]["conditions"] = [
        {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
    ]
    storage.create("poddisruptionbudgets", made)
    answer = await client.refused(429, "POST", f"{POD}/eviction", evict())
    assert answer["details"]["causes"][0]["message"].endswith("because it failed sync: no scale")


async def test_two_budgets_are_one_too_many(client: Client, storage: Storage, pod: Make, budget: Make) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget("web"))
    storage.create("poddisruptionbudgets", budget("web-too"))
    answer = await client.refused(500, "POST", f"{POD}/eviction", evict())
    assert answer["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    assert "reason" not in answer


@pytest.mark.parametrize("status", [{"disruptionsAllowed": -1}, {"disruptedPods": {f"p{n}": "" for n in range(2001)}}])
async def test_a_budget_in_disorder_forbids(
    client: Client, storage: Storage, pod: Make, budget: Make, status: JSON
) -> None:
    storage.create("pods", pod())
    made = budget()
    made["status"] |= status
    storage.create("poddisruptionbudgets", made)
    await client.refused(403, "POST", f"{POD}/eviction", evict())


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_serve_nobody_go_without_asking(
    client: Client, storage: Storage, pod: Make, budget: Make, phase: str
) -> None:
    storage.create("pods", pod(phase=phase, node="" if phase == "Pending" else "n1"))
    storage.create("poddisruptionbudgets", budget(allowed=0))
    storage.create("poddisruptionbudgets", budget("second", allowed=0))
    await client.ok("POST", f"{POD}/eviction", evict())
    assert is_leaving(storage)
    assert status_of(storage)["disruptionsAllowed"] == 0


async def test_a_pod_on_its_way_out_is_not_charged_again(
    client: Client, storage: Storage, pod: Make, budget: Make
) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget(allowed=2))
    await client.ok("POST", f"{POD}/eviction", evict())
    await client.ok("POST", f"{POD}/eviction", evict())
    assert status_of(storage)["disruptionsAllowed"] == 1


@pytest.mark.parametrize(
    ("policy", "healthy", "goes"),
    [
        ({}, 2, True),
        ({}, 1, False),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 1, False),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, True),
    ],
    ids=["default-healthy", "default-unhealthy", "if-healthy", "always"],
)
async def test_an_unready_pod_goes_by_the_budgets_policy(
    client: Client, storage: Storage, pod: Make, budget: Make, policy: JSON, healthy: int, *, goes: bool
) -> None:
    storage.create("pods", pod(ready=False))
    storage.create("poddisruptionbudgets", budget(allowed=0, healthy=healthy, desired=2, **policy))
    response = await client.send("POST", f"{POD}/eviction", evict())
    assert response.status == (201 if goes else 429)
    assert is_leaving(storage) is goes


async def test_another_pod_of_that_name_is_a_conflict_and_charges_nothing(
    client: Client, storage: Storage, pod: Make, budget: Make
) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget(allowed=1))
    await client.refused(409, "POST", f"{POD}/eviction", evict(uid="of-another"))
    assert status_of(storage)["disruptionsAllowed"] == 1
    assert not is_leaving(storage)


async def test_a_dry_run_asks_the_budget_without_charging_it(
    client: Client, storage: Storage, pod: Make, budget: Make
) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget(allowed=1))
    await client.ok("POST", f"{POD}/eviction", evict(), dryRun="All")
    storage.update(
        "poddisruptionbudgets", "shop", "web", lambda copy: copy["status"].update(disruptionsAllowed=0), status=True
    )
    await client.refused(429, "POST", f"{POD}/eviction", evict(), dryRun="All")
    assert not is_leaving(storage)


async def test_budgets_of_other_namespaces_and_other_pods_do_not_count(
    client: Client, storage: Storage, pod: Make, budget: Make
) -> None:
    storage.create("pods", pod())
    storage.create("poddisruptionbudgets", budget("other", allowed=0, selector={"matchLabels": {"app": "api"}}))
    elsewhere = budget(allowed=0)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    storage.create("poddisruptionbudgets", elsewhere)
    await client.ok("POST", f"{POD}/eviction", evict())


async def test_the_grace_period_of_the_eviction_is_kept(client: Client, storage: Storage, pod: Make) -> None:
    storage.create("pods", pod())
    await client.ok("POST", f"{POD}/eviction", {"deleteOptions": {"gracePeriodSeconds": 3}})
    assert storage.items("pods")[0]["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_a_missing_pod_or_another_name_is_refused(client: Client, storage: Storage, pod: Make) -> None:
    await client.refused(404, "POST", f"{POD}/eviction", evict())
    storage.create("pods", pod())
    await client.refused(400, "POST", f"{POD}/eviction", {"metadata": {"name": "web-2"}})
