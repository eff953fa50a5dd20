"""No program that a repository names is started, whatever is read of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harken.attribution.changes import find_commit, list_added_ranges
from harken.attribution.git.blame import blame
from harken.attribution.git.commit_context import read_contexts
from harken.attribution.git.history import FileVersion, VersionReader, list_earlier_versions
from harken.attribution.git.repository import HEAD, GitRepository
from harken.attribution.git.tracked_files import find_current_names, list_tracked
from harken.errors import ConfigError
from tests.cli.git_kit import Repository

PROGRAM_SETTINGS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"),
    *("credential.helper", "diff.external", "diff.evil.command", "diff.evil.textconv"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "filter.e=x.clean"),
    *("gpg.program", "uploadpack.packObjectsHook"),
)
HOOKS = ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman")


class Hostile:
    """A repository whose settings, attributes and hooks name programs that leave a mark."""

    def __init__(self, folder: Path) -> None:
        self._marks = folder / "marks"
        self._marks.mkdir()
        self.repository = Repository.create(folder / "repository")
        module = Repository.create(folder / "module")
        module.commit("Begin", text="1\n")
        self.first = self.repository.commit(
            "Begin", a="1\n2\n", b_py="def f():\n    1\n", gone="!\n"
        )
        self.repository.git(
            *("-c", "protocol.file.allow=always"),
            *("submodule", "add", "-q", str(module.folder), "module"),
        )
        self.repository.commit("Change", a="1\n2!\n3\n")
        self.top = self.repository.folder
        for number, settings in enumerate((".git/config", ".git/modules/module/config")):
            self._write_settings(self.top / settings, str(number))
        self._write_hooks(folder / "hooks")
        # Files differ from the index, so git reads their content.
        self.repository.write("a", "1\n2!\n3\n4\n")
        self.repository.write("module/text", "2\n")
        for path in ("b.py", "module/text"):
            os.utime(self.top / path, (1, 1))
        attributes = "* filter=evil diff=evil\na filter=e=x\n"
        self.repository.write(".gitattributes", attributes)
        self.repository.write("module/.gitattributes", attributes)
        self._promise(f"{self.first}:gone")

    def _write_settings(self, file: Path, prefix: str) -> None:
        values = {
            **{name: self._command(f"{prefix} {name}") for name in PROGRAM_SETTINGS},
            "log.showSignature": "true",
            "diff.ignoreSubmodules": "none",
            "protocol.allow": "always",
            "remote.there.url": "ssh://there.invalid/there",
            "remote.there.promisor": "true",
            "extensions.partialClone": "there",
            "core.repositoryFormatVersion": "1",
        }
        for name, value in values.items():
            self.repository.git("config", "--file", str(file), name, value)

    def _write_hooks(self, folder: Path) -> None:
        folder.mkdir()
        for name in HOOKS:
            (folder / name).write_text(f"#!/bin/sh\n{self._command(name)}\n")
            (folder / name).chmod(0o755)
        self.repository.git("config", "core.hooksPath", str(folder))

    def _promise(self, name: str) -> None:
        """Remove an object, which the configured remote then seems to have."""
        blob = self.repository.git("rev-parse", name).strip()
        (self.top / ".git/objects" / blob[:2] / blob[2:]).unlink()

    def _command(self, name: str) -> str:
        return f"touch '{self._marks}/{name}'; exit 1 #"

    def started(self) -> list[str]:
        """Return the names of the programs that were started since the last call."""
        marks = sorted(self._marks.iterdir())
        for mark in marks:
            mark.unlink()
        return [mark.name for mark in marks]


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


def read_everything(git: GitRepository, first: str) -> Iterator[Callable[[], object]]:
    """Yield the functions that read a repository."""
    head = find_commit(git, HEAD) or ""
    version = FileVersion("0" * 40, "a", f"{head}:a", 0, 0, is_uncommitted=True)
    reader = VersionReader(git)
    yield lambda: (git.is_shallow, git.first_commits, git.common_folder, git.tracked_paths)
    yield lambda: (list_tracked(git), list_tracked(git, head), git.was_tracked("none"))
    yield lambda: blame(git, "a")
    yield lambda: blame(git, "b.py", head)
    yield lambda: git.find_function("b.py", "f")
    yield lambda: git.find_lines(["2!"], head)
    yield lambda: git.find_lines(["!"], first)
    yield lambda: find_commit(git, "1" * 40)
    yield lambda: list_added_ranges(git, first)
    yield lambda: list_added_ranges(git, head)
    yield lambda: read_contexts(git, [head])
    yield lambda: reader.read(version)
    yield lambda: reader.list_removed_lines(version)
    yield lambda: list_earlier_versions(git, version, 0)
    yield lambda: find_current_names(git, ["gone", "other"])


def test_a_hostile_repository_starts_no_program(hostile: Hostile) -> None:
    git = GitRepository(hostile.top)
    for number, read in enumerate(read_everything(git, hostile.first)):
        with suppress(ConfigError):
            read()
        assert hostile.started() == [], number
    assert [line.text for line in blame(git, "a")] == ["1", "2!", "3", "4"]
    git.close()
    GitRepository(hostile.top / "module").close()
    assert hostile.started() == []


def test_an_object_that_only_a_remote_has_is_missing(hostile: Hostile) -> None:
    git = GitRepository(hostile.top)
    names = [f"{hostile.first}:gone", f"{hostile.first}:a"]
    assert [*git.read_blobs(names)] == names[1:]
    assert [*git.read_blobs(reversed(names))] == names[1:]
    git.close()
    with pytest.raises(ConfigError, match="objects are missing; `git fetch --refetch"):
        list_added_ranges(git, hostile.first)
    assert hostile.started() == []


def test_a_repository_inside_of_tracked_files_is_not_opened(tmp_path: Path) -> None:
    """Git takes a folder with the files of a bare repository for one; a commit may add it."""
    outer = Repository.create(tmp_path / "outer")
    outer.commit("Begin", a="1\n")
    bare = outer.folder / "bare"
    bare.mkdir()
    outer.git("init", "-q", "--bare", str(bare))
    outer.git("config", "--file", str(bare / "config"), "core.bare", "false")
    outer.git("config", "--file", str(bare / "config"), "core.worktree", str(outer.folder))
    with pytest.raises(ConfigError):
        GitRepository(bare)


def test_git_is_not_searched_in_the_repository(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = hostile.top / "git"
    program.write_text(f"#!/bin/sh\n: > {tmp_path}/ran\n")
    program.chmod(0o755)
    with pytest.raises(ConfigError, match="git is not installed"):
        GitRepository(hostile.top, {"PATH": f":.:{tmp_path / 'nowhere'}"})
    assert not (tmp_path / "ran").exists()


def test_a_configuration_with_very_many_filters_is_refused(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "repository")
    repository.commit("Begin", a="1\n")
    with (repository.folder / ".git/config").open("a") as file:
        file.writelines(f'[filter "n{number}"]\nclean = cat\n' for number in range(200))
    git = GitRepository(repository.folder)
    with pytest.raises(ConfigError, match="more than 100 filters"):
        blame(git, "a")


def test_a_configuration_that_includes_a_pipe_does_not_block(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "repository")
    os.mkfifo(tmp_path / "pipe")
    with (repository.folder / ".git/config").open("a") as file:
        file.write(f"[include]\npath = {tmp_path / 'pipe'}\n")
    with pytest.raises(ConfigError, match=r"git has no answer after 0\.5 s"):
        GitRepository(repository.folder, open_timeout_s=0.5)
