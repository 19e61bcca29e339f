"""What every notifier must do, for the three that come with Healer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from healer import plugins
from healer.clock import SystemClock
from healer.notify.pagerduty import PagerDutyNotifier
from healer.notify.slack import SlackNotifier
from healer.notify.terminal import TerminalNotifier, TerminalSettings
from healer.testing.fakes import APP_TOKEN, SIGNING_SECRET, FakePagerDuty, FakeSlack
from healer.testing.notifier_contract import NotifierContract


class TestTerminal(NotifierContract):
    @pytest.fixture
    def notifier(self) -> TerminalNotifier:
        return TerminalNotifier(TerminalSettings(), write=lambda _: None)


class TestSlack(NotifierContract):
    @pytest.fixture
    async def notifier(self) -> AsyncIterator[SlackNotifier]:
        async with FakeSlack() as slack:
            made = SlackNotifier(slack.settings(app_token=APP_TOKEN, signing_secret=SIGNING_SECRET))
            yield made
            await made.close()


class TestPagerDuty(NotifierContract):
    @pytest.fixture(params=["escalated", "always"])
    async def notifier(self, request: pytest.FixtureRequest) -> AsyncIterator[PagerDutyNotifier]:
        async with FakePagerDuty() as pagerduty:
            made = PagerDutyNotifier(pagerduty.settings(when=request.param))
            yield made
            await made.close()


def test_every_installed_notifier_is_made_in_the_same_way() -> None:
    settings = {
        "terminal": {},
        "slack": {"channel": "#oncall", "bot_token": "xoxb-1"},
        "pagerduty": {"routing_key": "key"},
    }
    assert set(plugins.names(plugins.NOTIFIERS)) == set(settings)
    for name, given in settings.items():
        kind = plugins.load(plugins.NOTIFIERS, name)
        assert kind(kind.Settings.model_validate(given), clock=SystemClock()).name == name
