"""Configurations with mistakes, and the lines that `healer check` prints for them.

Run with REWRITE_GOLDEN=1 to write the expected lines anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from healer.config.loading import load_config
from healer.errors import ConfigError

HERE = Path(__file__).parents[2] / "golden" / "config"
BAD = sorted(HERE.glob("*.bad.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name.removesuffix(".bad.yaml"))
def test_every_mistake_is_shown_at_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    with pytest.raises(ConfigError) as caught:
        load_config(Path(path.name))
    lines = "".join(f"{problem}\n" for problem in caught.value.problems).replace(f"{HERE}/", "")
    expected = path.with_suffix(".expected")
    if os.environ.get("REWRITE_GOLDEN"):
        expected.write_text(lines, "utf-8")
    assert lines == expected.read_text("utf-8")
    assert "very-secret" not in lines


def test_there_is_an_expectation_for_each_and_no_other() -> None:
    assert [path.with_suffix(".expected") for path in BAD] == sorted(HERE.glob("*.expected"))
