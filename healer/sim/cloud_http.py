"""The simulated provider over HTTP, in the signed form that the webhook provider speaks.

POST `{"operation": "describe" | "power-off" | "replace" | "find", "node": {"name", "provider_id", "boot_id"}, "key"}`,
answered by `{"state", "machine", "zone", "boot_id", "request", "done"}`. `machine` and `state` are the machine's; for
`replace` and `find` those of the new one, and `request` is the operation's id. A `find` for a key that was never used
answers 404. Errors are `{"error": code, "message": text}`.

Signed: `X-Healer-Timestamp` (Unix seconds), and `X-Healer-Signature: sha256=` with the HMAC-SHA256, in hex, of the
timestamp, a full stop and the body.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any, Final

from aiohttp import web

from healer.model.fencing import MachineState
from healer.sim.cloud import AnswerLostError, Cloud, CloudError, Instance, Operation
from healer.sim.world import World

SIGNATURE: Final = "X-Healer-Signature"
TIMESTAMP: Final = "X-Healer-Timestamp"
MOST_AGE_SECONDS: Final = 300.0
_STATUSES: Final = {
    "NotFound": 404,
    "BootIdDiffers": 409,
    "QuotaExceeded": 409,
    "IdempotencyMismatch": 422,
    "Throttled": 429,
}


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the signature header."""
    mac = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return "sha256=" + mac.hexdigest()


def cloud_routes(world: World, *, secret: str, path: str = "/provider") -> list[web.RouteDef]:
    """One route. The secret is the one that the provider's configuration holds."""

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        if (why := _unsigned(request, body, secret, world.now.timestamp())) is not None:
            return _error(401, "Unauthorized", why)
        try:
            asked = json.loads(body)
            operation, node, key = str(asked["operation"]), dict(asked["node"]), str(asked.get("key", ""))
        except (ValueError, KeyError, TypeError) as error:
            return _error(400, "BadRequest", f"the body is not such a request: {error!r}")
        try:
            return web.json_response(_answer(world.cloud, operation, node, key))
        except AnswerLostError:
            if request.transport is not None:
                request.transport.abort()
            return _error(504, "AnswerLost", "nobody reads this")
        except CloudError as error:
            return _error(_STATUSES.get(error.code, 503), error.code, str(error))

    return [web.post(path, handle)]


def _unsigned(request: web.Request, body: bytes, secret: str, now: float) -> str | None:
    """Why the request is not from whom it should be, or None."""
    timestamp = request.headers.get(TIMESTAMP, "")
    if not timestamp.isascii() or not timestamp.isdigit() or abs(now - int(timestamp)) > MOST_AGE_SECONDS:
        return "the timestamp is missing or too far from now"
    given = request.headers.get(SIGNATURE, "").encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(signature(secret, timestamp, body).encode(), given):
        return "the signature is not that of this body"
    return None


def _answer(cloud: Cloud, operation: str, node: dict[str, Any], key: str) -> dict[str, Any]:
    if operation == "find":
        found = cloud.find(key)
        if found is None:
            raise CloudError("NotFound", f"no request was made with the key {key!r}")
        return _told(cloud, found)
    provider_id = str(node.get("provider_id", ""))
    machine = cloud.of_node(provider_id)
    machine_id = machine.id if machine else provider_id.rpartition("/")[2]
    if operation == "describe":
        return _machine(cloud.describe(machine_id)) | {"request": "", "done": True}
    if operation not in ("power-off", "replace"):
        raise CloudError("NotFound", f"no operation {operation!r}")
    if machine is not None and node.get("boot_id") and node["boot_id"] != machine.boot_id:
        raise CloudError("BootIdDiffers", f"{machine_id} has booted again as {machine.boot_id}")
    return _told(cloud, (cloud.power_off if operation == "power-off" else cloud.replace)(machine_id, token=key))


def _told(cloud: Cloud, operation: Operation) -> dict[str, Any]:
    old = cloud.machines[operation.machine]
    if operation.verb != "replace":
        done = old.state in (MachineState.STOPPED, MachineState.TERMINATED)
        return _machine(old) | {"request": operation.id, "done": done}
    new = cloud.machines[operation.new_machine]
    done = old.state is MachineState.TERMINATED and new.state is MachineState.RUNNING
    return _machine(new) | {"request": operation.id, "done": done}


def _machine(machine: Instance) -> dict[str, Any]:
    return {
        "machine": machine.id,
        "state": machine.state.value,
        "zone": machine.zone,
        "boot_id": machine.boot_id,
    }


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": code, "message": message}, status=status)
