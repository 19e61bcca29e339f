"""All built-in actions keep the promises of every action, each on a simulated cluster of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

from healer import plugins, ports
from healer.actions.cordon import CORDONED_BY, Cordon, CordonSettings
from healer.actions.drain import Drain, DrainSettings
from healer.actions.fence import Fence, FenceSettings
from healer.actions.providers.webhook import WebhookProvider
from healer.actions.replace import Replace, ReplaceSettings
from healer.actions.restart import Restart, RestartSettings
from healer.actions.rollout_restart import RolloutRestart, RolloutRestartSettings
from healer.actions.scale import Scale, ScaleSettings
from healer.actions.uncordon import Uncordon, UncordonSettings
from healer.clock import LoopClock
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.model.cluster import ClusterState
from healer.model.targets import ObjectRef
from healer.ports import Verb
from healer.sim import builders
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport
from healer.sim.driver import drive
from healer.sim.faults import Fault
from healer.sim.provider import SimulatedProvider
from healer.sim.time import run
from healer.sim.world import World
from healer.testing.action_contract import ActionContract, Scene, Story
from healer.testing.steps import CrashAt, FakeContext, Memory
from healer.testing.watched import WatchedKube

NODE = "node-a1"


@dataclasses.dataclass
class SimulatedScene:
    """One target in a simulated cluster."""

    target: ObjectRef
    world: World
    kube: WatchedKube
    caches: ClusterCaches
    clock: LoopClock
    step: str
    memory: Memory = dataclasses.field(default_factory=Memory)

    def context(self, *, crash: CrashAt | None = None, undo: bool = False) -> FakeContext:
        return FakeContext(
            self.target,
            kube=self.kube,
            state=self.caches.state,
            clock=self.clock,
            changed=self.caches.changed,
            memory=self.memory,
            step=self.step,
            providers={"simulated": SimulatedProvider(self.world)},
            crash=crash,
            undo=undo,
        )

    def state(self) -> ClusterState:
        return self.caches.state()

    def snapshot(self) -> object:
        """Every node's spec and marks, every workload's spec, and how many pods and machines there are of each."""
        storage = self.world.storage
        nodes = {
            node["metadata"]["name"]: (
                node["spec"].get("unschedulable", False),
                sorted(
                    taint["key"] for taint in node["spec"].get("taints") or () if "kubernetes.io/un" not in taint["key"]
                ),
                sorted(node["metadata"].get("annotations") or {}),
            )
            for node in storage.items("nodes", "")
        }
        workloads = {
            w["metadata"]["name"]: w["spec"]
            for kind in ("deployments", "statefulsets")
            for w in storage.items(kind, "shop")
        }
        machines = sorted(machine.state for machine in self.world.cloud.machines.values())
        return nodes, workloads, len(storage.items("pods", "shop")), machines

    def changes(self) -> int:
        at_the_provider = [call for call in self.world.cloud.calls if call.verb in ("power-off", "replace")]
        return len(self.kube.changes) + len(at_the_provider)

    def used(self) -> frozenset[Verb]:
        return frozenset(self.kube.used)

    async def rest(self) -> None:
        await asyncio.sleep(60)


def a_world() -> World:
    world = builders.a_world(6, 3, with_apps=False)
    builders.add_deployment(world, "shop", "web", replicas=6)
    builders.add_statefulset(world, "shop", "db", replicas=3)
    world.settle()
    return world


def fits_the_ports(
    scene: SimulatedScene, kube: WatchedKube, webhook: WebhookProvider
) -> tuple[Scene, ports.Kube, ports.Provider]:
    """Checked by mypy."""
    return scene, kube, webhook


@contextlib.asynccontextmanager
async def a_scene(
    kind: str, name: str, namespace: str, step: str, prepare: Callable[[World], None]
) -> AsyncIterator[SimulatedScene]:
    world = a_world()
    prepare(world)
    clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
    api = Api(world.storage, now=lambda: world.now)
    client = KubeClient(SimTransport(api), cluster="sim", clock=clock)
    caches = ClusterCaches(client, clock)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(drive(world, clock)), group.create_task(caches.run())]
        await caches.synced()
        target = caches.state().find(kind, namespace, name)
        assert target is not None
        yield SimulatedScene(target, world, WatchedKube(client), caches, clock, step)
        for task in tasks:
            task.cancel()


class OnSimulatedCluster(ActionContract):
    kind, name, namespace = "Node", NODE, ""

    def prepare(self, world: World) -> None:
        """What is wrong in this world."""

    def play(self, story: Story) -> None:
        async def main() -> None:
            async with a_scene(self.kind, self.name, self.namespace, self.action.name, self.prepare) as scene:
                await story(scene)

        run(main)


class TestCordon(OnSimulatedCluster):
    action = Cordon(CordonSettings())


class TestUncordon(OnSimulatedCluster):
    action = Uncordon(UncordonSettings())
    reversible = False

    def prepare(self, world: World) -> None:
        def cordon(node: Any) -> None:
            node["spec"]["unschedulable"] = True
            node["metadata"].setdefault("annotations", {})[CORDONED_BY] = "op-0"

        world.storage.update("nodes", "", NODE, cordon)


class TestDrain(OnSimulatedCluster):
    action = Drain(DrainSettings())
    calls = 2

    def prepare(self, world: World) -> None:
        world.storage.update("nodes", "", NODE, lambda node: node["spec"].update(unschedulable=True))


class TestFence(OnSimulatedCluster):
    action = Fence(FenceSettings(power_off=True))
    calls = 3
    reversible = False

    def prepare(self, world: World) -> None:
        world.inject(Fault(name="kubelet-stop", target=NODE))
        world.run_for(60)


class TestReplace(OnSimulatedCluster):
    action = Replace(ReplaceSettings())
    reversible = False

    def prepare(self, world: World) -> None:
        world.inject(Fault(name="machine-death", target=NODE))


class TestRestart(OnSimulatedCluster):
    action = Restart(RestartSettings())
    kind, name, namespace = "Pod", "db-0", "shop"


class TestRolloutRestart(OnSimulatedCluster):
    action = RolloutRestart(RolloutRestartSettings())
    kind, name, namespace = "Deployment", "web", "shop"


class TestScale(OnSimulatedCluster):
    action = Scale(ScaleSettings(by=2))
    kind, name, namespace = "Deployment", "web", "shop"


def test_every_built_in_action_is_held_to_the_contract_and_fits_its_port() -> None:
    held = {case.action.name: case.action for case in OnSimulatedCluster.__subclasses__()}
    assert set(plugins.names(plugins.ACTIONS)) == set(held)
    for name, action in held.items():
        assert plugins.load(plugins.ACTIONS, name) is type(action)
        port: ports.Action = action
        assert port.name == name
