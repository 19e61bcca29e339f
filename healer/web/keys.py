"""What the handlers share, typed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from healer.ports import AlertReport, Operator, Sink


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the server serves.

    `hooks`: name → parser of a body (BadPayload when it cannot be read). `ready`: what keeps the service from being
    ready, empty when nothing does. `hook_token` None: hooks are open, which the user has to ask for.
    `extra`: a few more facts for the console's status.
    """

    operator: Operator
    sink: Sink
    hooks: Mapping[str, Callable[[bytes], AlertReport]]
    ready: Callable[[], Sequence[str]]
    api_token: str
    hook_token: str | None
    body_limit_bytes: int = 8 * 2**20
    version: str = ""
    extra: Callable[[], Mapping[str, Any]] = dict
    why: Callable[[str], Sequence[Mapping[str, Any]]] = lambda _: ()


SITE: web.AppKey[Site] = web.AppKey("site", Site)
