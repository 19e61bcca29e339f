"""Every piece of values in docs/helm.md is taken by the chart and by healer, and says of the chart what is so."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over our own document)
from pathlib import Path

import pytest
from click.testing import CliRunner

from healer.cli import main
from tests import charts
from tests.documents import DOCS, Block, blocks

DOCUMENT = DOCS / "helm.md"
TEXT = DOCUMENT.read_text("utf-8")
VALUES = [block for block in blocks(DOCUMENT, "yaml") if block.name == "values.yaml"]


@pytest.mark.parametrize("block", VALUES, ids=lambda block: str(block.line))
def test_every_piece_of_values_makes_a_configuration_that_is_right(block: Block, tmp_path: Path) -> None:
    file = charts.render(charts.load(block.text)).mount(tmp_path)
    done = CliRunner().invoke(main, ["check", str(file)])
    assert (done.exit_code, "fine" in done.output) == (0, True), done.output


def test_there_is_no_other_yaml_in_it() -> None:
    assert len(VALUES) == len(blocks(DOCUMENT, "yaml")) > 4


def test_the_oldest_kubernetes_is_the_one_that_the_chart_takes() -> None:
    (version,) = re.findall(r"Kubernetes (\d+\.\d+) or newer", TEXT)
    assert charts.load((charts.CHART / "Chart.yaml").read_text("utf-8"))["kubeVersion"] == f">={version}.0-0"


def test_values_that_are_named_are_there() -> None:
    values = charts.load((charts.CHART / "values.yaml").read_text("utf-8"))
    sections = "|".join(values)
    named = re.findall(rf"`((?:{sections})(?:\.\w+)+)(?=[`:])", TEXT)
    assert len(named) > 8
    for path in named:
        found = values
        for part in path.split("."):
            assert part in found, path
            found = found[part]


def test_the_template_of_the_roles_is_where_it_says() -> None:
    (template,) = re.findall(r"-s (\S+)", TEXT)
    assert (charts.CHART / template).exists()
