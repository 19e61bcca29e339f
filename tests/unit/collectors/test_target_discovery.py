"""Targets from files: read again on change, and kept when a file is broken."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from healer.collectors.discovery import Defaults, FileDiscovery, WrongTarget, target
from healer.model.series import Labels

DEFAULTS = Defaults(job="j", params={"x": ("1", "2")}, labels={"cluster": "eu"})


def found(discovery: FileDiscovery) -> list[str]:
    return [one.instance for one in discovery.read()]


def test_a_target_has_a_url_and_labels() -> None:
    one = target("h:9100", {"zone": "a"}, DEFAULTS)
    assert one.url == "http://h:9100/metrics?x=1&x=2"
    assert one.labels == Labels({"job": "j", "instance": "h:9100", "cluster": "eu", "zone": "a"})


def test_labels_with_two_underscores_say_how_to_reach_it() -> None:
    one = target(
        "h:1",
        {
            "__scheme__": "https",
            "__metrics_path__": "/p",
            "__param_x": "a&b",
            "__param_y": "ö",
            "__meta_z": "dropped",
            "instance": "mine",
            "job": "other",
            "cluster": "us",
        },
        DEFAULTS,
    )
    assert one.url == "https://h:1/p?x=a%26b&y=%C3%B6"
    assert one.labels == Labels({"job": "other", "instance": "mine", "cluster": "us"})


@pytest.mark.parametrize("address", ["", "http://h:1", "h:1/metrics", "h 1", "user@h:1", "h?x", "h#x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(WrongTarget, match="must be host:port"):
        target(address, {}, DEFAULTS)


def test_an_ipv6_address_is_one() -> None:
    assert target("[::1]:9100", {}, Defaults(job="j")).url == "http://[::1]:9100/metrics"


def test_yaml_and_json_are_read_and_read_again_on_change(tmp_path: Path) -> None:
    yaml, json = tmp_path / "b.yml", tmp_path / "a.json"
    yaml.write_text("- targets: [y1:1, y2:1]\n  labels: {zone: a}\n- targets: [y3:1]\n")
    json.write_text('[{"targets": ["j1:1"]}]')
    discovery = FileDiscovery([yaml, json], DEFAULTS)
    assert found(discovery) == ["j1:1", "y1:1", "y2:1", "y3:1"]
    json.write_text('[{"targets": ["j1:1", "j2:1"]}]')
    assert found(discovery) == ["j1:1", "j2:1", "y1:1", "y2:1", "y3:1"]
    yaml.write_text("")
    assert found(discovery) == ["j1:1", "j2:1"]


@pytest.mark.parametrize(
    "broken",
    [
        "[",
        "- targets: [a:1",
        "targets: [a:1]",
        "- [a:1]",
        "- targets: a:1",
        "- targets: [1]",
        "- targets: [a:1]\n  label: {}",
        "- labels: {a: b}",
        "- targets: [a:1]\n  labels: {a: 1}",
        "- targets: [a:1]\n  labels: {a-b: x}",
        "- targets: ['http://a:1']",
        "- targets: [a:1]\n  labels: {__scheme__: ftp}",
        "- targets: [a:1]\n- targets: [a:1]\n  targets: [b:1]",
        "[" * 1500,
        "\x00",
        "!!python/object:os.system x",
    ],
)
def test_a_broken_file_keeps_what_it_said_and_complains_once(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    file, other = tmp_path / "t.yaml", tmp_path / "u.yaml"
    file.write_text("- targets: [good:1]\n")
    other.write_text("- targets: [other:1]\n")
    discovery = FileDiscovery([tmp_path / "*.yaml"], DEFAULTS)
    assert found(discovery) == ["good:1", "other:1"]
    file.write_text(broken)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert found(discovery) == ["good:1", "other:1"]
    assert caplog.text.count("the 1 targets it had before are kept") == 1
    file.write_text("- targets: [mended:1]\n")
    assert found(discovery) == ["mended:1", "other:1"]


def test_a_file_that_is_missing_twice_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    discovery = FileDiscovery([file], DEFAULTS)
    assert found(discovery) == []
    for _ in range(2):
        file.write_text('[{"targets": ["a:1"]}]')
        assert found(discovery) == ["a:1"]
        file.unlink()
        assert found(discovery) == ["a:1"]
        assert found(discovery) == []
        assert found(discovery) == []


def test_files_come_and_go_with_the_pattern(tmp_path: Path) -> None:
    discovery = FileDiscovery([tmp_path / "*.json"], DEFAULTS)
    assert found(discovery) == []
    (tmp_path / "a.json").write_text('[{"targets": ["a:1"]}]')
    (tmp_path / "b.txt").write_text('[{"targets": ["b:1"]}]')
    assert found(discovery) == ["a:1"]
