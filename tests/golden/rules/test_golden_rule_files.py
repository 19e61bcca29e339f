"""Rule files with mistakes, and the lines that `healer check` prints for them.

Run with REWRITE_GOLDEN=1 to write the expected lines anew; read the difference before you commit it.
"""

import os
from pathlib import Path

import pytest

from healer.rules.rulefiles import load_rules

HERE = Path(__file__).parent
BAD = sorted(HERE.glob("*.bad.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name.removesuffix(".bad.yaml"))
def test_every_mistake_is_shown_at_its_place(path: Path) -> None:
    _, problems = load_rules(path.read_text("utf-8"), path.name)
    lines = "".join(f"{problem}\n" for problem in problems)
    expected = path.with_suffix(".expected")
    if os.environ.get("REWRITE_GOLDEN"):
        expected.write_text(lines, "utf-8")
    assert lines == expected.read_text("utf-8")
    assert lines


def test_there_is_an_expectation_for_each_and_no_other() -> None:
    assert [path.with_suffix(".expected") for path in BAD] == sorted(HERE.glob("*.expected"))
