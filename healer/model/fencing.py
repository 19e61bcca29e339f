"""Force needs proof: the value without which nothing may be deleted from under a machine that could still run."""

from __future__ import annotations

import dataclasses
import enum

from healer.model.targets import NodeIdentity


class MachineState(enum.StrEnum):
    PROVISIONING = "provisioning"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATED = "terminated"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a provider says of the machine behind a node. `id` is the provider's own name for it."""

    id: str
    state: MachineState
    zone: str = ""
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FenceProof:
    """A provider or a watchdog has shown that nothing of this node can be running.

    Raises ValueError for a machine that is not stopped or terminated: there is no other way to make one.
    """

    identity: NodeIdentity
    machine: Machine
    provider: str

    def __post_init__(self) -> None:
        if self.machine.state not in (MachineState.STOPPED, MachineState.TERMINATED):
            raise ValueError(f"machine {self.machine.id!r} is {self.machine.state}, which proves nothing")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A request to replace a machine, as the provider knows it. `machine` is the new one, as soon as it has an id."""

    request: str
    machine: Machine | None = None
    done: bool = False
