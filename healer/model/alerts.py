"""Alerts: what a rule or somebody else's Alertmanager says is wrong, and for how long it has been so."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from datetime import datetime

from healer.model.series import Labels


class AlertStatus(enum.StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One report of one alert. `labels` hold `alertname`; the identity is (cluster, labels), the episode adds `starts_at`.

    `source` says who told us ("rules", "alertmanager"); values are data, never templates.
    """

    cluster: str
    status: AlertStatus
    labels: Labels
    starts_at: datetime
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ends_at: datetime | None = None
    source: str = "rules"
    generator_url: str = ""
    value: float | None = None

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "")

    @property
    def severity(self) -> str:
        return self.labels.get("severity", "")

    @property
    def identity(self) -> tuple[str, Labels]:
        return (self.cluster, self.labels)
