"""Drain: who leaves, who stays, how budgets are honoured, and when it is over."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from healer.actions.cordon import Cordon, CordonSettings
from healer.actions.drain import Drain, DrainSettings
from healer.actions.steps import CannotBeDone, DeadlinePassed
from healer.errors import MultipleBudgets, StoppedByOperator, TakenOver
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Effect
from healer.sim import builders
from healer.sim.api_faults import Failure
from healer.sim.faults import Fault
from healer.sim.world import World
from healer.testing.steps import CrashAt, run_through_crashes

NODE = "node-a1"
CORDON = Cordon(CordonSettings())
Play = Callable[..., None]


def drain(**settings: Any) -> Drain:
    return Drain(DrainSettings(**settings))


def a_world(replicas: int = 12) -> World:
    world = builders.a_world(6, 3, with_apps=False)
    builders.add_deployment(world, "shop", "web", replicas=replicas)
    world.settle()
    return world


def pods_on(stage: Any, node: str = NODE, namespace: str = "shop") -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in stage.world.storage.items("pods", namespace)
        if pod["spec"].get("nodeName") == node
    ]


def evictions(stage: Any) -> list[Any]:
    return list(stage.asked("POST", "/eviction"))


async def cordoned(stage: Any, node: str = NODE) -> None:
    await CORDON.run(stage.context("cordon", "Node", node))


def test_c13_daemonset_and_static_pods_stay_and_are_listed_in_the_plan(play: Play) -> None:
    async def story(stage: Any) -> None:
        context = stage.context("drain", "Node", NODE)
        preview = drain().plan(context.target, stage.caches.state())
        assert preview.blocked is None
        assert "1 of DaemonSets stay, 1 static stay" in preview.summary
        notes = {t.note for t in preview.touches if t.effect is Effect.NONE}
        assert notes == {"DaemonSet node-agent", "static pod: only the kubelet can end it"}
        await cordoned(stage)
        leaving = len(pods_on(stage))
        await drain().run(context)
        assert pods_on(stage) == []
        assert len(pods_on(stage, namespace="kube-system")) == 2
        assert len(evictions(stage)) == leaving > 0

    play(story, a_world())


def test_every_eviction_names_the_uid_of_its_pod(play: Play) -> None:
    async def story(stage: Any) -> None:
        uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in stage.world.storage.items("pods", "shop")}
        await cordoned(stage)
        await drain(grace=timedelta(seconds=5)).run(stage.context("drain", "Node", NODE))
        for request in evictions(stage):
            body = json.loads(request.body)
            assert body["deleteOptions"]["preconditions"]["uid"] == uids[body["metadata"]["name"]]
            assert body["deleteOptions"]["gracePeriodSeconds"] == 5

    play(story, a_world())


def test_c14_drained_means_gone_not_accepted(play: Play) -> None:
    world = builders.a_world(6, 3, with_apps=False)
    world.options.shutdown_seconds = 100.0
    builders.add_deployment(world, "shop", "web", replicas=6, terminationGracePeriodSeconds=120)
    world.settle()

    async def story(stage: Any) -> None:
        await cordoned(stage)
        began = stage.clock.monotonic()
        await drain().run(stage.context("drain", "Node", NODE))
        assert pods_on(stage) == []
        assert stage.clock.monotonic() - began >= 99

    play(story, world)


def test_c2_a_budget_of_zero_for_a_minute_is_asked_seldom_and_then_the_drain_ends(play: Play) -> None:
    world = a_world(6)
    builders.add_pdb(world, "shop", "web", max_unavailable=0)
    world.settle()

    async def story(stage: Any) -> None:
        await cordoned(stage)

        def allow() -> None:
            world.storage.update(
                "poddisruptionbudgets", "shop", "web", lambda budget: budget["spec"].update(maxUnavailable=6)
            )

        world.after(60, allow)
        began = stage.clock.monotonic()
        await drain().run(stage.context("drain", "Node", NODE))
        took = stage.clock.monotonic() - began
        times = [request.at for request in evictions(stage)]
        assert 2 <= len(times) <= 15
        assert all(later - earlier >= timedelta(seconds=1) for earlier, later in itertools.pairwise(times))
        assert 60 <= took < 75
        assert any("shop/web" in line for line in stage.memory.said)

    play(story, world)


def test_c2_retry_after_is_honoured(play: Play) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        stage.api.faults.fail_next += [Failure(status=429, retry_after=17, path="*/eviction") for _ in range(2)]
        await drain().run(stage.context("drain", "Node", NODE))
        times = [request.at for request in evictions(stage)]
        # The world's own clock, by which requests are recorded, ticks in whole seconds.
        assert all(timedelta(seconds=16) <= later - earlier for earlier, later in itertools.pairwise(times))
        assert len(times) == 3

    play(story, a_world(6))


def test_c5_two_budgets_are_found_in_the_plan_and_named(play: Play) -> None:
    world = a_world(6)
    builders.add_pdb(world, "shop", "web", name="one", max_unavailable=1)
    builders.add_pdb(world, "shop", "web", name="two", max_unavailable=1)
    world.settle()

    async def story(stage: Any) -> None:
        target = stage.context("drain", "Node", NODE).target
        blocked = drain().plan(target, stage.caches.state()).blocked
        assert blocked is not None
        assert blocked.reason is Reason.MULTIPLE_BUDGETS
        assert "shop/one and shop/two" in blocked.detail
        with pytest.raises(MultipleBudgets, match="shop/one and shop/two"):
            await drain().run(stage.context("drain", "Node", NODE))
        assert evictions(stage) == []

    play(story, world)


def test_two_budgets_that_our_view_does_not_show_yet_are_named_from_the_servers_refusal(play: Play) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        stage.api.faults.watch_lag_seconds = 30.0
        builders.add_pdb(stage.world, "shop", "web", name="one", max_unavailable=1)
        builders.add_pdb(stage.world, "shop", "web", name="two", max_unavailable=1)
        with pytest.raises(MultipleBudgets, match="more than one PodDisruptionBudget"):
            await drain().run(stage.context("drain", "Node", NODE))
        assert len(evictions(stage)) == 1

    play(story, a_world(6))


def test_a_bare_pod_that_came_after_the_plan_is_not_evicted_either(play: Play) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        builders.add_bare_pod(stage.world, "shop", "late", node=NODE)
        await stage.until(lambda: ("shop", "late") in stage.caches.state().pods)
        with pytest.raises(CannotBeDone, match="late has no controller"):
            await drain().run(stage.context("drain", "Node", NODE))
        assert evictions(stage) == []

    play(story, a_world(6))


def test_a_budget_that_can_never_be_met_is_foreseen(play: Play) -> None:
    world = a_world(6)
    builders.add_pdb(world, "shop", "web", min_available=6)
    world.settle()

    async def story(stage: Any) -> None:
        target = stage.context("drain", "Node", NODE).target
        blocked = drain().plan(target, stage.caches.state()).blocked
        assert blocked is not None
        assert blocked.reason is Reason.INFEASIBLE
        assert "wants 6 of 6 pods healthy" in blocked.detail

    play(story, world)


def test_r22_bare_pods_and_local_data_need_to_be_allowed_and_every_reason_is_told(play: Play) -> None:
    world = a_world(6)
    builders.add_bare_pod(world, "shop", "lonely", node=NODE, volumes=[{"name": "scratch", "emptyDir": {}}])
    world.settle()

    async def story(stage: Any) -> None:
        target = stage.context("drain", "Node", NODE).target
        blocked = drain().plan(target, stage.caches.state()).blocked
        assert blocked is not None
        assert "local data in scratch" in blocked.detail
        assert "no controller" in blocked.detail
        allowed = drain(force=True, delete_local_data=True)
        preview = allowed.plan(target, stage.caches.state())
        assert preview.blocked is None
        assert any("lonely" in warning for warning in preview.warnings)
        await cordoned(stage)
        await allowed.run(stage.context("drain", "Node", NODE))
        assert pods_on(stage) == []

    play(story, world)


def test_c1_a_pod_made_anew_elsewhere_under_the_same_name_is_not_evicted(play: Play) -> None:
    world = builders.a_world(3, 3, with_apps=False)
    builders.add_statefulset(world, "shop", "db", replicas=3, volume=False)
    builders.add_pdb(world, "shop", "db", max_unavailable=0)
    world.settle()

    async def story(stage: Any) -> None:
        (name,) = pods_on(stage)
        old = world.storage.get("pods", "shop", name)
        assert old is not None
        await cordoned(stage)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(drain().run(stage.context("drain", "Node", NODE)))
            await stage.until(lambda: evictions(stage))
            world.storage.delete("pods", "shop", name)
            await stage.until(task.done)
        new = world.storage.get("pods", "shop", name)
        assert new is not None
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        asked = {json.loads(request.body)["deleteOptions"]["preconditions"]["uid"] for request in evictions(stage)}
        assert asked == {old["metadata"]["uid"]}

    play(story, world)


def test_c8_at_the_deadline_it_says_what_is_left_and_why(play: Play) -> None:
    world = a_world(6)
    builders.add_pdb(world, "shop", "web", max_unavailable=0)
    world.settle()

    async def story(stage: Any) -> None:
        await cordoned(stage)
        with pytest.raises(DeadlinePassed, match=r"1 pods are left after 90 s: pod/shop/web-\S+ \(shop/web") as caught:
            await drain(timeout=timedelta(seconds=90)).run(stage.context("drain", "Node", NODE))
        assert caught.value.reason is Reason.DEADLINE
        await drain().undo(stage.context("drain", "Node", NODE, undo=True))
        await CORDON.undo(stage.context("cordon", "Node", NODE, undo=True))
        assert not stage.node(NODE)["spec"].get("unschedulable")

    play(story, world)


def test_r14_a_human_who_uncordons_takes_over(play: Play) -> None:
    world = a_world(6)
    builders.add_pdb(world, "shop", "web", max_unavailable=0)
    world.settle()

    async def story(stage: Any) -> None:
        await cordoned(stage)
        seen: list[int] = []

        def uncordon() -> None:
            seen.append(len(evictions(stage)))
            world.storage.update("nodes", "", NODE, lambda node: node["spec"].pop("unschedulable"))

        world.after(20, uncordon)
        with pytest.raises(TakenOver, match="uncordoned"):
            await drain().run(stage.context("drain", "Node", NODE))
        await asyncio.sleep(60)
        assert [len(evictions(stage))] == seen

    play(story, world)


def test_a_cordon_that_is_gone_before_the_first_eviction_ends_it(play: Play) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        world = stage.world
        world.storage.update("nodes", "", NODE, lambda node: node["spec"].pop("unschedulable"))
        with pytest.raises(TakenOver):
            await drain().run(stage.context("drain", "Node", NODE))
        assert evictions(stage) == []

    play(story, a_world(6))


def test_c15_a_cancelled_drain_asks_for_nothing_more(play: Play) -> None:
    world = a_world(12)
    builders.add_pdb(world, "shop", "web", max_unavailable=0)
    world.settle()

    async def story(stage: Any) -> None:
        await cordoned(stage)
        context = stage.context("drain", "Node", NODE)
        seen: list[int] = []

        def cancel() -> None:
            seen.append(len(evictions(stage)))
            context.cancelled = "ann"

        world.after(20, cancel)
        with pytest.raises(StoppedByOperator, match="ann"):
            await drain().run(context)
        await asyncio.sleep(60)
        assert [len(evictions(stage))] == seen

    play(story, world)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "before its outcome is written"])
def test_r13_a_crash_at_every_eviction_evicts_each_pod_once(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        leaving = len(pods_on(stage))

        def make(crash: CrashAt | None) -> Any:
            return stage.context("drain", "Node", NODE, crash=crash)

        await run_through_crashes(make, drain(), calls=leaving, after=after)
        assert pods_on(stage) == []
        assert len(evictions(stage)) == leaving
        assert leaving >= 2

    play(story, a_world())


def test_a_dead_nodes_pods_never_end_and_are_left_behind_only_where_that_is_allowed(play: Play) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        stage.world.inject(Fault(name="machine-death", target=NODE))
        await stage.until(lambda: not stage.caches.state().nodes[NODE].ready)
        with pytest.raises(DeadlinePassed, match=r"has not ended yet|being deleted"):
            await drain(timeout=timedelta(minutes=2)).run(stage.context("drain", "Node", NODE))
        stage.memory.notes.clear()
        await drain(timeout=timedelta(minutes=2), ignore_unreachable=True).run(stage.context("drain", "Node", NODE))
        assert pods_on(stage) != []

    play(story, a_world())


def test_an_outage_of_the_api_server_stops_the_clock_of_the_drain(play: Play) -> None:
    world = a_world(6)
    builders.add_pdb(world, "shop", "web", max_unavailable=0)
    world.settle()

    async def story(stage: Any) -> None:
        await cordoned(stage)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(drain(timeout=timedelta(seconds=120)).run(stage.context("drain", "Node", NODE)))
            await stage.until(lambda: evictions(stage))
            stage.api.faults.down = True
            await asyncio.sleep(600)
            assert not task.done()
            world.storage.remove("poddisruptionbudgets", "shop", "web")
            stage.api.faults.down = False
            await stage.until(task.done, within_seconds=110)
        assert pods_on(stage) == []

    play(story, world)


def test_it_verifies_that_what_left_is_ready_again_elsewhere(play: Play) -> None:
    async def story(stage: Any) -> None:
        await cordoned(stage)
        action = drain()
        context = stage.context("drain", "Node", NODE)
        await action.run(context)
        at_once = await action.verify(context)
        assert at_once.verdict is Verdict.NOT_FIXED
        assert "were before" in at_once.evidence[0]
        await asyncio.sleep(30)
        assert (await action.verify(context)).verdict is Verdict.FIXED

    play(story, a_world())
