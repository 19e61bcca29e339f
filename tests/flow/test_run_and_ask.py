"""`healer run` in its own process on a simulated cluster, and every command that asks it for something."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from healer.clock import SystemClock
from healer.sim.api_faults import Failure
from tests.healers import Running, at_work, configured, free_port, healer, simulated, until

pytestmark = pytest.mark.timeout(180)  # real processes in real time, and the machine may be busy

REMEDY = """
remedies:
  - name: keep-pods-away
    when: {{alertname: NodeSick}}
    mode: {mode}
    steps: [cordon]
    verify: {{for: 0s, timeout: 20s}}
    limits: {{cooldown: 0s, per_hour: unlimited}}
safety: {{grace_after_outage: 0s}}
"""


def alert(node: str, *, name: str = "NodeSick", resolved: bool = False, started: datetime | None = None) -> Any:
    now = SystemClock().now().astimezone(UTC)
    return {
        "status": "resolved" if resolved else "firing",
        "labels": {"alertname": name, "node": node, "severity": "critical"},
        "annotations": {"summary": f"{node} is sick"},
        "startsAt": (started or now).isoformat(),
        "endsAt": now.isoformat() if resolved else "0001-01-01T00:00:00Z",
    }


async def send(running: Running, *alerts: Any) -> None:
    status, body = await running.ask("POST", "/hooks/alertmanager", {"version": "4", "alerts": list(alerts)})
    assert (status, body["accepted"]) == (200, len(alerts))


async def events(config: Path, kind: str) -> list[Any]:
    """The journal's events of this kind, by `healer audit`."""
    said = await healer("audit", "-c", config, "-o", "json")
    assert said.code == 0, said.err
    return [line["event"] for line in said.lines if line["event"]["type"] == kind]


def setup(folder: Path, mode: str = "auto", more: str = "") -> tuple[Path, int]:
    """A configuration and the port it listens on."""
    port = free_port()
    return configured(folder, port, REMEDY.format(mode=mode) + more), port


# Life and end --------------------------------------------------------------------------------------------------------


async def test_an_alert_is_acted_upon_and_its_end_closes_the_incident_and_sigterm_ends_in_order(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path) as cluster, at_work(config, port) as running:
        await send(running, alert("node-a1"))
        await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
        assert not cluster.is_cordoned("node-b1")
        await send(running, alert("node-a1", resolved=True))
        found = await until("it is closed", lambda: running.incident("NodeSick", state="closed"))
        assert found["reason"] == "Fixed"
        assert await running.end(signal.SIGTERM) == 0
        assert "Traceback" not in running.said()
    assert len(await events(config, "ServiceStarted")) == 1
    last = (await healer("audit", "-c", config, "-o", "json")).lines[-1]
    assert last["event"]["type"] == "ServiceStopped"


async def test_ctrl_c_ends_it_in_order_too(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path), at_work(config, port) as running:
        none = await healer("incidents", "-c", config)
        assert (none.code, none.out) == (0, "There has been no incident yet.\n")
        assert await running.end(signal.SIGINT) == 0
        assert "Traceback" not in running.said()
    assert len(await events(config, "ServiceStopped")) == 1


async def test_sigkill_and_a_new_start_lose_no_incident_and_repeat_nothing(tmp_path: Path) -> None:
    config, port = setup(tmp_path, "approve")
    async with simulated(tmp_path) as cluster:
        async with at_work(config, port) as running:
            await send(running, alert("node-a1"), alert("node-b1", name="Unheard"))
            before = await until("it asks", lambda: running.incident("NodeSick", state="awaiting approval"))
            assert await running.end(signal.SIGKILL) == -signal.SIGKILL
        async with at_work(config, port) as running:
            after = await until("it still asks", lambda: running.incident("NodeSick", state="awaiting approval"))
            assert after["id"] == before["id"]
            assert after["approval_digest"] == before["approval_digest"]
            said = await healer("approve", before["id"], "-c", config)
            assert said.code == 0, said.err
            await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
            await send(running, alert("node-a1", resolved=True))
            await until("it is closed", lambda: running.incident("NodeSick", state="closed", reason="Fixed"))
        assert len(cluster.api.asked("PATCH", "/nodes/node-a1")) == 1
    verified = await healer("audit", "--verify", "-c", config)
    assert verified.code == 0, verified.err


