"""Builds the service from a prepared configuration: opens what must be opened, joins what belongs together."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets as secrets_
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from healer import plugins
from healer.app.gathering import Gathering
from healer.app.leading import Leadership
from healer.app.prepare import Prepared
from healer.app.service import Service
from healer.clock import Clock, SystemClock
from healer.collectors.alertmanager import parse_webhook
from healer.collectors.alertmanager_list import AlertmanagerList
from healer.collectors.kubernetes import KubernetesCollector, KubernetesSettings
from healer.config import secrets
from healer.config.clusters import Cluster as ClusterConfig
from healer.errors import Retryable
from healer.journal.opening import open_journal, open_shared_journal
from healer.kube import kubeconfig
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.kube.http import HttpTransport
from healer.kube.leader import Elector, Timing
from healer.kube.transport import Transport
from healer.loop.book import Cluster
from healer.loop.engine import Engine
from healer.loop.evaluate import Evaluator
from healer.loop.hearing import hear
from healer.loop.ingest import Ingest
from healer.loop.memory import Memory
from healer.loop.people import People
from healer.loop.recorder import Recorder
from healer.loop.sharing import SharedRecorder
from healer.model.targets import ObjectRef
from healer.ports import AlertReport, Collector, Journal, Notifier, Provider, SharedJournal, Store
from healer.rules.alerting import Surroundings
from healer.store.embedded import open_store


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What can be put in place of the usual: for the demo, for tests, for embedding. None means: as configured.

    `transport`: how a cluster is reached. `providers` stand for those configured under the same name; `notifiers` come
    on top of the configured ones. `routes`:
    further aiohttp routes; `facts`: further facts for the console.
    """

    clock: Clock = dataclasses.field(default_factory=SystemClock)
    transport: Callable[[ClusterConfig], Transport] | None = None
    store: Callable[[], contextlib.AbstractAsyncContextManager[Store]] | None = None
    journal: Callable[[], contextlib.AbstractAsyncContextManager[Journal]] | None = None
    shared_journal: Callable[[], contextlib.AbstractAsyncContextManager[SharedJournal]] | None = None
    providers: Mapping[str, Provider] = dataclasses.field(default_factory=dict)
    notifiers: Sequence[Notifier] = ()
    routes: Sequence[Any] = ()
    facts: Callable[[], Mapping[str, Any]] = dict
    serve: bool = True


@contextlib.asynccontextmanager
async def assembled(prepared: Prepared, adapters: Adapters) -> AsyncIterator[Service]:
    """The service, ready to run; everything that it opened is closed in the end, in reverse."""
    async with contextlib.AsyncExitStack() as stack:
        config, clock = prepared.config, adapters.clock
        journal, recorder, leadership = await _journal(prepared, adapters, stack)
        store = await stack.enter_async_context(
            adapters.store()
            if adapters.store
            else open_store(config.store.embedded.path, clock=clock, keep=config.store.embedded.keep)
        )
        await recorder.load()
        await _trace(prepared, recorder, journal, leadership, stack)
        caches = {cluster.name: _caches(cluster, adapters, recorder, stack) for cluster in config.clusters}
        clusters = {name: _cluster(found, client) for name, (client, found) in caches.items()}
        default = config.clusters[0].name if config.clusters else ""
        providers = _providers(prepared, adapters, stack)
        service = Service(prepared=prepared, clock=clock, recorder=recorder, providers=providers)
        evaluator = Evaluator(
            store,
            clock,
            report=service.take,
            around=Surroundings(cluster=default, external_url=config.web.external_url or ""),
            state_path=None if adapters.store else config.store.embedded.path / "rules-state.json",
        )
        engine = Engine(
            recorder,
            clusters=clusters,
            book=lambda: service.book,
            query=evaluator.holds,
            storm_alerts=config.safety.storm.alerts,
            storm_over_seconds=config.safety.storm.over.total_seconds(),
        )
        service.engine = engine
        if leadership is not None and isinstance(recorder, SharedRecorder):
            recorder.followed = functools.partial(hear, engine)
            service.leadership = leadership
            leadership.ready = lambda: not service.ready()
            leadership.calm = lambda: engine.calm
        clients = {name: client for name, (client, _) in caches.items()}
        service.gathering = Gathering(config.from_kubernetes, clients, clock, telling=recorder.leading)
        service.evaluator = evaluator
        webhook = functools.partial(_webhook, default, clock)
        rest = AlertmanagerList(config.web.alertmanagers, parse=webhook)
        service.sink = Ingest(store, arrived=evaluator.arrived, take=engine.intake.take, incomplete=rest.missing)
        service.caches = {name: found for name, (_, found) in caches.items()}
        service.collectors = [*_collectors(prepared, clock, service.caches), rest]
        service.hooks = {"alertmanager": webhook}
        if adapters.serve:
            service.api_token = secrets.token(config.web.token_file).get_secret_value()
            hooks_file = config.web.hooks_token_file or config.web.token_file
            service.hook_token = secrets.token(hooks_file).get_secret_value()
        service.people = People(engine, external_url=config.web.external_url or "")
        service.notifiers = [*adapters.notifiers, *_notifiers(prepared, clock)]
        for notifier in service.notifiers:
            stack.push_async_callback(notifier.close)
        service.routes = adapters.routes
        service.facts = adapters.facts
        service.serve = adapters.serve
        yield service


