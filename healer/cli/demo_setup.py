"""The demo's world and configuration: a simulated cluster behind a real HTTP API, and Healer pointed at it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from healer.app import Adapters, Service, assembled, prepare_text
from healer.clock import Clock, LoopClock
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView
from healer.ports import Notifier
from healer.sim.api import Api
from healer.sim.builders import a_world
from healer.sim.cloud_http import cloud_routes
from healer.sim.faults import Fault
from healer.sim.metrics import metrics_routes
from healer.sim.server import kubeconfig, serve
from healer.sim.world import World

CONFIG: Final = """\
# What `healer demo` runs with. Everything here works the same on a real cluster.
clusters:
  - {{name: demo, kubeconfig: {folder}/kubeconfig}}
collect:
  - prometheus: {{job: node-exporter, interval: 5s, timeout: 3s, files: ['{folder}/targets.json']}}
rules: ['pack:demo']
providers:
  cloud: {{webhook: {{url: '{api}/provider', secret_file: {folder}/provider-secret}}}}
remedies:
  - name: replace-dead-node
    when: {{alertname: NodeDown}}
    mode: {mode}
    steps:
      - cordon
      - fence                       # the provider must prove that the machine is off
      - drain: {{timeout: 5m}}
      - replace: {{join_timeout: 10m}}
    verify: {{alert: resolved, for: 30s, timeout: 10m}}
    limits: {{per_hour: 12, cooldown: 1m}}
  - name: restart-crashing-workload
    when: {{alertname: PodCrashLooping}}
    mode: {mode}
    steps: [rollout-restart]        # the alert is about a pod; this is done to its Deployment
    verify: {{alert: resolved, for: 30s, timeout: 10m}}
    limits: {{per_hour: 12, per_zone: unlimited, max_in_flight: 3, cooldown: 1m}}
  - name: move-pods-off
    when: {{alertname: NodeMemoryPressure}}
    mode: {mode}
    steps: [cordon, {{drain: {{timeout: 5m}}}}, uncordon]
    verify: {{alert: resolved, for: 30s, timeout: 10m}}
    limits: {{per_hour: 12, cooldown: 1m}}
safety: {{grace_after_outage: 10s}}
store: {{embedded: {{path: {folder}/data}}}}
journal: {{path: {folder}/data/journal.db}}
web: {{listen: '{listen}', token_file: {folder}/data/token}}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """A fault the demo can do: what is hurt, which alert it gives, and how it must end."""

    fault: str
    targets: tuple[str, ...]
    alert: str
    params: Mapping[str, str] = dataclasses.field(default_factory=dict)
    expects_action: bool = True


HARMS: Final[Mapping[str, Harm]] = {
    "node-death": Harm(
        fault="machine-death", targets=("node-a1", "node-b2", "node-c3", "node-b1", "node-c1"), alert="NodeDown"
    ),
    "crash-loop": Harm(
        fault="crash-loop",
        targets=("shop/cart", "shop/web", "shop/checkout"),
        alert="PodCrashLooping",
        params={"heals": "rollout"},
    ),
    "memory-pressure": Harm(
        fault="memory-pressure", targets=("node-b3", "node-c2", "node-a2"), alert="NodeMemoryPressure"
    ),
    "zone-outage": Harm(
        fault="zone-outage", targets=("zone-b", "zone-c", "zone-a"), alert="NodeDown", expects_action=False
    ),
}


