"""Commands that ask the running service for something. Pausing also works while it is down: straight in the journal."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from healer.cli.shared import config_option, fail, running

if TYPE_CHECKING:
    from healer.config.schema import Config

TIMEOUT_SECONDS = 10


class Down(Exception):
    """Nothing answers at the configured address."""


@click.command()
@click.argument("incident")
@click.option("--as", "by", default=getpass.getuser, help="Who you are.", show_default="you")
@config_option
def approve(incident: str, by: str, config: Path) -> None:
    """Agree to what the plan of INCIDENT would do."""
    running(_answer(config, incident, "approve", by))


@click.command()
@click.argument("incident")
@click.option("--as", "by", default=getpass.getuser, help="Who you are.", show_default="you")
@config_option
def deny(incident: str, by: str, config: Path) -> None:
    """Refuse what the plan of INCIDENT would do."""
    running(_answer(config, incident, "deny", by))


@click.command()
@click.argument("incident")
@click.option("--as", "by", default=getpass.getuser, help="Who you are.", show_default="you")
@config_option
def cancel(incident: str, by: str, config: Path) -> None:
    """Stop what is being done about INCIDENT before its next change, and take back what can be taken back."""
    running(_answer(config, incident, "cancel", by))


@click.command()
@click.option("--why", default="", help="For the record.")
@click.option("--as", "by", default=getpass.getuser, help="Who you are.", show_default="you")
@config_option
def pause(why: str, by: str, config: Path) -> None:
    """Start no disruption any more, at once. It lasts until `healer resume`, also over restarts."""
    running(_pause(config, "pause", by, why))


@click.command()
@click.option("--why", default="", help="For the record.")
@click.option("--as", "by", default=getpass.getuser, help="Who you are.", show_default="you")
@config_option
def resume(why: str, by: str, config: Path) -> None:
    """Let healer work again after `healer pause`."""
    running(_pause(config, "resume", by, why))


async def _answer(path: Path, incident: str, verb: str, by: str) -> None:
    from healer.config.loading import load_config  # noqa: PLC0415 — heavy

    config = load_config(path)
    try:
        status, said = await _post(config, f"/api/v1/incidents/{incident}/{verb}", {"by": by, "via": "cli"})
    except Down as error:
        fail(f"{error}; is `healer run` at work with this configuration?")
    if status == 200:
        click.echo(f"{incident}: {verb} counts")
        return
    if status == 404:
        fail(f"there is no incident {incident!r}; `healer incidents --open` lists those there are")
    fail(f"{incident}: {verb} does not count: {said.get('reason') or said.get('error')}")


async def _pause(path: Path, verb: str, by: str, why: str) -> None:
    from healer.config.loading import load_config  # noqa: PLC0415 — heavy

    config = load_config(path)
    try:
        status, said = await _post(config, f"/api/v1/{verb}", {"by": by, "why": why})
    except Down:
        await _in_journal(config, verb, by, why)
        click.echo(f"healer does not run; the {verb} stands in its journal")
        return
    if status != 200:
        fail(f"{verb}: {said.get('error', status)}")
    click.echo("paused: no new disruption is started" if verb == "pause" else "resumed")


async def _post(config: Config, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    import aiohttp  # noqa: PLC0415 — heavy

    from healer.config import secrets  # noqa: PLC0415 — heavy

    token = secrets.token(config.web.token_file).get_secret_value()
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.web.listen.host, config.web.listen.host)  # noqa: S104 — not bound here
    url = f"http://[{host}]:{config.web.listen.port}" if ":" in host else f"http://{host}:{config.web.listen.port}"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as session,
            session.post(url + path, json=body, headers=headers) as answer,
        ):
            said = await answer.json(content_type=None)
            return answer.status, said if isinstance(said, dict) else {}
    except aiohttp.ClientConnectorError as error:
        raise Down(f"nothing answers at {url}") from error
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        fail(f"asking {url}: {type(error).__name__}: {error}")


async def _in_journal(config: Config, verb: str, by: str, why: str) -> None:
    from healer.clock import SystemClock  # noqa: PLC0415 — heavy
    from healer.journal.opening import open_journal  # noqa: PLC0415 — heavy
    from healer.model import events as ev  # noqa: PLC0415 — heavy

    clock = SystemClock()
    event = (ev.Paused if verb == "pause" else ev.Resumed)(at=clock.now(), by=by, why=why)
    async with open_journal(config.journal.where, clock=clock) as journal:
        await journal.append([event])
