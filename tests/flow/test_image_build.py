"""The build stage of the Dockerfile, command by command, in an empty folder and an environment without anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.unit.chart.test_image_file import BUILD, sent

SECONDS = 180
PREFIX = "/opt/healer"


def copied(sources: list[str], folder: Path) -> None:
    """As COPY does: links stay links, what .dockerignore names stays out."""
    for name in sources:
        assert name in sent()
        if (ROOT / name).is_dir():
            leave = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=leave)
        else:
            shutil.copy(ROOT / name, folder / name)


@pytest.mark.timeout(SECONDS)
def test_the_build_stage_gives_a_healer_that_runs(tmp_path: Path) -> None:
    source, base, prefix = tmp_path / "src", tmp_path / "base", tmp_path / "healer"
    source.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
    # The names of the index, if the machine has a mirror of its own, come by pip's variables and its files of settings.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PATH": f"{base / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for found in BUILD:
        if found.word == "COPY":
            copied(found.rest.split()[:-1], source)
        if found.word == "RUN":
            command = found.rest.replace(PREFIX, str(prefix)).replace("/wheel", str(tmp_path / "wheel"))
            done = subprocess.run(command, shell=True, cwd=source, env=environment, capture_output=True, text=True)  # noqa: S602, PLW1510
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    shutil.rmtree(source)
    shutil.rmtree(base / "lib")  # Nothing may come from there.
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    healer = [str(prefix / "bin" / "healer")]
    (tmp_path / "healer.yaml").write_text("clusters: [{name: a, in_cluster: true}]\nrules: ['pack:demo']\n")
    done = subprocess.run([*healer, "check", "healer.yaml"], cwd=tmp_path, env=alone, capture_output=True, text=True)  # noqa: PLW1510
    assert (done.returncode, "rules: 8" in done.stdout) == (0, True), done.stderr
    demo = subprocess.run([*healer, "demo", "--once", "--speed", "100"], cwd=tmp_path, env=alone, capture_output=True)  # noqa: PLW1510
    assert demo.returncode == 0, demo.stdout
