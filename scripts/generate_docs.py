"""Writes what in docs/ is made from the code, so that it cannot say anything else: `python -m scripts.generate_docs`.

Whole files, and blocks between `<!-- made from the code: NAME -->` and `<!-- end of NAME -->` in files written by hand.
tests/unit/docs compares what stands there with what this would write.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re  # noqa: TID251 (one fixed pattern over our own documents)
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from prometheus_client.metrics import MetricWrapperBase

from healer import plugins, telemetry
from healer.cli import COMMANDS, main
from healer.config import describe, plugged
from healer.model.plans import Share
from healer.safety.breakers import limit_of
from healer.safety.guards import guards
from healer.safety.state import SafetySettings
from healer.sim.api_faults import ApiFaults
from healer.sim.faults import KINDS
from scripts import permissions

DOCS: Final = Path(__file__).parents[1] / "docs"
BLOCK: Final = re.compile(
    r"(<!-- made from the code: (?P<name>[a-z-]+) -->\n).*?(<!-- end of (?P=name) -->\n)", re.DOTALL
)
FLEET_SIZES: Final = (1, 2, 3, 4, 5, 10, 20, 50, 100)


COMMAND_LINE: Final = """\
<!-- Made from the commands: make docs -->

# Command line

`healer COMMAND --help` says the same. A command that needs a configuration takes it from `-c FILE`, else from the
environment variable `HEALER_CONFIG`, else from `healer.yaml` in the current folder.

Exit codes: 0 done, 1 it did not work, 2 the configuration or the command is wrong.
"""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def code(text: str) -> str:
    return f"`{text}`"


# Metrics -------------------------------------------------------------------------------------------------------------


def own_metrics() -> Iterator[MetricWrapperBase]:
    """Everything declared in healer.telemetry, in its order."""
    return (value for value in vars(telemetry).values() if isinstance(value, MetricWrapperBase))


def exported_name(metric: MetricWrapperBase) -> str:
    """As it stands at /metrics: counters end in _total, histograms have three series."""
    name = str(metric._name)  # noqa: SLF001 — the library has no public name for it
    return f"{name}_total" if metric._type == "counter" else name  # noqa: SLF001


def metrics() -> str:
    rows = []
    for metric in own_metrics():
        labels = " ".join(map(code, metric._labelnames)) or "–"  # noqa: SLF001
        rows.append((code(exported_name(metric)), str(metric._type), labels, str(metric._documentation)))  # noqa: SLF001
    return table(("Metric", "Type", "Labels", "What it counts"), rows)


# Command line ---------------------------------------------------------------------------------------------------------


def command_line() -> str:
    parts = [COMMAND_LINE]
    context = click.Context(main, info_name="healer")
    for name in COMMANDS:
        command = main.get_command(context, name)
        if command is not None:
            parts += _command(name, command, context)
    return "\n".join(parts)


def _command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## `healer {name}`\n"
    yield f"```\nhealer {name} {usage}\n```\n"
    yield f"{inspect.cleandoc(command.help or '').split(chr(12))[0].strip()}\n"
    rows = [_option(option, context) for option in command.params if isinstance(option, click.Option)]
    if rows:
        yield table(("Option", "Default", "Meaning"), rows)


def _option(option: click.Option, context: click.Context) -> tuple[str, ...]:
    names = ", ".join(map(code, option.opts))
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    return (f"{names}{value}", _default(option), option.help or "")


def _default(option: click.Option) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag or callable(option.default) or option.default in (None, ""):
        return ""
    return code(str(option.default))


# Scenarios ------------------------------------------------------------------------------------------------------------


def faults() -> str:
    return table(
        ("Fault", "Target", "What happens"),
        [(code(name), kind.target or "none", kind.about) for name, kind in KINDS.items()],
    )


def api_faults() -> str:
    """From the fields of ApiFaults and the sentences below them."""
    source = ast.parse(inspect.getsource(ApiFaults)).body[0]
    rows = []
    body = source.body if isinstance(source, ast.ClassDef) else []
    for field, note in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
            rows.append((code(ast.unparse(field.target)), str(note.value.value)))
    return table(("`s.api_faults.…`", "Meaning"), rows)


# Safety ---------------------------------------------------------------------------------------------------------------


def guard_table() -> str:
    rows = [
        (
            str(number),
            code(guard.name),
            "everything" if guard.for_all else "disruption",
            inspect.cleandoc(guard.check.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        )
        for number, guard in enumerate(guards(), start=1)
    ]
    return table(("", "Guard", "Holds back", "Why"), rows)


def fleet_breaker() -> str:
    share = SafetySettings().max_unhealthy
    rows = [
        (str(total), *(str(limit_of(Share(percent=percent), total)) for percent in (share.percent or 0, 10, 34, 50)))
        for total in FLEET_SIZES
    ]
    return table(("Nodes in the pool", f"`{share}` (default)", "`10%`", "`34%`", "`50%`"), rows)


def verbs() -> str:
    given = [
        ("always", permissions.always()),
        ("to tell", (permissions.telling(),)),
        (f"with {code('journal.postgres')}", (permissions.leading(),)),
        (f"with {code('from_kubernetes')}", tuple(permissions.configured().values())),
        *((code(name), found) for name, found in permissions.actions().items()),
    ]
    rows = [
        (
            why if index == 0 else "",
            found.group or "core",
            code(found.resource) + (f" in {code(found.only_in)}" if found.only_in else ""),
            " ".join(found.verbs),
        )
        for why, several in given
        for index, found in enumerate(several)
    ]
    return table(("Action", "API group", "Resource", "Verbs"), rows)


# Plugins --------------------------------------------------------------------------------------------------------------

WHERE: Final = {
    plugins.COLLECTORS: "Under `collect`, as `- NAME: {…}`.",
    plugins.ACTIONS: "Under `steps` of a remedy, as `- NAME: {…}`.",
    plugins.NOTIFIERS: "Under `notify`, as `NAME: {…}`.",
    plugins.PROVIDERS: "Under `providers`, as `your-name-for-it: {NAME: {…}}`.",
}


def plugin_settings() -> str:
    parts = []
    for group, where in WHERE.items():
        parts.append(f"### {plugged.NOUNS[group].capitalize()}s\n\n{where}\n")
        parts += (describe.plugin_reference(group, name).replace("### ", "#### ", 1) for name in plugins.names(group))
    return "\n".join(parts)


# Writing --------------------------------------------------------------------------------------------------------------

WHOLE: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": describe.reference,
    "cli.md": command_line,
}
BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "metrics": metrics,
    "faults": faults,
    "api-faults": api_faults,
    "guards": guard_table,
    "fleet-breaker": fleet_breaker,
    "verbs": verbs,
    "plugin-settings": plugin_settings,
}


def filled(text: str) -> str:
    """`text` with every block made anew. KeyError for a block that nobody can make."""

    def fill(found: re.Match[str]) -> str:
        return f"{found[1]}\n{BLOCKS[found['name']]()}\n{found[3]}"

    return BLOCK.sub(fill, text)


def documents() -> dict[Path, str]:
    """Every document as it should be."""
    found: dict[Path, Any] = {DOCS / name: make() for name, make in WHOLE.items()}
    for path in sorted(DOCS.glob("*.md")):
        if path not in found:
            found[path] = filled(path.read_text("utf-8"))
    return found


def write() -> None:
    """Write what has changed."""
    for path, text in documents().items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote docs/{path.name}\n")


if __name__ == "__main__":
    write()
