"""How much memory an idle Healer holds, and how soon `healer --help` answers.

Idle: `healer run` on a cluster of 12 nodes with the demo's rules and its remedies, no cloud and no statistics back ends.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

from benchmarks import common
from healer.sim.builders import a_world

CONFIG = """\
clusters: [{{name: bench, kubeconfig: {place}/kubeconfig}}]
rules: ['pack:demo']
remedies:
  - name: cordon-dead-node
    when: {{alertname: NodeDown}}
    mode: auto
    steps: [cordon, drain]
store: {{embedded: {{path: {place}/data}}}}
journal: {{path: {place}/data/journal.db}}
web: {{listen: '127.0.0.1:{port}', token_file: {place}/data/token}}
"""


def rss_mb(pid: int) -> float:
    """Resident memory, from /proc, in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def helps(rounds: int) -> list[float]:
    """Seconds from start to end of `healer --help`, after one round to warm the disk."""
    taken = []
    for index in range(rounds + 1):
        began = common.seconds()
        subprocess.run([common.HEALER, "--help"], check=True, stdout=subprocess.DEVNULL)
        if index:
            taken.append(common.seconds() - began)
    return taken


async def idle(settle: float) -> list[float]:
    """Readings of resident memory over `settle` seconds, once the cluster has been read."""
    with common.folder() as place:
        port = common.free_port()
        (place / "healer.yaml").write_text(CONFIG.format(place=place, port=port), encoding="utf-8")
        async with common.served(a_world(12, 3, start=common.wall()), place):
            process = await asyncio.create_subprocess_exec(
                common.HEALER, "run", "-c", str(place / "healer.yaml"), stderr=asyncio.subprocess.DEVNULL
            )
            try:
                await common.ready(port)
                readings = []
                for _ in range(int(settle)):
                    await asyncio.sleep(1)
                    readings.append(rss_mb(process.pid))
                return readings
            finally:
                process.send_signal(signal.SIGTERM)
                await process.wait()


def main() -> None:
    options = common.options(__doc__ or "")
    taken = helps(options.rounds or (7 if options.quick else 25))
    readings = asyncio.run(idle(options.rounds or (15 if options.quick else 60)))
    figures = {
        "idle_rss_mb": round(readings[-1], 1),
        "idle_rss_highest_mb": round(max(readings), 1),
        "help_s": round(common.median(taken), 3),
    }
    common.report(
        "Footprint",
        [
            ("idle memory, MB", figures["idle_rss_mb"]),
            ("highest, MB", figures["idle_rss_highest_mb"]),
            ("healer --help, s (median)", figures["help_s"]),
        ],
        figures,
    )


if __name__ == "__main__":
    main()
