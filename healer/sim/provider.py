"""The simulated cloud as a provider of machines, without a network between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final, TypeVar

from healer.config.fields import Section
from healer.errors import OutcomeUnknown, Permanent, Retryable
from healer.model.cluster import Node
from healer.model.fencing import Machine, Replacement
from healer.sim.cloud import AnswerLostError, Cloud, CloudError, Instance, Operation
from healer.sim.world import World

T = TypeVar("T")
PASSING: Final = frozenset({"Unavailable", "Throttled", "TooManyRequests", "Internal"})


class SimulatedSettings(Section):
    """`simulated`: the machines of a simulated cluster; whoever runs it hands them over."""


class SimulatedProvider:
    """ports.Provider over a world's cloud. `latency_seconds` is how long each answer takes."""

    Settings: ClassVar[type[SimulatedSettings]] = SimulatedSettings

    def __init__(self, world: World, *, name: str = "simulated", latency_seconds: float = 0.05) -> None:
        self.name = name
        self._world = world
        self._latency = latency_seconds

    @property
    def _cloud(self) -> Cloud:
        return self._world.cloud

    async def describe(self, node: Node) -> Machine:
        machine = self._of(node)
        return _machine(
            await self._ask(f"describing the machine of {node.name!r}", lambda: self._cloud.describe(machine.id))
        )

    async def power_off(self, node: Node, *, key: str) -> Machine:
        machine = self._of(node)
        await self._ask(
            f"powering off the machine of {node.name!r}", lambda: self._cloud.power_off(machine.id, token=key)
        )
        return _machine(self._cloud.machines[machine.id])

    async def replace(self, node: Node, *, key: str) -> Replacement:
        machine = self._of(node)
        return self._told(
            await self._ask(
                f"replacing the machine of {node.name!r}", lambda: self._cloud.replace(machine.id, token=key)
            )
        )

    async def find(self, node: Node, *, key: str) -> Replacement | None:
        found = await self._ask(f"asking for request {key!r} about {node.name!r}", lambda: self._cloud.find(key))
        return None if found is None else self._told(found)

    def _of(self, node: Node) -> Instance:
        machine = self._cloud.of_node(node.provider_id)
        if machine is None:
            raise Permanent(f"asking about node {node.name!r}: no machine has provider id {node.provider_id!r}")
        return machine

    def _told(self, operation: Operation) -> Replacement:
        new = self._cloud.machines.get(operation.new_machine)
        return Replacement(request=operation.id, machine=_machine(new) if new else None, done=new is not None)

    async def _ask(self, doing: str, ask: Callable[[], T]) -> T:
        await asyncio.sleep(self._latency)
        try:
            return ask()
        except AnswerLostError as error:
            raise OutcomeUnknown(f"{doing}: {error}") from error
        except CloudError as error:
            if error.code in PASSING:
                raise Retryable(f"{doing}: {error}", delay_seconds=2) from error
            raise Permanent(f"{doing}: {error}") from error


def _machine(instance: Instance) -> Machine:
    return Machine(id=instance.id, state=instance.state, zone=instance.zone)
