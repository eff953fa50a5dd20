"""The list of the commands of hooks that a user let run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.config.allowed_commands import AllowedCommands
from harken.config.home import Home
from harken.errors import ConfigError

ONE, OTHER = "1" * 64, "2" * 64


def test_what_was_let_run_is_known_in_this_home_and_only_there(tmp_path: Path) -> None:
    known = AllowedCommands(Home(str(tmp_path / "home")))
    assert ONE not in known
    known.add(ONE)
    known.add(ONE)
    assert list(AllowedCommands(Home(str(tmp_path / "home")))) == [ONE]
    assert OTHER not in known
    assert len(AllowedCommands(Home(str(tmp_path / "other")))) == 0
    assert (tmp_path / "home/let-run.txt").stat().st_mode & 0o777 == 0o600


def test_a_list_that_is_a_link_or_no_file_lets_nothing_run(tmp_path: Path) -> None:
    (tmp_path / "let-run.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="write failed"):
        AllowedCommands(Home(str(tmp_path))).add(ONE)
    (tmp_path / "let-run.txt").unlink()
    (tmp_path / "let-run.txt").mkdir()
    with pytest.raises(ConfigError, match="read failed"):
        assert ONE in AllowedCommands(Home(str(tmp_path)))