async def test_an_alert_of_its_own_rules_outlives_a_sigkill_as_the_same_incident(tmp_path: Path) -> None:
    rule = "{alert: NodeSick, expr: 'vector(1) > 0', for: 1s, labels: {node: node-a1}}"
    (tmp_path / "rules.yaml").write_text(f"groups: [{{name: g, interval: 1s, rules: [{rule}]}}]")
    config, port = setup(tmp_path, "suggest", "rules: [rules.yaml]\n")
    async with simulated(tmp_path):
        async with at_work(config, port) as running:
            before = await until("it suggests", lambda: running.incident("NodeSick", reason="Suggested"))
            await running.end(signal.SIGKILL)
        async with at_work(config, port) as running:
            rounds = "healer_rule_evaluations_total"
            await until("rules have been judged again", lambda: _more(running, rounds, 8), within=40)
            (after,) = await running.incidents()
            assert (after["id"], after["reason"]) == (before["id"], "Suggested")
            assert len(after["alerts"]) == 1
    assert await events(config, "AlertResolved") == []


async def _more(running: Running, metric: str, than: float) -> bool:
    return await running.metric(metric) > than


async def test_a_second_run_on_the_same_journal_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    second = tmp_path / "second"
    second.mkdir()
    other = second / "healer.yaml"
    other.write_text(config.read_text().replace(f":{port}", f":{free_port()}"))
    async with simulated(tmp_path), at_work(config, port) as running:
        said = await healer("run", "-c", other)
        assert said.code == 1
        assert "journal.db" in said.err
        assert str(running.process.pid) in said.err
        assert "Traceback" not in said.err
        assert await running.is_ready()


async def test_a_port_in_use_is_one_line_and_not_a_traceback(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    async with simulated(tmp_path), server:
        said = await healer("run", "-c", config)
    assert said.code == 1
    assert "web.listen" in said.err
    assert str(port) in said.err
    assert "Traceback" not in said.err


async def test_the_token_is_made_for_its_owner_only_and_opens_the_door(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    token = tmp_path / "data" / "token"
    token.unlink()
    async with simulated(tmp_path), at_work(config, port) as running:
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert len(token.read_text().strip()) >= 32
        assert (await running.ask("GET", "/api/v1/status"))[0] == 401
        assert (await running.ask("GET", "/api/v1/status", token=token.read_text().strip()))[0] == 200


async def test_an_api_server_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path) as cluster:
        cluster.api.faults.down = True
        async with at_work(config, port, ready=False) as running:
            await until("it says so", lambda: _says(running, "cluster prod has not been read yet"))
            assert await running.metric("healer_leader") == 1, "one alone leads, whatever it waits for"
            await send(running, alert("node-a1"))
            cluster.api.faults.down = False
            await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))


async def _says(running: Running, text: str) -> bool:
    import aiohttp

    try:
        return text in str((await running.ask("GET", "/readyz"))[1])
    except aiohttp.ClientError:
        return False


# Configuration -------------------------------------------------------------------------------------------------------


async def test_reload_takes_a_good_file_keeps_the_old_one_for_a_bad_one_and_says_so(tmp_path: Path) -> None:
    config, port = setup(tmp_path, "shadow")
    good = config.read_text()
    async with simulated(tmp_path) as cluster, at_work(config, port) as running:
        await send(running, alert("node-a1"))
        await until("it is in shadow", lambda: running.incident("NodeSick", reason="Shadow"))
        config.write_text(good.replace("mode: shadow", "mode: sometimes"))
        running.process.send_signal(signal.SIGHUP)
        await until("it was refused", lambda: _equals(running, "healer_config_last_reload_successful", 0))
        assert "healer.yaml:" in running.said()
        assert (await running.incident("NodeSick"))["reason"] == "Shadow"
        assert not cluster.is_cordoned("node-a1")
        config.write_text(good.replace("mode: shadow", "mode: auto"))
        # Nobody sends a signal now: a changed file is noticed.
        await until("it was taken", lambda: _equals(running, "healer_config_last_reload_successful", 1))
        await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
    reloads = await events(config, "ConfigReloaded")
    assert [bool(reload.get("problems")) for reload in reloads][-1] is False
    bad = next(reload for reload in reloads if reload.get("problems"))
    assert any("healer.yaml:" in problem and "sometimes" in problem for problem in bad["problems"])


