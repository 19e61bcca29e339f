"""The provider behind the nodes: machines with states, operations with idempotency tokens, and a record of every call.

Pure: it takes `now` from its owner and changes state only in `advance` and in the operations. What a machine *is*
(`crashed`) and what the provider *says* (`state`) are two things, as in life.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
import uuid
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal

from healer.model.fencing import MachineState

Verb = Literal["describe", "power-off", "power-on", "replace", "find", "list"]
PROVIDER_SCHEME: Final = "sim"
_BEFORE: Final = {
    MachineState.RUNNING: (MachineState.PROVISIONING,),
    MachineState.STOPPED: (MachineState.STOPPING,),
    MachineState.TERMINATED: tuple(state for state in MachineState if state is not MachineState.TERMINATED),
}
"""From which states a machine may come into each one."""


class CloudError(Exception):
    """The provider refused or failed; nothing happened. `code` is one of NotFound, QuotaExceeded, Unavailable, …"""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class AnswerLostError(CloudError):
    """The provider carried the request out, and the answer never arrived. The caller cannot know that."""

    def __init__(self, message: str) -> None:
        super().__init__("AnswerLost", message)


@dataclasses.dataclass(slots=True, kw_only=True)
class Instance:
    """One machine. `crashed`: it does nothing any more, whatever the provider says."""

    id: str
    zone: str
    pool: str
    instance_type: str
    node_name: str
    boot_id: str
    state: MachineState
    launched_at: datetime
    crashed: bool = False
    replaces: str = ""
    joins: bool = True
    """Whether its kubelet ever registers a node once it has booted."""

    @property
    def provider_id(self) -> str:
        return f"{PROVIDER_SCHEME}:///{self.zone}/{self.id}"

    @property
    def alive(self) -> bool:
        """Whether anything runs on it. A machine that is being stopped is still running."""
        return not self.crashed and self.state in (MachineState.RUNNING, MachineState.STOPPING)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What one idempotency token stands for. `machine` is the machine it was asked for, `new_machine` its replacement."""

    id: str
    verb: Verb
    token: str
    machine: str
    asked_at: datetime
    new_machine: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that reached the provider, for assertions. `outcome`: "ok", "again" (known token), "lost" or an error code."""

    at: datetime
    verb: Verb
    machine: str
    token: str
    outcome: str


@dataclasses.dataclass(slots=True, kw_only=True)
class Timing:
    """How long things take, in seconds."""

    stop_seconds: float = 4.0
    terminate_seconds: float = 5.0
    boot_seconds: float = 30.0
    boot_jitter_seconds: float = 4.0


@dataclasses.dataclass(slots=True, kw_only=True)
class Injected:
    """How the provider will misbehave."""

    errors: deque[CloudError] = dataclasses.field(default_factory=deque)
    broken: dict[str, CloudError] = dataclasses.field(default_factory=dict)
    """Machine id → how every call about it fails."""
    lost_answers: int = 0
    quota: int | None = None
    """The most machines that may run or boot at once; None is no limit."""


class Cloud:
    """All machines of one account."""

    def __init__(self, *, now: Callable[[], datetime], seed: int = 0, timing: Timing | None = None) -> None:
        self.now = now
        self.timing = timing or Timing()
        self.injected = Injected()
        self.keep_names = False
        """Whether a replacement takes over its predecessor's node name."""
        self.calls: list[Call] = []
        self.machines: dict[str, Instance] = {}
        self._random = random.Random(f"cloud-{seed}")  # noqa: S311 - a simulation has to be repeatable
        self._operations: dict[str, Operation] = {}
        self._due: list[tuple[datetime, int, str, MachineState]] = []
        self._order = itertools.count()
        self._names: dict[str, int] = {}

    # The account, as its owner sees it

    def launch(
        self,
        *,
        zone: str,
        pool: str,
        instance_type: str,
        node_name: str = "",
        replaces: str = "",
        running: bool = False,
    ) -> Instance:
        """A new machine, booting, or running already when `running`. Its node is named `node_name` or the next free name."""
        machine = Instance(
            id=f"i-{len(self.machines) + 1:04d}",
            zone=zone,
            pool=pool,
            instance_type=instance_type,
            node_name=node_name or self._next_name(zone),
            boot_id=self._boot_id(),
            state=MachineState.RUNNING if running else MachineState.PROVISIONING,
            launched_at=self.now(),
            replaces=replaces,
        )
        self.machines[machine.id] = machine
        if not running:
            jitter = self._random.random() * self.timing.boot_jitter_seconds
            self._schedule(self.timing.boot_seconds + jitter, machine, MachineState.RUNNING)
        return machine

    def advance(self, now: datetime) -> list[Instance]:
        """Let transitions that are due by `now` happen; the machines that changed, in order."""
        changed: list[Instance] = []
        while self._due and self._due[0][0] <= now:
            _, _, machine_id, state = heapq.heappop(self._due)
            machine = self.machines[machine_id]
            if machine.state not in _BEFORE[state]:
                continue
            if state is MachineState.RUNNING:
                machine.crashed = False
            machine.state = state
            changed.append(machine)
        return changed

    def crash(self, machine_id: str, *, says: MachineState = MachineState.RUNNING) -> None:
        """The machine dies at once; the provider says `says` of it from now on."""
        machine = self.machines[machine_id]
        machine.crashed = True
        machine.state = says

    def terminate(self, machine_id: str, *, at_once: bool = False) -> None:
        """The owner (or an autoscaler) takes the machine away; not one of Healer's calls."""
        machine = self.machines[machine_id]
        if at_once:
            machine.state = MachineState.TERMINATED
        elif machine.state is not MachineState.TERMINATED:
            machine.state = MachineState.STOPPING
            self._schedule(self.timing.terminate_seconds, machine, MachineState.TERMINATED)

    def of_node(self, provider_id: str) -> Instance | None:
        """The machine that `provider_id` names; the node's name says nothing about it."""
        machine = self.machines.get(provider_id.rpartition("/")[2])
        return machine if machine and machine.provider_id == provider_id else None

    @property
    def occupied(self) -> int:
        """How many machines count against the quota."""
        return sum(1 for machine in self.machines.values() if _counts(machine))

    # Misbehaviour, injected by tests

    def fail_next(self, count: int = 1, *, code: str = "Unavailable", message: str = "try again later") -> None:
        """The next `count` calls of any kind fail and do nothing."""
        self.injected.errors.extend(CloudError(code, message) for _ in range(count))

    def fail_always(self, machine_id: str, *, code: str = "Unavailable", message: str = "try again later") -> None:
        """Every call about this machine fails from now on."""
        self.injected.broken[machine_id] = CloudError(code, message)

    def lose_answers(self, count: int = 1) -> None:
        """The next `count` changing calls happen, but their caller gets a time-out."""
        self.injected.lost_answers += count

    # The API. Every call is recorded.

    def list_machines(self) -> tuple[Instance, ...]:
        """Every machine that is not terminated, as it is now."""
        self._admit("list", "", "")
        self._record("list", "", "", "ok")
        alive = (m for m in self.machines.values() if m.state is not MachineState.TERMINATED)
        return tuple(dataclasses.replace(machine) for machine in alive)

    def describe(self, machine_id: str) -> Instance:
        """The machine as it is now; raises CloudError NotFound. Terminated machines stay known."""
        self._admit("describe", machine_id, "")
        machine = self._machine("describe", machine_id, "")
        self._record("describe", machine_id, "", "ok")
        return dataclasses.replace(machine)

    def find(self, token: str) -> Operation | None:
        """The operation that was started with `token`, if it ever was."""
        self._admit("find", "", token)
        self._record("find", "", token, "ok")
        return self._operations.get(token)

    def power_off(self, machine_id: str, *, token: str) -> Operation:
        """Stop the machine by force. The same token again changes nothing more."""
        return self._change("power-off", machine_id, token, self._stop)

    def power_on(self, machine_id: str, *, token: str) -> Operation:
        """Boot a stopped machine; it comes back with a new boot id."""
        return self._change("power-on", machine_id, token, self._start)

    def replace(self, machine_id: str, *, token: str) -> Operation:
        """Terminate the machine and launch another of its kind in its zone; over quota, neither happens."""
        return self._change("replace", machine_id, token, self._replace)

    # Inside

    def _change(self, verb: Verb, machine_id: str, token: str, act: Callable[[Instance], str]) -> Operation:
        self._admit(verb, machine_id, token)
        known = self._operations.get(token)
        if known is not None:
            if (known.verb, known.machine) != (verb, machine_id):
                raise self._refused(
                    verb, machine_id, token, "IdempotencyMismatch", f"{token!r} was used for {known.id}"
                )
            return self._answer(known, "again")
        machine = self._machine(verb, machine_id, token)
        quota = self.injected.quota
        if verb == "replace" and quota is not None and self.occupied - _counts(machine) + 1 > quota:
            raise self._refused(verb, machine_id, token, "QuotaExceeded", f"{quota} machines are the limit")
        operation = Operation(
            id=f"op-{len(self._operations) + 1:04d}",
            verb=verb,
            token=token,
            machine=machine_id,
            asked_at=self.now(),
            new_machine=act(machine),
        )
        self._operations[token] = operation
        return self._answer(operation, "ok")

    def _answer(self, operation: Operation, outcome: str) -> Operation:
        lost = self.injected.lost_answers > 0
        self._record(operation.verb, operation.machine, operation.token, "lost" if lost else outcome)
        if lost:
            self.injected.lost_answers -= 1
            raise AnswerLostError(f"no answer to {operation.verb} of {operation.machine}")
        return operation

    def _stop(self, machine: Instance) -> str:
        if machine.state in (MachineState.RUNNING, MachineState.PROVISIONING):
            machine.state = MachineState.STOPPING
            self._schedule(self.timing.stop_seconds, machine, MachineState.STOPPED)
        return ""

    def _start(self, machine: Instance) -> str:
        if machine.state is MachineState.STOPPED:
            machine.state = MachineState.PROVISIONING
            machine.boot_id = self._boot_id()
            self._schedule(self.timing.boot_seconds, machine, MachineState.RUNNING)
        return ""

    def _replace(self, machine: Instance) -> str:
        self.terminate(machine.id)
        return self.launch(
            zone=machine.zone,
            pool=machine.pool,
            instance_type=machine.instance_type,
            node_name=machine.node_name if self.keep_names else "",
            replaces=machine.id,
        ).id

    def _machine(self, verb: Verb, machine_id: str, token: str) -> Instance:
        machine = self.machines.get(machine_id)
        if machine is None:
            raise self._refused(verb, machine_id, token, "NotFound", f"no machine {machine_id!r}")
        return machine

    def _admit(self, verb: Verb, machine_id: str, token: str) -> None:
        error = self.injected.broken.get(machine_id)
        if error is None and self.injected.errors:
            error = self.injected.errors.popleft()
        if error is not None:
            self._record(verb, machine_id, token, error.code)
            raise error

    def _refused(self, verb: Verb, machine_id: str, token: str, code: str, message: str) -> CloudError:
        self._record(verb, machine_id, token, code)
        return CloudError(code, message)

    def _record(self, verb: Verb, machine_id: str, token: str, outcome: str) -> None:
        self.calls.append(Call(at=self.now(), verb=verb, machine=machine_id, token=token, outcome=outcome))

    def _schedule(self, seconds: float, machine: Instance, state: MachineState) -> None:
        due = self.now() + timedelta(seconds=seconds)
        heapq.heappush(self._due, (due, next(self._order), machine.id, state))

    def _boot_id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _next_name(self, zone: str) -> str:
        suffix = zone.rpartition("-")[2] or "x"
        self._names[zone] = self._names.get(zone, 0) + 1
        return f"node-{suffix}{self._names[zone]}"


def _counts(machine: Instance) -> bool:
    return machine.state not in (MachineState.TERMINATED, MachineState.STOPPED)
