"""Traces as a collector receives them: OTLP over HTTP, to a receiver in this process."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from healer.loop.tracing import Tracing, otlp_exporter
from healer.model.decisions import Answer, Reason
from healer.testing.stories import Story
from healer.web.server import listening


class Receiver:
    """What an OpenTelemetry collector does with /v1/traces."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")

    def spans(self) -> dict[str, Span]:
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def resource(self) -> dict[str, str]:
        attributes = self.requests[0].resource_spans[0].resource.attributes
        return {attribute.key: attribute.value.string_value for attribute in attributes}


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/v1/traces", receiver.take)
    async with listening(app, "127.0.0.1", 0) as url:
        yield receiver, url


async def a_short_story(story: Story) -> None:
    incident = await story.opens()
    await story.decides(incident, Answer.GO, Reason.OK, guard="guards")
    operation = await story.starts(incident)
    await story.steps(incident, operation, "cordon", ok=False)
    await story.done(incident, operation, ok=False)
    await story.escalates(incident)


async def test_a_collector_receives_one_trace_per_incident() -> None:
    async with receiving() as (receiver, url), Story() as story:
        tracing = Tracing(story.recorder, exporter=otlp_exporter(url))
        tracing.install()
        await a_short_story(story)
        await tracing.close()
    spans = receiver.spans()
    assert set(spans) == {"detect", "guard guards", "decide", "step cordon", "incident NodeDown"}
    root = spans["incident NodeDown"]
    assert root.trace_id.hex() == f"{1:032x}"
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    assert spans["step cordon"].parent_span_id == root.span_id
    assert spans["step cordon"].status.code == Status.STATUS_CODE_ERROR
    assert [event.name for event in spans["step cordon"].events] == ["intend patch node/node-a1", "patch node/node-a1"]
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert receiver.resource()["service.name"] == "healer"


async def test_an_address_with_its_path_is_taken_as_it_is() -> None:
    async with receiving() as (receiver, url), Story() as story:
        tracing = Tracing(story.recorder, exporter=otlp_exporter(f"{url}/v1/traces/"))
        tracing.install()
        await a_short_story(story)
        await tracing.close()
    assert receiver.spans()


async def test_a_collector_that_is_not_there_holds_up_neither_the_work_nor_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        loop = asyncio.get_running_loop()
        async with Story() as story:
            tracing = Tracing(story.recorder, exporter=otlp_exporter(f"http://127.0.0.1:{port}"))
            tracing.install()
            began = loop.time()
            await a_short_story(story)
            assert loop.time() - began < 2
            await tracing.close()
            assert loop.time() - began < 10
            assert story.view("inc-1").page
