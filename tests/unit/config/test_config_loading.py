"""From text to values."""

from __future__ import annotations

import re  # noqa: TID251 (a fixed pattern)
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from healer import plugins
from healer.config import convert, tree
from healer.config.fields import Address
from healer.config.loading import Loaded, digest, load, load_config, parse
from healer.config.schema import Config
from healer.errors import ConfigError, PluginError, Problem
from healer.model.matchers import Matcher, MatchOp
from healer.model.plans import ApprovalSpec, Limits, Mode, Otherwise, Remedy, Share, StepSpec, VerifySpec

WHOLE = """
clusters:
  - name: prod-eu
    kubeconfig: kube.yaml
    context: admin
collect:
  - prometheus: {targets: ["localhost:9100"], interval: 30s}
  - kubernetes
store: {embedded: {path: samples/, keep: 3d}}
journal: {path: /var/lib/healer/journal.db}
rules: [rules/*.yaml, pack:demo]
remedies:
  - name: replace-dead-node
    when: {alertname: NodeDown, severity: =~"crit.*", zone: [a, b.c], team: '!=test'}
    target: node/{{ labels.node }}
    mode: approve
    steps:
      - cordon
      - drain: {timeout: 5m}
      - replace: {provider: asg}
    verify: {alert: ignored, query: 'up == 1', for: 1m30s, timeout: 20m}
    otherwise: tell
    limits: {per_zone: unlimited, per_hour: 5, min_healthy: 80%, max_in_flight: 2, cooldown: 0, attempts: 3, allow_last_node: true}
    approval: {groups: [sre-oncall], minimum: 2, expires: 5m, not_requester: true}
    priority: -3
    on: resolved
    after: [restart]
  - name: restart
    when: ['alertname="Crash"', pod!~db-.+]
    steps: [uncordon]
  - name: look
    match: all
    steps: [cordon]
safety:
  max_unhealthy: 3
  maintenance: [{name: night, cron: "0 2 * * sat", duration: 2h, timezone: Europe/Berlin, when: {kind: Node}}]
  self: {node: n1}
providers:
  asg: {webhook: {url: "https://machines.example/", secret_file: token.txt}}
notify:
  terminal: {}
  slack: {channel: '#oncall', bot_token: very-secret}
approvers: {sre-oncall: [slack:U123, console, cli:anna]}
web: {listen: '[::1]:80', max_body: 2MiB, external_url: https://healer.example/}
telemetry: {log_level: debug}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "b.yaml").write_text("groups: []")
    (tmp_path / "rules" / "a.yaml").write_text("groups: []")
    (tmp_path / "kube.yaml").write_text("kind: Config")
    (tmp_path / "token.txt").write_text("another-very-secret\n")
    return tmp_path


def read(text: str, folder: Path) -> Config:
    return parse(text, folder / "healer.yaml").config


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, Path("c.yaml"))
    return [str(problem) for problem in caught.value.problems]


def test_a_whole_configuration_is_read(folder: Path) -> None:
    config = read(WHOLE, folder)
    assert config.clusters[0].kubeconfig == folder / "kube.yaml"
    assert config.store.embedded.path == folder / "samples"
    assert str(config.journal.path) == "/var/lib/healer/journal.db"
    assert config.rules[0].files == (folder / "rules" / "a.yaml", folder / "rules" / "b.yaml")
    assert config.rules[1].pack == "demo"
    assert [(c.name, dict(c.params)) for c in config.collect] == [
        ("prometheus", {"targets": ["localhost:9100"], "interval": "30s"}),
        ("kubernetes", {}),
    ]
    assert config.collect[0].settings.interval == timedelta(seconds=30)  # type: ignore[attr-defined]
    assert config.safety.max_unhealthy == Share(count=3)
    assert config.safety.self_.node == "n1"
    assert config.safety.maintenance[0].when == (Matcher("kind", MatchOp.EQUAL, "Node"),)
    assert (config.providers[0].label, config.providers[0].name) == ("asg", "webhook")
    assert config.providers[0].settings.secret.get_secret_value() == "another-very-secret"  # type: ignore[attr-defined]
    assert [n.name for n in config.notify] == ["terminal", "slack"]
    assert config.approvers == {"sre-oncall": ("slack:U123", "console", "cli:anna")}
    assert config.web.listen == Address("::1", 80)
    assert str(config.web.listen) == "[::1]:80"
    assert config.web.max_body == 2 * 1024 * 1024
    assert config.web.external_url == "https://healer.example"


def test_a_journal_on_postgresql_is_found_by_a_url_that_no_message_shows(folder: Path) -> None:
    (folder / "url").write_text("postgresql://healer:very-secret@db.example/healer\n")
    config = read("clusters: [{name: eu, in_cluster: true}]\njournal: {postgres: {url_file: url}}", folder)
    assert config.journal.where == "postgresql://healer:very-secret@db.example/healer"
    assert "very-secret" not in repr(config)
    assert read("journal: {path: /j.db}", folder).journal.where == "/j.db"


def test_remedies_become_values_of_the_model(folder: Path) -> None:
    first, second, third = convert.remedies(read(WHOLE, folder))
    assert first == Remedy(
        name="replace-dead-node",
        matchers=(
            Matcher("alertname", MatchOp.EQUAL, "NodeDown"),
            Matcher("severity", MatchOp.REGEXP, "crit.*"),
            Matcher("zone", MatchOp.REGEXP, r"a|b\.c"),
            Matcher("team", MatchOp.NOT_EQUAL, "test"),
        ),
        steps=(
            StepSpec(action="cordon"),
            StepSpec(action="drain", params={"timeout": "5m"}),
            StepSpec(action="replace", params={"provider": "asg"}),
        ),
        target="node/{{ labels.node }}",
        mode=Mode.APPROVE,
        verify=VerifySpec(
            alert_resolved=False, object_healthy=True, query="up == 1", for_seconds=90, timeout_seconds=1200
        ),
        otherwise=Otherwise.TELL,
        limits=Limits(
            max_in_flight=2,
            per_zone=None,
            per_hour=5,
            min_healthy=Share(percent=80.0),
            cooldown_seconds=0,
            attempts=3,
            allow_last_node=True,
        ),
        approval=ApprovalSpec(groups=("sre-oncall",), minimum=2, expires_seconds=300, not_requester=True),
        priority=-3,
        on_resolved=True,
        after=("restart",),
    )
    assert second.matchers == (
        Matcher("alertname", MatchOp.EQUAL, "Crash"),
        Matcher("pod", MatchOp.NOT_REGEXP, "db-.+"),
    )
    assert third.matchers == ()


def test_defaults_are_those_of_the_model() -> None:
    config = parse("remedies: [{name: a, when: {alertname: B}, steps: [cordon]}]", Path("/etc/healer.yaml")).config
    found = convert.remedy(config.remedies[0])
    assert found == Remedy(
        name="a", matchers=(Matcher("alertname", MatchOp.EQUAL, "B"),), steps=(StepSpec(action="cordon"),)
    )


def test_default_paths_lie_beside_the_file() -> None:
    config = parse("web: {}", Path("/etc/healer/healer.yaml")).config
    assert str(config.journal.path) == "/etc/healer/data/journal.db"
    assert str(config.store.embedded.path) == "/etc/healer/data"
    assert str(config.web.token_file) == "/etc/healer/data/token"
    assert config.web.listen.host == "127.0.0.1"


def test_the_home_folder_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert str(parse("journal: {path: ~/j.db}", Path("c.yaml")).config.journal.path) == "/home/anna/j.db"


def test_where_healer_runs_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    monkeypatch.setenv("POD_NAME", "healer-0")
    monkeypatch.setenv("NODE_NAME", "n7")
    found = parse("safety: {self: {node: n8}}", Path("c.yaml")).config.safety.self_
    assert (found.namespace, found.pod, found.node) == ("ops", "healer-0", "n8")


def test_secrets_are_never_shown(folder: Path) -> None:
    config = read(WHOLE, folder)
    assert "very-secret" not in repr(config)
    assert "very-secret" not in str(config.notify)
    assert "very-secret" not in repr(parse(WHOLE, folder / "healer.yaml"))
    assert "very-secret" not in repr([provider.settings for provider in config.providers])


def test_the_text_of_an_error_never_shows_a_secret() -> None:
    found = problems("notify: {slack: {channel: c, bot_token: {very: secret-1}, app_token: 12345}}")
    assert found == [
        "c.yaml:1:30: notify.slack.bot_token: must be text; put it in quotes",
        "c.yaml:1:59: notify.slack.app_token: must be text; put it in quotes",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("on", "on"),
        ("22:00", "22:00"),
        ("007", "007"),
        ("0", 0),
        ("-12", -12),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("true", True),
        ("'true'", "true"),
        ('"5"', "5"),
        ("!!str 5", "5"),
        ("2026-03-01", "2026-03-01"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("80%", "80%"),
        ("0x1F", "0x1F"),
    ],
)
def test_yaml_is_read_as_version_1_2(text: str, value: object) -> None:
    found = tree.read(f"k: {text}", "c.yaml")
    assert found.value == {"k": value}
    assert type(found.value["k"]) is type(value)


def test_aliases_stand_for_what_they_name(folder: Path) -> None:
    text = """
