"""Reads what stands in fences in our documents, so that tests can run it."""

from __future__ import annotations

import dataclasses
import re  # noqa: TID251 (fixed patterns over our own documents)
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
_FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_NAME: Final = re.compile(r"^# (?P<name>[\w.-]+\.(?:yaml|yml|py|toml))\b")


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """`name`: the file that the first line says it is, if it does. `line` counts from 1, for messages."""

    document: Path
    language: str
    text: str
    line: int

    @property
    def name(self) -> str:
        found = _NAME.match(self.text)
        return found["name"] if found else ""

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def markdown() -> list[Path]:
    """The documents for people: the README, what stands in docs/, the decisions."""
    return [ROOT / "README.md", ROOT / "AGENTS.md", *sorted(DOCS.rglob("*.md"))]


def blocks(document: Path, *languages: str) -> list[Block]:
    """What stands between fences, in order; only of these languages, if any are named."""
    text = document.read_text("utf-8")
    found = (
        Block(document, match["language"], match["text"], text.count("\n", 0, match.start()) + 1)
        for match in _FENCE.finditer(text)
    )
    return [block for block in found if not languages or block.language in languages]
