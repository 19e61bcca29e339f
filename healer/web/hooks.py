"""Alerts pushed to us. Answered after the journal's commit, never after the action.

Alertmanager repeats a delivery only on 5xx, so "not now" is always 503.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec
from aiohttp import web

from healer.errors import BadPayload, JournalError
from healer.web.guarding import problem
from healer.web.keys import SITE

log = logging.getLogger(__name__)
RETRY_AFTER_SECONDS: Final = "5"
JOURNAL_SECONDS: Final = 10.0
"""How long a sender is kept waiting for a disk that does not answer. Sent again, an alert is the same alert."""
TEXT_SHOWN: Final = 300
REJECTIONS_SHOWN: Final = 10


async def hook(request: web.Request) -> web.Response:
    """POST /hooks/{name}: 200 when everything is durable."""
    site = request.app[SITE]
    name = request.match_info["name"]
    parse = site.hooks.get(name)
    if parse is None:
        return problem(404, f"there is no hook {name!r}; there are {', '.join(sorted(site.hooks))}")
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        log.warning("hook %s: a body over %d bytes was refused", name, site.body_limit_bytes)
        raise
    try:
        report = parse(body)
    except (BadPayload, RecursionError) as error:
        log.warning("hook %s: %s", name, error)
        return problem(400, str(error)[:TEXT_SHOWN])
    try:
        async with asyncio.timeout(JOURNAL_SECONDS):
            await site.sink.alerts(report)
    except (JournalError, TimeoutError) as error:
        why = str(error) or f"the disk has not answered for {JOURNAL_SECONDS:.0f} s"
        log.warning("hook %s: %d alerts not taken: %s", name, len(report.alerts), why)
        return problem(503, f"the alerts could not be journalled: {why}", **{"Retry-After": RETRY_AFTER_SECONDS})
    rejected = [
        {"reason": reason, "example": example[:TEXT_SHOWN]} for reason, example in report.rejected[:REJECTIONS_SHOWN]
    ]
    answer = {"accepted": len(report.alerts), "rejected": len(report.rejected), "rejections": rejected}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json", charset="utf-8")
