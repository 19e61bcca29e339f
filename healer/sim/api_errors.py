"""Refusals, shaped like the Status objects of a Kubernetes API server (apimachinery's `errors`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from healer.sim.kinds import Kind
from healer.sim.objects import JSON

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    """An answer that is not a success."""

    def __init__(self, code: int, message: str, *, reason: str | None = None, details: JSON | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = _REASONS.get(code, "") if reason is None else reason
        self.details = details

    @property
    def retry_after(self) -> int:
        seconds: int = (self.details or {}).get("retryAfterSeconds", 0)
        return seconds

    def status(self) -> JSON:
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body


def success(kind: Kind, obj: JSON, *, code: int = 200) -> JSON:
    """The Status of something done."""
    body: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if code != 200:
        return body | {"code": code}
    return body | {"details": _details(kind, obj["metadata"]["name"]) | {"uid": obj["metadata"]["uid"]}}


def _details(kind: Kind, name: str) -> JSON:
    details: JSON = {"name": name, "kind": kind.resource}
    if kind.group:
        details["group"] = kind.group
    return details


def not_found(kind: Kind, name: str) -> ApiError:
    return ApiError(404, f'{kind.qualified} "{name}" not found', details=_details(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    return ApiError(
        409, f'{kind.qualified} "{name}" already exists', reason="AlreadyExists", details=_details(kind, name)
    )


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> ApiError:
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return ApiError(409, message, details=_details(kind, name))


def forbidden(kind: Kind, name: str, why: str, *, causes: Iterable[JSON] = ()) -> ApiError:
    what = f'{kind.qualified} "{name}"' if name else kind.qualified
    details = _details(kind, name) | ({"causes": list(causes)} if causes else {})
    return ApiError(403, f"{what} is forbidden: {why}", details=details)


def no_such_resource() -> ApiError:
    return ApiError(404, "the server could not find the requested resource", details={})


def not_allowed() -> ApiError:
    return ApiError(405, "the server does not allow this method on the requested resource", details={})


def bad_request(message: str) -> ApiError:
    return ApiError(400, message)


def expired(message: str) -> ApiError:
    return ApiError(410, message)


def too_large_version(asked: int, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        f"Too large resource version: {asked}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
    )


class Problems:
    """What is wrong with one object, field by field."""

    def __init__(self) -> None:
        self.causes: list[JSON] = []

    def invalid(self, field: str, value: object, why: str) -> None:
        shown = f'"{value}"' if isinstance(value, str) else value
        self.add(field, "FieldValueInvalid", f"Invalid value: {shown}: {why}")

    def required(self, field: str, why: str = "") -> None:
        self.add(field, "FieldValueRequired", "Required value" + (f": {why}" if why else ""))

    def forbidden(self, field: str, why: str) -> None:
        self.add(field, "FieldValueForbidden", f"Forbidden: {why}")

    def unsupported(self, field: str, value: str, allowed: Iterable[str]) -> None:
        names = ", ".join(f'"{name}"' for name in sorted(allowed))
        self.add(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {names}')

    def duplicate(self, field: str, value: str) -> None:
        self.add(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')

    def add(self, field: str, reason: str, message: str) -> None:
        self.causes.append({"reason": reason, "message": message, "field": field})

    def check(self, kind: Kind, name: str) -> None:
        """Raise 422 if there is anything."""
        if not self.causes:
            return
        told = [f"{cause['field']}: {cause['message']}" for cause in self.causes]
        listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        what = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        details = {"name": name, "kind": kind.kind, "causes": self.causes}
        if kind.group:
            details["group"] = kind.group
        raise ApiError(422, f'{what} "{name}" is invalid: {listed}', details=details)
