"""The files that a walk returns: those that git does not ignore, as in ripgrep."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from harken.world.search.gitignore import parse_ignore_rule, walk
from tests.unit.world.files.file_kit import RIPGREP, write_files

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
RG = pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep")


def walk_files(folder: Path, *, hidden: bool = False) -> list[str]:
    return sorted(walk(str(folder), hidden=hidden))


def ripgrep_files(folder: Path, *options: str) -> list[str]:
    flags = ["--no-config", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"]
    command = [str(RIPGREP), "--files", "--null", *flags, *options]
    completed = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return sorted(os.fsdecode(name) for name in completed.stdout.split(b"\0") if name)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = ["a.py", "b.log", "keep.log", "build/x", "src/a.py", "src/build/y", "src/doc/z.txt"]
    files += ["src/doc/in/z.txt", ".env", ".github/ci.yml", "vendor/lib/a.py", "vendor/b.log"]
    write_files(tmp_path, dict.fromkeys(files, "x"))
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_hidden_files_are_omitted_unless_requested(repository: Path) -> None:
    write_files(repository, {".git/config": "x"})
    assert ".env" not in walk_files(repository)
    everything = walk_files(repository, hidden=True)
    assert {".env", ".github/ci.yml"} <= {*everything}
    assert not [path for path in everything if path.startswith(".git/")]


def test_symlinks_are_not_followed(repository: Path) -> None:
    (repository / "link").symlink_to("src")
    (repository / "file").symlink_to("a.py")
    assert not {"link", "file", "link/a.py"} & {*walk_files(repository)}


def test_unreadable_folder_is_skipped(tmp_path: Path) -> None:
    assert walk_files(tmp_path / "nothing") == []
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / ".git").mkdir()
    assert walk_files(tmp_path) == []


def test_gitignore_applies_only_in_a_repository(repository: Path) -> None:
    write_files(repository, {".gitignore": "*.log"})
    assert "b.log" not in walk_files(repository)
    (repository / ".git").rmdir()
    assert "b.log" in walk_files(repository)


def test_deepest_rule_takes_precedence(repository: Path) -> None:
    write_files(repository, {".gitignore": "*.log\n*.py", "src/.gitignore": "!a.py\n/doc/*.txt"})
    assert walk_files(repository) == ["build/x", "src/a.py", "src/build/y", "src/doc/in/z.txt"]


def test_rules_above_the_walk_apply(repository: Path) -> None:
    write_files(repository, {".gitignore": "*.log\nsrc/doc/\n/lib"})
    assert walk_files(repository / "vendor") == ["lib/a.py"]
    assert walk_files(repository / "src") == ["a.py", "build/y"]


def test_ignored_folder_can_be_walked_itself(repository: Path) -> None:
    write_files(repository, {".gitignore": "vendor/"})
    assert not [path for path in walk_files(repository) if path.startswith("vendor")]
    assert walk_files(repository / "vendor") == ["b.log", "lib/a.py"]


def test_nested_repository_starts_without_rules(repository: Path) -> None:
    write_files(repository, {".gitignore": "*.log", "vendor/.git": "gitdir: elsewhere"})
    assert walk_files(repository / "vendor") == ["b.log", "lib/a.py"]
    assert {"b.log", "vendor/b.log"} & {*walk_files(repository)} == {"vendor/b.log"}


def test_hidden_file_stays_hidden_despite_negated_rules(repository: Path) -> None:
    write_files(repository, {".gitignore": "!.github/\n!.env"})
    assert not {".env", ".github/ci.yml"} & {*walk_files(repository)}


@pytest.mark.parametrize("line", ["", "# note", "   ", "!", "/", "broken\\"])
def test_invalid_rule_is_ignored(line: str) -> None:
    assert parse_ignore_rule(line) is None


def test_hostile_gitignore_is_handled(repository: Path) -> None:
    (repository / ".gitignore").write_bytes(
        b"\xff\xfe[\n*a" * 500 + b"*a" * 5000 + b"b\n[z-a]\n\0\n"
    )
    write_files(repository, {"a" * 200: "x"})
    assert "a.py" in walk_files(repository)


PATTERNS = ["*.log", "!keep.log", "build/", "/build", "src/build", "**/doc", "doc/**", "src/**/z.txt",
            "*.txt", "!z.txt", "a.py", "/a.py", "src/*", "!src/a.py", "ven*/", "vendor/*/a.py", "*",
            "!*.py", "!*/", "**/in/", "[ab].py", "[!a].log", "\\!x", "b.log ", "b.log\\ ", "#a.py",
            "do?", "/*", "!/src", "src/", "**", "**/", "a/**/b", "lib", "!.env", ".*"]  # fmt: skip
RULES = st.lists(st.sampled_from(PATTERNS), max_size=4)


@RG
@settings(max_examples=80)
@given(top=RULES, src=RULES, hidden=st.booleans())
def test_walk_returns_the_same_files_as_ripgrep(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], src: list[str], hidden: bool
) -> None:
    folder = tmp_path_factory.mktemp("walk")
    files = ["a.py", "b.log", "keep.log", "build/x", "src/a.py", "src/build/y", "src/doc/z.txt"]
    files += ["src/doc/in/z.txt", ".env", "vendor/lib/a.py", "vendor/b.log", "b.log "]
    write_files(folder, dict.fromkeys(files, "x"))
    (folder / ".git").mkdir()
    write_files(folder, {".gitignore": "\n".join(top), "src/.gitignore": "\n".join(src)})
    options = ["--hidden", "--glob=!.git"] if hidden else ["--glob=!.*"]
    assert walk_files(folder, hidden=hidden) == ripgrep_files(folder, *options)
    assert walk_files(folder / "src", hidden=hidden) == ripgrep_files(folder / "src", *options)


def git_files(folder: Path) -> list[str]:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    git = ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-coz"]
    command = [*git, "--exclude-per-directory=.gitignore"]
    listing = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout
    return sorted(os.fsdecode(name) for name in listing.split(b"\0") if name)


@GIT
@settings(max_examples=40)
@given(top=RULES, src=RULES)
def test_walk_returns_the_files_that_git_does_not_ignore(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], src: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("walk")
    files = ["a.py", "b.log", "build/x", "src/a.py", "src/build/y", "src/doc/z.txt", "vendor/b.log"]
    write_files(folder, dict.fromkeys(files, "x"))
    write_files(folder, {".gitignore": "\n".join(top), "src/.gitignore": "\n".join(src)})
    listing = git_files(folder)  # This makes the folder a repository.
    assert walk_files(folder, hidden=True) == listing


@GIT
@pytest.mark.parametrize(
    ("rules", "ignored"),
    [
        (["src/", "!z.txt"], "src/doc/z.txt"),
        (["**", "!src/a.py"], "src/a.py"),
        (["**/doc", "!/src"], "src/doc/z.txt"),
    ],
)
def test_files_of_an_ignored_folder_stay_ignored(
    tmp_path: Path, rules: list[str], ignored: str
) -> None:
    """As in git. pathspec differs, and therefore Harken matches the rules itself."""
    write_files(tmp_path, {".gitignore": "\n".join(rules), "src/doc/z.txt": "x", "src/a.py": "x"})
    assert ignored not in git_files(tmp_path)
    assert walk_files(tmp_path, hidden=True) == git_files(tmp_path)
    assert not GitIgnoreSpec.from_lines(rules).match_file(ignored)


@GIT
def test_non_utf8_name_does_not_end_the_walk(tmp_path: Path) -> None:
    """rignore, a binding to the walk of ripgrep, raises an error for such a name."""
    name = os.fsdecode(b"caf\xe9")
    write_files(tmp_path, {name: "x", "a.py": "x"})
    assert walk_files(tmp_path) == git_files(tmp_path) == ["a.py", name]
