"""Healer's own server from outside: health, metrics, tokens, headers, and what it does with odd requests."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hmac
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from healer.errors import BadPayload, JournalError
from healer.ports import AlertReport
from healer.testing.stories import Story
from healer.web.keys import Site
from healer.web.server import application, listening

API, HOOKS = "api-token-of-a-test", "hooks-token-of-a-test"
LIMIT = 100_000


class Inbox:
    """ports.Sink that keeps alerts, and cannot when told so."""

    def __init__(self) -> None:
        self.reports: list[AlertReport] = []
        self.writable = True

    async def samples(self, batch: Any) -> Any:
        raise AssertionError(f"a hook brings no samples, but {batch}")

    async def alerts(self, report: AlertReport) -> None:
        if not self.writable:
            raise JournalError("writing 1 event: no space left on device")
        self.reports.append(report)


def parse(body: bytes) -> AlertReport:
    try:
        given = msgspec.json.decode(body)
        rejected = tuple(("no name", str(alert)) for alert in given["alerts"])
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise BadPayload(f"the body is not a webhook of Alertmanager: {error}") from error
    return AlertReport(source="alertmanager", alerts=(), rejected=rejected)


@dataclasses.dataclass(frozen=True)
class Served:
    url: str
    story: Story
    inbox: Inbox
    session: aiohttp.ClientSession
    missing: list[str]

    async def get(self, path: str, **options: Any) -> tuple[int, Any, str]:
        return await self.ask("GET", path, **options)

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any, str]:
        async with self.session.request(method, f"{self.url}{path}", **options) as answer:
            return answer.status, answer.headers, await answer.text()

    async def hook(self, body: bytes, *, token: str = HOOKS, **headers: str) -> tuple[int, Any, str]:
        return await self.ask("POST", "/hooks/alertmanager", data=body, headers=bearer(token) | headers)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


@contextlib.asynccontextmanager
async def serving(**changes: Any) -> AsyncIterator[Served]:
    missing: list[str] = []
    inbox = Inbox()
    async with Story() as story, aiohttp.ClientSession() as session:
        site = Site(
            operator=story.people,
            sink=inbox,
            hooks={"alertmanager": parse},
            ready=lambda: missing,
            api_token=API,
            hook_token=changes.pop("hook_token", HOOKS),
            body_limit_bytes=LIMIT,
            version="1.2.3",
        )
        async with listening(application(site, **changes), "127.0.0.1", 0) as url:
            yield Served(url, story, inbox, session, missing)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as found:
        yield found


# Health and metrics --------------------------------------------------------------------------------------------------


async def test_health_needs_no_token(served: Served) -> None:
    assert (await served.get("/healthz"))[::2] == (200, "ok\n")


async def test_ready_says_what_is_missing_a_line_each(served: Served) -> None:
    assert (await served.get("/readyz"))[::2] == (200, "ok\n")
    served.missing[:] = ["the journal cannot be written", "cluster prod has not been read yet"]
    status, _, text = await served.get("/readyz")
    assert status == 503
    assert text.splitlines() == served.missing


@pytest.mark.parametrize(
    ("accept", "kind", "end"),
    [
        ("", "text/plain; version=", ""),
        (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "application/openmetrics-text; version=1.0.0",
            "# EOF\n",
        ),
        (
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            "application/openmetrics-text; version=1.0.0",
            "# EOF\n",
        ),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4", ""),
        ("application/json", "text/plain; version=", ""),
    ],
)
async def test_metrics_are_in_the_format_that_is_asked_for(served: Served, accept: str, kind: str, end: str) -> None:
    status, headers, text = await served.get("/metrics", headers={"Accept": accept})
    assert status == 200
    assert headers["Content-Type"].startswith(kind)
    assert "healer_http_requests_total" in text
    assert text.endswith(end)


async def test_an_odd_version_in_accept_is_no_crash(served: Served) -> None:
    accept = "application/openmetrics-text; version=zzz"
    assert (await served.get("/metrics", headers={"Accept": accept}))[0] < 500


async def test_requests_are_counted_by_route_and_not_by_path(served: Served) -> None:
    for n in range(3):
        await served.get(f"/api/v1/incidents/inc-{n}x", headers=bearer(API))
        await served.get(f"/nothing/{n}x")
    _, _, text = await served.get("/metrics")
    assert 'healer_http_requests_total{route="/api/v1/incidents/{id}",status="404"} ' in text
    assert 'route="none",status="404"' in text
    assert "1x" not in text


# Tokens --------------------------------------------------------------------------------------------------------------

PROTECTED = [
    ("GET", "/api/v1/status", API),
    ("GET", "/api/v1/events", API),
    ("GET", "/api/v1/incidents", API),
    ("GET", "/api/v1/incidents/inc-1", API),
    ("POST", "/api/v1/incidents/inc-1/approve", API),
    ("POST", "/api/v1/incidents/inc-1/cancel", API),
    ("POST", "/api/v1/pause", API),
    ("POST", "/api/v1/resume", API),
    ("GET", "/api/v1/why/NodeDown", API),
    ("GET", "/api/v1/nothing", API),
    ("POST", "/hooks/alertmanager", HOOKS),
]


@pytest.mark.parametrize(("method", "path", "token"), PROTECTED, ids=[path for _, path, _ in PROTECTED])
@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer x{token}",
        "Bearer ü",
    ],
)
async def test_without_the_right_token_nothing_is_answered_but_401_and_what_to_do(
    served: Served, method: str, path: str, token: str, given: str
) -> None:
    status, headers, text = await served.ask(
        method, path, headers={"Authorization": given.format(token=token)}, data=b"{}" if method == "POST" else None
    )
    assert status == 401
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert "token_file" in json.loads(text)["error"]
    assert token not in text
    assert served.inbox.reports == []
    assert served.story.journal.events == []


async def test_each_token_opens_only_its_own_door(served: Served) -> None:
    assert (await served.get("/api/v1/status", headers=bearer(HOOKS)))[0] == 401
    assert (await served.hook(b'{"alerts": []}', token=API))[0] == 401
    assert (await served.get("/api/v1/status", headers=bearer(API)))[0] == 200
    assert (await served.hook(b'{"alerts": []}'))[0] == 200


@pytest.mark.parametrize(
    "path", ["/hooks/%61lertmanager", "/hooks//alertmanager", "/api/v1/../v1/status", "/%61pi/v1/status"]
)
async def test_another_spelling_of_a_path_is_no_way_around(served: Served, path: str) -> None:
    from yarl import URL

    url = URL(f"{served.url}{path}", encoded=True)
    for method in ("GET", "POST"):
        async with served.session.request(method, url, data=b'{"alerts": []}' if method == "POST" else None) as answer:
            assert answer.status in (401, 404, 405)
    assert served.inbox.reports == []


async def test_tokens_are_compared_in_constant_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real: Callable[[bytes, bytes], bool] = hmac.compare_digest

    def spy(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    await served.get("/api/v1/status", headers=bearer("wrong"))
    await served.hook(b"{}", token="wrong")
    assert compared == [(b"wrong", API.encode()), (b"wrong", HOOKS.encode())]


async def test_an_empty_token_in_the_configuration_opens_nothing() -> None:
    async with serving(hook_token="") as served:
        assert (await served.hook(b'{"alerts": []}', token=""))[0] == 401


async def test_hooks_are_open_only_when_that_was_asked_for() -> None:
    async with serving(hook_token=None) as served:
        assert (await served.ask("POST", "/hooks/alertmanager", data=b'{"alerts": []}'))[0] == 200


# Bodies --------------------------------------------------------------------------------------------------------------


async def test_no_alerts_are_taken_as_such(served: Served) -> None:
    status, _, text = await served.hook(b'{"alerts": []}')
    assert (status, json.loads(text)["accepted"]) == (200, 0)
    assert len(served.inbox.reports) == 1


async def test_alerts_that_cannot_be_taken_are_counted_and_shown_cut(served: Served) -> None:
    body = json.dumps({"alerts": ["x" * 1000] * 20}).encode()
    status, _, text = await served.hook(body)
    said = json.loads(text)
    assert status == 200
    assert said["rejected"] == 20
    assert len(said["rejections"]) == 10
    assert len(said["rejections"][0]["example"]) == 300


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"alerts": 3}', b"[" * 50_000],
    ids=["empty", "half", "a list", "not UTF-8", "no list of alerts", "50,000 levels"],
)
async def test_a_body_that_cannot_be_read_is_400_and_says_why(served: Served, body: bytes) -> None:
    status, _, text = await served.hook(body)
    assert status == 400
    assert json.loads(text)["error"]
    assert served.inbox.reports == []


async def test_a_body_over_the_limit_is_413_and_names_the_limit(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    status, _, text = await served.hook(b" " * (LIMIT + 1))
    assert status == 413
    assert "web.max_body" in text
    assert str(LIMIT) in text
    assert "was refused" in caplog.text
    assert (await served.hook(b'{"alerts": []}'))[0] == 200


async def test_a_body_just_at_the_limit_is_taken(served: Served) -> None:
    body = b'{"alerts": []}'
    assert (await served.hook(body + b" " * (LIMIT - len(body))))[0] == 200


async def test_a_body_without_a_length_is_held_to_the_limit_too(served: Served) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 10_000

    try:
        async with served.session.post(
            f"{served.url}/hooks/alertmanager", data=endless(), headers=bearer(HOOKS)
        ) as answer:
            assert answer.status == 413
    except aiohttp.ClientConnectionError:
        pass  # the server may close the line while we still send
    assert served.inbox.reports == []
    assert (await served.get("/healthz"))[0] == 200


async def test_gzip_is_understood(served: Served) -> None:
    status, _, _ = await served.hook(gzip.compress(b'{"alerts": []}'), **{"Content-Encoding": "gzip"})
    assert status == 200


async def test_a_gzip_bomb_is_413_and_never_unpacked(served: Served) -> None:
    bomb = gzip.compress(b" " * 200_000_000, compresslevel=9)
    for sent in (bomb, bomb[:90_000]):
        status, _, _ = await served.hook(sent, **{"Content-Encoding": "gzip"})
        assert status in (400, 413)
    assert served.inbox.reports == []
    assert (await served.hook(b'{"alerts": []}'))[0] == 200


async def test_what_says_gzip_and_is_not_is_400(served: Served) -> None:
    status, _, text = await served.hook(b"not gzip at all", **{"Content-Encoding": "gzip"})
    assert status == 400
    assert "error" in text


async def test_r9_a_journal_that_cannot_write_is_503_with_retry_after_and_200_again_afterwards(served: Served) -> None:
    served.inbox.writable = False
    for _ in range(3):
        status, headers, text = await served.hook(b'{"alerts": []}')
        assert status == 503
        assert int(headers["Retry-After"]) > 0
        assert "no space left" in text
    served.inbox.writable = True
    assert (await served.hook(b'{"alerts": []}'))[0] == 200


# Addresses and headers -----------------------------------------------------------------------------------------------


async def test_an_unknown_hook_says_which_there_are(served: Served) -> None:
    status, _, text = await served.ask("POST", "/hooks/grafana", data=b"{}")
    assert status == 404
    assert "alertmanager" in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/static/../api.py", 404),
        ("GET", "/static/api.py", 404),
        ("GET", "/static/%2e%2e%2fapi.py", 404),
        ("POST", "/healthz", 405),
        ("GET", "/hooks/alertmanager", 405),
        ("DELETE", "/", 405),
    ],
)
async def test_what_is_not_there_is_said_as_json(served: Served, method: str, path: str, status: int) -> None:
    found, headers, text = await served.ask(method, path)
    assert found == status
    assert json.loads(text)["error"]
    assert status != 405 or headers["Allow"]


async def test_a_fault_of_ours_is_500_as_json_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("the secret cause")

    async with serving(extra_routes=[web.get("/broken", broken)]) as served:
        status, headers, text = await served.get("/broken")
    assert status == 500
    assert "the secret cause" not in text
    assert "the secret cause" in caplog.text
    assert "Content-Security-Policy" in headers


@pytest.mark.parametrize(
    ("method", "path", "token"),
    [
        ("GET", "/", ""),
        ("GET", "/static/console.js", ""),
        ("GET", "/static/console.css", ""),
        ("GET", "/static/favicon.svg", ""),
        ("GET", "/metrics", ""),
        ("GET", "/healthz", ""),
        ("GET", "/readyz", ""),
        ("GET", "/nothing", ""),
        ("POST", "/", ""),
        ("GET", "/api/v1/status", ""),
        ("GET", "/api/v1/status", API),
        ("GET", "/api/v1/events", API),
        ("POST", "/hooks/alertmanager", ""),
        ("POST", "/hooks/alertmanager", HOOKS),
    ],
)
async def test_every_answer_carries_the_strict_headers(served: Served, method: str, path: str, token: str) -> None:
    options: dict[str, Any] = {"data": b"x"} if method == "POST" else {}
    async with served.session.request(method, f"{served.url}{path}", headers=bearer(token), **options) as answer:
        headers = answer.headers
    csp = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; ") if " " in part)
    assert csp["default-src"] == "'none'"
    assert csp["script-src"] == "'self'"
    assert csp["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers.get("Server", "healer") == "healer"


async def test_the_page_has_no_script_or_style_of_its_own(served: Served) -> None:
    _, _, text = await served.get("/")
    assert "<style" not in text
    assert "style=" not in text
    assert text.count("<script") == text.count('<script src="/static/') == 1
    assert not any(f" on{event}=" in text for event in ("click", "load", "error", "submit", "keydown"))
