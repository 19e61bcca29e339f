"""Real exporters: their pages are read as prometheus_client reads them, and scraped into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from healer.clock import SystemClock
from healer.collectors.exposition import PageReader
from healer.collectors.prometheus import PrometheusCollector
from healer.collectors.prometheus_settings import PrometheusSettings
from healer.model.matchers import Matcher, MatchOp
from healer.model.series import METRIC_NAME, Batch, Columns, Labels
from healer.ports import AlertReport, Appended
from healer.store.embedded import EmbeddedStore, open_store
from tests.servers import Server, node_exporter, prometheus

CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs: [{job_name: self, static_configs: [{targets: ['@SELF@']}]}]
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with node_exporter(tmp_path_factory.mktemp("node")) as server:
        yield server


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), CONFIG) as server:
        yield server


def theirs(families: Iterable[Any]) -> dict[Labels, str]:
    return {
        Labels({METRIC_NAME: sample.name, **sample.labels}): repr(float(sample.value))
        for family in families
        for sample in family.samples
    }


def ours(body: bytes, content_type: str) -> dict[Labels, str]:
    reader = PageReader()
    cold, warm = reader.read(body, content_type), reader.read(body, content_type)
    assert cold.errors == ()
    assert cold.duplicates == 0
    assert warm.labels is cold.labels
    assert warm.values.tobytes() == cold.values.tobytes()
    return dict(zip(cold.labels, map(repr, cold.values.tolist()), strict=True))


def test_the_page_of_the_node_exporter_is_read_as_prometheus_client_reads_it(node: Server) -> None:
    body, content_type = node.get("/metrics", Accept="text/plain")
    read = ours(body, content_type)
    assert read == theirs(parse_text(body.decode()))
    assert len(read) > 200


def test_the_page_of_prometheus_is_read_as_prometheus_client_reads_it(peer: Server) -> None:
    body, content_type = peer.get("/metrics", Accept="text/plain")
    assert ours(body, content_type) == theirs(parse_text(body.decode()))
    assert "NaN" in body.decode()


class Sink:
    """Puts samples into a store and says when there were enough batches."""

    def __init__(self, store: EmbeddedStore, batches: int) -> None:
        self._store = store
        self._left = batches
        self.enough = asyncio.Event()
        self.refused: dict[str, int] = {}

    async def samples(self, batch: Batch) -> Appended:
        appended = await self._store.append(batch)
        self.refused.update(appended.rejected)
        self._left -= 1
        if not self._left:
            self.enough.set()
        return appended

    async def alerts(self, report: AlertReport) -> None:
        raise AssertionError(report)


async def test_real_exporters_are_scraped_into_the_store(tmp_path: Path, node: Server, peer: Server) -> None:
    clock = SystemClock()
    settings = PrometheusSettings.model_validate(
        {"job": "real", "targets": [node.address, peer.address], "interval": "1s", "labels": {"cluster": "test"}}
    )
    async with open_store(tmp_path / "series", clock=clock) as store:
        sink = Sink(store, batches=5)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            collecting = group.create_task(PrometheusCollector(settings, clock=clock).run(sink))
            await sink.enough.wait()
            collecting.cancel()
        assert sink.refused == {}
        up = await select(store, "up")
        assert {labels["instance"] for labels in up.labels} == {node.address, peer.address}
        assert set(up.values[up.offsets[:-1]].tolist()) == {1.0}
        load = await select(store, "node_load1")
        assert [dict(labels.pairs) for labels in load.labels] == [
            {METRIC_NAME: "node_load1", "cluster": "test", "instance": node.address, "job": "real"}
        ]
    # And all of it is there after a restart.
    async with open_store(tmp_path / "series", clock=clock) as store:
        again = await select(store, "node_load1")
        assert again.labels == load.labels
        assert again.values.tobytes() == load.values.tobytes()


async def select(store: EmbeddedStore, metric: str) -> Columns:
    return await store.select([Matcher(METRIC_NAME, MatchOp.EQUAL, metric)], 0, 2**62)
