"""The plugin in docs/plugins.md can be installed, does what it should, and keeps the promises of every action."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from healer import plugins, ports
from healer.config import loading, plugged
from healer.errors import ConfigError
from healer.sim.time import run
from healer.testing.action_contract import ActionContract, Story
from tests.contract import test_actions
from tests.documents import DOCS, Block, blocks

FILES: dict[str, Block] = {block.name: block for block in blocks(DOCS / "plugins.md") if block.name}


def forget() -> None:
    """What is installed has changed."""
    plugins.names.cache_clear()
    plugins.load.cache_clear()
    importlib.invalidate_caches()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    """Put the package where pip would put it; gives its class."""
    project = tomllib.loads(FILES["pyproject.toml"].text)["project"]
    (tmp_path / "healer_quarantine.py").write_text(FILES["healer_quarantine.py"].text)
    info = tmp_path / f"healer_quarantine-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield plugins.load(plugins.ACTIONS, "quarantine")
    monkeypatch.undo()
    sys.modules.pop("healer_quarantine", None)
    forget()


def test_its_own_scenario_passes(installed: type[Any]) -> None:
    namespace: dict[str, Callable[[], None]] = {}
    block = FILES["test_quarantine.py"]
    exec(compile(block.text, block.place, "exec"), namespace)  # noqa: S102 (our own document)
    namespace["test_a_node_with_disk_errors_is_quarantined_until_they_end"]()


def test_the_configuration_beside_it_is_right(installed: type[Any]) -> None:
    config = loading.parse(FILES["healer.yaml"].text, Path("healer.yaml")).config
    assert config.remedies[0].steps[0].settings == installed.Settings(key="example.com/disk-errors")


def test_without_the_package_the_configuration_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"remedies\[0\]\.steps\[0\]"):
        loading.parse(FILES["healer.yaml"].text, Path("healer.yaml"))


class TestContract(ActionContract):
    """What docs/plugins.md says that this base class checks, over the same world as our own actions."""

    @pytest.fixture(autouse=True)
    def _quarantine(self, installed: type[Any]) -> None:
        self.action: ports.Action = installed(installed.Settings())

    def play(self, story: Story) -> None:
        async def main() -> None:
            async with test_actions.a_scene("Node", "node-a1", "", "quarantine", lambda _: None) as scene:
                await story(scene)

        run(main)


@pytest.mark.parametrize("group", plugins.GROUPS)
def test_every_group_of_entry_points_has_its_row_with_a_contract_that_exists(group: str) -> None:
    rows = (line for line in (DOCS / "plugins.md").read_text("utf-8").split("\n") if line.startswith(f"| `{group}` "))
    (row,) = rows
    contract, *methods = (part.strip(" `") for part in row.split("|")[2].replace(":", ",").split(","))
    port = getattr(ports, contract)
    for method in methods:
        name = method.partition("(")[0]
        assert name in {*vars(port), *port.__annotations__}, f"{contract} has no {name}"
    assert plugged.NOUNS[group].capitalize() == contract
