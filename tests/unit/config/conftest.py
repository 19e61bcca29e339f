"""Plugins with settings of all kinds, so that these tests do not depend on what ours happen to take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import Field

from healer import plugins
from healer.config.fields import FilePath, PositiveDuration, Secret, Section, Text, Url
from healer.errors import PluginError


class Nothing(Section):
    """No settings."""


class Prometheus(Section):
    targets: tuple[Text, ...] = Field(min_length=1, description="Where.")
    interval: PositiveDuration = Field(timedelta(seconds=15), description="How often.")
    timeout: PositiveDuration = Field(timedelta(seconds=5), description="How long.")


class Drain(Section):
    timeout: PositiveDuration = Field(timedelta(minutes=5), description="How long.")


class Scale(Section):
    by: int = Field(description="How many more.")


class Replace(Section):
    provider: str = Field("", description="Who does it.")


class Slack(Section):
    channel: Text = Field(description="Where.")
    bot_token: Secret = Field(description="Who.")
    bot_token_file: FilePath | None = Field(None, description="Who, in a file.")
    app_token: Secret | None = Field(None, description="For Socket Mode.")
    app_token_file: FilePath | None = Field(None, description="The same in a file.")


class PagerDuty(Section):
    routing_key: Secret = Field(description="Which service.")
    routing_key_file: FilePath | None = Field(None, description="The same in a file.")


class Webhook(Section):
    url: Url = Field(description="Where.")
    secret: Secret = Field(description="To sign with.")
    secret_file: FilePath | None = Field(None, description="The same in a file.")
    timeout: PositiveDuration = Field(timedelta(seconds=10), description="How long.")


INSTALLED: dict[str, dict[str, type[Section]]] = {
    plugins.COLLECTORS: {"prometheus": Prometheus, "kubernetes": Nothing},
    plugins.ACTIONS: {"cordon": Nothing, "uncordon": Nothing, "drain": Drain, "replace": Replace, "scale": Scale},
    plugins.NOTIFIERS: {"terminal": Nothing, "slack": Slack, "pagerduty": PagerDuty},
    plugins.PROVIDERS: {"webhook": Webhook},
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the entry points of what is installed."""

    def load(group: str, name: str) -> Any:
        if name not in INSTALLED[group]:
            raise PluginError(group, name, "there is none of that name")
        return type(name.title(), (), {"Settings": INSTALLED[group][name]})

    monkeypatch.setattr(plugins, "names", lambda group: tuple(sorted(INSTALLED[group])))
    monkeypatch.setattr(plugins, "load", load)
