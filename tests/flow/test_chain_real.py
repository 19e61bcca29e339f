"""From a real metric to a verified repair, by two ways that must agree.

node_exporter → Prometheus → Alertmanager → Healer, and node_exporter → Healer's own scrape and rules. The same rule file,
the same simulated cluster, the same fault: what a container of a workload does is written where node_exporter's textfile
collector finds it, as a script on a node would.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from healer.sim.builders import add_deployment
from healer.sim.faults import Fault
from healer.sim.world import World
from tests.healers import TOKEN, Running, Simulated, at_work, configured, free_port, simulated, small_world, until
from tests.servers import alertmanager, node_exporter, prometheus

pytestmark = pytest.mark.timeout(180)  # real processes in real time, and the machine may be busy

RULES = """
groups:
  - name: workloads
    interval: 1s
    rules:
      - alert: ContainersRestart
        expr: max by (cluster, namespace, deployment) (app_container_restarts) > 0
        for: 1s
        labels: {severity: warning}
        annotations:
          summary: "Deployment {{ $labels.namespace }}/{{ $labels.deployment }} restarts its containers"
"""
REMEDIES = """
collect:
  - prometheus: {{job: node, targets: ['{exporter}'], interval: 1s, timeout: 1s}}
remedies:
  - name: roll-out-again
    when: {{alertname: ContainersRestart}}
    mode: auto
    steps: [rollout-restart]
    verify: {{query: 'app_container_restarts{{deployment="cart"}} == 0', for: 2s, timeout: 50s}}
safety: {{grace_after_outage: 0s}}
"""
PROMETHEUS = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}']
scrape_configs: [{{job_name: node, static_configs: [{{targets: ['{exporter}']}}]}}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{alertmanager}']}}]}}]}}
"""
ALERTMANAGER = """
route: {{receiver: healer, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: healer
    webhook_configs:
      - url: http://127.0.0.1:{port}/hooks/alertmanager
        http_config: {{authorization: {{credentials_file: {token}}}}}
"""


def world_with_a_cart() -> World:
    world = small_world(3, 3, with_apps=False)
    for name in ("cart", "web"):
        add_deployment(world, "shop", name, replicas=2)
    world.settle()
    return world


def write_metrics(world: World, folder: Path) -> None:
    """How often the containers of each workload have restarted, for the textfile collector; whole or not at all."""
    worst: dict[str, int] = {}
    for pod in world.storage.items("pods"):
        if pod["metadata"]["namespace"] == "shop":
            statuses = pod.get("status", {}).get("containerStatuses", [])
            app = pod["metadata"]["labels"]["app"]
            worst[app] = max(worst.get(app, 0), *(status["restartCount"] for status in statuses), 0)
    lines = ["# TYPE app_container_restarts gauge"]
    for app, count in worst.items():
        labels = f'cluster="prod",namespace="shop",deployment="{app}"'
        lines.append(f"app_container_restarts{{{labels}}} {count}")
    beside = folder / "apps.new"
    beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    beside.replace(folder / "apps.prom")


@contextlib.asynccontextmanager
async def exported(cluster: Simulated, folder: Path) -> AsyncIterator[None]:
    """Keep the metrics of `cluster` written."""

    async def write() -> None:
        while True:
            write_metrics(cluster.world, folder)
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(write(), name="textfile")
        try:
            yield
        finally:
            writing.cancel()


@contextlib.contextmanager
def their_way(folder: Path, exporter: str, port: int) -> Iterator[str]:
    """Prometheus and Alertmanager judge; gives what Healer's configuration needs besides."""
    with contextlib.ExitStack() as stack:
        token = folder / "credentials"
        token.write_text(TOKEN)
        sender = stack.enter_context(alertmanager(folder, ALERTMANAGER.format(port=port, token=token)))
        rules = folder / "rules.yaml"
        text = PROMETHEUS.format(rules=rules, exporter=exporter, alertmanager=sender.address)
        stack.enter_context(prometheus(folder, text))
        yield ""


@contextlib.contextmanager
def our_way(folder: Path, exporter: str, port: int) -> Iterator[str]:
    """Healer judges by itself."""
    yield f"rules: ['{folder}/rules.yaml']\n"


WAYS = {"alertmanager": their_way, "rules": our_way}


@pytest.mark.parametrize("source", WAYS)
async def test_a_fault_seen_by_node_exporter_is_repaired_and_proven(source: str, tmp_path: Path) -> None:
    port, texts = free_port(), tmp_path / "textfiles"
    texts.mkdir()
    (tmp_path / "rules.yaml").write_text(RULES)
    world = world_with_a_cart()
    write_metrics(world, texts)
    with (
        node_exporter(tmp_path, textfiles=texts) as exporter,
        WAYS[source](tmp_path, exporter.address, port) as more,
    ):
        config = configured(tmp_path, port, REMEDIES.format(exporter=exporter.address) + more)
        async with (
            simulated(tmp_path, world) as cluster,
            exported(cluster, texts),
            at_work(config, port) as running,
        ):
            assert await running.incidents() == []
            fault = Fault(name="crash-loop", target="shop/cart", params={"heals": "rollout", "after_seconds": "0.5"})
            cluster.world.inject(fault)
            found = await until("it is closed", lambda: closed(running), within=45)
            check(found, source)
            patched = [(record.path, record.status) for record in cluster.api.asked("PATCH", "/deployments/")]
            assert patched == [("/apis/apps/v1/namespaces/shop/deployments/cart", 200)]
            assert len(await running.incidents()) == 1


async def closed(running: Running) -> Any:
    return await running.incident("ContainersRestart", state="closed")


def check(found: Any, source: str) -> None:
    """What either way must give. Written out, so that both are held to the same."""
    assert (found["reason"], found["verdict"], found["remedy"]) == ("Fixed", "fixed", "roll-out-again")
    assert (found["cluster"], found["severity"]) == ("prod", "warning")
    assert {name: found["target"][name] for name in ("kind", "namespace", "name")} == {
        "kind": "Deployment",
        "namespace": "shop",
        "name": "cart",
    }
    assert found["owner"] == found["target"]
    assert [preview["action"] for preview in found["plan"]["previews"]] == ["rollout-restart"]
    (alert,) = found["alerts"]
    labels = '{alertname="ContainersRestart", cluster="prod", deployment="cart", namespace="shop", severity="warning"}'
    assert (alert["labels"], alert["firing"], alert["source"]) == (labels, False, source)
    assert alert["summary"] == "Deployment shop/cart restarts its containers"
    assert all(found["times"][part] is not None for part in ("detect", "decide", "act", "verify"))
    texts = [entry["text"] for entry in found["timeline"]]
    verdict = next(text for text in texts if text.startswith("verdict"))
    assert "every alert has resolved" in verdict
    assert "holds" in verdict
    assert texts[-1] == "closed (Fixed)"
