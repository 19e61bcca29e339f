"""The reference says what the schema says, and the schema says something about everything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from healer import plugins
from healer.config import describe
from healer.config.fields import parse_duration
from healer.config.schema import Config

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for inner, _ in describe._inner_sections(field.annotation):
            yield from models(inner)


def test_the_reference_is_that_of_this_schema() -> None:
    assert DOCUMENT.read_text("utf-8") == describe.reference()


@pytest.mark.parametrize("model", list(models(Config)), ids=lambda model: model.__name__)
def test_every_field_says_what_it_is_for(model: type[BaseModel]) -> None:
    assert model.__doc__
    for name, field in model.model_fields.items():
        assert field.description, name
        assert field.description.rstrip("…").endswith((".", " ")), name


def test_settings_of_a_plugin_become_a_table() -> None:
    text = describe.plugin_reference(plugins.NOTIFIERS, "slack")
    assert "| `bot_token` | text, kept secret | required | Who. |" in text
    assert "| `app_token_file` | path |  | The same in a file. |" in text
    assert "No settings." in describe.plugin_reference(plugins.ACTIONS, "cordon")


def test_every_plugin_is_described_under_its_group() -> None:
    text = describe.plugins_reference()
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "# Settings of the plugins",
        *("## Collectors", "### `kubernetes`", "### `prometheus`"),
        *("## Actions", "### `cordon`", "### `drain`", "### `replace`", "### `scale`", "### `uncordon`"),
        *("## Notifiers", "### `pagerduty`", "### `slack`", "### `terminal`"),
        *("## Providers", "### `webhook`"),
    ]


@pytest.mark.parametrize("text", ["0s", "1ms", "90s", "1m30s", "2h", "7d", "1d2h3m4s5ms"])
def test_durations_are_written_as_they_are_read(text: str) -> None:
    value = parse_duration(text)
    assert isinstance(value, timedelta)
    assert parse_duration(describe.duration(value)) == value
