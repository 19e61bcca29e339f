"""The few parts of Grafana's dashboard model that our dashboards are made of, as values; `dashboard` makes the JSON of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final, Literal

JSON = dict[str, Any]
COLUMNS: Final = 24
SOURCE: Final[JSON] = {"type": "prometheus", "uid": "${source}"}
SCHEMA_VERSION: Final = 39
"""Of Grafana 10.4; later ones read it and bring it up to date by themselves."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """PromQL, and how its series are called in the legend."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`unit` is Grafana's word for it ("s", "short", "bool_yes_no"). `description` says what to make of it. Sizes in grid cells."""

    title: str
    description: str
    queries: Sequence[Query]
    kind: Literal["stat", "timeseries", "table"] = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7
    bad: float | None = None
    """From this value on it is red; green below."""
    good: float | None = None
    """From this value on it is green; red below."""


def _thresholds(panel: Panel) -> JSON:
    if panel.bad is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.bad}]
    elif panel.good is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.good}]
    else:
        steps = [{"color": "text", "value": None}]
    return {"mode": "absolute", "steps": steps}


def _options(panel: Panel) -> JSON:
    if panel.kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "none",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "auto",
        }
    if panel.kind == "table":
        return {"showHeader": True}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _target(query: Query, index: int, kind: str) -> JSON:
    return {
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": query.instant or kind == "table",
        "range": not (query.instant or kind == "table"),
        "format": "table" if kind == "table" else "time_series",
        "refId": chr(ord("A") + index),
    }


def _panel(panel: Panel, number: int, x: int, y: int) -> JSON:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "thresholds": _thresholds(panel)}, "overrides": []},
        "options": _options(panel),
        "targets": [_target(query, index, panel.kind) for index, query in enumerate(panel.queries)],
    }


def _placed(panels: Sequence[Panel]) -> list[JSON]:
    """Left to right, then the next row, which begins below the highest panel of the one before."""
    found: list[JSON] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        found.append(_panel(panel, number, x, y))
        x += panel.width
        row_height = max(row_height, panel.height)
    return found


def dashboard(*, uid: str, title: str, description: str, panels: Sequence[Panel]) -> JSON:
    """As Grafana imports it. Whoever looks chooses the data source and the job."""
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    job = {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": SOURCE,
        "definition": "label_values(healer_leader, job)",
        "query": {"query": "label_values(healer_leader, job)", "refId": "job"},
        "refresh": 2,
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["healer"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, job]},
        "annotations": {"list": []},
        "panels": _placed(panels),
    }