async def _journal(
    prepared: Prepared, adapters: Adapters, stack: contextlib.AsyncExitStack
) -> tuple[Journal, Recorder, Leadership | None]:
    """The journal, and what writes to it; and who leads, where others write to it too."""
    config, clock = prepared.config, adapters.clock
    if config.journal.postgres is None:
        opened = adapters.journal() if adapters.journal else open_journal(config.journal.path, clock=clock)
        alone = await stack.enter_async_context(opened)
        return alone, Recorder(alone, Memory(), clock), None
    shared = adapters.shared_journal() if adapters.shared_journal else open_shared_journal(config.journal.where)
    journal = await stack.enter_async_context(shared)
    host = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets_.token_hex(4)}"
    elector = _elector(prepared, adapters, host, stack)
    recorder = SharedRecorder(journal, Memory(), clock, leads=elector.leads)
    return journal, recorder, Leadership(elector, recorder, journal, clock, host=host)


def _elector(prepared: Prepared, adapters: Adapters, me: str, stack: contextlib.AsyncExitStack) -> Elector:
    config, given = prepared.config, prepared.config.leader
    inside = [cluster for cluster in config.clusters if cluster.in_cluster]
    named = [cluster for cluster in config.clusters if cluster.name == given.cluster]
    cluster = (named or inside or config.clusters)[0]
    timing = Timing(
        lease=given.lease.total_seconds(),
        renew=given.renew.total_seconds(),
        call=given.call.total_seconds(),
        retry=given.retry.total_seconds(),
    )
    # A connection of its own: a watch or a slow change on it must not keep a renewal waiting.
    transport = adapters.transport(cluster) if adapters.transport else http_transport(cluster, adapters.clock)
    client = KubeClient(transport, cluster=cluster.name, clock=adapters.clock, timeout_seconds=timing.call)
    stack.push_async_callback(client.close)
    lease = ObjectRef(cluster=cluster.name, kind="Lease", namespace=given.namespace, name=given.name)
    return Elector(client, lease, me=me, timing=timing, clock=adapters.clock)


async def _trace(
    prepared: Prepared,
    recorder: Recorder,
    journal: Journal,
    leadership: Leadership | None,
    stack: contextlib.AsyncExitStack,
) -> None:
    """Each incident becomes a trace, where somebody wants them; of several replicas the leader sends it."""
    endpoint = prepared.config.telemetry.otlp_endpoint
    if endpoint is None:
        return
    from healer.loop.tracing import Tracing, otlp_exporter  # noqa: PLC0415 — the SDK is only for who wants traces

    tracing = Tracing(recorder, exporter=otlp_exporter(endpoint))
    await tracing.catch_up(journal)
    tracing.install()
    stack.push_async_callback(tracing.close)
    if leadership is not None:
        tracing.mute(on=True)
        leadership.changed = lambda leading: tracing.mute(on=not leading)


def _webhook(default_cluster: str, clock: Clock, body: bytes) -> AlertReport:
    return parse_webhook(body, default_cluster=default_cluster, now=clock.now())


def _caches(
    cluster: ClusterConfig, adapters: Adapters, recorder: Recorder, stack: contextlib.AsyncExitStack
) -> tuple[KubeClient, ClusterCaches]:
    def check() -> None:
        if not recorder.leading():
            raise Retryable("another replica leads")

    transport = adapters.transport(cluster) if adapters.transport else http_transport(cluster, adapters.clock)
    client = KubeClient(transport, cluster=cluster.name, clock=adapters.clock, check=check)
    stack.push_async_callback(client.close)
    return client, ClusterCaches(client, adapters.clock)


def http_transport(cluster: ClusterConfig, clock: Clock) -> Transport:
    """By kubeconfig, or from inside the cluster."""
    if cluster.kubeconfig is None:
        return HttpTransport(kubeconfig.in_cluster(), clock=clock)
    return HttpTransport(kubeconfig.load(str(cluster.kubeconfig), context=cluster.context or ""), clock=clock)


def _cluster(caches: ClusterCaches, client: KubeClient) -> Cluster:
    async def changed(within_seconds: float) -> None:
        await caches.changed(within_seconds)

    return Cluster(name=client.cluster, kube=client, state=caches.state, changed=changed)


def _providers(prepared: Prepared, adapters: Adapters, stack: contextlib.AsyncExitStack) -> dict[str, Provider]:
    found: dict[str, Provider] = dict(adapters.providers)
    for plugged in prepared.config.providers:
        name = plugged.label or plugged.name
        if name in found:
            continue
        provider = plugins.load(plugins.PROVIDERS, plugged.name)(plugged.settings, name=name, clock=adapters.clock)
        found[name] = provider
        if close := getattr(provider, "close", None):
            stack.push_async_callback(close)
    return found


def _collectors(prepared: Prepared, clock: Clock, caches: Mapping[str, ClusterCaches]) -> list[Collector]:
    named = {plugged.name: plugged for plugged in prepared.config.collect}
    kubernetes = named.get("kubernetes")
    settings: Any = kubernetes.settings if kubernetes else KubernetesSettings()
    found: list[Collector] = [KubernetesCollector(settings, caches=cache, clock=clock) for cache in caches.values()]
    found += [
        plugins.load(plugins.COLLECTORS, plugged.name)(plugged.settings, clock=clock)
        for plugged in prepared.config.collect
        if plugged.name != "kubernetes"
    ]
    return found


def _notifiers(prepared: Prepared, clock: Clock) -> list[Notifier]:
    return [
        plugins.load(plugins.NOTIFIERS, plugged.name)(plugged.settings, clock=clock)
        for plugged in prepared.config.notify
    ]
