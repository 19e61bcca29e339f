"""Every reason is explained to the person on call, and none is invented."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over our own documents)

import pytest

from healer.model.decisions import Reason
from tests.documents import DOCS

TEXT = (DOCS / "reasons.md").read_text("utf-8")
ENTRIES = dict(re.findall(r"^### `(\w+)`\n\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))


def test_every_reason_has_its_entry_and_none_is_invented() -> None:
    assert sorted(ENTRIES) == sorted(str(reason) for reason in Reason)
    assert len(re.findall(r"^### ", TEXT, re.MULTILINE)) == len(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_each_entry_says_what_it_means_what_comes_next_and_what_to_do(reason: Reason) -> None:
    body = ENTRIES[reason]
    assert re.findall(r"^- \*\*(\w+)\*\*: [A-Z`]", body, re.MULTILINE) == ["Means", "Next", "You"]


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_that_is_named_elsewhere_in_the_entries_exists(reason: Reason) -> None:
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", ENTRIES[reason]))
    assert named <= {str(other) for other in Reason}


def test_settings_that_are_named_exist() -> None:
    reference = (DOCS / "configuration.md").read_text("utf-8")
    for section, key in re.findall(r"`(safety|limits|approval|verify)\.(\w+)`", TEXT):
        heading = section if section == "safety" else f"remedies[].{section}"
        part = reference.partition(f"## `{heading}`\n")[2].partition("\n## ")[0]
        assert f"| `{key}` |" in part, f"{section}.{key}"
