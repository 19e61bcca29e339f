"""Commands that read the journal, beside a running service or without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from healer.cli.shared import config_option, fail, output_option, running

if TYPE_CHECKING:
    from healer.loop.memory import Memory
    from healer.model.events import Recorded

PIPE_COLUMNS: Final = 500


def _journal(config: Path) -> str:
    from healer.config.loading import load_config  # noqa: PLC0415 — heavy

    return load_config(config).journal.where


async def _remembered(config: Path) -> Memory:
    """The journal, read into memory."""
    from healer.clock import SystemClock  # noqa: PLC0415 — heavy
    from healer.journal.opening import read_journal  # noqa: PLC0415 — heavy
    from healer.loop import fold  # noqa: PLC0415 — heavy
    from healer.loop.memory import Memory  # noqa: PLC0415 — heavy
    from healer.model.decisions import Moment  # noqa: PLC0415 — heavy

    memory, clock = Memory(), SystemClock()
    async with read_journal(_journal(config)) as journal:
        async for recorded in journal.read():
            fold.take(memory, recorded, Moment(wall=clock.now(), monotonic=clock.monotonic()))
    return memory


# incidents -----------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--open", "open_only", is_flag=True, help="Only those that are not closed.")
@click.option("-n", "--number", default=30, show_default=True, help="How many, newest first.")
@config_option
@output_option
def incidents(config: Path, output: str, number: int, *, open_only: bool) -> None:
    """List incidents, newest first: what was wrong, what was done, how it stands."""
    running(_incidents(config, output, number, open_only=open_only))


async def _incidents(config: Path, output: str, number: int, *, open_only: bool) -> None:
    from healer.loop.views import view  # noqa: PLC0415 — heavy

    memory = await _remembered(config)
    found = sorted(memory.incidents.values(), key=lambda incident: incident.seq, reverse=True)
    views = [view(memory, incident) for incident in found if incident.is_open or not open_only][:number]
    if output == "json":
        click.echo(msgspec.json.encode(views))
        return
    if memory.paused:
        click.echo(f"Paused by {memory.paused}: no new disruption is started. `healer resume` ends that.")
    if not views:
        click.echo("Nothing is wrong." if open_only else "There has been no incident yet.")
        return
    _table(
        ["incident", "opened", "what", "where", "state", "why"],
        [
            [v.id, f"{v.opened_at:%Y-%m-%d %H:%M:%S}", v.title, str(v.target or v.owner), str(v.state), str(v.reason)]
            for v in views
        ],
    )


def _table(head: list[str], rows: list[list[str]]) -> None:
    from rich import box  # noqa: PLC0415 — heavy
    from rich.console import Console  # noqa: PLC0415 — heavy
    from rich.table import Table  # noqa: PLC0415 — heavy
    from rich.text import Text  # noqa: PLC0415 — heavy

    table = Table(*head, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    # Read by a program, or by less: nothing is worse than a name cut in the middle.
    (console if console.is_terminal else Console(width=240)).print(table)


# why -----------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("subject")
@config_option
@output_option
def why(subject: str, config: Path, output: str) -> None:
    """Say why something was done or not about SUBJECT: an alert's name, a node, pod, workload, or an incident's id."""
    running(_why(subject, config, output))


async def _why(subject: str, config: Path, output: str) -> None:
    from healer.loop.why import explain  # noqa: PLC0415 — heavy

    memory = await _remembered(config)
    found = explain(memory, subject)
    if output == "json":
        click.echo(msgspec.json.encode(found))
        return
    if not found:
        fail(f"nothing is known about {subject!r}: no alert that arrived named it, and nothing was done to it")
    for explanation in found:
        click.echo(f"{explanation.about}\n  now: {explanation.now}")
        if explanation.incident:
            for entry in explanation.incident.timeline:
                click.echo(f"  {entry.at:%Y-%m-%d %H:%M:%S} {entry.text}")
        click.echo()


# audit ---------------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--verify", is_flag=True, help="Recompute the chain of hashes: exit code 1 when anything was changed.")
@click.option("--after", default=0, help="Only events after this number.")
@click.option("--incident", default="", help="Only events of this incident.")
@config_option
@output_option
def audit(config: Path, output: str, after: int, incident: str, *, verify: bool) -> None:
    """Print every event of the journal, or prove that nobody has changed, removed or added one."""
    running(_verify(config, output) if verify else _audit(config, output, after, incident))


async def _verify(config: Path, output: str) -> None:
    from healer.journal.opening import read_journal  # noqa: PLC0415 — heavy

    async with read_journal(_journal(config)) as journal:
        found = await journal.verify()
    if output == "json":
        click.echo(msgspec.json.encode(found))
    elif found.ok:
        click.echo(f"the journal is whole: {found.events} events, each chained to all before it")
    if not found.ok:
        fail(f"the journal was changed at event {found.first_bad_seq}: {found.detail}")


async def _audit(config: Path, output: str, after: int, incident: str) -> None:
    from healer.journal.opening import read_journal  # noqa: PLC0415 — heavy

    show: Callable[[Recorded], str | bytes] = _json if output == "json" else _line
    async with read_journal(_journal(config)) as journal:
        reading: AsyncIterator[Recorded] = journal.read(after=after, incident=incident)
        async for recorded in reading:
            click.echo(show(recorded))


def _json(recorded: Recorded) -> bytes:
    return msgspec.json.encode(recorded)


def _line(recorded: Recorded) -> str:
    event: dict[str, Any] = msgspec.to_builtins(recorded.event)
    at = datetime.fromisoformat(event.pop("at")).astimezone(UTC)
    kind, incident = event.pop("type"), event.pop("incident", "")
    rest = " ".join(f"{name}={_short(value)}" for name, value in event.items() if value not in ("", None, [], {}))
    return f"{recorded.seq} {at:%Y-%m-%d %H:%M:%S} {kind} {incident} {rest}".rstrip()


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 160 else text[:157] + "..."
