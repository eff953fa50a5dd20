"""The files of the hooks of `harken git`, beside those of the user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harken.context.socket_server import ContextSocketServer
from tests.cli.git_hook_kit import ANN, CTX, commit, git, repository, script, sockets
from tests.cli.git_kit import Repository
from tests.cli.kit import Cli

__all__ = ["repository", "sockets"]


def test_an_earlier_hook_has_its_name_and_its_folder(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    """A manager of hooks reads its program beside the hook, and dispatches on the name."""
    hooks = repository.folder / ".husky" / "_"
    script(hooks / "commit-msg", '. "${0%/*}/h"')
    (hooks / "h").write_text(
        'n=$(basename "$0")\n'
        's=$(dirname "$(dirname "$0")")/$n\n'
        '[ -f "$s" ] || exit 0\nsh -e "$s" "$@"\nexit $?\n'
    )
    (repository.folder / ".husky" / "commit-msg").write_text('grep -q "^feat" "$1"\n')
    script(hooks / "post-commit", "")
    (hooks / "post-commit").write_text(
        f"#!{sys.executable}\nimport sys\nopen('seen', 'a').write(sys.argv[0][-12:] + '\\n')\n"
    )
    git(repository.folder, "config", "core.hooksPath", ".husky/_")
    cli.ok("git", "install")
    assert commit(repository.folder, "feat: x", sockets.path(ANN)).endswith(CTX[ANN])
    assert (repository.folder / "seen").read_text() == "/post-commit\n"
    with pytest.raises(AssertionError, match="returncode=1"):
        commit(repository.folder, "fix: x")


def test_a_hook_that_the_user_changed_is_kept(cli: Cli, repository: Repository) -> None:
    cli.ok("git", "install")
    hook = repository.folder / ".git" / "hooks" / "commit-msg"
    changed = hook.read_text() + "# mine\n"
    hook.write_text(changed)
    states = [row["state"] for row in cli("git", "status", "--json").json["hooks"]]
    assert states == ["changed", "installed"]
    assert "was changed" in cli.refused("git", "install")
    out = cli.ok("git", "uninstall").out
    assert f"left: {hook} (changed since it was installed)" in out
    assert hook.read_text() == changed


def test_hooks_are_installed_all_or_none(cli: Cli, repository: Repository) -> None:
    hooks = repository.folder / ".git" / "hooks"
    script(hooks / "commit-msg", "true")
    script(hooks / "post-commit", "true")
    script(hooks / "before-harken" / "post-commit", "true")
    before = {path: path.read_bytes() for path in hooks.rglob("*") if path.is_file()}
    assert "merge the two and delete one" in cli.refused("git", "install")
    (hooks / "before-harken" / "post-commit").rename(hooks / "saved")
    (hooks / "post-commit.harken-new").mkdir()
    cli.refused("git", "install")
    (hooks / "saved").rename(hooks / "before-harken" / "post-commit")
    after = {path: path.read_bytes() for path in hooks.rglob("*") if path.is_file()}
    assert after == before
    assert "left: " in cli.ok("git", "uninstall").out


def test_the_scope_of_a_folder_of_hooks_is_named(
    cli: Cli, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    git(repository.folder, "worktree", "add", "-q", str(tree))
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[core]\n\thooksPath = {tmp_path / 'shared'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    os.chdir(tree)
    advice = cli.refused("git", "install")
    assert f"core.hooksPath {repository.folder / '.git' / 'hooks'}`" in advice
    git(repository.folder, "config", "extensions.worktreeConfig", "true")
    git(tree, "config", "--worktree", "core.hooksPath", str(tmp_path / "own"))
    assert "own of this worktree" in cli.ok("git", "install").out


def test_a_tracked_folder_of_hooks_is_named(cli: Cli, repository: Repository) -> None:
    script(repository.folder / ".githooks" / "pre-push", "true")
    repository.commit("Hooks")
    git(repository.folder, "config", "core.hooksPath", ".githooks")
    assert "a folder of tracked files" in cli.ok("git", "install").err
