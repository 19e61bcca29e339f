"""The command line: the only place that prints and exits. Each command is imported when it is called."""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "run": ("healer.cli.run", "Watch the clusters of a configuration and repair them."),
    "demo": ("healer.cli.demo", "Show it all on a simulated cluster."),
    "check": ("healer.cli.check", "Say every mistake in a configuration and its rules."),
    "incidents": ("healer.cli.reading", "List incidents."),
    "why": ("healer.cli.reading", "Say why something was done, or not."),
    "audit": ("healer.cli.reading", "Print the journal, or prove that nobody has changed it."),
    "approve": ("healer.cli.asking", "Agree to what an incident's plan would do."),
    "deny": ("healer.cli.asking", "Refuse it."),
    "cancel": ("healer.cli.asking", "Stop what is being done, before its next change."),
    "pause": ("healer.cli.asking", "Start no disruption any more, at once; works also while healer is down."),
    "resume": ("healer.cli.asking", "Let it work again."),
}


class Lazy(click.Group):
    """A group whose commands are imported only when they are needed: `healer --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 — click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 — click's signature
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        found: click.Command = getattr(importlib.import_module(module), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 — click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cluster-healer", prog_name="healer")
def main() -> None:
    """Healer watches clusters, decides what is wrong, puts it right, proves it, and tells the people on call."""
