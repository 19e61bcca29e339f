"""Scrapes in virtual time, of targets in the same loop: what ends up in the store."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import math
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from healer import telemetry
from healer.clock import LoopClock, milliseconds
from healer.collectors.discovery import Defaults, target
from healer.collectors.prometheus import PrometheusCollector, first_delay
from healer.collectors.prometheus_settings import PrometheusSettings
from healer.errors import StoreError
from healer.model.matchers import Matcher, MatchOp
from healer.model.series import Batch, is_stale
from healer.ports import AlertReport, Appended
from healer.sim.time import run
from healer.store.embedded import EmbeddedStore, open_store

EPOCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StoreSink:
    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.full = False

    async def samples(self, batch: Batch) -> Appended:
        if self.full:
            raise StoreError("writing samples: no space left on device")
        return await self.store.append(batch)

    async def alerts(self, report: AlertReport) -> None:
        raise AssertionError(report)


class World:
    """A server with one handler, a collector's surroundings, and readable answers."""

    def __init__(self, store: EmbeddedStore, clock: LoopClock) -> None:
        self.store = store
        self.clock = clock
        self.sink = StoreSink(store)
        self.handler: Handler = page("")
        self.address = ""
        self.requests: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        return await self.handler(request)

    def settings(self, **settings: Any) -> PrometheusSettings:
        return PrometheusSettings.model_validate({"job": "j", "targets": [self.address], **settings})

    @contextlib.asynccontextmanager
    async def scraping(self, **settings: Any) -> AsyncIterator[None]:
        collector = PrometheusCollector(self.settings(**settings), clock=self.clock)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(collector.run(self.sink))
            yield
            task.cancel()

    async def values(self, metric: str, **labels: str) -> list[float | str]:
        """All values of the one series, "stale" for the marker."""
        matchers = [Matcher("__name__", MatchOp.EQUAL, metric)]
        matchers += [Matcher(name, MatchOp.EQUAL, value) for name, value in labels.items()]
        columns = await self.store.select(matchers, 0, milliseconds(self.clock.now()) + 600_000)
        assert len(columns) <= 1, columns.labels
        stale = is_stale(columns.values)
        return ["stale" if gone else value for gone, value in zip(stale, columns.values.tolist(), strict=True)]

    async def series(self, metric: str) -> list[str]:
        columns = await self.store.select([Matcher("__name__", MatchOp.EQUAL, metric)], 0, 2**62)
        return sorted(str(labels) for labels in columns.labels)


def page(text: str, content_type: str = "text/plain; version=0.0.4", **headers: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=text.encode(), headers={"Content-Type": content_type, **headers})

    return handler


