"""`healer check FILE`: every mistake, as `file:line:column: path: what and the mend`."""

from __future__ import annotations

from pathlib import Path

import click

from healer.cli.shared import fail
from healer.errors import ConfigError


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("healer.yaml"))
def check(file: Path) -> None:
    """Read FILE (a configuration) and all rule files it names. Exit code 2 when there is any mistake."""
    from healer.app import prepare  # noqa: PLC0415 — heavy

    try:
        prepared = prepare(file)
    except ConfigError as error:
        fail("\n".join(map(str, error.problems)), code=2)
    rules = sum(len(group.rules) for group in prepared.groups)
    modes = ", ".join(f"{remedy.name} ({remedy.mode})" for remedy in prepared.remedies) or "none"
    clusters = ", ".join(cluster.name for cluster in prepared.config.clusters) or "none"
    click.echo(f"{file}: fine. Clusters: {clusters}; rules: {rules}; remedies: {modes}")