remedies:
  - name: a
    when: {alertname: A}
    steps: &steps [cordon, drain: {timeout: 1m}]
  - name: b
    when: {alertname: B}
    steps: *steps
"""
    first, second = convert.remedies(read(text, folder))
    assert first.steps == second.steps


def test_the_newest_anchor_of_a_name_counts() -> None:
    assert tree.read("a: &x 1\nb: &x 2\nc: *x", "c.yaml").value == {"a": 1, "b": 2, "c": 2}


def test_aliases_that_multiply_are_refused() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "aliases multiply" in problems(text)[-1]


def test_deep_nesting_is_refused() -> None:
    assert "nested" in problems("a: " + "[" * 20_000)[0]


@pytest.mark.parametrize("text", ["a: \x00", "a: b: c", "\t- a", "a: 'b", "&a", "? [x]\n: y", "{}: 1"])
def test_what_is_not_yaml_has_a_place(text: str) -> None:
    assert all(re.match(r"c\.yaml:\d+:\d+: ", line) for line in problems(text))


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml:1:1: cannot be read: No such file"):
        load_config(tmp_path / "nowhere.yaml")


def test_a_file_that_is_not_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"c\.yaml:1:1: is not UTF-8 text: .* at byte 3"):
        load_config(tmp_path / "c.yaml")


def test_others_can_point_to_places_too(folder: Path) -> None:
    (folder / "healer.yaml").write_text(WHOLE)
    loaded = load(folder / "healer.yaml")
    assert isinstance(loaded, Loaded)
    problem = loaded.problem(("remedies", 0, "verify", "query"), "parsing: unexpected end")
    line = WHOLE.split("\n")[problem.line - 1]
    assert line[problem.column - 1 :].startswith("query:")
    assert problem.path == "remedies[0].verify.query"


def test_a_digest_changes_with_every_text_and_its_borders() -> None:
    assert digest("a", "b") == digest("a", "b")
    assert len({digest("a", "b"), digest("ab"), digest("ab", ""), digest("b", "a"), digest("a")}) == 5


def test_a_plugin_that_is_broken_is_a_problem_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(group: str, name: str) -> type:
        if name == "drain":
            raise PluginError(group, name, "acme-drain is broken: ImportError: no module named 'acme'")
        return type("NoSettings", (), {})

    monkeypatch.setattr(plugins, "load", load)
    cordon = "it has no model `Settings`; its author has to add one, empty if need be"
    drain = "acme-drain is broken: ImportError: no module named 'acme'"
    assert problems("remedies: [{name: a, when: {alertname: A}, steps: [cordon, {drain: {}}]}]") == [
        f"c.yaml:1:52: remedies[0].steps[0]: loading 'cordon' of healer.actions: {cordon}",
        f"c.yaml:1:61: remedies[0].steps[1].drain: loading 'drain' of healer.actions: {drain}",
    ]


def test_a_plugin_with_a_model_of_its_own_kind_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(BaseModel):
        model_config = ConfigDict(extra="forbid")
        speed: int = 1

    monkeypatch.setattr(plugins, "load", lambda *_: type("Plugin", (), {"Settings": Plain}))
    assert problems("notify: {terminal: {sped: 1}}") == [
        "c.yaml:1:21: notify.terminal.sped: unknown key 'sped'; did you mean 'speed'?"
    ]


def test_loading_needs_no_scheduler_where_there_is_no_window() -> None:
    code = "import sys\nfrom pathlib import Path\nfrom healer.config.loading import parse\n"
    code += "parse('web: {}', Path('c.yaml'))\nprint('apscheduler' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_the_file_holds_the_answer_is_a_configuration_or_problems(data: st.DataObject) -> None:
    lines = WHOLE.split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = data.draw(st.integers(0, len(line)))
        end = data.draw(st.integers(cut, len(line)))
        junk = data.draw(
            st.sampled_from(["", "x", "0", ":", " ", "- ", "{}", "[]", "null", "!x ", "&a ", "*a", '"', "[1]"])
        )
        lines[at] = line[:cut] + junk + line[end:]
    for problem in found(lines):
        assert 1 <= problem.line <= len(lines) + 1
        assert problem.message


def found(lines: list[str]) -> tuple[Problem, ...]:
    """What is wrong with a configuration; nothing when it is right."""
    try:
        parse("\n".join(lines), Path("c.yaml"))
    except ConfigError as error:
        return error.problems
    return ()
