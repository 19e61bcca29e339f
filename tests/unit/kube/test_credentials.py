import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from healer.clock import Clock, LoopClock, SystemClock
from healer.errors import Unreachable
from healer.kube import credentials
from healer.kube.access import Access, Anonymous, Basic, Credentials, Exec, Token, TokenFile
from healer.sim import time as sim_time

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
VERSION = "client.authentication.k8s.io/v1"


def using(given: Credentials, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        clock: Clock = LoopClock(asyncio.get_running_loop(), epoch=START)
        access = Access(server="https://10.0.0.1", credentials=given, server_name="kubernetes")
        return await work(credentials.source_of(access, clock))

    return sim_time.run(main)


async def header(source: Any) -> str:
    return str((await source.current()).authorization)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Anonymous(), ""),
        (Token(token="abc"), "Bearer abc"),
        (Basic(username="u", password="ü:p"), "Basic dTrDvDpw"),
    ],
    ids=["anonymous", "token", "basic"],
)
def test_what_does_not_change_is_sent_as_it_is(given: Credentials, expected: str) -> None:
    async def work(source: Any) -> None:
        assert await header(source) == expected
        assert not source.refused()

    using(given, work)


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")

    async def work(source: Any) -> None:
        assert await header(source) == "Bearer one"
        file.write_text("two\n")
        await asyncio.sleep(59)
        assert await header(source) == "Bearer one"
        await asyncio.sleep(1)
        assert await header(source) == "Bearer two"

    using(TokenFile(path=file), work)


def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def work(source: Any) -> None:
        await source.current()
        assert not source.refused()
        file.write_text("two")
        assert source.refused()
        assert await header(source) == "Bearer two"

    using(TokenFile(path=file), work)


def test_a_token_file_that_goes_away_leaves_the_old_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def work(source: Any) -> None:
        await source.current()
        file.unlink()
        await asyncio.sleep(120)
        assert await header(source) == "Bearer one"

    using(TokenFile(path=file), work)


def test_a_token_file_that_was_never_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="reading the token in"):
        using(TokenFile(path=tmp_path / "none"), header)


def plugin(folder: Path, body: str, **rest: Any) -> Exec:
    """A credential plugin that counts in `folder`/calls how often it ran. `body` sets `status`."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, sys\n"
        f"calls = open({str(folder / 'calls')!r}, 'a+'); calls.write('.'); calls.seek(0); count = len(calls.read())\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"{body}\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
    )
    return Exec(api_version=VERSION, command=sys.executable, arguments=("-S", str(script)), **rest)


def test_a_plugin_runs_once_until_what_it_gave_expires(tmp_path: Path) -> None:
    body = "status = {'token': f't{count}', 'expirationTimestamp': ['', '2026-01-05T09:10:00Z', '2026-01-05T10:00:00Z'][count]}"

    async def work(source: Any) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(header(source)) for _ in range(5)]
        assert {task.result() for task in tasks} == {"Bearer t1"}
        await asyncio.sleep(580)
        assert await header(source) == "Bearer t1"
        await asyncio.sleep(11)
        assert await header(source) == "Bearer t2"

    using(plugin(tmp_path, body), work)
    assert (tmp_path / "calls").read_text() == ".."


def test_a_plugin_is_asked_again_when_the_server_refuses(tmp_path: Path) -> None:
    async def work(source: Any) -> None:
        assert await header(source) == "Bearer t1"
        assert source.refused()
        assert await header(source) == "Bearer t2"

    using(plugin(tmp_path, "status = {'token': f't{count}'}"), work)


def test_a_plugin_hears_of_the_cluster_when_it_wants_to(tmp_path: Path) -> None:
    body = "status = {'token': info['spec']['cluster']['server'] + os.environ['EXTRA']}"
    found = plugin(tmp_path, body, provide_cluster=True, environment={"EXTRA": "+x"})
    assert using(found, header) == "Bearer https://10.0.0.1+x"


def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    async def work(source: Any) -> Any:
        return (await source.current()).certificate

    body = "status = {'clientCertificateData': 'CERT', 'clientKeyData': 'KEY'}"
    certificate = using(plugin(tmp_path, body), work)
    assert (certificate.certificate, certificate.key) == (b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit('no session, log in')", "ended with 1: no session, log in"),
        ("print('welcome'); status = {}", "not an ExecCredential"),
        ("status = {}", "neither a token nor a client certificate"),
        ("status = {'clientCertificateData': 'CERT'}", "neither a token nor a client certificate"),
        ("info['apiVersion'] = 'other/v1'; status = {'token': 't'}", "answered in other/v1"),
    ],
    ids=["fails", "chatters", "gives nothing", "forgets the key", "speaks another version"],
)
def test_a_plugin_that_does_not_do_its_work_is_quoted(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(Unreachable, match=says):
        using(plugin(tmp_path, body), header)


def test_a_plugin_that_is_not_installed_comes_with_its_hint() -> None:
    missing = Exec(api_version=VERSION, command="no-such-plugin", install_hint="install it from example.com")
    with pytest.raises(Unreachable, match=r"no-such-plugin.*; install it from example\.com"):
        using(missing, header)


def test_what_a_plugin_is_told_is_its_own_version(tmp_path: Path) -> None:
    body = "status = {'token': json.dumps([info['kind'], info['spec']['interactive']])}"
    assert json.loads(using(plugin(tmp_path, body), header).removeprefix("Bearer ")) == ["ExecCredential", False]


def test_a_plugin_that_waits_for_a_person_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_PLUGIN_SECONDS", 0.2)
    given = Access(server="https://10.0.0.1", credentials=plugin(tmp_path, "import time; time.sleep(600)"))

    async def main() -> None:
        source = credentials.source_of(given, SystemClock())
        with pytest.raises(Unreachable, match="did not end within"):
            await source.current()

    asyncio.run(main())
