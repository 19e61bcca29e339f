"""Cordon and uncordon: whose cordon it is, and that nobody else's is taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from healer.actions.cordon import CORDON_KEPT, CORDONED_BY, Cordon, CordonSettings
from healer.actions.uncordon import Uncordon, UncordonSettings
from healer.errors import TargetGone
from healer.model.decisions import Reason, Verdict
from healer.model.plans import Effect
from healer.sim.api_faults import Failure
from healer.sim.faults import Fault
from healer.testing.states import a_cluster, a_node, a_ref
from healer.testing.steps import CrashAt, run_through_crashes

NODE = "node-a1"
CORDON = Cordon(CordonSettings())
UNCORDON = Uncordon(UncordonSettings())
Play = Callable[..., None]


def test_a_plan_says_whose_cordon_it_found() -> None:
    free, human = a_node("free"), a_node("human", unschedulable=True)
    ours = a_node("ours", unschedulable=True, annotations={CORDONED_BY: "op-9"})
    state = a_cluster(free, human, ours)
    assert [t.effect for t in CORDON.plan(free.ref, state).touches] == [Effect.CORDON]
    assert "somebody else" in CORDON.plan(human.ref, state).touches[0].note
    assert "op-9" in CORDON.plan(ours.ref, state).touches[0].note
    assert UNCORDON.plan(human.ref, state).touches[0].effect is Effect.NONE
    assert UNCORDON.plan(ours.ref, state).touches[0].effect is Effect.UNCORDON
    gone = CORDON.plan(a_ref("Node", "gone"), state).blocked
    assert gone is not None
    assert gone.reason is Reason.TARGET_NOT_FOUND


def test_a_node_is_cordoned_in_one_patch_with_the_name_of_the_operation_and_given_back(play: Play) -> None:
    async def story(stage: Any) -> None:
        await CORDON.run(stage.context("cordon", "Node", NODE))
        node = stage.node(NODE)
        assert node["spec"]["unschedulable"]
        assert node["metadata"]["annotations"][CORDONED_BY] == "op-1"
        assert len(stage.asked("PATCH", "nodes")) == 1
        await CORDON.run(stage.context("cordon", "Node", NODE))
        assert len(stage.asked("PATCH", "nodes")) == 1
        await CORDON.undo(stage.context("cordon", "Node", NODE, undo=True))
        node = stage.node(NODE)
        assert not node["spec"].get("unschedulable")
        assert CORDONED_BY not in node["metadata"].get("annotations", {})

    play(story)


def test_c9_a_cordon_of_a_human_stays_after_success_and_after_failure(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.storage.update("nodes", "", NODE, lambda node: node["spec"].update(unschedulable=True))
        await CORDON.run(stage.context("cordon", "Node", NODE))
        await UNCORDON.run(stage.context("uncordon", "Node", NODE))
        await CORDON.undo(stage.context("cordon", "Node", NODE, undo=True))
        assert stage.node(NODE)["spec"]["unschedulable"]
        assert stage.asked("PATCH", "nodes") == []
        assert any("not by us" in line for line in stage.memory.said)

    play(story)


def test_another_operation_of_ours_does_not_undo_the_cordon_of_the_first(play: Play) -> None:
    async def story(stage: Any) -> None:
        await CORDON.run(stage.context("cordon", "Node", NODE))
        await CORDON.undo(stage.context("cordon", "Node", NODE, undo=True, operation="op-2"))
        assert stage.node(NODE)["spec"]["unschedulable"]
        await UNCORDON.run(stage.context("uncordon", "Node", NODE))
        assert not stage.node(NODE)["spec"].get("unschedulable")

    play(story)


def test_a_foreign_cordon_is_taken_away_only_when_that_is_asked_for(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.storage.update("nodes", "", NODE, lambda node: node["spec"].update(unschedulable=True))
        action = Uncordon(UncordonSettings(only_ours=False))
        await action.run(stage.context("uncordon", "Node", NODE))
        assert not stage.node(NODE)["spec"].get("unschedulable")
        await stage.until(lambda: not stage.caches.state().nodes[NODE].unschedulable)
        assert (await action.verify(stage.context("uncordon", "Node", NODE))).verdict is Verdict.FIXED

    play(story)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "before its outcome is written"])
def test_a_crash_at_the_call_leads_to_the_same_end(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        def make(crash: CrashAt | None) -> Any:
            return stage.context("cordon", "Node", NODE, crash=crash)

        await run_through_crashes(make, CORDON, calls=1, after=after)
        assert stage.node(NODE)["spec"]["unschedulable"]
        assert len(stage.asked("PATCH", "nodes")) == 1
        assert stage.memory.notes["cordon", "ours"] is True
        await CORDON.undo(stage.context("cordon", "Node", NODE, undo=True))
        assert not stage.node(NODE)["spec"].get("unschedulable")

    play(story)


def test_a_lost_answer_is_settled_by_reading(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.api.faults.fail_next.append(Failure(status=504, method="PATCH", carried_out=True))
        await CORDON.run(stage.context("cordon", "Node", NODE))
        assert len(stage.asked("PATCH", "nodes")) == 1
        assert stage.memory.calls["cordon", "cordon"] == "done"

    play(story)


def test_a_node_that_changed_meanwhile_is_read_again(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.api.faults.fail_next.append(Failure(status=409, method="PATCH"))
        await CORDON.run(stage.context("cordon", "Node", NODE))
        assert stage.node(NODE)["spec"]["unschedulable"]

    play(story)


def test_d5_a_node_made_anew_under_the_same_name_is_not_touched(play: Play) -> None:
    async def story(stage: Any) -> None:
        context = stage.context("cordon", "Node", NODE)
        stage.world.inject(Fault(name="node-recreate-same-name", target=NODE))
        await stage.until(
            lambda: stage.node(NODE) is not None and stage.node(NODE)["metadata"]["uid"] != context.target.uid
        )
        with pytest.raises(TargetGone):
            await CORDON.run(context)
        await CORDON.undo(stage.again(context.target, "cordon", undo=True))
        assert stage.asked("PATCH", "nodes") == []

    play(story)


def test_a_bad_node_stays_cordoned_with_a_note_where_that_is_the_policy(play: Play) -> None:
    async def story(stage: Any) -> None:
        action = Cordon(CordonSettings(keep_when_bad=True))
        await action.run(stage.context("cordon", "Node", NODE))
        stage.world.inject(Fault(name="disk-pressure", target=NODE))
        await stage.until(lambda: stage.caches.state().nodes[NODE].condition("DiskPressure") == "True")
        await action.undo(stage.context("cordon", "Node", NODE, undo=True))
        node = stage.node(NODE)
        assert node["spec"]["unschedulable"]
        assert "DiskPressure is True" in node["metadata"]["annotations"][CORDON_KEPT]

    play(story)