async def _equals(running: Running, metric: str, wanted: float) -> bool:
    return await running.metric(metric) == wanted


async def test_a_changed_rule_file_is_noticed_and_a_broken_one_leaves_the_old_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    group = "groups: [{{name: g, interval: 1s, rules: [{{alert: Always, expr: '{}', labels: {{node: node-a1}}}}]}}]"
    rules.write_text(group.format("vector(0) > 1"))
    more = "rules: [rules.yaml]\ncollect: [kubernetes]\n"
    config, port = setup(tmp_path, "auto", more)
    config.write_text(config.read_text().replace("alertname: NodeSick", "alertname: Always"))
    async with simulated(tmp_path) as cluster, at_work(config, port) as running:
        rules.write_text(group.format("vector(1) >"))
        await until("it was refused", lambda: _equals(running, "healer_config_last_reload_successful", 0))
        assert "rules.yaml:1:" in running.said()
        rules.write_text(group.format("vector(1) > 0"))
        await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
        assert await running.metric("healer_config_last_reload_successful") == 1


async def test_a_configuration_that_is_not_there_is_said_in_one_line_by_every_command(tmp_path: Path) -> None:
    for command in (("run",), ("incidents",), ("why", "x"), ("audit",), ("pause",), ("approve", "i1")):
        said = await healer(*command, "-c", tmp_path / "none.yaml")
        assert said.code == 2, (command, said)
        assert "none.yaml" in said.err
        assert "Traceback" not in said.err
        assert len(said.err.splitlines()) == 1


