"""Configurations that would do harm are refused, and the one that runs goes on: rows R21, R28, R33."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from healer import telemetry
from healer.app import Adapters, Service, assembled, prepare
from healer.config.fields import Section
from healer.errors import ConfigError
from healer.model import events as ev
from healer.notify.pagerduty import PagerDutyNotifier, PagerDutySettings, Sent
from healer.notify.slack_blocks import blocks
from healer.testing.journals import MemoryJournal
from healer.testing.views import a_view

REMEDY = "remedies:\n  - name: r\n    mode: auto\n    steps: [cordon]\n"

HARMFUL = {
    "no matchers at all": REMEDY,
    "an empty list of matchers": REMEDY + "    when: []\n",
    "an empty mapping of matchers": REMEDY + "    when: {}\n",
    "a label that is empty": REMEDY + "    when: {alertname: ''}\n",
    "a pattern that fits everything": REMEDY + '    when: {alertname: =~".*"}\n',
    "an empty limit": REMEDY + "    when: {alertname: A}\n    limits: {per_zone: ''}\n",
    "no limit": REMEDY + "    when: {alertname: A}\n    limits: {min_healthy: }\n",
    "an empty target": REMEDY + "    when: {alertname: A}\n    target: ''\n",
    "no steps": "remedies:\n  - {name: r, when: {alertname: A}, mode: auto, steps: []}\n",
}


@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL.keys())
def test_R21_empty_never_means_everything(text: str, tmp_path: Path) -> None:
    path = tmp_path / "healer.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        prepare(path)
    for problem in caught.value.problems:
        assert problem.line >= 1
        assert problem.message


def test_R21_everything_has_to_be_written_out(tmp_path: Path) -> None:
    path = tmp_path / "healer.yaml"
    path.write_text(REMEDY + "    match: all\n", encoding="utf-8")
    (remedy,) = prepare(path).remedies
    assert remedy.matches({"alertname": "anything"})


GOOD = "groups: [{name: g%d, rules: [{alert: A%d, expr: up == 0}]}]\n"
BROKEN = {
    "a duplicated key": ("groups:\n  - name: g\n    name: h\n    rules: []\n", "name", 3),
    "a misspelt key": ("groups:\n  - name: g\n    rules:\n      - alert: A\n        exrp: up == 0\n", "expr", 4),
    "an expression that is none": ("groups:\n  - name: g\n    rules:\n      - {alert: A, expr: 'sum(('}\n", "expr", 4),
    "not YAML": ("groups: [", "", 1),
}


@contextlib.asynccontextmanager
async def running(path: Path, journal: MemoryJournal) -> AsyncIterator[Service]:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[MemoryJournal]:
        yield journal

    stop = asyncio.Event()
    async with assembled(prepare(path), Adapters(journal=opened, serve=False)) as service, asyncio.TaskGroup() as group:
        group.create_task(service.run(stop))
        await service.listening.wait()
        try:
            yield service
        finally:
            stop.set()


@pytest.mark.parametrize(("text", "word", "line"), BROKEN.values(), ids=BROKEN.keys())
async def test_R28_one_broken_file_of_ten_keeps_the_old_ones_running_and_says_where_it_is_broken(
    text: str, word: str, line: int, tmp_path: Path
) -> None:
    for number in range(10):
        (tmp_path / f"rules{number}.yaml").write_text(GOOD % (number, number), encoding="utf-8")
    path = tmp_path / "healer.yaml"
    path.write_text("rules: ['rules*.yaml']\n", encoding="utf-8")
    journal = MemoryJournal()
    async with running(path, journal) as service:
        assert len(service.evaluator.groups) == 10
        (tmp_path / "rules7.yaml").write_text(text, encoding="utf-8")
        problems = await service.reload()
        assert problems
        assert any(f"rules7.yaml:{line}:" in problem and word in problem for problem in problems), problems
        assert len(service.evaluator.groups) == 10, "the last good set goes on"
        assert telemetry.REGISTRY.get_sample_value("healer_config_last_reload_successful") == 0
        (tmp_path / "rules7.yaml").write_text(GOOD % (70, 70), encoding="utf-8")
        assert not await service.reload()
        assert {group.name for group in service.evaluator.groups} >= {"g70", "g1"}
        assert telemetry.REGISTRY.get_sample_value("healer_config_last_reload_successful") == 1
    noted = [event for event in journal.events if isinstance(event, ev.ConfigReloaded)]
    assert [bool(event.problems) for event in noted] == [True, False]


def test_R33_a_page_with_900_kb_of_logs_is_cut_with_a_mark_and_a_link_and_never_lost() -> None:
    logs = "ERROR something <!channel> went wrong & again\n" * 20_000
    view = a_view(detail=logs, url="https://healer.example/#incident=i1")
    settings = PagerDutySettings.model_validate({"routing_key": "k" * 32})
    assert isinstance(settings, Section)
    sent = msgspec.json.encode(PagerDutyNotifier(settings).event(view, Sent(action="trigger")))
    assert len(sent) < 512_000
    assert b"healer.example" in sent
    made = blocks(view)
    assert len(made) <= 50
    for block in made:
        text = block.get("text", {}).get("text", "")
        assert len(text) <= 3000
    shown = msgspec.json.encode(made)
    assert b"<!channel>" not in shown
    assert b"healer.example" in shown
