"""The Dockerfile keeps to what makes an image small, safe, the same every time, and quick to build again."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import re  # noqa: TID251 (fixed patterns over our own file)
import shlex

import pytest

from healer.cli import COMMANDS
from tests.charts import rendered
from tests.documents import ROOT


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    word: str
    rest: str


def instructions() -> list[Instruction]:
    """One for each, in order; lines that are continued are joined."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [Instruction(*line.split(None, 1)) for line in lines if line.strip()]


FOUND = instructions()
STARTS = [index for index, found in enumerate(FOUND) if found.word == "FROM"]
BUILD, FINAL = FOUND[STARTS[0] : STARTS[1]], FOUND[STARTS[1] :]


def rests(stage: list[Instruction], word: str) -> list[str]:
    return [found.rest for found in stage if found.word == word]


def test_the_base_is_one_argument_pinned_by_its_digest() -> None:
    (base,) = (found.rest for found in FOUND[: STARTS[0]])
    assert re.fullmatch(r"BASE=python:3\.11-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert rests(FOUND, "FROM") == ["${BASE} AS build", "${BASE}"]


def test_only_words_are_used_that_bring_in_nothing_from_elsewhere() -> None:
    words = {found.word for found in FOUND}
    assert words == {"ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    commands = " ".join(rests(FOUND, "RUN"))
    assert not set(re.findall(r"[\w.:/-]+", commands)) & {"curl", "wget", "apt-get", "git", "sudo", "latest"}
    assert "http" not in commands


def test_every_file_that_is_installed_is_checked_by_its_hash() -> None:
    installs = [command for command in rests(BUILD, "RUN") if " install " in command]
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command
        assert "--only-binary :all:" in command or "--no-index" in command
    locks = re.findall(r"--requirement (\S+)", " ".join(installs))
    assert locks == ["requirements.lock", "requirements-build.lock"]
    assert all("pip" not in command for command in rests(FINAL, "RUN"))


def test_what_seldom_changes_is_copied_and_installed_before_the_code() -> None:
    order = [found.rest for found in BUILD if found.word in {"COPY", "RUN"}]
    lock = next(index for index, rest in enumerate(order) if rest.startswith("requirements.lock"))
    installed = next(index for index, rest in enumerate(order) if "--requirement requirements.lock" in rest)
    code = next(index for index, rest in enumerate(order) if rest.startswith("healer "))
    assert lock < installed < code


def test_the_image_holds_what_was_built_and_not_the_tools() -> None:
    assert rests(FINAL, "COPY") == ["--from=build /opt/healer /opt/healer"]
    assert "python -m venv --without-pip /opt/healer" in rests(BUILD, "RUN")


def test_it_runs_as_nobody_in_particular() -> None:
    (user,) = rests(FINAL, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    context = rendered("defaults").pod["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert FINAL.index(Instruction("USER", user)) > max(
        index for index, found in enumerate(FINAL) if found.word in {"RUN", "COPY"}
    ), "nothing that is in the image belongs to who runs it"


def test_it_starts_healer_as_the_chart_wants_it() -> None:
    assert rests(FINAL, "ENTRYPOINT") == ['["healer"]']
    assert rests(FINAL, "CMD") == ['["run"]']
    container = rendered("defaults").container
    assert "command" not in container
    assert container["args"][0] in COMMANDS
    assert rests(FINAL, "EXPOSE") == [str(container["ports"][0]["containerPort"])]
    (environment,) = rests(FINAL, "ENV")
    given = dict(pair.split("=", 1) for pair in shlex.split(environment))
    assert given["HEALER_CONFIG"] == next(one["value"] for one in container["env"] if one["name"] == "HEALER_CONFIG")
    assert given["PYTHONDONTWRITEBYTECODE"] == "1", "its file system may be read-only"
    assert given["PATH"].startswith("/opt/healer/bin:")


def sent() -> list[str]:
    """What is let through to the build, of what is there."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "what nobody thought of stays out"
    return [rule[1:] for rule in rules if rule.startswith("!")]


def test_what_is_copied_is_sent_and_nothing_else() -> None:
    copied = [rest.split()[:-1] for rest in rests(BUILD, "COPY")]
    assert sorted(sent()) == sorted(itertools.chain.from_iterable(copied))
    assert all((ROOT / name).exists() for name in sent())


@pytest.mark.parametrize("name", [".git/config", ".venv/bin/python", "data/token", "tests/charts.py", "uv.lock"])
def test_nothing_private_is_sent(name: str) -> None:
    assert not any(fnmatch.fnmatch(name, f"{rule}*") for rule in sent())
