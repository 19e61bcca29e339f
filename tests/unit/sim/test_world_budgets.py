"""What the disruption controller writes, and when."""

from __future__ import annotations

import json

import pytest

from healer.kube.transport import Request
from healer.sim import objects
from healer.sim.api import Api
from healer.sim.builders import a_world, add_deployment, add_node, add_pdb, empty_world
from healer.sim.core import Options
from healer.sim.faults import Fault
from healer.sim.objects import JSON
from healer.sim.time import run
from healer.sim.world import World


def status(world: World, name: str) -> JSON:
    result: JSON = world.view.all["poddisruptionbudgets"]["shop", name]["status"]
    return result


def small_world(**budget: int | str) -> World:
    world = empty_world()
    for zone in ("zone-a", "zone-b"):
        add_node(world, zone=zone)
    add_deployment(world, "shop", "app", replicas=7)
    add_pdb(world, "shop", "app", **budget)  # type: ignore[arg-type]
    world.settle()
    return world


@pytest.mark.parametrize(
    ("budget", "desired", "allowed"),
    [
        ({"min_available": 5}, 5, 2),
        ({"min_available": "50%"}, 4, 3),
        ({"max_unavailable": 1}, 6, 1),
        ({"max_unavailable": "30%"}, 4, 3),
        ({"min_available": 9}, 9, 0),
    ],
)
def test_the_numbers_of_a_budget(budget: dict[str, int | str], desired: int, allowed: int) -> None:
    found = status(small_world(**budget), "app")
    assert (found["currentHealthy"], found["expectedPods"]) == (7, 7)
    assert (found["desiredHealthy"], found["disruptionsAllowed"]) == (desired, allowed)


def test_an_unready_pod_uses_the_budget_up() -> None:
    world = a_world()
    assert status(world, "db")["disruptionsAllowed"] == 1
    world.inject(Fault(name="oom", target="shop/db-0"))
    world.run_for(1)
    assert status(world, "db")["currentHealthy"] == 2
    assert status(world, "db")["disruptionsAllowed"] == 0
    world.run_for(10)
    assert status(world, "db")["disruptionsAllowed"] == 1


def test_the_controller_can_lag_behind() -> None:
    world = a_world(options=Options(pdb_lag_seconds=30))
    world.inject(Fault(name="crash-loop", target="shop/db-0"))
    world.run_for(25)
    assert status(world, "db")["disruptionsAllowed"] == 1
    world.run_for(10)
    assert status(world, "db")["disruptionsAllowed"] == 0


def test_an_eviction_that_never_came_true_is_forgotten_after_two_minutes() -> None:
    world = a_world()
    at = objects.stamp(world.now)

    def evict(copy: JSON) -> None:
        copy["status"]["disruptedPods"] = {"db-0": at}
        copy["status"]["disruptionsAllowed"] = 0

    world.storage.update("poddisruptionbudgets", "shop", "db", evict, status=True)
    world.run_for(100)
    assert status(world, "db")["disruptionsAllowed"] == 0
    assert status(world, "db")["disruptedPods"] == {"db-0": at}
    world.run_for(30)
    assert status(world, "db")["disruptionsAllowed"] == 1
    assert "disruptedPods" not in status(world, "db")


def test_a_changed_budget_is_observed() -> None:
    world = a_world()
    world.storage.update("poddisruptionbudgets", "shop", "db", lambda copy: copy["spec"].update(maxUnavailable=2))
    world.run_for(1)
    assert status(world, "db")["disruptionsAllowed"] == 2
    assert status(world, "db")["observedGeneration"] == 2


def test_evictions_over_the_api_and_the_controller_agree() -> None:
    async def main() -> None:
        world = a_world(nodes=6)
        api = Api(world.storage, now=lambda: world.now)

        async def evict(pod: str) -> int:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "shop"}}
            path = f"/api/v1/namespaces/shop/pods/{pod}/eviction"
            headers = {"content-type": "application/json"}
            request = Request(method="POST", path=path, headers=headers, body=json.dumps(body).encode())
            return (await api.handle(request)).status

        assert await evict("db-0") == 201
        assert await evict("db-1") == 429, "the budget is charged before the controller has looked"
        world.run_for(1)
        assert status(world, "db")["disruptionsAllowed"] == 0
        assert await evict("db-1") == 429
        world.run_for(30)
        assert objects.is_ready(world.view.pods["shop", "db-0"])
        assert await evict("db-1") == 201

    run(main)
