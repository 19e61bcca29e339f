"""Who may ask for what: bearer tokens compared in constant time, headers that keep the console to itself."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web

from healer import telemetry
from healer.web.keys import SITE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def bearer(request: web.Request) -> str:
    """The token a request carries, or an empty string."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def matches(given: str, wanted: str) -> bool:
    """Compare in constant time. An empty wanted token lets nobody in."""
    return bool(wanted) and hmac.compare_digest(given.encode(), wanted.encode())


def problem(status: int, what: str, **headers: str) -> web.Response:
    """An error as JSON, with what to do about it."""
    return web.json_response({"error": what}, status=status, headers=headers)


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let in, count, and dress the answer."""
    if (refused := _refused(request)) is not None:
        response: web.StreamResponse = refused
    else:
        try:
            response = await handler(request)
        except web.HTTPRequestEntityTooLarge:
            limit = request.app[SITE].body_limit_bytes
            response = problem(413, f"the body is larger than {limit} bytes; send fewer alerts at a time (max_alerts)")
        except web.HTTPException as error:
            response = problem(error.status, error.reason)
    resource = request.match_info.route.resource
    telemetry.HTTP_REQUESTS.labels(resource.canonical if resource else "none", response.status).inc()
    if not response.prepared:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
    return response


def _refused(request: web.Request) -> web.Response | None:
    site = request.app[SITE]
    path = request.path
    if path.startswith("/api/"):
        wanted = site.api_token
    elif path.startswith("/hooks/") and path.removeprefix("/hooks/") in site.hooks:
        if site.hook_token is None:
            return None
        wanted = site.hook_token
    else:
        return None
    if matches(bearer(request), wanted):
        return None
    what = "no bearer token was sent" if not bearer(request) else "the bearer token is not the right one"
    mend = "send 'Authorization: Bearer …' with the token from web.token_file"
    if path.startswith("/hooks/"):
        mend = "set http_config.authorization.credentials_file of the receiver to the token from web.hooks_token_file"
    return problem(401, f"{what}; {mend}", **{"WWW-Authenticate": 'Bearer realm="healer"'})
