"""`harken git`: commits carry the context of the agent that made them, and are never blocked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harken.context.socket_server import ContextSocketServer
from tests.cli.git_hook_kit import ANN, BOB, CTX, commit, git, repository, script, sockets
from tests.cli.git_kit import Repository
from tests.cli.kit import Cli

__all__ = ["repository", "sockets"]

HOOKS = ("commit-msg", "post-commit")


def test_a_commit_of_an_agent_has_its_context_and_one_of_a_person_has_none(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    cli.ok("git", "install")
    folder = repository.folder
    assert commit(folder, "Person") == "Person"
    assert commit(folder, "Ann", sockets.path(ANN)) == f"Ann\n\nContext-Id: {CTX[ANN]}"
    assert commit(folder, "Quick", sockets.path(ANN), "--no-verify") == "Quick"
    assert git(folder, "notes", "--ref=harken", "show").strip() == f"Context-Id: {CTX[ANN]}"
    assert [row["state"] for row in cli.ok("git", "status", "--json").json["hooks"]] == (
        ["installed"] * 2
    )


def test_an_editor_gets_no_trailer_before_there_is_a_message(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    cli.ok("git", "install")
    (repository.folder / "a.py").write_text("z = 3\n")
    ann = str(sockets.path(ANN))
    with pytest.raises(AssertionError, match="empty commit message"):
        git(repository.folder, "commit", "-a", socket=ann, GIT_EDITOR="true")
    git(repository.folder, "commit", "-a", socket=ann, GIT_EDITOR="echo Typed >")
    message = git(repository.folder, "log", "-1", "--format=%B").strip()
    assert message == f"Typed\n\nContext-Id: {CTX[ANN]}"


def test_two_agents_that_commit_each_leave_their_own_context(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    cli.ok("git", "install")
    folder = repository.folder
    ann, bob = (sockets.path(agent) for agent in (ANN, BOB))
    assert commit(folder, "Ann", ann).endswith(CTX[ANN])
    assert commit(folder, "Bob", bob).endswith(CTX[BOB])
    git(folder, "commit", "-q", "--amend", "--no-edit", socket=ann)
    git(folder, "commit", "-q", "--amend", "--no-edit", socket=ann)
    message = git(folder, "log", "-1", "--format=%B").strip()
    assert message == f"Bob\n\nContext-Id: {CTX[BOB]}\nContext-Id: {CTX[ANN]}"


def test_commits_that_are_replayed_keep_their_contexts(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    cli.ok("git", "install")
    folder = repository.folder
    git(folder, "checkout", "-qb", "feature")
    commit(folder, "Person")
    commit(folder, "Ann", sockets.path(ANN))
    git(folder, "checkout", "-q", "main")
    (folder / "b.py").write_text("b = 1\n")
    git(folder, "add", "b.py")
    git(folder, "commit", "-qm", "Main")
    git(folder, "rebase", "-q", "main", "feature", socket=sockets.path(BOB))
    log = git(folder, "log", "-2", "--format=%s %(trailers:key=Context-Id,valueonly)")
    assert [line for line in log.splitlines() if line] == [f"Ann {CTX[ANN]}", "Person "]


def test_notes_hold_the_context_and_follow_a_rewritten_commit(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    cli.ok("git", "install", "--in", "notes")
    folder = repository.folder
    assert commit(folder, "Ann", sockets.path(ANN)) == "Ann"
    git(folder, "commit", "-q", "--amend", "-m", "Amended by a person")
    assert git(folder, "notes", "--ref=harken", "show").strip() == f"Context-Id: {CTX[ANN]}"
    cli.ok("git", "install")
    assert commit(folder, "Trailer", sockets.path(ANN)).endswith(CTX[ANN])


@pytest.mark.parametrize("socket", ["/nowhere", "\n", "x" * 200])
def test_a_broken_socket_and_a_missing_program_block_nothing(
    cli: Cli, repository: Repository, socket: str
) -> None:
    cli.ok("git", "install")
    assert commit(repository.folder, "Work", socket) == "Work"
    for name in HOOKS:
        hook = repository.folder / ".git" / "hooks" / name
        words = hook.read_text().split("\n")
        hook.write_text("\n".join("  /missing/harken" if "run-hook" in x else x for x in words))
    assert commit(repository.folder, "More", socket) == "More"


def test_a_missing_and_a_broken_store_change_nothing(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    cli.ok("git", "install")
    assert commit(repository.folder, "Missing", sockets.path(ANN)).endswith(CTX[ANN])
    cli.home.mkdir(exist_ok=True)
    (cli.home / "store.db").write_bytes(b"no database")
    (cli.home / "config.toml").write_text("no toml")
    assert commit(repository.folder, "Broken", sockets.path(ANN)).endswith(CTX[ANN])


def test_hooks_of_the_user_run_as_before_and_are_put_back(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    hooks = repository.folder / ".git" / "hooks"
    script(hooks / "commit-msg", 'echo "$# $(head -n 1 "$1")" >> seen; grep -qv WIP "$1"')
    script(hooks / "post-commit", "echo done >> seen")
    before = {path: path.read_bytes() for path in hooks.iterdir()}
    cli.ok("git", "install")
    cli.ok("git", "install")
    commit(repository.folder, "Ann", sockets.path(ANN))
    assert (repository.folder / "seen").read_text() == "1 Ann\ndone\n"
    with pytest.raises(AssertionError, match="returncode=1"):
        commit(repository.folder, "WIP")
    cli.ok("git", "uninstall")
    assert {path: path.read_bytes() for path in hooks.iterdir()} == before
    assert cli("git", "status").code == 1
    assert "nothing" in cli.ok("git", "uninstall").out
    config = git(repository.folder, "config", "--local", "--list")
    assert "harken" not in config


def test_worktrees_share_the_hooks_and_submodules_have_their_own(
    cli: Cli, repository: Repository, sockets: ContextSocketServer, tmp_path: Path
) -> None:
    cli.ok("git", "install")
    tree = tmp_path / "tree"
    git(repository.folder, "worktree", "add", "-q", "-b", "other", str(tree))
    assert commit(tree, "In a worktree", sockets.path(ANN)).endswith(CTX[ANN])
    Repository.create(tmp_path / "part").commit("Begin", a_py="p = 1\n")
    allow = ("-c", "protocol.file.allow=always")
    git(repository.folder, *allow, "submodule", "add", "-q", str(tmp_path / "part"), "part")
    part = repository.folder / "part"
    for name, value in [("user.name", "Jill"), ("user.email", "jill@example.com")]:
        git(part, "config", name, value)
    assert commit(part, "Without hooks", sockets.path(ANN)) == "Without hooks"
    os.chdir(part)
    cli.ok("git", "install")
    assert commit(part, "With hooks", sockets.path(ANN)).endswith(CTX[ANN])


def test_a_folder_of_hooks_of_the_repository_is_used(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    script(repository.folder / ".husky" / "commit-msg", "echo ran >> seen")
    git(repository.folder, "config", "core.hooksPath", ".husky")
    cli.ok("git", "install")
    assert commit(repository.folder, "Ann", sockets.path(ANN)).endswith(CTX[ANN])
    assert (repository.folder / "seen").read_text() == "ran\n"
    cli.ok("git", "uninstall")
    assert [path.name for path in (repository.folder / ".husky").iterdir()] == ["commit-msg"]


def test_hooks_that_all_repositories_share_are_left_alone(
    cli: Cli, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[core]\n\thooksPath = {tmp_path / 'shared'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert "for all repositories" in cli.refused("git", "install")
    assert not (tmp_path / "shared").exists()


def test_no_repository_is_explained(cli: Cli) -> None:
    assert "not in a git repository" in cli.refused("git", "install")
    assert "not in a git repository" in cli.refused("git", "status")
