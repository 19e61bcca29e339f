"""Restart, rollout-restart and scale."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from healer.actions.restart import Restart, RestartSettings
from healer.actions.rollout_restart import RESTARTED_AT, RolloutRestart, RolloutRestartSettings
from healer.actions.scale import Scale, ScaleSettings
from healer.actions.steps import CannotBeDone, DeadlinePassed
from healer.errors import TargetGone
from healer.model.cluster import Autoscaler
from healer.model.decisions import Reason, Verdict
from healer.sim import builders
from healer.sim.faults import Fault
from healer.sim.world import World
from healer.testing.states import a_cluster, a_pod, a_ref, a_workload
from healer.testing.steps import CrashAt, FakeContext, run_through_crashes

Play = Callable[..., None]


def a_world(replicas: int = 3) -> World:
    world = builders.a_world(6, 3, with_apps=False)
    builders.add_deployment(world, "shop", "web", replicas=replicas)
    builders.add_statefulset(world, "shop", "db", replicas=3, volume=False)
    world.settle()
    return world


def deployment(stage: Any, name: str = "web") -> Any:
    return stage.world.storage.get("deployments", "shop", name)


# restart


def test_a_crash_looping_pod_is_restarted_and_its_successor_verified(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="crash-loop", target="shop/db-1"))
        await stage.until(lambda: not stage.caches.state().pods["shop", "db-1"].ready)
        action = Restart(RestartSettings())
        context = stage.context("restart", "Pod", "db-1", "shop")
        await action.run(context)
        (request,) = stage.asked("DELETE", "/pods/db-1")
        assert request.json()["preconditions"]["uid"] == context.target.uid
        await asyncio.sleep(30)
        found = await action.verify(context)
        assert found.verdict is Verdict.FIXED
        assert "3 pods" in found.evidence[0]

    play(story, a_world())


def test_a_pod_that_goes_on_crashing_is_not_fixed(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.world.inject(Fault(name="crash-loop", target="shop/web", params={"heals": "never"}))
        await asyncio.sleep(60)
        pod = next(p for p in stage.caches.state().pods.values() if p.ref.namespace == "shop" and "web" in p.ref.name)
        action = Restart(RestartSettings())
        context = stage.context("restart", "Pod", pod.ref.name, "shop")
        await action.run(context)
        await asyncio.sleep(60)
        assert (await action.verify(context)).verdict is Verdict.NOT_FIXED

    play(story, a_world())


def test_r3_a_pod_made_anew_under_the_same_name_is_not_deleted(play: Play) -> None:
    async def story(stage: Any) -> None:
        context = stage.context("restart", "Pod", "db-0", "shop")
        stage.world.storage.delete("pods", "shop", "db-0")
        await stage.until(lambda: stage.caches.state().pods["shop", "db-0"].ref.uid != context.target.uid)
        with pytest.raises(TargetGone):
            await Restart(RestartSettings()).run(context)
        assert stage.asked("DELETE", "/pods/") == []

    play(story, a_world())


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "before its outcome is written"])
def test_a_crash_around_the_deletion_deletes_once(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        target = stage.context("restart", "Pod", "db-2", "shop").target

        def make(crash: CrashAt | None) -> FakeContext:
            again: FakeContext = stage.again(target, "restart", crash=crash)
            return again

        await run_through_crashes(make, Restart(RestartSettings()), calls=1, after=after)
        assert len(stage.asked("DELETE", "/pods/")) == 1

    play(story, a_world())


def test_a_pod_that_does_not_end_is_a_failure(play: Play) -> None:
    async def story(stage: Any) -> None:
        node = stage.caches.state().pods["shop", "db-0"].node_name
        stage.world.inject(Fault(name="machine-death", target=node))
        with pytest.raises(DeadlinePassed, match="has not ended after 60 s"):
            await Restart(RestartSettings(timeout=timedelta(minutes=1))).run(
                stage.context("restart", "Pod", "db-0", "shop")
            )

    play(story, a_world())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no controller"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "static pod"),
        ({"owner": a_ref("Job", "j", "shop")}, "belongs to a Job"),
    ],
    ids=["bare", "static", "of a job"],
)
def test_a_pod_that_nobody_would_make_anew_is_not_deleted(fields: dict[str, Any], words: str) -> None:
    pod = a_pod("x", **fields)
    blocked = Restart(RestartSettings()).plan(pod.ref, a_cluster(pod)).blocked
    assert blocked is not None
    assert blocked.reason is Reason.INFEASIBLE
    assert words in blocked.detail


# rollout-restart


def test_a_workload_is_rolled_out_anew_once(play: Play) -> None:
    async def story(stage: Any) -> None:
        action = RolloutRestart(RolloutRestartSettings())
        context = stage.context("rollout-restart", "Deployment", "web", "shop")
        preview = action.plan(context.target, stage.caches.state())
        assert len(preview.touches) == 4
        before = {
            p["metadata"]["uid"] for p in stage.world.storage.items("pods", "shop") if "web" in p["metadata"]["name"]
        }
        await action.run(context)
        await action.run(context)
        assert len(stage.asked("PATCH", "/deployments/web")) == 1
        assert RESTARTED_AT in deployment(stage)["spec"]["template"]["metadata"]["annotations"]
        await stage.until(lambda: len(list(stage.caches.state().pods_of(context.target))) == 3)
        after = {p.ref.uid for p in stage.caches.state().pods_of(context.target)}
        assert not before & after
        assert (await action.verify(context)).verdict is Verdict.FIXED

    play(story, a_world())


def test_a_rollout_that_does_not_end_is_taken_back(play: Play) -> None:
    async def story(stage: Any) -> None:
        template = deployment(stage)["spec"]["template"]
        stage.world.inject(Fault(name="crash-loop", target="shop/web", params={"heals": "never"}))
        action = RolloutRestart(RolloutRestartSettings(timeout=timedelta(minutes=2)))
        context = stage.context("rollout-restart", "Deployment", "web", "shop")
        with pytest.raises(DeadlinePassed):
            await action.run(context)
        await action.undo(stage.again(context.target, "rollout-restart", undo=True))
        assert deployment(stage)["spec"]["template"] == template

    play(story, a_world())


def test_undo_leaves_a_template_that_somebody_has_changed_since(play: Play) -> None:
    async def story(stage: Any) -> None:
        action = RolloutRestart(RolloutRestartSettings())
        context = stage.context("rollout-restart", "Deployment", "web", "shop")
        await action.run(context)
        stage.world.storage.update(
            "deployments",
            "shop",
            "web",
            lambda d: d["spec"]["template"]["metadata"]["annotations"].update({RESTARTED_AT: "by hand"}),
        )
        await action.undo(stage.again(context.target, "rollout-restart", undo=True))
        assert deployment(stage)["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] == "by hand"

    play(story, a_world())


def test_what_cannot_roll_out_is_said_before(play: Play) -> None:
    paused = a_workload("Deployment", "web", paused=True)
    blocked = RolloutRestart(RolloutRestartSettings()).plan(paused.ref, a_cluster(paused)).blocked
    assert blocked is not None
    assert "paused" in blocked.detail

    async def story(stage: Any) -> None:
        stage.world.storage.update(
            "statefulsets", "shop", "db", lambda s: s["spec"].update(updateStrategy={"type": "OnDelete"})
        )
        with pytest.raises(CannotBeDone, match="OnDelete"):
            await RolloutRestart(RolloutRestartSettings()).run(
                stage.context("rollout-restart", "StatefulSet", "db", "shop")
            )

    play(story, a_world())


# scale


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "before its outcome is written"])
def test_scaling_by_two_is_two_also_over_a_crash_and_is_taken_back(play: Play, after: bool) -> None:
    async def story(stage: Any) -> None:
        action = Scale(ScaleSettings(by=2))
        target = stage.context("scale", "Deployment", "web", "shop").target

        def make(crash: CrashAt | None) -> FakeContext:
            again: FakeContext = stage.again(target, "scale", crash=crash)
            return again

        context = await run_through_crashes(make, action, calls=1, after=after)
        assert deployment(stage)["spec"]["replicas"] == 5
        assert len(stage.asked("PATCH", "/deployments/web/scale")) == 1
        assert (await action.verify(context)).verdict is Verdict.FIXED
        await action.undo(stage.again(target, "scale", undo=True))
        assert deployment(stage)["spec"]["replicas"] == 3

    play(story, a_world())


def test_c4_what_a_human_has_set_meanwhile_is_not_taken_back(play: Play) -> None:
    async def story(stage: Any) -> None:
        action = Scale(ScaleSettings(to=5))
        context = stage.context("scale", "Deployment", "web", "shop")
        await action.run(context)
        stage.world.storage.update("deployments", "shop", "web", lambda d: d["spec"].update(replicas=7))
        await action.undo(stage.again(context.target, "scale", undo=True))
        assert deployment(stage)["spec"]["replicas"] == 7

    play(story, a_world())


def an_autoscaler(lowest: int, highest: int) -> Autoscaler:
    return Autoscaler(
        ref=a_ref("HorizontalPodAutoscaler", "web", "shop"),
        target_kind="Deployment",
        target_name="web",
        min_replicas=lowest,
        max_replicas=highest,
    )


@pytest.mark.parametrize(
    ("settings", "replicas", "bounds", "reason"),
    [
        ({"by": 2}, 3, (1, 10), None),
        ({"by": 2}, 3, (1, 4), Reason.INFEASIBLE),
        ({"to": 2}, 3, (3, 10), Reason.INFEASIBLE),
        ({"by": -5}, 1, None, Reason.NOTHING_TO_DO),
        ({"by": 2, "max": 3}, 3, None, Reason.NOTHING_TO_DO),
        ({"by": 2, "max": 3}, 9, None, Reason.NOTHING_TO_DO),
        ({"to": 3}, 3, None, Reason.NOTHING_TO_DO),
        ({"to": 0, "min": 0}, 3, None, None),
    ],
)
def test_scaling_stays_within_its_bounds_and_those_of_the_autoscaler(
    settings: dict[str, Any], replicas: int, bounds: tuple[int, int] | None, reason: Reason | None
) -> None:
    web = a_workload("Deployment", "web", replicas=replicas)
    state = a_cluster(web, *([an_autoscaler(*bounds)] if bounds else []))
    preview = Scale(ScaleSettings(**settings)).plan(web.ref, state)
    assert (preview.blocked.reason if preview.blocked else None) is reason
    assert bool(preview.warnings) is (bounds is not None and reason is None)


@pytest.mark.parametrize(
    "settings",
    [{}, {"by": 1, "to": 2}, {"by": 0}, {"to": 0}, {"to": 99}, {"by": 1, "min": 9, "max": 3}],
    ids=["neither", "both", "nothing", "to none without min", "above max", "min above max"],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ScaleSettings(**settings)
