"""The token of healer's own server."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from healer.config.secrets import token
from healer.errors import ConfigError


def test_a_token_is_made_once_for_this_user_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "token"
    made = token(path)
    assert len(made.get_secret_value()) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token(path) == made
    assert [p.name for p in path.parent.iterdir()] == ["token"]


def test_two_that_make_it_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len({found.get_secret_value() for found in pool.map(token, [tmp_path / "token"] * 8)}) == 1


def test_a_token_of_the_users_own_is_kept(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mine\n")
    assert token(tmp_path / "token").get_secret_value() == "mine"


def test_an_empty_token_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigError, match=r"token:1:1: the token is empty"):
        token(tmp_path / "token")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match="reading the token"):
        token(tmp_path / "data" / "token")
    assert os.listdir(tmp_path) == ["data"]  # noqa: PTH208
