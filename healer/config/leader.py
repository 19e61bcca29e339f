"""`leader:` which of several replicas decides and acts."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta

from pydantic import Field, model_validator

from healer.config.fields import PositiveDuration, Section
from healer.config.remedies import Name


def _environment(name: str, default: str) -> Callable[[], str]:
    return lambda: os.environ.get(name) or default


class Leader(Section):
    """Who of several replicas leads, by a Lease. In force with `journal.postgres`; also for one replica."""

    cluster: Name | None = Field(
        None,
        description="The cluster that holds the Lease. Default: the one with `in_cluster: true`, else the first. While its API server is away, nobody leads.",
    )
    namespace: Name = Field(
        default_factory=_environment("POD_NAMESPACE", "default"),
        description="The Lease's namespace. Default: environment variable POD_NAMESPACE (the chart sets it), else `default`.",
    )
    name: Name = Field("healer", description="The Lease's name; the same for all replicas.")
    lease: PositiveDuration = Field(
        timedelta(milliseconds=1500),
        description="How long a leader that is not heard of is waited for. It is the longest part of a failover.",
    )
    renew: PositiveDuration = Field(
        timedelta(seconds=1),
        description="A leader that could not renew for so long stops. Less than `lease` by what a change under way may take to arrive.",
    )
    call: PositiveDuration = Field(
        timedelta(milliseconds=400),
        description="The longest time for one request. Less than half of `renew`, so that one that is lost can be made up for.",
    )
    retry: PositiveDuration = Field(
        timedelta(milliseconds=250), description="How often the leader renews, and the others look."
    )

    @model_validator(mode="after")
    def _lets_only_one_lead(self) -> Leader:
        if not self.call < self.renew < self.lease:
            raise ValueError("must be call < renew < lease; else two could lead at once, or nobody for long")
        if not self.retry < self.renew:
            raise ValueError("'retry' must be less than 'renew'; else the leader would stop before it has tried again")
        return self
