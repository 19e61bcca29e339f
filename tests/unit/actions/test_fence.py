"""Fence: force needs proof, the taint never stays, and only the dead machine's pods and volumes are freed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from healer.actions import fence
from healer.actions.fence import FENCED_BY, Fence, FenceSettings
from healer.actions.steps import DeadlinePassed, NotFenced
from healer.errors import Permanent
from healer.model.decisions import Reason, Verdict
from healer.model.fencing import FenceProof, MachineState
from healer.model.plans import Effect
from healer.sim import builders
from healer.sim.faults import Fault
from healer.sim.world import World
from healer.testing.steps import CrashAt, run_through_crashes

NODE = "node-a1"
Play = Callable[..., None]


def a_fence(**settings: Any) -> Fence:
    return Fence(FenceSettings(**settings))


def a_world() -> World:
    world = builders.a_world(6, 3, with_apps=False)
    builders.add_statefulset(world, "shop", "db", replicas=6)
    world.settle()
    return world


def tainted(stage: Any) -> bool:
    return any(t["key"] == fence.TAINT.key for t in stage.node(NODE)["spec"].get("taints") or [])


def pods_on(stage: Any) -> list[str]:
    found = stage.world.storage.items("pods", "shop")
    return [p["metadata"]["uid"] for p in found if p["spec"].get("nodeName") == NODE]


def attachments(stage: Any) -> list[Any]:
    return [a for a in stage.world.storage.items("volumeattachments", "") if a["spec"]["nodeName"] == NODE]


def forced(stage: Any) -> list[Any]:
    return [r for r in stage.asked("DELETE", "/pods/") if r.json().get("gracePeriodSeconds") == 0]


async def down(stage: Any, **fault: Any) -> None:
    stage.world.inject(Fault(name="machine-death", target=NODE, **fault))
    await stage.until(lambda: not stage.caches.state().nodes[NODE].ready)


def test_d1_a_stopped_machine_frees_pods_and_volumes_in_25_seconds_and_the_taint_goes(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage)
        assert pods_on(stage)
        assert attachments(stage)
        context = stage.context("fence", "Node", NODE)
        old, began = pods_on(stage), stage.clock.monotonic()
        action = a_fence()
        await action.run(context)
        assert stage.clock.monotonic() - began <= 25
        assert not set(old) & set(pods_on(stage))
        assert attachments(stage) == []
        assert not tainted(stage)
        assert FENCED_BY not in stage.node(NODE)["metadata"].get("annotations", {})
        assert context.proof is not None
        assert context.proof.machine.state is MachineState.STOPPED
        await stage.until(lambda: FENCED_BY not in stage.caches.state().nodes[NODE].annotations)
        assert (await action.verify(context)).verdict is Verdict.FIXED
        assert [c.verb for c in stage.world.cloud.calls if c.verb != "describe"] == []

    play(story, a_world())


def test_d2_nothing_is_forced_while_the_provider_says_running(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage, params={"says": "running"})
        context = stage.context("fence", "Node", NODE)
        with pytest.raises(NotFenced, match="is running") as caught:
            await a_fence().run(context)
        assert caught.value.reason is Reason.NOT_FENCED
        assert context.proof is None
        assert stage.asked("PATCH", "nodes") == []
        assert stage.asked("DELETE", "") == []

    play(story, a_world())


def test_a_machine_that_runs_is_powered_off_where_that_is_allowed_and_then_fenced(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage, params={"says": "running"})
        context = stage.context("fence", "Node", NODE)
        await a_fence(power_off=True).run(context)
        orders = [call for call in stage.world.cloud.calls if call.verb == "power-off"]
        assert len(orders) == 1
        assert context.proof is not None
        assert not tainted(stage)
        assert attachments(stage) == []

    play(story, a_world())


def test_a_lost_answer_to_the_order_is_looked_up_and_not_repeated(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage, params={"says": "running"})
        stage.world.cloud.lose_answers(1)
        await a_fence(power_off=True).run(stage.context("fence", "Node", NODE))
        assert len([call for call in stage.world.cloud.calls if call.verb == "power-off"]) == 1

    play(story, a_world())


def test_a_provider_that_stays_silent_proves_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage)
        stage.world.cloud.fail_next(10_000)
        with pytest.raises(NotFenced, match="not proven dead after 60 s"):
            await a_fence(timeout=timedelta(minutes=1)).run(stage.context("fence", "Node", NODE))
        assert stage.asked("PATCH", "nodes") == []

    play(story, a_world())


def test_d6_a_node_without_a_machine_is_not_fenced(play: Play) -> None:
    async def story(stage: Any) -> None:
        context = stage.context("fence", "Node", NODE)
        stage.world.storage.update("nodes", "", NODE, lambda n: n["spec"].update(providerID="sim:///zone-a/i-9999"))
        await stage.until(lambda: stage.caches.state().nodes[NODE].provider_id.endswith("9999"))
        with pytest.raises(Permanent):
            await a_fence().run(context)
        assert stage.asked("PATCH", "nodes") == []

    play(story, a_world())


def test_before_the_cluster_notices_pods_are_deleted_one_by_one_after_a_while(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.options.node_grace_seconds = 600.0
        stage.world.inject(Fault(name="machine-death", target=NODE))
        old = pods_on(stage)
        await a_fence().run(stage.context("fence", "Node", NODE))
        assert not set(old) & set(pods_on(stage))
        assert {r.json()["preconditions"]["uid"] for r in forced(stage)} == set(old)
        assert not tainted(stage)

    play(story, a_world())


def test_a_node_that_speaks_although_its_machine_is_said_to_be_dead_is_not_forced(play: Play) -> None:
    world = a_world()
    other = builders.add_node(world, "other", zone="zone-b")

    async def story(stage: Any) -> None:
        machine = next(m for m in world.cloud.machines.values() if m.node_name == other)
        world.storage.update("nodes", "", NODE, lambda n: n["spec"].update(providerID=machine.provider_id))
        world.inject(Fault(name="machine-death", target=other))
        await stage.until(lambda: stage.caches.state().nodes[NODE].provider_id == machine.provider_id)
        world.options.shutdown_seconds = 300.0
        with pytest.raises(NotFenced, match="is its providerID right"):
            await a_fence().run(stage.context("fence", "Node", NODE))
        assert forced(stage) == []
        assert not tainted(stage)

    play(story, world)


def test_the_taint_goes_also_when_the_pods_do_not(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.options.node_grace_seconds = 600.0
        stage.world.inject(Fault(name="machine-death", target=NODE))
        action = a_fence(timeout=timedelta(minutes=1), force_delete_after=timedelta(hours=1))
        with pytest.raises(DeadlinePassed, match=r"are left: pod/shop/db-\d"):
            await action.run(stage.context("fence", "Node", NODE))
        assert forced(stage) == []
        assert not tainted(stage)

    play(story, a_world())


def test_a_taint_of_somebody_else_stays(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage)
        theirs = {"key": fence.TAINT.key, "value": "nodeshutdown", "effect": "NoExecute"}
        stage.world.storage.update("nodes", "", NODE, lambda n: n["spec"]["taints"].append(theirs))
        await a_fence().run(stage.context("fence", "Node", NODE))
        assert tainted(stage)

    play(story, a_world())


def test_other_taints_are_left_as_they_are(play: Play) -> None:
    async def story(stage: Any) -> None:
        mine = {"key": "team", "value": "x", "effect": "NoSchedule"}
        stage.world.storage.update("nodes", "", NODE, lambda n: n["spec"].setdefault("taints", []).append(mine))
        await down(stage)
        before = json.dumps(stage.node(NODE)["spec"]["taints"], sort_keys=True)
        await a_fence().run(stage.context("fence", "Node", NODE))
        assert json.dumps(stage.node(NODE)["spec"]["taints"], sort_keys=True) == before

    play(story, a_world())


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "before its outcome is written"])
def test_a_crash_at_each_call_leaves_no_taint_behind(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        await down(stage, params={"says": "running"})

        def make(crash: CrashAt | None) -> Any:
            return stage.context("fence", "Node", NODE, crash=crash)

        await run_through_crashes(make, a_fence(power_off=True), calls=4, after=after)
        assert not tainted(stage)
        assert len([call for call in stage.world.cloud.calls if call.verb == "power-off"]) == 1
        assert attachments(stage) == []

    play(story, a_world())


def test_undo_after_a_crash_takes_the_taint_away(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage)
        context = stage.context("fence", "Node", NODE)
        action = a_fence()
        machine = await context.provider("").describe(stage.caches.state().nodes[NODE])
        proof = FenceProof(identity=stage.caches.state().nodes[NODE].identity, machine=machine, provider="p")
        assert await action._taint(context, proof)
        assert tainted(stage)
        await action.undo(stage.context("fence", "Node", NODE, undo=True))
        assert not tainted(stage)
        await action.undo(stage.context("fence", "Node", NODE, undo=True))

    play(story, a_world())


def test_a_proof_of_another_life_of_the_machine_forces_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await down(stage)
        context = stage.context("fence", "Node", NODE)
        node = stage.caches.state().nodes[NODE]
        machine = await context.provider("").describe(node)
        proof = FenceProof(identity=node.identity, machine=machine, provider="p")
        stage.world.storage.update(
            "nodes", "", NODE, lambda n: n["status"]["nodeInfo"].update(bootID="another"), status=True
        )
        assert not await a_fence()._taint(context, proof)
        assert not tainted(stage)

    play(story, a_world())


def test_a_plan_shows_what_is_freed_and_refuses_a_node_without_a_provider_id(play: Play) -> None:
    async def story(stage: Any) -> None:
        state = stage.caches.state()
        target = state.nodes[NODE].ref
        preview = a_fence(power_off=True).plan(target, state)
        assert {t.effect for t in preview.touches} == {Effect.TAINT, Effect.DELETE}
        assert any("Ready" in warning for warning in preview.warnings)
        assert not preview.reversible
        stage.world.storage.update("nodes", "", NODE, lambda n: n["spec"].pop("providerID"))
        await stage.until(lambda: not stage.caches.state().nodes[NODE].provider_id)
        blocked = a_fence().plan(target, stage.caches.state()).blocked
        assert blocked is not None
        assert blocked.reason is Reason.NOT_FENCED

    play(story, a_world())
