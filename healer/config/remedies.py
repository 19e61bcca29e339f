"""`remedies:` runbooks as data."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern over a single value)
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, Strict, ValidationInfo, field_validator, model_validator

from healer.config import context
from healer.config.fields import Count, Duration, Flag, PositiveDuration, Section, ShareOf, Text
from healer.config.matching import Matchers
from healer.config.plugged import Steps
from healer.model.plans import Mode, Otherwise

UNLIMITED: Final = "unlimited"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


def parse_limit(value: Any) -> Any:
    """A whole number from 1, or `unlimited` written out."""
    if value == UNLIMITED or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError(f"must be a whole number from 1 or `{UNLIMITED}`, not {context.shown(value)}")


def parse_name(value: Any) -> Any:
    """A name for metrics, logs and Slack: letters, digits, dots, dashes, underscores."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ValueError(f"must be a name of letters, digits, '.', '-' and '_', at most 63, not {context.shown(value)}")


Limit = Annotated[
    int | Literal["unlimited"],
    BeforeValidator(parse_limit),
    Field(json_schema_extra={"x-type": "whole number from 1, or `unlimited`"}),
]
Name = Annotated[str, BeforeValidator(parse_name), Field(json_schema_extra={"x-type": "name"})]


class Verify(Section):
    """When the cure counts. All of it has to hold, for the whole of `for`."""

    alert: Literal["resolved", "ignored"] = Field(
        "resolved", description="Whether the alert has to be gone. `ignored` for alerts that outlast their cause."
    )
    object: Literal["healthy", "ignored"] = Field(
        "healthy",
        description="Whether the object, or what took its place, has to be healthy: a node Ready, a workload with all its pods.",
    )
    query: Text | None = Field(
        None,
        description="PromQL that has to hold as well: a comparison that is true, or a value that is not 0. No data is not success: it is `inconclusive`.",
    )
    for_: Duration = Field(
        timedelta(minutes=2),
        alias="for",
        description="How long all of it has to hold. Two minutes outlast a restart that only looks like a cure.",
    )
    timeout: PositiveDuration = Field(
        timedelta(minutes=15), description="After this long the remedy counts as `not fixed`."
    )

    @model_validator(mode="after")
    def _proves_something(self) -> Verify:
        if self.alert == self.object == "ignored" and self.query is None:
            raise ValueError("proves nothing: everything is ignored and there is no query")
        if self.for_ >= self.timeout:
            raise ValueError("'timeout' must be longer than 'for', else nothing ever counts as fixed")
        return self


class Limits(Section):
    """How much this remedy may disturb. The limits of the fleet (`safety`) hold as well."""

    max_in_flight: Count = Field(
        1, description="How many repairs by this remedy may run at the same time, per cluster."
    )
    per_zone: Limit = Field(
        1,
        description="How many may run at the same time in one zone. One, so that a zone never loses more than what is broken.",
    )
    per_hour: Limit = Field(
        3, description="How many may start within an hour. A remedy needed more often is not a remedy."
    )
    min_healthy: ShareOf | None = Field(
        None,
        description="How many objects of the kind must stay healthy (nodes of the pool, pods of the workload), rounded up. Not limited by default: the fleet breaker is.",
    )
    cooldown: Duration = Field(
        timedelta(minutes=10), description="How long one object is left alone after a repair, whatever came of it."
    )
    attempts: Count = Field(2, description="How often one incident may be tried before people are called.")
    allow_last_node: Flag = Field(
        False,
        description="Whether the only node of a pool or zone may be taken away. Off: it is rarely what anybody meant.",
    )


class Approval(Section):
    """Who has to agree, in mode `approve`."""

    groups: tuple[Text, ...] = Field(
        (),
        min_length=1,
        description="Groups of `approvers` whose members may agree. Without it, anybody who may use the console or the channel.",
    )
    minimum: Count = Field(1, description="How many different people have to agree.")
    expires: PositiveDuration = Field(
        timedelta(minutes=15), description="When the question is withdrawn: by then the cluster is another."
    )
    not_requester: Flag = Field(
        False,
        description="Whether whoever asked for the repair may not be the one who agrees to it. Repairs are asked for by alerts today, so that this matters only once people can ask for them.",
    )


class Remedy(Section):
    """What to do when."""

    name: Name = Field(description="How people, metrics and the journal call it. Unique.")
    when: Matchers = Field(
        (),
        description='The alerts it is for: labels with values (`severity: =~"crit.*"`, `zone: [a, b]`), or a list of Alertmanager matchers. All have to match.',
    )
    match: Literal["all"] | None = Field(
        None, description="`all`, written out instead of `when`, for every alert. Nothing else ever means everything."
    )
    target: Text | None = Field(
        None,
        description="The object to act on, as `kind/name` or `kind/namespace/name` with `{{ labels.x }}`. Default: what the alert is about.",
    )
    mode: Mode = Field(
        Mode.SHADOW,
        description="`shadow` writes down what would be done, `suggest` tells people, `approve` asks them, `auto` does it. Shadow, until you trust it.",
    )
    steps: Steps = Field(description="What to do, in this order. A step that fails ends the remedy.")
    verify: Verify = Field(Verify(), description="When the cure counts.")
    otherwise: Otherwise = Field(
        Otherwise.PAGE, description="When it did not help: `page` the people on call, or only `tell`."
    )
    limits: Limits = Field(Limits(), description="How much it may disturb.")
    approval: Approval = Field(Approval(), description="Who has to agree, in mode `approve`.")
    priority: Annotated[int, Strict()] = Field(
        0, description="Which remedy is taken when several match: the higher one; of equals, the first in the file."
    )
    on: Literal["firing", "resolved"] = Field(
        "firing", description="Whether it starts when the alert fires or when it resolves."
    )
    after: tuple[Name, ...] = Field(
        (),
        min_length=1,
        description="Names of remedies that must have failed on the incident first: this one is the next rung of the ladder.",
    )

    @field_validator("target")
    @classmethod
    def _names_a_kind(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z]+/\S.*", value):
            raise ValueError(f"must be kind/name, not {context.shown(value)}; write e.g. 'node/{{{{ labels.node }}}}'")
        return value

    @model_validator(mode="before")
    @classmethod
    def _is_for_something(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(data, dict) and "when" not in data and "match" not in data:
            context.report(
                info, data, (), "is for no alert: give `when` with at least one label, or write out `match: all`"
            )
        elif isinstance(data, dict) and "when" in data and "match" in data:
            context.report(info, data, ("match",), "give exactly one of 'when' and 'match', not both")
        return data
