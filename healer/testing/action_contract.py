"""What every action must do. Derive a class of tests from it, and say in `play` in which scene it acts.

class TestMyAction(ActionContract):
    action = MyAction(MySettings())
    calls = 2

    def play(self, story):
        run(lambda: story(MyScene()))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from pydantic import BaseModel

from healer.errors import ActionError
from healer.model.cluster import ClusterState
from healer.model.targets import ObjectRef
from healer.ports import Action, Verb
from healer.testing.steps import CrashAt, Crashed, FakeContext


class Scene(Protocol):
    """A small world with one target, made anew for every story."""

    target: ObjectRef

    def context(self, *, crash: CrashAt | None = None, undo: bool = False) -> FakeContext:
        """A new process that goes on with the same operation, over the same memory and the same target."""

    def state(self) -> ClusterState:
        """The cluster now."""

    def snapshot(self) -> object:
        """What the action is there to change, comparable with ==; nothing that changes by itself."""

    def changes(self) -> int:
        """How many requests to change something have arrived outside: at the API server, at the provider."""

    def used(self) -> frozenset[Verb]:
        """Every permission that was needed so far."""

    async def rest(self) -> None:
        """Wait until the world has come to rest."""


Story = Callable[[Scene], Awaitable[None]]


class ActionContract:
    """The tests. `calls`: how many journalled calls a run makes. `reversible`: whether undo restores what was before."""

    action: Action
    calls: int = 1
    reversible: bool = True

    def play(self, story: Story) -> None:
        """Live through `story` in a new scene, on whatever event loop it needs."""
        raise AssertionError(f"{type(self).__name__} must say in which scene it plays {story}")

    def test_it_declares_what_it_is_and_documents_its_settings(self) -> None:
        assert self.action.name
        assert self.action.kinds
        assert self.action.verbs
        settings: Any = type(self.action).Settings  # type: ignore[attr-defined]
        assert issubclass(settings, BaseModel)
        assert settings.model_config.get("frozen")
        assert settings.model_config.get("extra") == "forbid"
        assert [name for name, field in settings.model_fields.items() if not field.description] == []

    def test_planning_is_pure_and_repeatable(self) -> None:
        async def story(scene: Scene) -> None:
            before = scene.snapshot()
            first = self.action.plan(scene.target, scene.state())
            assert first.blocked is None
            assert first.action == self.action.name
            assert first.summary
            assert self.action.plan(scene.target, scene.state()) == first
            assert scene.snapshot() == before
            assert scene.changes() == 0

        self.play(story)

    def test_a_target_that_is_gone_cannot_be_planned_for(self) -> None:
        async def story(scene: Scene) -> None:
            gone = dataclasses.replace(scene.target, name="no-such-thing", uid="no-such-uid")
            assert self.action.plan(gone, scene.state()).blocked is not None

        self.play(story)

    def test_running_twice_changes_nothing_more(self) -> None:
        async def story(scene: Scene) -> None:
            await self.action.run(scene.context())
            await scene.rest()
            once, changes = scene.snapshot(), scene.changes()
            assert changes
            await self.action.run(scene.context())
            await scene.rest()
            assert scene.snapshot() == once
            assert scene.changes() == changes

        self.play(story)

    def test_it_needs_no_more_permissions_than_it_declares(self) -> None:
        async def story(scene: Scene) -> None:
            await self.action.run(scene.context())
            await self.action.verify(scene.context())
            await self.action.undo(scene.context(undo=True))
            assert scene.used() <= frozenset(self.action.verbs)

        self.play(story)

    def test_verifying_changes_nothing(self) -> None:
        async def story(scene: Scene) -> None:
            await self.action.run(scene.context())
            await scene.rest()
            before, changes = scene.snapshot(), scene.changes()
            await self.action.verify(scene.context())
            assert (scene.snapshot(), scene.changes()) == (before, changes)

        self.play(story)

    def test_a_crash_at_any_call_ends_as_if_there_had_been_none(self) -> None:
        ends: list[tuple[object, int]] = []

        async def undisturbed(scene: Scene) -> None:
            await self.action.run(scene.context())
            await scene.rest()
            ends.append((scene.snapshot(), scene.changes()))

        self.play(undisturbed)
        for crash in self._crashes():

            async def story(scene: Scene, crash: CrashAt = crash) -> None:
                assert await self._dies(scene, crash), f"there is no call {crash.call}; set `calls`"
                await self.action.run(scene.context())
                await scene.rest()
                assert (scene.snapshot(), scene.changes()) == ends[0], f"after a crash at {crash}"

            self.play(story)

    def test_undo_restores_also_after_half_a_run(self) -> None:
        for crash in (None, *self._crashes()):

            async def story(scene: Scene, crash: CrashAt | None = crash) -> None:
                before = scene.snapshot()
                if crash is None:
                    await self.action.run(scene.context())
                else:
                    await self._dies(scene, crash)
                await self.action.undo(scene.context(undo=True))
                await self.action.undo(scene.context(undo=True))
                await scene.rest()
                if self.reversible:
                    assert scene.snapshot() == before, f"undone after {crash or 'a whole run'}"

            self.play(story)

    def test_a_cancelled_operation_makes_no_further_call(self) -> None:
        async def story(scene: Scene) -> None:
            context = scene.context()
            context.cancelled = "somebody"
            try:
                await self.action.run(context)
            except ActionError:
                stopped = True
            else:
                stopped = False
            assert stopped
            assert scene.changes() == 0

        self.play(story)

    def _crashes(self) -> list[CrashAt]:
        return [CrashAt(call=number, after=after) for number in range(1, self.calls + 1) for after in (False, True)]

    async def _dies(self, scene: Scene, crash: CrashAt) -> bool:
        try:
            await self.action.run(scene.context(crash=crash))
        except Crashed:
            return True
        return False
