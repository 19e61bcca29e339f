"""What is made from the code stands in the documents as the code has it, and nothing leads nowhere."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over our own documents)
from pathlib import Path

import click
import pytest

from healer import plugins
from healer.cli import COMMANDS, main
from healer.safety.guards import guards
from healer.sim.faults import KINDS
from scripts import generate_docs
from tests.documents import DOCS, ROOT, markdown

LINK = re.compile(r"\]\((?!https?://)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
MARK = re.compile(r"<!-- (?:made from the code: |end of )(?P<name>[a-z-]+) -->")


@pytest.mark.parametrize("path", sorted(generate_docs.documents()), ids=lambda path: path.name)
def test_the_document_is_what_make_docs_would_write(path: Path) -> None:
    assert path.read_text("utf-8") == generate_docs.documents()[path], "run `make docs`"


def test_every_block_that_can_be_made_has_its_place_and_every_mark_its_block() -> None:
    marked = [found["name"] for path in markdown() for found in MARK.finditer(path.read_text("utf-8"))]
    assert sorted(marked) == sorted([*generate_docs.BLOCKS, *generate_docs.BLOCKS])


def test_a_block_is_replaced_whole_and_only_once() -> None:
    old = "before\n<!-- made from the code: guards -->\nold\n<!-- end of guards -->\nafter\n"
    new = generate_docs.filled(old)
    assert new.startswith("before\n<!-- made from the code: guards -->\n\n| ")
    assert new.endswith("|\n\n<!-- end of guards -->\nafter\n")
    assert "\nold\n" not in new
    assert generate_docs.filled(new) == new


def test_every_command_and_option_stands_in_its_document() -> None:
    text = (DOCS / "cli.md").read_text("utf-8")
    assert re.findall(r"^## `healer (\S+)`$", text, re.MULTILINE) == list(COMMANDS)
    sections = dict(zip(COMMANDS, text.split("\n## ")[1:], strict=True))
    for name, section in sections.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
        assert set(re.findall(r"`(--?[a-z-]+)`", section.partition("| Option |")[2])) == options
        assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option)), name


def test_every_guard_stands_in_its_document_in_the_order_in_which_it_answers() -> None:
    text = (DOCS / "safety.md").read_text("utf-8")
    assert re.findall(r"^\| \d+ \| `([a-z-]+)` \|", text, re.MULTILINE) == [guard.name for guard in guards()]


def test_every_fault_and_every_plugin_stands_in_its_document() -> None:
    scenarios = (DOCS / "scenarios.md").read_text("utf-8")
    assert all(f"| `{name}` |" in scenarios for name in KINDS)
    settings = (DOCS / "plugins.md").read_text("utf-8")
    assert re.findall(r"^#### `(.+)`$", settings, re.MULTILINE) == [
        name for group in plugins.GROUPS for name in plugins.names(group)
    ]


@pytest.mark.parametrize("path", markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for found in LINK.finditer(path.read_text("utf-8")):
        target = path.parent / found["file"] if found["file"] else path
        assert target.exists(), f"{path.name} links to {found['file']}, which is not there"
        if found["anchor"]:
            assert found["anchor"] in anchors(target), f"{path.name} links to {found[0]}, which has no such heading"


def anchors(path: Path) -> set[str]:
    """The names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
