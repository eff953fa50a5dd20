"""The trailer of the hooks of `harken git`: which messages have it, and which are left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harken.attribution.git.commit_context import read_contexts, record_context
from harken.attribution.git.repository import GitRepository
from harken.context.socket_server import ContextSocketServer
from tests.cli.git_hook_kit import ANN, CTX, commit, git, repository, sockets
from tests.cli.git_kit import Repository
from tests.cli.kit import Cli

__all__ = ["repository", "sockets"]
TRAILER = f"Context-Id: {CTX[ANN]}"


@pytest.fixture
def ann(cli: Cli, repository: Repository, sockets: ContextSocketServer) -> str:
    """The socket of an agent, in a repository with hooks and a branch to merge."""
    cli.ok("git", "install")
    git(repository.folder, "checkout", "-qb", "feature")
    (repository.folder / "b.py").write_text("b = 1\n")
    git(repository.folder, "add", "b.py")
    git(repository.folder, "commit", "-qm", "Feature", socket=sockets.path(ANN))
    git(repository.folder, "checkout", "-q", "main")
    commit(repository.folder, "Main")
    return str(sockets.path(ANN))


def message(folder: Path) -> str:
    return git(folder, "log", "-1", "--format=%B").strip()


def contexts(folder: Path) -> list[str]:
    return read_contexts(GitRepository(folder), ["HEAD"]).get("HEAD", [])


def test_a_merge_of_an_agent_keeps_its_subject(repository: Repository, ann: str) -> None:
    folder = repository.folder
    for options, subject in [(("--no-edit",), "Merge branch 'feature'"), (("-m", "Join"), "Join")]:
        git(folder, "merge", *options, "feature", socket=ann)
        assert message(folder) == f"{subject}\n\n{TRAILER}"
        git(folder, "reset", "-q", "--hard", "HEAD~1")
    (folder / "text").write_text("No newline")
    git(folder, "commit", "--allow-empty", "--cleanup=verbatim", "-qF", "text", socket=ann)
    assert message(folder) == f"No newline\n\n{TRAILER}"


def test_a_commit_that_is_aborted_is_not_made(
    repository: Repository, ann: str, tmp_path: Path
) -> None:
    folder = repository.folder
    (folder / "a.py").write_text("z = 3\n")
    template = tmp_path / "template"
    template.write_text("Why:\n# What?\n")
    first = "sed -i 1d"
    for editor, options in [
        ("true", ("-c", "commit.verbose=true", "commit", "-a")),
        ("true", ("-c", "core.commentChar=;", "commit", "-a")),
        ("true", ("-c", "core.commentChar=auto", "commit", "-as")),
        ("true", ("-c", f"commit.template={template}", "commit", "-a")),
        (":", ("commit", "-a")),
        (first, ("commit", "-ae", "-m", "feat: x")),
    ]:
        with pytest.raises(AssertionError, match="Aborting|did not edit"):
            git(folder, *options, socket=ann, GIT_EDITOR=editor)
    typed = "sed -i '1s/^/Typed/'"
    git(folder, "-c", "commit.verbose=true", "commit", "-a", socket=ann, GIT_EDITOR=typed)
    assert message(folder) == f"Typed\n\n{TRAILER}"


def test_a_subject_with_a_number_sign_and_trailer_settings_keep_the_context(
    repository: Repository, ann: str
) -> None:
    folder = repository.folder
    assert commit(folder, "#123: fix", ann) == f"#123: fix\n\n{TRAILER}"
    git(folder, "config", "trailer.separators", "=")
    git(folder, "config", "trailer.context-id.key", "Other")
    git(folder, "config", "trailer.where", "start")
    assert commit(folder, "Fix", ann) == f"Fix\n\n{TRAILER}"
    assert contexts(folder) == [CTX[ANN]]


def test_a_squash_merge_has_the_contexts_of_its_commits(repository: Repository, ann: str) -> None:
    git(repository.folder, "merge", "-q", "--squash", "feature")
    git(repository.folder, "commit", "-q", "--no-edit")
    assert contexts(repository.folder) == [CTX[ANN]]


def test_a_quoted_trailer_is_not_believed(repository: Repository) -> None:
    commit(repository.folder, f"Explain trailers\n\nA commit then has\n{TRAILER}\nas its end.")
    assert contexts(repository.folder) == []
    commit(repository.folder, f"Explain trailers\n\n    {TRAILER}\n\nis indented.")
    assert contexts(repository.folder) == []


def test_a_commit_where_a_rebase_stops_has_the_context(repository: Repository, ann: str) -> None:
    folder = repository.folder
    editor = {"GIT_SEQUENCE_EDITOR": "sed -i 1s/pick/edit/", "GIT_EDITOR": "true"}
    commit(folder, "Second")
    git(folder, "rebase", "-qi", "HEAD~2", socket=ann, **editor)
    (folder / "new.py").write_text("n = 1\n")
    git(folder, "add", "new.py")
    git(folder, "commit", "-qm", "New", socket=ann)
    assert message(folder) == f"New\n\n{TRAILER}"
    git(folder, "rebase", "--continue", socket=ann, **editor)
    assert contexts(folder) == []
    assert message(folder) == "Second"


def test_a_commit_that_is_replayed_is_not_recorded(repository: Repository, ann: str) -> None:
    folder = repository.folder
    git_repository = GitRepository(folder)
    replayed = folder / ".git" / "CHERRY_PICK_HEAD"
    replayed.write_text(git(folder, "rev-parse", "HEAD"))
    assert not record_context(git_repository, "post-commit", (), CTX[ANN], {})
    replayed.unlink()
    assert record_context(git_repository, "post-commit", (), CTX[ANN], {})
    assert contexts(folder) == [CTX[ANN]]


def test_modules_of_the_working_tree_do_not_run_in_a_hook(repository: Repository, ann: str) -> None:
    for name in ("types.py", "harken.py", "json.py"):
        (repository.folder / name).write_text("raise SystemExit(1)\n")
    assert commit(repository.folder, "Fix", ann) == f"Fix\n\n{TRAILER}"
    hook = (repository.folder / ".git" / "hooks" / "commit-msg").read_text()
    assert f"{sys.executable} -P -m harken" in hook
    subprocess.run(["sh", "-n"], input=hook.encode(), check=True)
