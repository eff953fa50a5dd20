"""The directory of a team in a SQLite file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harken.errors import ConfigError, StoreError
from harken.teams.directory import TeamDirectory
from harken.teams.sqlite_directory import SqliteDirectory
from harken.testing.directory import DirectorySuite, token_of, user_of


class TestSqliteDirectory(DirectorySuite):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "team.db"

    def directory(self) -> TeamDirectory:
        return SqliteDirectory(self.path)

    def reopen(self, directory: TeamDirectory) -> TeamDirectory:
        return SqliteDirectory(self.path)


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    directory = SqliteDirectory(path)
    directory.add_user(user_of("ann"))
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    directory.close()
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        SqliteDirectory(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "team.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        SqliteDirectory(tmp_path / "team.db")


def test_another_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    path.write_bytes(b"no database" * 100)
    path.chmod(0o600)
    with pytest.raises(StoreError):
        SqliteDirectory(path)
    assert path.read_bytes() == b"no database" * 100


def test_the_file_does_not_contain_a_token(tmp_path: Path) -> None:
    from harken.teams.tokens import create_token

    directory = SqliteDirectory(tmp_path / "team.db")
    directory.add_user(user_of("ann"))
    token, record = create_token("ann", "laptop", now_us=0)
    directory.add_token(record)
    directory.add_token(token_of("ann", 1))
    directory.close()
    for file in tmp_path.iterdir():
        assert token.encode() not in file.read_bytes()
        assert token[4:].encode() not in file.read_bytes()