async def test_check_says_every_mistake_at_once_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "healer.yaml"
    (tmp_path / "rules.yaml").write_text(
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: sum(up\n  - {alert: B, expr: up, for: soon}\n"
    )
    config.write_text(
        "clusters:\n"
        "  - name: prod\n"
        "    kubeconfig: nowhere.yaml\n"
        "rules: [rules.yaml, 'pack:nothing']\n"
        "remedies:\n"
        "  - name: one\n"
        "    when: {alertname: A}\n"
        "    mode: sometimes\n"
        "    steps: [cordn]\n"
        "  - name: two\n"
        "    when: {alertname: A}\n"
        "    hodl: 1\n"
        "    steps: [cordon]\n"
    )
    said = await healer("check", config)
    assert said.code == 2
    lines = said.err.splitlines()
    for line, word in ((2, "nowhere.yaml"), (8, "sometimes"), (9, "cordn"), (12, "hodl")):
        assert any(text.startswith(f"{config}:{line}:") and word in text for text in lines), (line, word, said.err)
    assert "Traceback" not in said.err


async def test_check_reads_the_rule_files_and_packs_too(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    config, _ = setup(tmp_path, "auto", "rules: [rules.yaml, 'pack:nothing']\n")
    (tmp_path / "rules.yaml").write_text(
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: sum(up\n  - {alert: B, expr: up, for: soon}\n"
    )
    said = await healer("check", config)
    assert said.code == 2
    for place in (f"{config}:", f"{tmp_path}/rules.yaml:5:", f"{tmp_path}/rules.yaml:6:"):
        assert any(line.startswith(place) for line in said.err.splitlines()), (place, said.err)
    assert "pack" in said.err


async def test_check_praises_a_good_file_with_what_it_would_do(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    config, _ = setup(tmp_path, "auto", "rules: ['pack:demo']\n")
    said = await healer("check", config)
    assert (said.code, said.err) == (0, "")
    assert "keep-pods-away (auto)" in said.out
    assert "prod" in said.out


# Asking --------------------------------------------------------------------------------------------------------------


async def test_approve_and_deny_by_command_count_once_and_say_why_they_do_not(tmp_path: Path) -> None:
    config, port = setup(tmp_path, "approve")
    async with simulated(tmp_path) as cluster, at_work(config, port) as running:
        await send(running, alert("node-a1"), alert("node-b1"))
        asking = await until("both ask", lambda: _asking(running, 2))
        by_node = {found["target"]["name"]: found["id"] for found in asking}
        denied = await healer("deny", by_node["node-b1"], "-c", config, "--as", "kim")
        assert denied.code == 0, denied.err
        approved = await healer("approve", by_node["node-a1"], "-c", config, "--as", "kim")
        assert approved.code == 0, approved.err
        await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
        again = await healer("approve", by_node["node-a1"], "-c", config)
        assert again.code == 1
        assert "AlreadyDecided" in again.err
        unknown = await healer("approve", "i0000000", "-c", config)
        assert unknown.code == 1
        assert "i0000000" in unknown.err
        assert not cluster.is_cordoned("node-b1")
        refused = await running.get(f"/api/v1/incidents/{by_node['node-b1']}")
        assert refused["reason"] == "Denied"
    answers = await events(config, "ApprovalAnswered")
    assert [(a["by"], a["via"], a["approve"], a["accepted"]) for a in answers[:2]] == [
        ("kim", "cli", False, True),
        ("kim", "cli", True, True),
    ]


async def _asking(running: Running, count: int) -> list[Any]:
    found = [incident for incident in await running.incidents() if incident["state"] == "awaiting approval"]
    return found if len(found) == count else []


async def test_asking_a_service_that_is_down_says_how_to_start_it(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    config, port = setup(tmp_path)
    said = await healer("approve", "i1", "-c", config)
    assert said.code == 1
    assert f"127.0.0.1:{port}" in said.err
    assert "healer run" in said.err


async def test_cancel_stops_a_drain_before_its_next_change_and_takes_back_the_cordon(tmp_path: Path) -> None:
    config, port = setup(tmp_path, "auto")
    config.write_text(config.read_text().replace("steps: [cordon]", "steps: [cordon, {drain: {timeout: 5m}}]"))
    async with simulated(tmp_path) as cluster:
        cluster.api.faults.fail_all.append(Failure(status=429, retry_after=1, method="POST", path="*/eviction"))
        async with at_work(config, port) as running:
            await send(running, alert("node-a1"))
            found = await until("it acts", lambda: running.incident("NodeSick", state="acting"))
            await until("it tries to drain", lambda: cluster.api.asked("POST", "/eviction"))
            said = await healer("cancel", found["id"], "-c", config, "--as", "kim")
            assert said.code == 0, said.err
            await until("it is given back", lambda: not cluster.is_cordoned("node-a1"))
            ended = await until("it says so", lambda: running.incident("NodeSick", reason="Cancelled"))
            assert any("cancelled by kim" in entry["text"] for entry in ended["timeline"])
            again = await healer("cancel", found["id"], "-c", config)
            assert again.code == 1
            assert "NoLongerNeeded" in again.err


# Pausing -------------------------------------------------------------------------------------------------------------


async def test_pause_holds_everything_back_at_once_and_resume_lets_it_go_on(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path) as cluster, at_work(config, port) as running:
        said = await healer("pause", "-c", config, "--why", "a test", "--as", "kim")
        assert (said.code, said.out) == (0, "paused: no new disruption is started\n")
        await send(running, alert("node-a1"))
        held = await until("it is held back", lambda: running.incident("NodeSick", reason="Paused"))
        assert "kim" in held["detail"]
        listed = await healer("incidents", "-c", config)
        assert "Paused by kim: a test" in listed.out
        assert not cluster.is_cordoned("node-a1")
        resumed = await healer("resume", "-c", config)
        assert resumed.code == 0, resumed.err
        await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))


async def test_a_pause_made_while_healer_is_down_holds_when_it_starts(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path) as cluster:
        said = await healer("pause", "-c", config, "--as", "kim")
        assert said.code == 0, said.err
        assert "does not run" in said.out
        async with at_work(config, port) as running:
            assert (await running.get("/api/v1/status"))["paused"].startswith("kim")
            await send(running, alert("node-a1"))
            await until("it is held back", lambda: running.incident("NodeSick", reason="Paused"))
            assert await running.end() == 0
        assert not cluster.is_cordoned("node-a1")
        said = await healer("resume", "-c", config, "--as", "kim")
        assert said.code == 0, said.err
        async with at_work(config, port):
            await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
    verified = await healer("audit", "--verify", "-c", config)
    assert verified.code == 0, verified.err


# Reading -------------------------------------------------------------------------------------------------------------


async def test_incidents_why_and_audit_say_what_happened_beside_the_service_and_without_it(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path) as cluster:
        before = await healer("incidents", "-c", config)
        assert before.code == 1
        assert "journal.db" in before.err
        assert "Traceback" not in before.err
        async with at_work(config, port) as running:
            await send(running, alert("node-a1"), alert("node-c1", name="Unheard"))
            await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
            await until("the other one is judged", lambda: running.metric("healer_decisions_total", reason="NoRemedy"))
            (incident,) = (await healer("incidents", "-c", config, "-o", "json")).json
            assert (incident["title"], incident["target"]["name"]) == ("NodeSick", "node-a1")
            why = await healer("why", "node-a1", "-c", config)
            assert "incident opened by alert NodeSick" in why.out
    listed = (await healer("incidents", "--open", "-c", config)).out
    assert incident["id"] in listed
    assert "node/node-a1" in listed
    (answer,) = (await healer("why", "nodesick", "-c", config, "-o", "json")).json
    assert answer["incident"]["id"] == incident["id"]
    unheard = await healer("why", "Unheard", "-c", config)
    assert "NoRemedy" in unheard.out
    unknown = await healer("why", "node-zz", "-c", config)
    assert unknown.code == 1
    assert "node-zz" in unknown.err


async def test_audit_prints_the_journal_whole_or_of_one_incident_or_from_a_number_on(tmp_path: Path) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path), at_work(config, port) as running:
        await send(running, alert("node-a1"), alert("node-b1"))
        found = await until("it has been decided", lambda: running.incident("NodeSick"))
        text = (await healer("audit", "-c", config)).out
        assert "IncidentOpened" in text
        assert "AlertFired" in text
        of_one = (await healer("audit", "-c", config, "--incident", found["id"], "-o", "json")).lines
        assert {line["event"]["incident"] for line in of_one} == {found["id"]}
        after = (await healer("audit", "-c", config, "--after", "3", "-o", "json")).lines
        assert [line["seq"] for line in after] == list(range(4, 4 + len(after)))
        verified = await healer("audit", "--verify", "-c", config, "-o", "json")
        assert (verified.code, verified.json["ok"]) == (0, True)


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE events SET data = replace(data, 'NodeSick', 'NodeFine') WHERE data LIKE '%NodeSick%'",
        "DELETE FROM events WHERE seq = 3",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
    ],
    ids=["changed", "removed", "cut off"],
)
async def test_audit_verify_finds_a_journal_that_was_tampered_with(tmp_path: Path, tampering: str) -> None:
    config, port = setup(tmp_path)
    async with simulated(tmp_path) as cluster, at_work(config, port) as running:
        await send(running, alert("node-a1"))
        await until("the node is cordoned", lambda: cluster.is_cordoned("node-a1"))
        assert await running.end() == 0
    verified = await healer("audit", "--verify", "-c", config)
    assert verified.code == 0, verified.err
    assert "whole" in verified.out
    tamper(tmp_path / "data" / "journal.db", tampering)
    verified = await healer("audit", "--verify", "-c", config)
    assert verified.code == 1, verified.out
    assert "was changed" in verified.err
    in_json = await healer("audit", "--verify", "-c", config, "-o", "json")
    assert in_json.code == 1
    assert json.loads(in_json.out)["ok"] is False


def tamper(path: Path, statement: str) -> None:
    """As somebody with the file and patience would: triggers that forbid it are dropped first."""
    connection = sqlite3.connect(path)
    try:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        changed = connection.execute(statement).rowcount
        assert changed > 0
        connection.commit()
    finally:
        connection.close()