@dataclasses.dataclass(kw_only=True)
class Demo:
    """A running demo."""

    world: World
    api: Api
    service: Service
    clock: Clock
    folder: Path
    api_url: str
    started_at: datetime
    harmed: list[str] = dataclasses.field(default_factory=list)
    _rounds: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: {name: itertools.cycle(harm.targets) for name, harm in HARMS.items()}
    )

    def harm(self, name: str, *, after_seconds: float = 0.0) -> str:
        """Do harm of that kind to the next target; tells to what."""
        harm = HARMS[name]
        target = self._target(name)
        if target == "":
            return ""
        self.world.inject(Fault(name=harm.fault, target=target, params=harm.params), after_seconds=after_seconds)
        self.harmed.append(f"{name} {target}")
        return str(target)

    def _target(self, name: str) -> str:
        """The next target that still exists; for nodes, any that is ready when those named are gone."""
        for _ in HARMS[name].targets:
            target = str(next(self._rounds[name]))
            if not target.startswith("node-") or target in self.world.kubelets.by_node:
                return target
        return next(iter(sorted(self.world.kubelets.by_node)), "")

    def view(self, alert: str) -> IncidentView | None:
        """The first incident of an alert."""
        found = [view for view in self.service.people.incidents() if view.title == alert]
        return found[-1] if found else None

    def outcome(self, name: str) -> str:
        """How `name` has ended, or an empty string while it has not."""
        harm = HARMS[name]
        views = [view for view in self.service.people.incidents() if view.title == harm.alert]
        if not views:
            return ""
        if not harm.expects_action:
            return self._refused(views)
        view = views[-1]
        if view.state is IncidentState.CLOSED:
            return "fixed" if view.reason is Reason.FIXED else str(view.reason)
        return "escalated" if view.state is IncidentState.ESCALATED else ""

    def _refused(self, views: list[IncidentView]) -> str:
        """A zone outage ends well when nothing was done, for that reason, although there was time to."""
        if any(view.plan and view.acknowledged for view in views) or self._changes():
            return "acted"
        quiet = [view for view in views if view.reason is Reason.ZONE_OUTAGE]
        waited = max((self.clock.now() - view.opened_at for view in views), default=timedelta(0))
        return "refused" if quiet and waited > timedelta(seconds=45) else ""

    def _changes(self) -> bool:
        return any(call.verb in ("power-off", "replace") for call in self.world.cloud.calls) or any(
            record.method == "PATCH" and "/nodes/" in record.path and not record.path.endswith("/status")
            for record in self.api.requests
        )


def expected(name: str) -> str:
    """How `name` must end."""
    return "fixed" if HARMS[name].expects_action else "refused"


@contextlib.asynccontextmanager
async def demo(
    folder: Path, *, mode: str, listen: str, clock: LoopClock, notifiers: tuple[Notifier, ...] = ()
) -> AsyncIterator[Demo]:
    """A cluster at rest, and Healer about to run on it."""
    world = a_world(12, 3, start=clock.now().astimezone(UTC))
    api = Api(world.storage, now=lambda: world.now)
    secret = secrets.token_urlsafe(32)
    (folder / "provider-secret").write_text(secret, encoding="utf-8")
    async with serve(api, extra=[*metrics_routes(world), *cloud_routes(world, secret=secret)]) as url:
        (folder / "kubeconfig").write_text(kubeconfig(url), encoding="utf-8")
        write_targets(folder, world, url)
        text = CONFIG.format(folder=folder, mode=mode, listen=listen, api=url)
        path = folder / "healer.yaml"
        path.write_text(text, encoding="utf-8")
        made: list[Demo] = []
        adapters = Adapters(
            clock=clock,
            notifiers=notifiers,
            routes=(web.post("/api/demo/harm/{name}", _harm_route(made)),),
            facts=lambda: {"demo": {"faults": list(HARMS)}},
        )
        async with assembled(prepare_text(text, path), adapters) as service:
            made.append(
                Demo(
                    world=world,
                    api=api,
                    service=service,
                    clock=clock,
                    folder=folder,
                    api_url=url,
                    started_at=clock.now(),
                )
            )
            yield made[0]


def write_targets(folder: Path, world: World, url: str) -> None:
    """The nodes' exporters, for discovery by file: nodes that come and go are followed."""
    host = url.removeprefix("http://")
    groups = [
        {"targets": [host], "labels": {"__metrics_path__": f"/metrics/node/{name}", "instance": name, "node": name}}
        for name in sorted(world.kubelets.by_node)
    ]
    (folder / "targets.json").write_bytes(msgspec.json.encode(groups))


def _harm_route(made: list[Demo]) -> Callable[[web.Request], Any]:
    async def harm(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in HARMS:
            return web.json_response({"error": f"there is no harm {name!r}; there are {', '.join(HARMS)}"}, status=404)
        return web.json_response({"target": made[0].harm(name)})

    return harm