def in_virtual_time(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch=EPOCH)
        async with open_store(None, clock=clock) as store:
            world = World(store, clock)
            app = web.Application()
            app.router.add_get("/{path:.*}", world.answer)
            runner = web.AppRunner(app, shutdown_timeout=0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            world.address = f"{host}:{port}"
            try:
                await test(world)
            finally:
                await runner.cleanup()

    run(main)


def test_a_page_becomes_samples_with_job_and_instance_and_the_reports() -> None:
    async def test(world: World) -> None:
        world.handler = page('a{b="c"} 1\na{b="d"} NaN\nx +Inf\n')
        async with world.scraping(labels={"cluster": "eu"}):
            await asyncio.sleep(15)
        labels = f'cluster="eu", instance="{world.address}", job="j"'
        assert await world.series("a") == [f'a{{b="c", {labels}}}', f'a{{b="d", {labels}}}']
        assert await world.values("x") == [math.inf, "stale"]
        assert await world.values("up") == [1, "stale"]
        assert await world.values("scrape_samples_scraped") == [3, "stale"]
        assert await world.values("scrape_samples_post_metric_relabeling") == [3, "stale"]
        assert await world.values("scrape_series_added") == [3, "stale"]
        duration = (await world.values("scrape_duration_seconds"))[0]
        assert isinstance(duration, float)
        assert 0 <= duration < 0.1

    in_virtual_time(test)


def test_every_interval_has_one_scrape_and_none_drifts() -> None:
    async def test(world: World) -> None:
        async def slow(_: web.Request) -> web.Response:
            await asyncio.sleep(3.3)
            return web.Response(text="a 1\n")

        world.handler = slow
        async with world.scraping():
            await asyncio.sleep(3600)
        columns = await world.store.select([Matcher("__name__", MatchOp.EQUAL, "a")], 0, 2**62)
        # The last one may still be under way.
        steps = columns.times_ms[1:-1] - columns.times_ms[:-2]
        assert set(steps.tolist()) == {15_000}
        assert 239 <= len(columns.times_ms) - 1 <= 240

    in_virtual_time(test)


def test_the_request_says_what_is_wanted() -> None:
    async def test(world: World) -> None:
        world.handler = page("")
        async with world.scraping(
            metrics_path="/probe", params={"module": ["a b", "c"]}, timeout="7s", bearer_token="s3cret"
        ):
            await asyncio.sleep(15)
        request = world.requests[0]
        assert str(request.rel_url) == "/probe?module=a+b&module=c"
        assert request.headers["Accept"].startswith("application/openmetrics-text;version=1.0.0")
        assert request.headers["Accept-Encoding"] == "gzip"
        assert request.headers["X-Prometheus-Scrape-Timeout-Seconds"] == "7"
        assert request.headers["Authorization"] == "Bearer s3cret"

    in_virtual_time(test)


def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")

    async def test(world: World) -> None:
        async with world.scraping(bearer_token_file=str(token)):
            await asyncio.sleep(15)
            token.write_text("two\n")
            await asyncio.sleep(15)
            token.unlink()
            await asyncio.sleep(15)
        assert [r.headers["Authorization"] for r in world.requests] == ["Bearer one", "Bearer two", "Bearer one"]

    in_virtual_time(test)


def test_basic_auth_is_sent() -> None:
    async def test(world: World) -> None:
        async with world.scraping(basic_auth={"username": "u", "password": "p:ö"}):
            await asyncio.sleep(15)
        assert world.requests[0].headers["Authorization"] == "Basic dTpwOsO2"

    in_virtual_time(test)


def test_openmetrics_and_gzip_are_taken() -> None:
    async def test(world: World) -> None:
        async def handler(_: web.Request) -> web.Response:
            return web.Response(
                body=gzip.compress(b"a 1\n# EOF\n"),
                headers={"Content-Type": "application/openmetrics-text; version=1.0.0", "Content-Encoding": "gzip"},
            )

        world.handler = handler
        async with world.scraping():
            await asyncio.sleep(15)
        assert await world.values("a") == [1, "stale"]

    in_virtual_time(test)


def test_a_series_that_vanishes_is_marked_as_stale_once() -> None:
    async def test(world: World) -> None:
        world.handler = page("a 1\nb 1\n")
        async with world.scraping():
            await asyncio.sleep(15)
            world.handler = page("b 2\n")
            await asyncio.sleep(30)
        assert await world.values("a") == [1, "stale"]
        assert await world.values("b") == [1, 2, 2, "stale"]
        assert await world.values("scrape_series_added") == [2, 0, 0, "stale"]

    in_virtual_time(test)


FAILURES: dict[str, tuple[Handler, str]] = {}


def failing(outcome: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        FAILURES[handler.__name__.replace("_", " ")] = (handler, outcome)
        return handler

    return register


@failing("bad page")
async def garbage_text(_: web.Request) -> web.Response:
    return web.Response(body=bytes(range(256)) * 100, content_type="text/plain")


@failing("bad page")
async def a_web_page(_: web.Request) -> web.Response:
    return web.Response(text="<html>not here</html>", content_type="text/html")


@failing("bad page")
async def a_good_page_with_one_wrong_line(_: web.Request) -> web.Response:
    return web.Response(text="a 5\nb five\n")


@failing("bad page")
async def a_cut_off_openmetrics_page(_: web.Request) -> web.Response:
    return web.Response(body=b"a 1\n", headers={"Content-Type": "application/openmetrics-text; version=1.0.0"})


@failing("bad status")
async def an_error(_: web.Request) -> web.Response:
    return web.Response(status=503, text="a 1\n")


@failing("timeout")
async def silence(_: web.Request) -> web.Response:
    await asyncio.sleep(1000)
    return web.Response()


@failing("timeout")
async def a_never_ending_body_that_trickles(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(100_000):
            await response.write(b"a")
            await asyncio.sleep(0.5)
    return response


@failing("too large")
async def a_never_ending_body_that_pours(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b'a{b="c"} 1\n' * 10_000)
    return response


@failing("too large")
async def a_bomb_of_200_megabytes(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Encoding": "gzip"})
    await response.prepare(request)
    deflater = zlib.compressobj(9, wbits=31)
    with contextlib.suppress(ConnectionError):
        for _ in range(200):
            await response.write(deflater.compress(b"#" * 1_000_000))
        await response.write(deflater.flush())
    return response


@failing("bad encoding")
async def what_is_not_gzip(_: web.Request) -> web.Response:
    return web.Response(body=b"a 1\n", headers={"Content-Encoding": "gzip"})


@failing("bad encoding")
async def a_cut_off_gzip(_: web.Request) -> web.Response:
    return web.Response(body=gzip.compress(b"a 1\n")[:-6], headers={"Content-Encoding": "gzip"})


@failing("bad encoding")
async def an_encoding_that_was_not_offered(_: web.Request) -> web.Response:
    return web.Response(body=b"a 1\n", headers={"Content-Encoding": "br"})


@failing("unreachable")
async def a_connection_that_breaks(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"a 1\n")
    assert request.transport is not None
    request.transport.abort()
    return response


@failing("bad page")
async def too_many_labels(_: web.Request) -> web.Response:
    return web.Response(text="a{" + ",".join(f'l{n}="x"' for n in range(40)) + "} 1\n")


@failing("bad page")
async def a_long_label(_: web.Request) -> web.Response:
    return web.Response(text='a{b="' + "x" * 3000 + '"} 1\n')


@failing("over a limit")
async def too_many_samples(_: web.Request) -> web.Response:
    return web.Response(text="".join(f"a{n} 1\n" for n in range(501)))


@pytest.mark.parametrize(("handler", "outcome"), FAILURES.values(), ids=FAILURES)
def test_a_failed_scrape_is_down_and_marks_all_and_holds_up_nobody(handler: Handler, outcome: str) -> None:
    async def test(world: World) -> None:
        good = page("a 1\nb 1\n")

        async def by_path(request: web.Request) -> web.StreamResponse:
            return await (good if request.path == "/metrics" else world_handler[0])(request)

        world_handler: list[Handler] = [good]
        world.handler = by_path
        limits = {
            "sample_limit": 500, "label_limit": 30, "label_value_length_limit": 2000, "body_size_limit": "1MiB",
        }  # fmt: skip
        async with world.scraping(), world.scraping(metrics_path="/bad", job="bad", **limits):
            await asyncio.sleep(15)
            world_handler[0] = handler
            await asyncio.sleep(30)
            world_handler[0] = good
            await asyncio.sleep(15)
        assert await world.values("up", job="bad") == [1, 0, 0, 1, "stale"]
        assert await world.values("a", job="bad") == [1, "stale", 1, "stale"]
        assert await world.values("scrape_series_added", job="bad") == [2, 0, 0, 2, "stale"]
        assert await world.values("up", job="j") == [1, 1, 1, 1, "stale"]
        assert await world.values("a", job="j") == [1, 1, 1, 1, "stale"]

    before = scrapes("bad", outcome)
    in_virtual_time(test)
    assert scrapes("bad", outcome) - before == 2


def scrapes(job: str, outcome: str) -> float:
    return telemetry.REGISTRY.get_sample_value("healer_scrapes_total", {"job": job, "outcome": outcome}) or 0.0


def test_a_target_that_nobody_listens_at_is_down() -> None:
    async def test(world: World) -> None:
        async with world.scraping(targets=["127.0.0.1:1", world.address]):
            await asyncio.sleep(15)
        assert await world.values("up", instance="127.0.0.1:1") == [0, "stale"]
        assert await world.values("up", instance=world.address) == [1, "stale"]

    in_virtual_time(test)


def test_conflicting_labels_are_renamed_unless_they_are_honoured() -> None:
    async def test(world: World) -> None:
        world.handler = page('a{job="evil",exported_job="x",instance="i"} 1\nup 7\n')
        async with world.scraping(), world.scraping(job="k", honor_labels=True):
            await asyncio.sleep(15)
        ours = f'instance="{world.address}", job="j"'
        assert await world.series("a") == [
            f'a{{exported_exported_job="evil", exported_instance="i", exported_job="x", {ours}}}',
            'a{exported_job="x", instance="i", job="evil"}',
        ]

    in_virtual_time(test)


def test_own_timestamps_are_honoured_and_not_tracked_unless_told_otherwise() -> None:
    async def test(world: World) -> None:
        at = milliseconds(EPOCH) - 5000
        world.handler = page(f"a 1 {at}\nb 2\n")
        async with world.scraping(), world.scraping(job="k", honor_timestamps=False):
            await asyncio.sleep(30)
        assert await world.values("a", job="j") == [1]
        assert await world.values("b", job="j") == [2, 2, "stale"]
        assert await world.values("a", job="k") == [1, 1, "stale"]

    in_virtual_time(test)


def test_a_sample_that_the_store_refuses_leaves_the_rest_of_the_page() -> None:
    async def test(world: World) -> None:
        far = milliseconds(EPOCH) + 86_400_000
        world.handler = page(f"a 1 {far}\nb 2\n")
        async with world.scraping():
            await asyncio.sleep(15)
        assert await world.values("a") == []
        assert await world.values("b") == [2, "stale"]

    in_virtual_time(test)


def test_duplicate_series_keep_the_first() -> None:
    async def test(world: World) -> None:
        world.handler = page("a 1\na 2\nb 3\n")
        async with world.scraping():
            await asyncio.sleep(15)
        assert await world.values("a") == [1, "stale"]
        assert await world.values("scrape_samples_scraped") == [3, "stale"]
        assert await world.values("scrape_samples_post_metric_relabeling") == [2, "stale"]

    in_virtual_time(test)


def test_a_full_store_is_counted_and_series_are_marked_when_it_has_room() -> None:
    async def test(world: World) -> None:
        world.handler = page("a 1\nb 1\n")
        async with world.scraping():
            await asyncio.sleep(15)
            world.sink.full = True
            world.handler = page("b 1\n")
            await asyncio.sleep(15)
            world.sink.full = False
            await asyncio.sleep(15)
        assert await world.values("a") == [1, "stale"]
        assert await world.values("b") == [1, 1, "stale"]

    before = scrapes("j", "not kept")
    in_virtual_time(test)
    assert scrapes("j", "not kept") - before == 1


def test_late_ticks_are_counted_and_left_out() -> None:
    async def test(world: World) -> None:
        class SlowSink(StoreSink):
            async def samples(self, batch: Batch) -> Appended:
                await asyncio.sleep(40)
                return await super().samples(batch)

        world.sink = SlowSink(world.store)
        world.handler = page("a 1\n")
        async with world.scraping():
            await asyncio.sleep(200)
        columns = await world.store.select([Matcher("__name__", MatchOp.EQUAL, "up")], 0, 2**62)
        steps = (columns.times_ms[1:-1] - columns.times_ms[:-2]).tolist()
        assert set(steps) == {45_000}

    before = missed()
    in_virtual_time(test)
    assert missed() - before >= 2 * 3


def missed() -> float:
    return telemetry.REGISTRY.get_sample_value("healer_ticks_missed_total", {"worker": "prometheus/j"}) or 0.0


def test_targets_come_and_go_with_their_file(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"

    async def test(world: World) -> None:
        world.handler = page("a 1\n")
        file.write_text(f'[{{"targets": ["{world.address}"], "labels": {{"zone": "x", "__metrics_path__": "/m"}}}}]')
        async with world.scraping(targets=[], files=[str(tmp_path / "*.json")]):
            await asyncio.sleep(15)
            file.write_text("[{")
            await asyncio.sleep(30)
            assert await world.values("up", zone="x") == [1, 1, 1]
            file.write_text("[]")
            await asyncio.sleep(10)
            assert await world.values("up", zone="x") == [1, 1, 1, "stale"]
            assert await world.values("a", zone="x") == [1, 1, 1, "stale"]
            await asyncio.sleep(60)
        assert await world.values("up", zone="x") == [1, 1, 1, "stale"]
        assert {request.path for request in world.requests} == {"/m"}

    in_virtual_time(test)


def test_a_wall_clock_that_steps_back_loses_no_scrape() -> None:
    async def test(world: World) -> None:
        world.handler = page("a 1\n")
        async with world.scraping():
            await asyncio.sleep(30)
            world.clock.wall_offset_seconds = -90
            await asyncio.sleep(30)
        assert await world.values("a") == [1, 1, 1, 1, "stale"]

    in_virtual_time(test)


def test_targets_are_spread_over_the_interval_and_keep_their_place() -> None:
    targets = [target(f"host-{n}:9100", {}, Defaults(job="j")) for n in range(1000)]
    now = milliseconds(EPOCH) + 777
    delays = [first_delay(one, 15, now) for one in targets]
    buckets = [sum(1 for delay in delays if second <= delay < second + 1) for second in range(15)]
    assert all(40 <= count <= 95 for count in buckets)
    assert [round((now / 1000 + d) % 15, 3) for d in delays] == [
        round(((now + 12_345) / 1000 + first_delay(one, 15, now + 12_345)) % 15, 3) for one in targets
    ]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({}, "names nothing to scrape; give 'targets' or 'files'"),
        ({"targets": ["http://a:1/metrics"]}, "must be host:port, without scheme and path"),
        ({"targets": ["a b"]}, "must be host:port"),
        ({"targets": ["a:1"], "labels": {"bad-name": "x"}}, "write letters, digits and underscores only"),
        ({"targets": ["a:1"], "bearer_token": "x", "basic_auth": {"username": "u", "password": "p"}}, "not both"),
        ({"targets": ["a:1"], "interval": "0s"}, "must be more than 0s"),
        ({"targets": ["a:1"], "scheme": "ftp"}, "'http' or 'https'"),
        ({"targets": ["a:1"], "tls": {"ca_file": "/nowhere/ca.pem"}}, "reading '/nowhere/ca.pem': No such file"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_the_mend(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PrometheusSettings.model_validate(settings)
    assert what in str(caught.value)


def test_every_setting_says_what_it_means() -> None:
    for name, field in PrometheusSettings.model_fields.items():
        assert field.description, name


def test_a_shorter_interval_shortens_the_timeout() -> None:
    settings = PrometheusSettings(targets=("a:1",), interval=timedelta(seconds=1))
    clock_unused: Any = None
    assert PrometheusCollector(settings, clock=clock_unused)._timeout == 1
