"""A repository that a command in the sandbox makes cannot run a program outside of it.

In a folder without a `.git`, a command made one whose `core.fsmonitor` named a program, or made the
folder itself a bare repository; the next `git status` of the user, also that of a prompt, ran it.
Now what could run a program is renamed when the command has ended, and `git init` works as before.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harken.world.shell.new_repository import unsafe_parts
from tests.unit.world.shell.sandbox_kit import SandboxFolders, sandbox_folders

__all__ = ["sandbox_folders"]

MONITOR = "touch pwned; false"
CONFIG = f'[core]\\nfsmonitor="{MONITOR}"\\n'
HEAD = "echo ref: refs/heads/m > HEAD"
ORDINARY = """[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[user]
	name = Ann O'Neil
	email = ann@example.org
[remote "origin"]
	url = git@example.org:ann/one.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "feature/a-b"]
	remote = origin
	merge = refs/heads/feature/a-b
"""


POINTER = f"git init -q x && git -C x config core.fsmonitor '{MONITOR}' && mv x/.git y"
COMMON = f"mkdir -p c/objects c/refs; printf '{CONFIG}repositoryformatversion=1\\n' > c/config"
WORKTREE = "printf '[extensions]\\nworktreeConfig=true\\n' >> c/config; echo c > commondir"


@pytest.mark.parametrize(
    "command",
    [
        f"git init -q . && git config core.fsmonitor '{MONITOR}'",
        f"{POINTER} && echo gitdir: y > .git",
        f"mkdir objects refs; {HEAD}; printf '{CONFIG}bare=false\\n' > config",
        f"{COMMON}; {WORKTREE}; printf '[core]\\nbare=false\\nworktree=.\\n' > config.worktree; {HEAD}",
    ],
    ids=["config", "pointer", "bare", "two folders"],
)
def test_the_next_git_status_runs_no_program(sandbox_folders: SandboxFolders, command: str) -> None:
    assert "made-by-a-command" in sandbox_folders.run(command)
    home = {
        "HOME": str(sandbox_folders.around),
        "GIT_CEILING_DIRECTORIES": str(sandbox_folders.around),
    }
    subprocess.run(
        ["git", "status"],
        cwd=sandbox_folders.work,
        env={**os.environ, **home, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert not [*sandbox_folders.around.rglob("pwned")]


def test_an_ordinary_new_repository_stays(sandbox_folders: SandboxFolders) -> None:
    result = sandbox_folders.run(
        "git init -q && git config user.name Ann && git remote add o https://a.b/c.git"
    )
    assert result.startswith("exit code 0")
    assert "made-by-a-command" not in result
    assert "https://a.b/c.git" in (sandbox_folders.work / ".git/config").read_text()


def test_settings_that_run_programs_are_told_from_others(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "hooks/pre-commit.sample").touch()
    config = git / "config"
    config.write_text(ORDINARY)
    assert [*unsafe_parts(git)] == []
    for line in (
        "[core] fsmonitor = x",
        "[core]\nfsmonitor = x",
        "[CORE]\nhooksPath = x",
        "[alias]\nst = !x",
        "[include]\npath = x",
        '[filter "a"]\nclean = x',
        "[core]\nbare = false\\\n",
        '[remote "a"]\nurl = ext::x',
        '[remote "a"]\nuploadpack = x',
        '[branch "a"]\nremote = ext::x',
        "[core]\nworktree = ..",
        "[extensions]\nworktreeConfig = true",
        "[core]\rfsmonitor = x",
    ):
        config.write_text(f"{ORDINARY}{line}\n")
        assert [*unsafe_parts(git)] == [str(config)], line
    config.write_text(ORDINARY)
    (git / "hooks/pre-commit").touch()
    assert [*unsafe_parts(git)] == [str(git / "hooks")]
