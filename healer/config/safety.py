"""`safety:` the limits of the whole fleet, which no remedy and no plugin can widen."""

from __future__ import annotations

import os
import re  # noqa: TID251 (a fixed pattern over a single value)
import zoneinfo
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from healer.config import context
from healer.config.fields import Count, Duration, Percent, PositiveDuration, Section, ShareOf
from healer.config.matching import Selectors
from healer.config.remedies import UNLIMITED, Limit, Name
from healer.model.plans import Share


def parse_cron(value: Any) -> Any:
    """Five fields as in crontab, weekdays by name. ValueError with the mend."""
    fields = value.split() if isinstance(value, str) else []
    if len(fields) != 5:
        raise ValueError(
            f"must be five fields (minute hour day month weekday), not {context.shown(value)}; write e.g. '0 2 * * sat'"
        )
    if re.search(r"\d", fields[4].partition("/")[0]):
        raise ValueError(
            f"weekday {fields[4]!r}: programs count them differently; write mon, tue, wed, thu, fri, sat or sun"
        )
    # Imported here: it costs memory that only configurations with windows need.
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    try:
        CronTrigger.from_crontab(value, timezone="UTC")
    except ValueError as error:
        raise ValueError(f"{value!r} is not a schedule: {error}") from error
    return value


def parse_timezone(value: Any) -> Any:
    """A name of the IANA database, e.g. Europe/Berlin."""
    try:
        zoneinfo.ZoneInfo(value)
    except (TypeError, ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise ValueError(f"unknown time zone {context.shown(value)}; write e.g. UTC or Europe/Berlin") from error
    return value


class Maintenance(Section):
    """A window in which people work on the cluster and healer keeps its hands off."""

    name: Name = Field(description="How messages call it.")
    cron: Annotated[str, BeforeValidator(parse_cron)] = Field(
        description="When it begins: minute, hour, day, month, weekday as in crontab, weekdays by name (`0 2 * * sat`)."
    )
    duration: PositiveDuration = Field(description="How long it lasts.")
    timezone: Annotated[str, BeforeValidator(parse_timezone)] = Field(
        "UTC", description="The time zone of `cron`. UTC has no hour that comes twice."
    )
    mode: Literal["suppress"] = Field(
        "suppress",
        description="What it does: `suppress` holds back every new disruption and shows what would have been done. Alerts that still fire when it ends are handled then.",
    )
    when: Selectors = Field(
        (),
        description="Only for these, by `cluster`, `kind`, `namespace`, `name`, `zone`, `pool` and `remedy`. Default: everything is held back.",
    )


class Storm(Section):
    """When so many alerts come that they say more about the alerting, or the network, than about single objects."""

    alerts: Count = Field(500, description="So many new alerts …")
    over: PositiveDuration = Field(
        timedelta(seconds=60), description="… within this time are a storm: one notice, and no new disruption."
    )


def _environment(name: str) -> Callable[[], str]:
    return lambda: os.environ.get(name, "")


class Itself(Section):
    """Where healer itself runs: that node and that namespace are not touched without a person's approval."""

    cluster: str = Field(
        "",
        description="The name of the cluster it runs in. Without it, the names below are protected in every cluster.",
    )
    namespace: str = Field(
        default_factory=_environment("POD_NAMESPACE"),
        description="Its namespace. Default: environment variable POD_NAMESPACE (the chart sets it).",
    )
    pod: str = Field(
        default_factory=_environment("POD_NAME"), description="Its pod. Default: environment variable POD_NAME."
    )
    node: str = Field(
        default_factory=_environment("NODE_NAME"), description="Its node. Default: environment variable NODE_NAME."
    )


class Safety(Section):
    """The limits of the whole fleet. All of them hold, whatever a remedy says."""

    max_unhealthy: ShareOf = Field(
        Share(percent=20.0),
        description="The fleet breaker: with so many nodes of a pool or cluster unhealthy or in repair, nothing new is started. A share is rounded down, but is at least 1. A fifth is what a cluster is commonly sized to lose.",
    )
    max_in_flight: Count = Field(1, description="How many nodes of one cluster may be in repair at the same time.")
    max_in_flight_all_clusters: Limit = Field(
        UNLIMITED,
        description="How many nodes of all clusters together may be in repair at the same time. `1` keeps a mistake that is common to all clusters from working in all of them at once.",
    )
    max_in_flight_per_zone: Count = Field(
        1, description="How many nodes of one zone may be in repair at the same time."
    )
    max_in_flight_workloads: Count = Field(
        10, description="How many pods and workloads of one cluster may be in repair at the same time."
    )
    zone_outage_share: Percent = Field(
        Share(percent=55.0),
        description="From this share of bad nodes a zone is taken to be out, which no repair of single nodes mends. The share at which Kubernetes itself stops evicting.",
    )
    stale_after: PositiveDuration = Field(
        timedelta(seconds=60),
        description="After so long without a word from the API server, what is known counts as old and nothing new is started.",
    )
    grace_after_outage: Duration = Field(
        timedelta(seconds=60),
        description="How long the API server has to answer without a break before anything new is started: kubelets need that time to report.",
    )
    protected_namespaces: tuple[Name, ...] = Field(
        ("kube-system",), description="Workloads in these namespaces are not touched. An empty list protects none."
    )
    maintenance: tuple[Maintenance, ...] = Field((), description="Windows in which nothing new is started.")
    storm: Storm = Field(Storm(), description="What counts as a storm of alerts.")
    max_event_age: PositiveDuration = Field(
        timedelta(hours=1),
        description="An alert that nobody has confirmed for so long starts nothing, where it was last heard of before healer (re)started: the world has moved on.",
    )
    self_: Itself = Field(default_factory=Itself, alias="self", description="Where healer itself runs.")
