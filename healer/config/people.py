"""`approvers:` who may agree to what."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern over a single value)
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from healer.config import context

_MEMBER: Final = re.compile(r"(console|cli|slack)(?::(\S+))?", re.ASCII)


def parse_member(value: Any) -> Any:
    """`console`, `cli`, `console:name`, `cli:name` or `slack:ID`. ValueError with the mend."""
    found = _MEMBER.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"must be slack:ID, console, cli, console:NAME or cli:NAME, not {context.shown(value)}")
    if found[1] == "slack" and not found[2]:
        raise ValueError("whose? everybody in Slack is never meant; write slack:ID, e.g. slack:U012AB3CD")
    return value


Member = Annotated[str, BeforeValidator(parse_member), Field(json_schema_extra={"x-type": "member"})]
Group = Annotated[tuple[Member, ...], Field(min_length=1)]
