"""The change that `harken review` shows: of a commit, a merge, a range or a file."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harken.cli.commands.review.target import MAX_DIFF_BYTES, read_target
from harken.errors import ConfigError
from tests.cli.git_kit import Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with a branch and a clean merge, as the current folder."""
    monkeypatch.chdir(tmp_path)
    new = Repository.create(tmp_path)
    new.commit("First", a_py="1\n")
    new.git("checkout", "-q", "-b", "side")
    new.commit("Side", b_py="2\n")
    new.git("checkout", "-q", "main")
    new.commit("Main", c_py="3\n")
    return new


def added(diff: bytes) -> list[str]:
    return [
        line[1:]
        for line in diff.decode().splitlines()
        if line.startswith("+") and line[1:2].isdigit()
    ]


@pytest.mark.parametrize(
    ("target", "lines", "body"),
    [
        ("side", ["2"], ""),
        ("main..side", ["2"], "Side"),
        ("main...side", ["2"], "Side"),
        ("side..", ["3"], "Main"),
    ],
)
def test_commits_and_ranges_are_read(
    repository: Repository, target: str, lines: list[str], body: str
) -> None:
    change = read_target(target)
    assert added(change.diff) == lines
    assert change.body.endswith(body)


def test_a_merge_is_the_change_against_its_first_parent(repository: Repository) -> None:
    repository.git("merge", "-q", "--no-edit", "side")
    assert added(read_target("HEAD").diff) == ["2"]


@pytest.mark.parametrize(
    "target", ["nowhere", "--output=x", "-r..main", "a..b..c", "main..\0", "..."]
)
def test_what_is_no_commit_is_refused_in_one_line(repository: Repository, target: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_target(target)
    assert "\n" not in str(error.value)
    assert not Path("x").exists()


def test_a_large_diff_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        read_bytes = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            buffer[:] = b"+" * len(buffer)
            self.read_bytes += len(buffer)
            return len(buffer)

    endless = Endless()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    with pytest.raises(ConfigError, match="larger than 16 MB"):
        read_target("-")
    assert endless.read_bytes < MAX_DIFF_BYTES + (1 << 20)
