"""The token file."""

from __future__ import annotations

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.service.access import ensure_token, read_token

pytestmark = pytest.mark.req("D-07")


def test_token_is_created_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = ensure_token(path)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (ensure_token(path), read_token(path)) == (token, token)
    assert list(tmp_path.iterdir()) == [path]
    assert ensure_token(tmp_path / "other") != token


def test_concurrent_services_share_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(ensure_token, [tmp_path / "token"] * 32))
    assert len(tokens) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o777])
def test_token_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    token = ensure_token(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="other users can read this token") as refused:
        ensure_token(path)
    assert token not in str(refused.value)


@pytest.mark.parametrize("text", ["", "short", "two words " * 8, "\0" * 50, "x" * 5000])
def test_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match="contains no token"):
        ensure_token(path)


def test_links_folders_and_pipes_are_refused_as_token_file(tmp_path: Path) -> None:
    ensure_token(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "folder", "pipe", "no/such"):
        with pytest.raises(ConfigError):
            ensure_token(tmp_path / name)
