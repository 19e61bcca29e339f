"""`from_kubernetes:` remedies and rules that stand in the cluster itself, kept by those whose software they are for."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern over a single value)
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from healer.config import context
from healer.config.fields import Section
from healer.config.remedies import Name, Remedy
from healer.model.plans import Mode

_KEY: Final = r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
_TERM: Final = (
    rf"(?:!?{_KEY}|{_KEY}\s*(?:=|==|!=)\s*{_VALUE}|{_KEY}\s+(?:in|notin)\s+\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))"
)
_SELECTOR: Final = re.compile(rf"\s*{_TERM}(?:\s*,\s*{_TERM})*\s*", re.ASCII)


def parse_selector(value: Any) -> Any:
    """A label selector as `kubectl -l` takes it. ValueError with the mend."""
    if isinstance(value, str) and len(value) < 1000 and _SELECTOR.fullmatch(value):
        return value.strip()
    raise ValueError(
        f"must be a label selector, not {context.shown(value)}; write e.g. 'healer.dev/config=true'"
        " (empty never means everything)"
    )


class KubernetesSource(Section):
    """ConfigMaps (each value a rule file, or a list of `remedies:`) and PrometheusRule objects, found by label.

    One with a mistake in it is left out, or goes on as it was before, and gets an Event that says what is wrong. Whoever
    may write these objects says what Healer does: choose the namespace, and `at_most`, with that in mind.
    """

    cluster: Name | None = Field(None, description="The cluster in which they stand. Default: the first one.")
    namespace: Name | None = Field(None, description="The namespace in which they stand. Default: any.")
    selector: Annotated[str, BeforeValidator(parse_selector), Field(json_schema_extra={"x-type": "label selector"})] = (
        Field(description="Which objects, by label, as `kubectl -l` takes it.")
    )
    kinds: tuple[Literal["ConfigMap", "PrometheusRule"], ...] = Field(
        ("ConfigMap", "PrometheusRule"), min_length=1, description="Which kinds of objects."
    )
    at_most: Mode = Field(
        Mode.APPROVE,
        description="The most that a remedy found there may do by itself. One with a mode beyond that is a mistake.",
    )


class More(Section):
    """What a value of such a ConfigMap holds, where it is not a rule file."""

    remedies: tuple[Remedy, ...] = Field(description="What to do when.")
