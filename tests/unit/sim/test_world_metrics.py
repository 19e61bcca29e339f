"""The pages of metrics: what they say, and that a real parser reads them."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from healer.sim import exposition, objects
from healer.sim.builders import a_world
from healer.sim.cloud_http import SIGNATURE, TIMESTAMP, cloud_routes, signature
from healer.sim.exporters import Exporters
from healer.sim.faults import Fault
from healer.sim.ksm import FAMILIES, StateMetrics
from healer.sim.metrics import metrics_routes
from healer.sim.time import run
from healer.sim.world import World

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
SECRET = "a secret of the test"


def series(text: str) -> Series:
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            identity = (sample.name, frozenset(sample.labels.items()))
            assert identity not in found, f"{identity} is there twice"
            found[identity] = sample.value
    return found


def value(found: Series, name: str, **labels: str) -> float:
    """The sum of all series of that name that have these labels."""
    fitting = [v for (n, have), v in found.items() if n == name and set(labels.items()) <= have]
    assert fitting, f"no {name} with {labels}"
    return sum(fitting)


def absent(found: Series, name: str, **labels: str) -> bool:
    return not [1 for (n, have) in found if n == name and set(labels.items()) <= have]


def test_every_family_of_a_quiet_world_is_declared_and_read_by_a_parser() -> None:
    world = a_world()
    text = StateMetrics(world.view).page()
    found = series(text)
    declared = {family.name for family in FAMILIES}
    assert {name for name, _ in found} <= declared
    assert value(found, "kube_node_status_condition", condition="Ready", status="true") == 12
    assert value(found, "kube_pod_status_phase", phase="Running") == len(world.view.pods)
    assert value(found, "kube_deployment_status_replicas_available", deployment="web") == 8
    assert value(found, "kube_statefulset_status_replicas_ready", statefulset="db") == 3
    assert value(found, "kube_daemonset_status_number_ready", daemonset="node-agent") == 12
    assert value(found, "kube_poddisruptionbudget_status_pod_disruptions_allowed", poddisruptionbudget="db") == 1
    assert value(found, "kube_horizontalpodautoscaler_spec_max_replicas", horizontalpodautoscaler="web") == 12


def test_a_crash_loop_shows_in_the_series() -> None:
    world = a_world()
    page = StateMetrics(world.view)
    page.page()
    world.inject(Fault(name="crash-loop", target="shop/db-0", params={"reason": "OOMKilled"}))
    world.run_for(60)
    found = series(page.page())
    assert value(found, "kube_pod_container_status_waiting_reason", pod="db-0", reason="CrashLoopBackOff") == 1
    assert value(found, "kube_pod_container_status_last_terminated_reason", pod="db-0", reason="OOMKilled") == 1
    assert value(found, "kube_pod_container_status_restarts_total", pod="db-0") >= 3
    assert value(found, "kube_pod_status_ready", pod="db-0", condition="true") == 0
    assert absent(found, "kube_pod_container_status_waiting_reason", pod="db-1")


def test_a_dead_node_shows_as_unknown_tainted_and_without_a_page_of_its_own() -> None:
    world = a_world()
    exporters = Exporters(world)
    assert exporters.node("node-a1") is not None
    world.inject(Fault(name="machine-death", target="node-a1"))
    world.run_for(60)
    found = series(StateMetrics(world.view).page())
    assert value(found, "kube_node_status_condition", node="node-a1", condition="Ready", status="unknown") == 1
    labels = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    assert value(found, "kube_node_spec_taint", node="node-a1", **labels) == 1
    assert exporters.node("node-a1") is None


def test_a_cordon_shows() -> None:
    world = a_world(nodes=3)
    world.storage.update("nodes", "", "node-a1", lambda node: node["spec"].update(unschedulable=True))
    found = series(StateMetrics(world.view).page())
    assert value(found, "kube_node_spec_unschedulable", node="node-a1") == 1
    assert value(found, "kube_node_spec_unschedulable", node="node-b1") == 0


def test_gone_objects_leave_the_page() -> None:
    world = a_world()
    page = StateMetrics(world.view)
    page.page()
    world.storage.delete("deployments", "shop", "cart")
    world.run_for(20)
    assert absent(series(page.page()), "kube_deployment_spec_replicas", deployment="cart")


def test_cpu_seconds_of_a_node_add_up_to_the_time_that_passed() -> None:
    world = a_world()
    exporters = Exporters(world)
    first = series(exporters.node("node-a2") or "")
    world.run_for(100)
    second = series(exporters.node("node-a2") or "")
    passed = value(second, "node_cpu_seconds_total") - value(first, "node_cpu_seconds_total")
    assert passed == pytest.approx(4 * 100)
    assert value(second, "node_cpu_seconds_total", mode="user") > value(first, "node_cpu_seconds_total", mode="user")


def test_a_leak_takes_the_memory_of_its_node() -> None:
    world = a_world(nodes=6)
    exporters = Exporters(world)
    calm = value(series(exporters.node("node-a1") or ""), "node_memory_MemAvailable_bytes")
    world.inject(Fault(name="memory-pressure", target="node-a1"))
    world.run_for(60)
    found = series(exporters.node("node-a1") or "")
    assert value(found, "node_memory_MemAvailable_bytes") < 0.1 * calm
    (hog,) = world.loads.leaks
    pod = next(pod for pod in world.view.pods.values() if objects.uid_of(pod) == hog)
    app = series(exporters.app("shop", objects.labels_of(pod)["app"]) or "")
    assert value(app, "container_memory_working_set_bytes", pod=pod["metadata"]["name"]) > 10e9


def test_the_histogram_of_requests_is_whole() -> None:
    world = a_world()
    world.run_for(30)
    found = series(Exporters(world).app("shop", "web") or "")
    count = value(found, "http_request_duration_seconds_count")
    assert value(found, "http_request_duration_seconds_bucket", le="+Inf") == count
    buckets = [value(found, "http_request_duration_seconds_bucket", le=le) for le in ("0.005", "0.05", "0.5", "5")]
    assert buckets == sorted(buckets)
    assert value(found, "http_requests_total", code="503") == 0


def test_label_values_are_escaped() -> None:
    text = exposition.line("x", {"a": 'b"\\\n'}, 1.5)
    assert text == 'x{a="b\\"\\\\\\n"} 1.5\n'


async def _serve(world: World, session: aiohttp.ClientSession) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.add_routes(metrics_routes(world))
    app.add_routes(cloud_routes(world, secret=SECRET))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return runner, f"http://{host}:{port}"


def test_the_pages_are_served_and_a_dead_node_breaks_the_connection() -> None:
    async def main() -> None:
        world = a_world(nodes=6)
        async with aiohttp.ClientSession() as session:
            runner, base = await _serve(world, session)
            try:
                for path in ("ksm", "node/node-a1", "app/shop/web"):
                    async with session.get(f"{base}/metrics/{path}") as response:
                        assert response.status == 200
                        assert response.headers["Content-Type"] == exposition.CONTENT_TYPE
                        assert series(await response.text())
                for path in ("node/node-z9", "app/shop/nothing"):
                    async with session.get(f"{base}/metrics/{path}") as response:
                        assert response.status == 404
                world.inject(Fault(name="machine-death", target="node-a1"))
                with pytest.raises(aiohttp.ClientConnectionError):
                    async with session.get(f"{base}/metrics/node/node-a1"):
                        pass
            finally:
                await runner.cleanup()

    run(main)


def test_the_provider_answers_signed_requests_only() -> None:
    async def main() -> None:
        world = a_world(nodes=6)
        async with aiohttp.ClientSession() as session:
            runner, base = await _serve(world, session)

            async def ask(body: bytes, *, secret: str = SECRET, late: int = 0) -> tuple[int, dict[str, object]]:
                timestamp = str(int(world.now.timestamp()) - late)
                headers = {SIGNATURE: signature(secret, timestamp, body), TIMESTAMP: timestamp}
                async with session.post(f"{base}/provider", data=body, headers=headers) as response:
                    return response.status, await response.json()

            def request(operation: str, key: str = "", boot_id: str = "") -> bytes:
                node = {"name": "node-a1", "provider_id": "sim:///zone-a/i-0001", "boot_id": boot_id}
                return json.dumps({"operation": operation, "node": node, "key": key}).encode()

            try:
                assert (await ask(request("describe"), secret="wrong"))[0] == 401
                assert (await ask(request("describe"), late=301))[0] == 401
                assert (await ask(b"[]"))[0] == 400
                status, told = await ask(request("describe"))
                assert (status, told["state"], told["machine"]) == (200, "running", "i-0001")
                status, told = await ask(request("power-off", "k0", boot_id="another"))
                assert (status, told["error"]) == (409, "BootIdDiffers")
                assert (await ask(request("find", "k1")))[0] == 404
                status, told = await ask(request("replace", "k1"))
                assert (status, told["machine"], told["request"], told["done"]) == (200, "i-0007", "op-0001", False)
                world.run_for(60)
                status, told = await ask(request("find", "k1"))
                assert (status, told["state"], told["done"]) == (200, "running", True)
                world.cloud.lose_answers()
                with pytest.raises(aiohttp.ClientConnectionError):
                    await ask(request("replace", "k1"))
                world.cloud.fail_next(code="Throttled")
                assert (await ask(request("describe")))[0] == 429
            finally:
                await runner.cleanup()

    run(main)


def test_a_hanging_exporter_says_nothing_until_the_scraper_gives_up() -> None:
    async def main() -> None:
        world = a_world(nodes=3)
        world.inject(Fault(name="network-cut", target="node-a1"))
        app = web.Application()
        app.add_routes(metrics_routes(world, dead="hang"))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            async with aiohttp.ClientSession() as session:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(10), session.get(f"http://{host}:{port}/metrics/node/node-a1"):
                        pass
        finally:
            await runner.cleanup()

    run(main)
