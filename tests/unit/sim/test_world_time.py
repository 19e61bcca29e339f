"""How time passes: the same story from the same seed, however it is stepped, and cheaply."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

from healer.clock import LoopClock
from healer.sim.builders import START, a_world
from healer.sim.driver import drive
from healer.sim.faults import Fault
from healer.sim.time import run
from healer.sim.world import World


def a_story(seed: int, step_seconds: float) -> str:
    world = a_world(nodes=6, seed=seed)
    world.inject(Fault(name="machine-death", target="node-a1"), after_seconds=20)
    world.inject(Fault(name="crash-loop", target="shop/cart", duration_seconds=200), after_seconds=30)
    world.inject(Fault(name="network-cut", target="node-b1", duration_seconds=400), after_seconds=60)
    end = START + timedelta(seconds=600)
    while world.now < end:
        world.step(min(end, world.now + timedelta(seconds=step_seconds)))
    objects = {resource: world.storage.items(resource) for resource in ("nodes", "pods", "events", "deployments")}
    return json.dumps([list(map(str, world.log)), world.storage.version, objects])


def test_the_same_seed_tells_the_same_story_in_any_steps() -> None:
    story = a_story(7, 1)
    assert a_story(7, 1) == story
    assert a_story(7, 600) == story
    assert a_story(7, 0.3) == story


def test_another_seed_tells_another_story() -> None:
    assert a_story(7, 600) != a_story(8, 600)


def test_ten_quiet_minutes_of_twelve_nodes_cost_less_than_a_second() -> None:
    world = a_world()
    began = time.process_time()
    world.run_for(600)
    assert time.process_time() - began < 1.0


def test_time_does_not_go_back() -> None:
    world = a_world(nodes=3)
    world.run_for(10)
    now = world.now
    world.step(START)
    assert world.now == now


def test_the_driver_keeps_up_with_the_clock_and_answers_writes_at_once() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=START)
        world = a_world(nodes=3)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(drive(world, clock), name="world")
            await asyncio.sleep(100.5)
            assert (world.now - START).total_seconds() >= 100
            world.storage.update("deployments", "shop", "cart", lambda copy: copy["spec"].update(replicas=9))
            await asyncio.sleep(0.01)
            assert _scheduled(world, "cart") == 9
            assert world.now < START + timedelta(seconds=100.6)
            task.cancel()

    run(main)


def test_the_driver_follows_another_start_than_the_usual_one() -> None:
    async def main() -> None:
        start = datetime(2030, 1, 1, tzinfo=UTC)
        clock = LoopClock(asyncio.get_running_loop(), epoch=start)
        world = a_world(nodes=3, start=start)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(drive(world, clock), name="world")
            await asyncio.sleep(30)
            assert (world.now - start).total_seconds() >= 29
            task.cancel()

    run(main)


def _scheduled(world: World, app: str) -> int:
    pods = world.storage.items("pods", "shop")
    return sum(1 for pod in pods if pod["metadata"]["labels"].get("app") == app and pod["spec"].get("nodeName"))
