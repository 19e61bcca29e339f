"""Who may ask for what: bearer tokens compared in constant time, headers that keep the console to itself."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web

from healer import telemetry
from healer.web.keys import SITE

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HOOK_ROUTE: Final = "/hooks/{name}"
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TEXT_SHOWN: Final = 200


def bearer(request: web.Request) -> str:
    """The token a request carries, or an empty string."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def matches(given: str, wanted: str) -> bool:
    """Compare in constant time. An empty wanted token lets nobody in."""
    same = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
    return bool(wanted) and same


def problem(status: int, what: str, **headers: str) -> web.Response:
    """An error as JSON, with what to do about it."""
    return web.json_response({"error": what}, status=status, headers=headers)


async def dress(_: web.Request, response: web.StreamResponse) -> None:
    """Put the headers on every answer, also one that is sent bit by bit. For `Application.on_response_prepare`."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if hdrs.SERVER in response.headers:
        response.headers[hdrs.SERVER] = "healer"


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let in or not, turn errors into answers, and count."""
    response = _refused(request) or await _answered(request, handler)
    resource = request.match_info.route.resource
    telemetry.HTTP_REQUESTS.labels(resource.canonical if resource else "none", response.status).inc()
    return response


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        limit = request.app[SITE].body_limit_bytes
        return problem(413, f"the body is larger than {limit} bytes (web.max_body); send fewer alerts at a time")
    except web.HTTPNotFound as error:
        there = "" if error.reason == "Not Found" else f": {error.reason}"
        return problem(404, f"there is nothing at {request.path[:TEXT_SHOWN]!r}{there}")
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return problem(405, f"{request.method} is not for this address; it takes {allowed}", Allow=allowed)
    except web.HTTPException as error:
        return problem(error.status, error.reason)
    except web.RequestPayloadError as error:
        return problem(400, f"the body cannot be read: {error}"[:TEXT_SHOWN])
    except Exception:
        log.exception("answering %s %s", request.method, request.path[:TEXT_SHOWN])
        return problem(500, "something went wrong in Healer; its log says what")


def _refused(request: web.Request) -> web.Response | None:
    """Why a request is not let in. Judged by the route that would serve it, whatever its path looks like."""
    site = request.app[SITE]
    resource = request.match_info.route.resource
    served = resource.canonical if resource else ""
    hook = served == HOOK_ROUTE and request.match_info.get("name", "") in site.hooks
    if served.startswith("/api/") or request.path.startswith("/api/"):
        wanted = site.api_token
    elif hook and site.hook_token is not None:
        wanted = site.hook_token
    else:
        return None
    if matches(bearer(request), wanted):
        return None
    what = "the bearer token is not the right one" if bearer(request) else "no bearer token was sent"
    mend = "send 'Authorization: Bearer …' with the token from web.token_file"
    if hook:
        mend = (
            "in the receiver's webhook_configs set http_config.authorization.credentials_file to a copy of "
            "web.hooks_token_file (or of web.token_file where there is none)"
        )
    return problem(401, f"{what}; {mend}", **{"WWW-Authenticate": 'Bearer realm="healer"'})
