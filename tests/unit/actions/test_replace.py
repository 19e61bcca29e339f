"""Replace: ordered once, and known to have succeeded by the new node's identity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from healer.actions.replace import Replace, ReplaceSettings
from healer.actions.steps import DeadlinePassed
from healer.errors import Permanent
from healer.model.decisions import Reason, Verdict
from healer.sim import builders
from healer.sim.faults import Fault
from healer.testing.states import a_cluster, a_node
from healer.testing.steps import CrashAt, run_through_crashes

NODE = "node-a1"
Play = Callable[..., None]


def a_replace(**settings: Any) -> Replace:
    return Replace(ReplaceSettings(**settings))


def orders(stage: Any) -> list[Any]:
    return [call for call in stage.world.cloud.calls if call.verb == "replace"]


def test_a_dead_machine_is_replaced_and_the_new_node_verified(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="machine-death", target=NODE))
        context = stage.context("replace", "Node", NODE)
        action = a_replace()
        await action.run(context)
        assert len(orders(stage)) == 1
        new = context.recall("new")
        node = stage.caches.state().nodes[new["name"]]
        assert node.ready
        assert node.zone == "zone-a"
        assert node.ref.uid != context.target.uid
        found = await action.verify(context)
        assert found.verdict is Verdict.FIXED
        assert "zone zone-a, pool general" in found.evidence[0]
        await action.undo(stage.again(context.target, "replace", undo=True))
        assert "cannot be taken back" in stage.memory.said[-1]

    play(story)


def test_d10_an_autoscalers_extra_node_is_not_taken_for_the_replacement(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="machine-death", target=NODE))
        context = stage.context("replace", "Node", NODE)
        stage.world.after(5, lambda: builders.add_node(stage.world, "extra", zone="zone-a") and None)
        await a_replace().run(context)
        assert context.recall("new")["provider_id"].endswith(context.recall("machine"))
        assert context.recall("new")["name"] != "extra"

    play(story)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "before its outcome is written"])
def test_d8_a_crash_around_the_order_leads_to_one_machine(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="machine-death", target=NODE))

        target = stage.context("replace", "Node", NODE).target

        def make(crash: CrashAt | None) -> Any:
            return stage.again(target, "replace", crash=crash)

        await run_through_crashes(make, a_replace(), calls=1, after=after)
        assert len(orders(stage)) == 1
        assert len([m for m in stage.world.cloud.machines.values() if m.replaces]) == 1

    play(story)


def test_a_lost_answer_is_found_by_its_key(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="machine-death", target=NODE))
        stage.world.cloud.lose_answers(1)
        context = stage.context("replace", "Node", NODE)
        await a_replace().run(context)
        assert len(orders(stage)) == 1
        assert context.recall("machine")

    play(story)


def test_a_replacement_under_the_same_name_is_known_by_its_uid(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.cloud.keep_names = True
        stage.world.inject(Fault(name="machine-death", target=NODE))
        context = stage.context("replace", "Node", NODE)
        await a_replace().run(context)
        new = context.recall("new")
        assert new["name"] == NODE
        assert new["uid"] != context.target.uid
        assert (await a_replace().verify(context)).verdict is Verdict.FIXED

    play(story)


def test_a_machine_that_never_joins_is_a_failure_that_says_so(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="machine-death", target=NODE))
        launch = stage.world.cloud.launch

        def stillborn(**fields: Any) -> Any:
            machine = launch(**fields)
            machine.joins = False
            return machine

        stage.world.cloud.launch = stillborn
        with pytest.raises(DeadlinePassed, match=r"after 120 s machine i-0007 has not joined"):
            await a_replace(join_timeout=timedelta(minutes=2)).run(stage.context("replace", "Node", NODE))

    play(story)


def test_a_refusal_of_the_provider_passes_on(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.cloud.injected.quota = 1
        with pytest.raises(Permanent, match="QuotaExceeded"):
            await a_replace().run(stage.context("replace", "Node", NODE))

    play(story)


def test_d16_a_new_node_that_is_not_like_the_old_one_is_no_cure(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="machine-death", target=NODE))
        context = stage.context("replace", "Node", NODE)
        await a_replace().run(context)
        name = context.recall("new")["name"]
        stage.world.storage.update(
            "nodes", "", name, lambda n: n["status"]["nodeInfo"].update(kubeletVersion="v9"), status=True
        )
        await stage.until(lambda: stage.caches.state().nodes[name].kubelet_version == "v9")
        found = await a_replace().verify(context)
        assert found.verdict is Verdict.NOT_FIXED
        assert "kubelet version is v9" in found.evidence[0]
        assert (await a_replace(same_version=False).verify(context)).verdict is Verdict.FIXED
        stage.world.inject(Fault(name="machine-death", target=name))
        await asyncio.sleep(90)
        assert (await a_replace(same_version=False).verify(context)).verdict is Verdict.NOT_FIXED

    play(story)


def test_the_node_object_may_go_before_the_order(play: Play) -> None:
    async def story(stage: Any) -> None:
        context = stage.context("replace", "Node", NODE)
        stage.memory.notes["cordon", "node"] = {
            "provider_id": stage.node(NODE)["spec"]["providerID"],
            "boot_id": "",
            "zone": "zone-a",
            "pool": "general",
            "kubelet_version": stage.node(NODE)["status"]["nodeInfo"]["kubeletVersion"],
        }
        stage.world.inject(Fault(name="machine-gone", target=NODE))
        await stage.until(lambda: NODE not in stage.caches.state().nodes)
        await a_replace().run(context)
        assert len(orders(stage)) == 1
        assert context.recall("new")["name"] != NODE

    play(story)


def test_a_node_without_a_provider_id_cannot_be_replaced() -> None:
    node = a_node("bare", provider_id="")
    blocked = a_replace().plan(node.ref, a_cluster(node)).blocked
    assert blocked is not None
    assert blocked.reason is Reason.INFEASIBLE
