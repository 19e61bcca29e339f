"""Writes what in helm/healer/files/ is made from elsewhere: `python -m scripts.generate_chart`, as part of `make docs`.

permissions.yaml is made from what the code declares, alerts.yaml from docs/metrics.md, the dashboards from dashboards/.
tests/unit/chart compares what stands there with what this would write.
"""

from __future__ import annotations

import io
import re  # noqa: TID251 (one fixed pattern over our own document)
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from dashboards import overview
from scripts import permissions
from scripts.permissions import Permission

ROOT: Final = Path(__file__).parents[1]
FILES: Final = ROOT / "helm" / "healer" / "files"
ALERTS: Final = re.compile(r"^```yaml\n# healer-alerts\.yaml\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
PERMISSIONS: Final = """\
# Made from what the code declares: make docs. The roles of the chart are put together from it.
"""
RULES: Final = """\
# Made from docs/metrics.md: make docs.
"""


def permission_table() -> str:
    """YAML: who needs what."""
    table: dict[str, Any] = {
        "always": _rules(permissions.always()),
        "events": _rules([permissions.telling()]),
        "lease": _rules([permissions.leading()]),
        "from_kubernetes": {kind: _rules([found]) for kind, found in permissions.configured().items()},
        "actions": {name: _rules(found) for name, found in permissions.actions().items()},
    }
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(table, out)
    return PERMISSIONS + out.getvalue()


def _rules(found: Iterable[Permission]) -> list[dict[str, Any]]:
    return [
        {
            "group": one.group,
            "resource": one.resource,
            "verbs": list(one.verbs),
            "namespaced": one.namespaced,
            **({"only_in": one.only_in} if one.only_in else {}),
        }
        for one in found
    ]


def alerts() -> str:
    """The rules about Healer itself, as docs/metrics.md recommends them."""
    found = ALERTS.search((ROOT / "docs" / "metrics.md").read_text("utf-8"))
    if found is None:
        raise SystemExit("docs/metrics.md holds no block healer-alerts.yaml any more")
    return RULES + found["text"]


def files() -> dict[Path, str]:
    """Every file as it should be."""
    board = overview.text()
    return {
        FILES / "permissions.yaml": permission_table(),
        FILES / "alerts.yaml": alerts(),
        ROOT / "dashboards" / "overview.json": board,
        FILES / "dashboards" / "healer-overview.json": board,
    }


def write() -> None:
    """Write what has changed."""
    for path, text in files().items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    write()
