"""Cordon, fence, drain and replace one after the other, as a remedy would have them, with and without crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from healer.actions.cordon import Cordon, CordonSettings
from healer.actions.drain import Drain, DrainSettings
from healer.actions.fence import Fence, FenceSettings
from healer.actions.replace import Replace, ReplaceSettings
from healer.model.decisions import Verdict
from healer.ports import Action
from healer.sim import builders
from healer.sim.faults import Fault
from healer.testing.steps import CrashAt, Crashed

NODE = "node-a1"
CHAIN: tuple[Action, ...] = (
    Cordon(CordonSettings()),
    Fence(FenceSettings(power_off=True)),
    Drain(DrainSettings()),
    Replace(ReplaceSettings()),
)
Play = Callable[..., None]


async def repair(stage: Any, target: Any) -> None:
    for action in CHAIN:
        context = stage.again(target, action.name)
        await action.run(context)
        stage.proof = context.proof


async def is_whole(stage: Any, target: Any) -> bool:
    found = [await action.verify(stage.again(target, action.name)) for action in CHAIN]
    return all(finding.verdict is Verdict.FIXED for finding in found)


@pytest.mark.parametrize("says", ["stopped", "running"])
def test_a_dead_node_is_repaired_from_end_to_end(play: Play, says: str) -> None:
    async def story(stage: Any) -> None:
        target = stage.context("cordon", "Node", NODE).target
        state = stage.caches.state()
        assert all(action.plan(target, state).blocked is None for action in CHAIN)
        stage.world.inject(Fault(name="machine-death", target=NODE, params={"says": says}))
        await stage.until(lambda: not stage.caches.state().nodes[NODE].ready)
        began = stage.clock.monotonic()
        await repair(stage, target)
        assert stage.clock.monotonic() - began < 120
        await asyncio.sleep(30)
        assert await is_whole(stage, target)
        orders = [call.verb for call in stage.world.cloud.calls if call.verb not in ("describe", "find")]
        assert orders == (["replace"] if says == "stopped" else ["power-off", "replace"])
        ready = [p for p in stage.caches.state().pods.values() if p.ref.namespace == "shop" and p.ready]
        assert len(ready) == 21
        assert stage.caches.state().attachments.keys()
        assert NODE not in stage.caches.state().attachments.values()

    play(story, builders.a_world(12, 3))


def test_d5_a_node_made_anew_in_the_middle_is_left_alone(play: Play) -> None:
    async def story(stage: Any) -> None:
        target = stage.context("cordon", "Node", NODE).target
        await CHAIN[0].run(stage.again(target, "cordon"))
        stage.world.inject(Fault(name="node-recreate-same-name", target=NODE))
        await stage.until(lambda: getattr(stage.caches.state().nodes.get(NODE), "ref", target).uid != target.uid)
        before = (stage.node(NODE)["spec"], len(stage.asked("PATCH", "nodes")), len(stage.asked("POST", "/eviction")))
        with pytest.raises(ExceptionGroup) as caught:
            await all_of(stage, target)
        assert len(caught.value.exceptions) == len(CHAIN)
        for action in reversed(CHAIN):
            await action.undo(stage.again(target, action.name, undo=True))
        assert before == (
            stage.node(NODE)["spec"],
            len(stage.asked("PATCH", "nodes")),
            len(stage.asked("POST", "/eviction")),
        )
        assert [call for call in stage.world.cloud.calls if call.verb in ("power-off", "replace")] == []

    play(story, builders.a_world(6, 3))


async def all_of(stage: Any, target: Any) -> None:
    """Try every step although the one before has failed; all failures together."""
    failures: list[Exception] = []
    for action in CHAIN:
        try:
            context = stage.again(target, action.name)
            context.check()
            await action.run(context)
        except Exception as error:  # noqa: BLE001 — which ones is for the test to say
            failures.append(error)
    if failures:
        raise ExceptionGroup("steps", failures)


@pytest.mark.parametrize("after", [False, True], ids=["before each call", "before each outcome is written"])
def test_p3_dying_once_at_every_call_of_the_chain_leads_to_the_same_end(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        target = stage.context("cordon", "Node", NODE).target
        stage.world.inject(Fault(name="machine-death", target=NODE, params={"says": "running"}))
        await stage.until(lambda: not stage.caches.state().nodes[NODE].ready)
        deaths = 0
        for action in CHAIN:
            call = 1
            while True:
                try:
                    await action.run(stage.again(target, action.name, crash=CrashAt(call=call, after=after)))
                except Crashed:
                    deaths += 1
                    # What was begun before the call is begun anew: the next process dies one call later.
                    call = 1 if after else 2
                    assert deaths < 30
                    continue
                break
        assert deaths >= 3
        await asyncio.sleep(60)
        assert await is_whole(stage, target)
        orders = [call.verb for call in stage.world.cloud.calls if call.verb in ("power-off", "replace")]
        assert orders == ["power-off", "replace"]

    play(story, builders.a_world(6, 3))
