"""The sender of the intake benchmark, a process of its own: it stands for Alertmanager.

`python -m benchmarks.intake_sender PLAN` reads a plan in JSON, sends, and prints one JSON object: when each alert was
sent, on the machine's monotonic clock, and how many requests were not answered 200. Requests are made beforehand and
written to plain connections, so that the sender costs little of the two cores that it shares with what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import common


class Alerts(msgspec.Struct, frozen=True):
    """Which alerts: number `i` is about pod `i % len(pods)`.

    `pods` are sorted by their workloads, `each` of every workload; no two alerts of a workload have the same name, as
    long as there are no more than `names` of them.
    """

    pods: list[tuple[str, str]]
    each: int
    names: int
    started: str

    def one(self, number: int) -> dict[str, Any]:
        pod = number % len(self.pods)
        namespace, name = self.pods[pod]
        wave, workload, sibling = number // len(self.pods), pod // self.each, pod % self.each
        alertname = f"Symptom{(wave * self.each + sibling + 3 * workload) % self.names:03d}"
        return {
            "status": "firing",
            "labels": {
                "alertname": alertname,
                "namespace": namespace,
                "pod": name,
                "container": name.rsplit("-", 2)[0],
                "severity": "critical",
                "job": "kube-state-metrics",
                "instance": "10.0.3.7:8080",
                "prometheus": "monitoring/k8s",
                "number": str(number),
            },
            "annotations": {
                "summary": f"{alertname} on {namespace}/{name}",
                "description": f"Pod {namespace}/{name} has shown {alertname} for 5 minutes. " * 2,
                "runbook_url": f"https://runbooks.example/{alertname}",
            },
            "startsAt": self.started,
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": f"http://prometheus.example/graph?g0.expr={alertname}",
            "fingerprint": f"{number:016x}",
        }


class Plan(msgspec.Struct, frozen=True):
    """`rate`: requests a second at fixed times; 0 means each connection sends the next as soon as it has its answer."""

    host: str
    port: int
    token: str
    alerts: Alerts
    first: int
    count: int
    batch: int
    connections: int
    rate: float = 0.0


def request(plan: Plan, numbers: range) -> bytes:
    alerts = [plan.alerts.one(number) for number in numbers]
    body = json.dumps(
        {
            "version": "4",
            "groupKey": '{}:{alertname="Symptom"}',
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "healer",
            "groupLabels": {},
            "commonLabels": {},
            "commonAnnotations": {},
            "externalURL": "http://alertmanager.example:9093",
            "alerts": alerts,
        }
    ).encode()
    head = (
        f"POST /hooks/alertmanager HTTP/1.1\r\nHost: {plan.host}:{plan.port}\r\nUser-Agent: Alertmanager/0.28\r\n"
        f"Authorization: Bearer {plan.token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """One kept-alive connection; answers are counted by their status lines."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[bool] = asyncio.Queue()
        self._seen = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while (end := self._seen.find(b"\r\n\r\n")) >= 0:
            head = self._seen[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._seen) < end + 4 + length:
                return
            self._seen = self._seen[end + 4 + length :]
            self.answers.put_nowait(head.startswith(b"http/1.1 200"))

    def connection_lost(self, _exc: Exception | None) -> None:
        self.answers.put_nowait(False)

    async def ask(self, wanted: bytes) -> bool:
        assert self.transport is not None
        self.transport.write(wanted)
        return await self.answers.get()


class Sender:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        last = plan.first + plan.count
        self.batches = [range(n, min(n + plan.batch, last)) for n in range(plan.first, last, plan.batch)]
        self.requests = [request(plan, numbers) for numbers in self.batches]
        self.sent: dict[int, float] = {}
        self.answered: list[float] = []
        self.refused = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        connections = [
            (await loop.create_connection(Connection, self.plan.host, self.plan.port))[1]
            for _ in range(self.plan.connections)
        ]
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in connections:
            free.put_nowait(connection)
        async with asyncio.TaskGroup() as group:
            began = loop.time() + 0.05
            for index in range(len(self.requests)):
                # The clock of an alert starts when it was due, also where no connection was free: waiting is latency.
                due = began + index / self.plan.rate if self.plan.rate else 0.0
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                connection = await free.get()
                group.create_task(self._send(index, due or loop.time(), connection, free))
        for connection in connections:
            assert connection.transport is not None
            connection.transport.close()

    async def _send(self, index: int, due: float, connection: Connection, free: asyncio.Queue[Connection]) -> None:
        for number in self.batches[index]:
            self.sent[number] = due
        if not await connection.ask(self.requests[index]):
            self.refused += 1
        self.answered.append(common.seconds() - due)
        free.put_nowait(connection)


def main() -> None:
    sender = Sender(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan))
    asyncio.run(sender.run())
    print(json.dumps({"sent": sender.sent, "refused": sender.refused, "answered": sender.answered}))


if __name__ == "__main__":
    main()
