"""What docs/connecting.md and docs/safety.md show can be loaded, and the checks that people copy work."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over our own documents)
import time
from pathlib import Path
from typing import Any

import pytest

from healer.actions.providers.webhook import Answer, signature
from healer.config import loading
from healer.errors import ConfigError
from healer.model.fencing import MachineState
from healer.notify.pagerduty import PagerDutySettings
from healer.safety import ownership
from tests.documents import DOCS, ROOT, Block, blocks

CONNECTING = DOCS / "connecting.md"
TEXT = CONNECTING.read_text("utf-8")
CONFIGS = [
    block
    for document in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
    for block in blocks(document, "yaml")
    if block.name == "healer.yaml" and document.name != "plugins.md"
]


@pytest.mark.parametrize("block", CONFIGS, ids=lambda block: block.place)
def test_every_piece_of_configuration_is_right(block: Block, tmp_path: Path) -> None:
    for name in ("slack-bot", "slack-app", "pagerduty", "provider", "journal-url"):
        (tmp_path / "secrets").mkdir(exist_ok=True)
        (tmp_path / "secrets" / name).write_text("a secret of more than thirty-two bytes\n")
    text = re.sub(r"kubeconfig: \S+?(?=[,}\s])", "kubeconfig: kubeconfig", block.text)
    (tmp_path / "kubeconfig").write_text("{}")
    try:
        loading.parse(text, tmp_path / "healer.yaml")
    except ConfigError as error:
        pytest.fail(f"{block.place}: {error}")


def test_the_check_of_a_signature_takes_what_healer_signs_and_nothing_else() -> None:
    (block,) = blocks(CONNECTING, "python")
    namespace: dict[str, Any] = {}
    exec(compile(block.text, block.place, "exec"), namespace)  # noqa: S102 (our own document)
    now = str(int(time.time()))  # noqa: TID251 (what is copied asks for it, too)
    body, secret = b'{"operation": "describe"}', "a secret"
    headers = {"X-Healer-Timestamp": now, "X-Healer-Signature": signature(secret, now, body)}
    old = str(int(now) - 400)
    is_genuine = namespace["is_genuine"]
    assert is_genuine(headers, body, secret)
    assert not is_genuine(headers, body + b" ", secret)
    assert not is_genuine(headers, body, "another")
    assert not is_genuine({}, body, secret)
    assert not is_genuine({"X-Healer-Timestamp": old, "X-Healer-Signature": signature(secret, old, body)}, body, secret)


def test_the_states_and_the_fields_of_an_answer_are_those_that_are_read() -> None:
    (line,) = (line for line in TEXT.split("\n") if line.startswith("`state` is one of"))
    assert re.findall(r"`(\w+)`", line.partition(". ")[0])[1:] == [str(state) for state in MachineState]
    (shown,) = (block for block in blocks(CONNECTING, "json") if '"done"' in block.text)
    assert set(re.findall(r'"(\w+)":', shown.text)) == set(Answer.__struct_fields__)


def test_the_status_codes_are_those_of_the_hooks() -> None:
    assert re.findall(r"^\| (\d{3}) \|", TEXT, re.MULTILINE) == ["200", "400", "401", "413", "503"]
    source = (ROOT / "healer" / "web" / "hooks.py").read_text("utf-8") + (
        ROOT / "healer" / "web" / "guarding.py"
    ).read_text("utf-8")
    assert all(f"problem({code}" in source for code in (400, 401, 413, 503))


def test_when_pagerduty_is_told_are_the_two_that_can_be_set() -> None:
    choices = PagerDutySettings.model_fields["when"].annotation
    assert choices is not None
    assert set(re.findall(r"`when: (\w+)`", TEXT)) == {str(choice) for choice in choices}


def test_every_mark_that_keeps_an_object_out_is_named() -> None:
    text = (DOCS / "safety.md").read_text("utf-8")
    assert all(f"`{mark}" in text for mark in ownership.OPT_OUTS)
