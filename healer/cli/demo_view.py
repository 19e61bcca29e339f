"""What the demo shows in the terminal: the cluster by zone, the incident with its phases, and what happens."""

from __future__ import annotations

from typing import Final

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from healer.cli.demo_setup import HARMS, Demo
from healer.model.cluster import ClusterState, Node
from healer.model.incidents import IncidentState, IncidentView
from healer.notify import wording

COLOURS: Final = {
    IncidentState.OPEN: "yellow",
    IncidentState.AWAITING_APPROVAL: "bold yellow",
    IncidentState.ACTING: "bold blue",
    IncidentState.VERIFYING: "blue",
    IncidentState.UNDOING: "magenta",
    IncidentState.ESCALATED: "bold red",
    IncidentState.CLOSED: "green",
}
TONES: Final = {"good": "green", "bad": "red", "wait": "yellow", "info": "default"}
LINES: Final = 16
KEYS: Final = dict(zip("1234", HARMS, strict=True))


def screen(demo: Demo, *, speed: float, address: str, height: int, note: str = "") -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [_header(demo, speed, address)]
    parts.extend(_map(state) for state in demo.service.people.cluster_states())
    views = list(demo.service.people.incidents())
    room = max(4, height - 20)
    parts.append(
        _incident(views[0], min(LINES, room)) if views else Panel(Text("Nothing is wrong. Harm begins in a moment."))
    )
    if len(views) > 1:
        parts.append(_others(views[1:5]))
    parts.append(_footer(demo, views, note))
    return Group(*parts)


def _header(demo: Demo, speed: float, address: str) -> Text:
    passed = (demo.clock.now() - demo.started_at).total_seconds()
    text = Text("Healer demo", style="bold")
    text.append(f"  {demo.clock.now():%H:%M:%S}, {passed:.0f} s in, {speed:g} times as fast as life   ", style="dim")
    text.append(address, style="underline")
    if paused := demo.service.people.paused():
        text.append(f"   paused by {paused}", style="bold red")
    return text


def _map(state: ClusterState) -> RenderableType:
    zones: dict[str, list[Node]] = {}
    for node in sorted(state.nodes.values(), key=lambda n: n.name):
        zones.setdefault(node.zone, []).append(node)
    panels = []
    for zone, nodes in sorted(zones.items()):
        table = Table.grid(padding=(0, 1))
        for node in nodes:
            pods = len(state.pods_by_node.get(node.name, {}))
            table.add_row(*_node(node), Text(f"{pods:>2} pods", style="dim"))
        panels.append(Panel(table, title=zone, border_style="dim"))
    return Columns(panels)


def _node(node: Node) -> tuple[Text, Text, Text]:
    ready = node.condition("Ready")
    if ready != "True":
        word, style = ("unknown" if ready == "Unknown" else "not ready"), "bold red"
    elif node.condition("MemoryPressure") == "True":
        word, style = "memory!", "bold red"
    else:
        word, style = "ready", "green"
    if node.unschedulable:
        word += ", cordoned"
        style = "yellow" if style == "green" else style
    return Text("●", style=style), Text(node.name), Text(word, style=style)


def _incident(view: IncidentView, lines: int) -> RenderableType:
    title = Text(f"{view.id} {view.title} on {view.target or view.owner}: ", style="bold")
    title.append(str(view.state), style=COLOURS[view.state])
    parts: list[RenderableType] = [title]
    if view.detail:
        parts.append(Text(f"{view.reason}: {view.detail}", style=COLOURS[view.state]))
    if view.plan:
        steps = " → ".join(preview.action for preview in view.plan.previews)
        parts.append(Text(f"plan {view.plan.remedy} ({view.mode}): {steps}; touches {wording.radius(view.plan)}"))
    if times := wording.times(view):
        parts.append(Text(times, style="cyan"))
    parts.extend(
        Text(wording.cut(wording.line(entry), 150), style=TONES[entry.tone], no_wrap=True)
        for entry in view.timeline[-lines:]
    )
    return Panel(Group(*parts), border_style=COLOURS[view.state])


def _others(views: list[IncidentView]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for view in views:
        table.add_row(
            view.id,
            Text(f"{view.title} on {view.target or view.owner}"),
            Text(str(view.state), style=COLOURS[view.state]),
            Text(str(view.reason), style="dim"),
        )
    return table


def _footer(demo: Demo, views: list[IncidentView], note: str) -> Text:
    text = Text()
    if any(view.state is IncidentState.AWAITING_APPROVAL for view in views):
        text.append("a approve  d deny   ", style="bold yellow")
    text.append("  ".join(f"{key} {name}" for key, name in KEYS.items()), style="dim")
    text.append("   p pause  q quit", style="dim")
    if note:
        text.append(f"   {note}", style="italic")
    text.append(f"\nkubectl --kubeconfig {demo.folder}/kubeconfig get nodes", style="dim")
    return text


def summary(view: IncidentView) -> str:
    """The line that stays when the demo is over."""
    return f"{view.title} on {view.target or view.owner}: {wording.standing(view)}; {wording.times(view)}"
