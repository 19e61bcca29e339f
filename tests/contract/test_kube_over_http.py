"""Kubeconfig, HTTP, client and caches together, against the simulated API server on a loopback port."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from healer.clock import LoopClock
from healer.errors import Retryable
from healer.kube import kubeconfig
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.kube.http import HttpTransport
from healer.sim import builders, driver, server
from healer.sim import time as sim_time
from healer.sim.api import Api


@pytest.mark.parametrize(
    "loop", [sim_time.VirtualTimeLoop, asyncio.SelectorEventLoop], ids=["virtual time", "real time"]
)
def test_a_kubeconfig_is_all_it_takes(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        world = builders.a_world(nodes=3)
        clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
        api = Api(world.storage, now=clock.now)
        async with server.serve(api, token="secret") as url:
            file = tmp_path / "config"
            file.write_text(server.kubeconfig(url, "secret"))
            client = KubeClient(HttpTransport(kubeconfig.load(str(file)), clock=clock), cluster="test", clock=clock)
            caches = ClusterCaches(client, clock)
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(driver.drive(world, clock)), group.create_task(caches.run())]
                async with asyncio.timeout(20):
                    await caches.synced()
                state = caches.state()
                assert len(state.pods) == len(world.storage.items("pods"))
                ref = min(state.nodes.values(), key=lambda node: node.name).ref
                written = await client.patch(ref, {"spec": {"unschedulable": True}})
                assert await caches.seen(ref, written["metadata"]["resourceVersion"], 10)
                assert caches.state().nodes[ref.name].unschedulable
                for task in running:
                    task.cancel()
            await client.close()

    sim_time.run(main, loop_factory=loop)


def test_a_wrong_token_is_told_as_such(tmp_path: Path) -> None:
    async def main() -> None:
        world = builders.a_world(nodes=1, with_apps=False)
        clock = LoopClock(asyncio.get_running_loop(), epoch=world.now)
        async with server.serve(Api(world.storage, now=clock.now), token="secret") as url:
            file = tmp_path / "config"
            file.write_text(server.kubeconfig(url, "wrong"))
            client = KubeClient(HttpTransport(kubeconfig.load(str(file)), clock=clock), cluster="test", clock=clock)
            with pytest.raises(Retryable, match=r"401 .*does not accept our credentials"):
                await client.server_version()
            await client.close()

    sim_time.run(main)
