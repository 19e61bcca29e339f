"""The repository holds together: packages, links, lengths, entry points, versions, and nothing of anybody's machine."""

from __future__ import annotations

import importlib.metadata
import re  # noqa: TID251 (fixed patterns over our own files)
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import healer
from healer import plugins
from healer.cli import main
from healer.config import plugged
from tests.documents import ROOT, blocks

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAPPED = {"healer.actions": "actions", "healer.collectors": "collectors", "healer.rules": "rules"}
MOST_LINES = 400
MOST_LINES_OF_TESTS = 600
PLACES = re.compile(r"(?<![\w.])/(?:work|root|home|Users|tmp)/")
FINE_IN_TESTS = ("/tmp/", "/home/")
ELSEWHERE = re.compile(r"\bpypi\.org|\bfiles\.pythonhosted\.org|\.internal\b|\blocalhost:\d{5}\b")


def tracked(*patterns: str) -> list[Path]:
    """The files of the repository; new ones count as soon as they are there, ignored ones never."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in sorted(set(found.split("\0"))) if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


# Packages ---------------------------------------------------------------------------------------------------------------


def test_the_list_of_packages_is_that_of_the_tree() -> None:
    found = {"healer"}
    for path in tracked("healer/*.py", "actions/*.py", "collectors/*.py", "rules/*.py"):
        parts = path.relative_to(ROOT).parent.parts
        found.add(".".join(parts if parts[0] == "healer" else ("healer", *parts)))
    assert PROJECT["tool"]["setuptools"]["packages"] == sorted(found)


def test_every_package_is_one_and_says_what_lives_in_it() -> None:
    for name in PROJECT["tool"]["setuptools"]["packages"]:
        mapped = next(
            (name.replace(package, folder, 1) for package, folder in MAPPED.items() if name.startswith(package)), name
        )
        init = ROOT / mapped.replace(".", "/") / "__init__.py"
        assert init.exists(), f"{init.relative_to(ROOT)} is missing"


@pytest.mark.parametrize(("package", "folder"), MAPPED.items())
def test_the_link_and_the_mapping_lead_to_the_same_folder(package: str, folder: str) -> None:
    link = ROOT / package.replace(".", "/")
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{folder}"
    assert link.resolve() == ROOT / folder
    assert PROJECT["tool"]["setuptools"]["package-dir"][package] == folder
    assert Path(str(importlib.import_module(package).__file__)).resolve().parent == ROOT / folder


def test_nothing_else_is_a_link() -> None:
    links = {
        path for path in ROOT.rglob("*") if path.is_symlink() and not path.relative_to(ROOT).parts[0].startswith(".")
    }
    assert links == {ROOT / package.replace(".", "/") for package in MAPPED}


@pytest.mark.parametrize("path", tracked("*.py"), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_too_long_to_be_read_at_once(path: Path) -> None:
    is_test = path.relative_to(ROOT).parts[0] == "tests"
    most = MOST_LINES_OF_TESTS if is_test else MOST_LINES
    assert len(path.read_text("utf-8").splitlines()) <= most, f"split {path.relative_to(ROOT)}: more than {most} lines"


# Plugins ----------------------------------------------------------------------------------------------------------------

POINTS = [
    (group, name, value)
    for group, points in PROJECT["project"]["entry-points"].items()
    for name, value in points.items()
]


@pytest.mark.parametrize(("group", "name", "value"), POINTS, ids=lambda text: text)
def test_every_entry_point_is_installed_loads_and_says_what_it_takes(group: str, name: str, value: str) -> None:
    assert name in plugins.names(group), (
        "run `scripts/environment test`: what is installed is older than pyproject.toml"
    )
    found = plugins.load(group, name)
    assert f"{found.__module__}:{found.__name__}" == value
    for key, field in plugged.settings_model(group, name).model_fields.items():
        assert field.description, f"{name}.{key} has no description"
    if group == plugins.ACTIONS:
        assert found.name == name


def test_every_group_of_plugins_has_entry_points_and_there_are_no_others() -> None:
    assert sorted(PROJECT["project"]["entry-points"]) == sorted(plugins.GROUPS)


# Names and places -------------------------------------------------------------------------------------------------------


def test_the_version_is_said_once_for_all() -> None:
    assert PROJECT["project"]["version"] == healer.__version__ == importlib.metadata.version("cluster-healer")
    said = CliRunner().invoke(main, ["--version"]).output
    assert said.strip().endswith(healer.__version__)


def test_no_file_names_a_place_on_anybodys_machine() -> None:
    found = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if name == "tests/unit/test_layout.py" or path.suffix in (".png", ".db"):
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1):
            place = PLACES.search(line)
            if (place and not (name.startswith("tests/") and place[0] in FINE_IN_TESTS)) or ELSEWHERE.search(line):
                found.append(f"{name}:{number}: {line.strip()[:150]}")
    assert found == []


def test_the_licence_is_the_one_that_is_declared() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text("utf-8")


# README -----------------------------------------------------------------------------------------------------------------


def test_the_configuration_in_the_readme_passes_the_check(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "README.md", "yaml")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}")
    (tmp_path / "healer.yaml").write_text(block.text)
    done = CliRunner().invoke(main, ["check", str(tmp_path / "healer.yaml")], env={"HOME": str(tmp_path)})
    assert (done.exit_code, "fine" in done.output) == (0, True), done.output
    lines = [line for line in block.text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 10


def test_the_first_screen_of_the_readme_has_name_sentence_picture_configuration_and_both_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    name, sentence, *_ = (line for line in text.splitlines() if line)
    assert name == "# Healer"
    assert sentence.lower() == f"healer {PROJECT['project']['description'].lower()}"
    first = text.partition("\n## ")[0].splitlines()
    assert len(first) <= 40
    assert [block.language for block in blocks(ROOT / "README.md")] == ["", "yaml", "sh"]
    (commands,) = blocks(ROOT / "README.md", "sh")
    assert re.findall(r"^make (\w+)", commands.text, re.MULTILINE) == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"\n{target}:" in makefile for target in ("demo", "test", "lint", "bench", "docs", "build"))
