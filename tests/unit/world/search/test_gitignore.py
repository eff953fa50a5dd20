"""Which files a walk finds: those that git would not ignore, as ripgrep finds them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from harken.world.search.gitignore import parse_ignore_rule, walk
from tests.unit.world.files.filing import RIPGREP, fill

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
RG = pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep")


def found(folder: Path, *, hidden: bool = False) -> list[str]:
    return sorted(walk(str(folder), hidden=hidden))


def found_by_rg(folder: Path, *options: str) -> list[str]:
    flags = ["--no-config", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"]
    command = [str(RIPGREP), "--files", "--null", *flags, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = ["a.py", "b.log", "keep.log", "build/x", "src/a.py", "src/build/y", "src/doc/z.txt"]
    files += ["src/doc/in/z.txt", ".env", ".github/ci.yml", "vendor/lib/a.py", "vendor/b.log"]
    fill(tmp_path, dict.fromkeys(files, "x"))
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_hidden_files_are_left_out_unless_they_are_wanted(repository: Path) -> None:
    fill(repository, {".git/config": "x"})
    assert ".env" not in found(repository)
    everything = found(repository, hidden=True)
    assert {".env", ".github/ci.yml"} <= {*everything}
    assert not [path for path in everything if path.startswith(".git/")]


def test_symlinks_are_not_followed(repository: Path) -> None:
    (repository / "link").symlink_to("src")
    (repository / "file").symlink_to("a.py")
    assert not {"link", "file", "link/a.py"} & {*found(repository)}


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    assert found(tmp_path / "nothing") == []
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / ".git").mkdir()
    assert found(tmp_path) == []


def test_a_gitignore_counts_only_in_a_repository(repository: Path) -> None:
    fill(repository, {".gitignore": "*.log"})
    assert "b.log" not in found(repository)
    (repository / ".git").rmdir()
    assert "b.log" in found(repository)


def test_the_deepest_rule_decides(repository: Path) -> None:
    fill(repository, {".gitignore": "*.log\n*.py", "src/.gitignore": "!a.py\n/doc/*.txt"})
    assert found(repository) == ["build/x", "src/a.py", "src/build/y", "src/doc/in/z.txt"]


def test_rules_above_the_walk_count(repository: Path) -> None:
    fill(repository, {".gitignore": "*.log\nsrc/doc/\n/lib"})
    assert found(repository / "vendor") == ["lib/a.py"]
    assert found(repository / "src") == ["a.py", "build/y"]


def test_an_ignored_folder_can_be_walked_itself(repository: Path) -> None:
    fill(repository, {".gitignore": "vendor/"})
    assert not [path for path in found(repository) if path.startswith("vendor")]
    assert found(repository / "vendor") == ["b.log", "lib/a.py"]


def test_a_repository_within_begins_anew(repository: Path) -> None:
    fill(repository, {".gitignore": "*.log", "vendor/.git": "gitdir: elsewhere"})
    assert found(repository / "vendor") == ["b.log", "lib/a.py"]
    assert {"b.log", "vendor/b.log"} & {*found(repository)} == {"vendor/b.log"}


def test_a_hidden_file_stays_hidden_whatever_git_says(repository: Path) -> None:
    fill(repository, {".gitignore": "!.github/\n!.env"})
    assert not {".env", ".github/ci.yml"} & {*found(repository)}


@pytest.mark.parametrize("line", ["", "# note", "   ", "!", "/", "broken\\"])
def test_what_is_no_rule_is_none(line: str) -> None:
    assert parse_ignore_rule(line) is None


def test_a_hostile_gitignore_is_borne(repository: Path) -> None:
    (repository / ".gitignore").write_bytes(
        b"\xff\xfe[\n*a" * 500 + b"*a" * 5000 + b"b\n[z-a]\n\0\n"
    )
    fill(repository, {"a" * 200: "x"})
    assert "a.py" in found(repository)


PATTERNS = ["*.log", "!keep.log", "build/", "/build", "src/build", "**/doc", "doc/**", "src/**/z.txt",
            "*.txt", "!z.txt", "a.py", "/a.py", "src/*", "!src/a.py", "ven*/", "vendor/*/a.py", "*",
            "!*.py", "!*/", "**/in/", "[ab].py", "[!a].log", "\\!x", "b.log ", "b.log\\ ", "#a.py",
            "do?", "/*", "!/src", "src/", "**", "**/", "a/**/b", "lib", "!.env", ".*"]  # fmt: skip
RULES = st.lists(st.sampled_from(PATTERNS), max_size=4)


@RG
@settings(max_examples=80)
@given(top=RULES, src=RULES, hidden=st.booleans())
def test_a_walk_finds_what_ripgrep_finds(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], src: list[str], hidden: bool
) -> None:
    folder = tmp_path_factory.mktemp("walk")
    files = ["a.py", "b.log", "keep.log", "build/x", "src/a.py", "src/build/y", "src/doc/z.txt"]
    files += ["src/doc/in/z.txt", ".env", "vendor/lib/a.py", "vendor/b.log", "b.log "]
    fill(folder, dict.fromkeys(files, "x"))
    (folder / ".git").mkdir()
    fill(folder, {".gitignore": "\n".join(top), "src/.gitignore": "\n".join(src)})
    options = ["--hidden", "--glob=!.git"] if hidden else ["--glob=!.*"]
    assert found(folder, hidden=hidden) == found_by_rg(folder, *options)
    assert found(folder / "src", hidden=hidden) == found_by_rg(folder / "src", *options)


def not_ignored_by_git(folder: Path) -> list[str]:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    git = ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-coz"]
    command = [*git, "--exclude-per-directory=.gitignore"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout
    return sorted(os.fsdecode(name) for name in listed.split(b"\0") if name)


@GIT
@settings(max_examples=40)
@given(top=RULES, src=RULES)
def test_a_walk_finds_what_git_does_not_ignore(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], src: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("walk")
    files = ["a.py", "b.log", "build/x", "src/a.py", "src/build/y", "src/doc/z.txt", "vendor/b.log"]
    fill(folder, dict.fromkeys(files, "x"))
    fill(folder, {".gitignore": "\n".join(top), "src/.gitignore": "\n".join(src)})
    listed = not_ignored_by_git(folder)  # it makes the folder a repository
    assert found(folder, hidden=True) == listed


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
    """git says so, and pathspec does not: while it differs, the rules are matched here."""
    fill(tmp_path, {".gitignore": "\n".join(rules), "src/doc/z.txt": "x", "src/a.py": "x"})
    assert ignored not in not_ignored_by_git(tmp_path)
    assert found(tmp_path, hidden=True) == not_ignored_by_git(tmp_path)
    assert not GitIgnoreSpec.from_lines(rules).match_file(ignored)


@GIT
def test_a_name_that_is_not_utf8_does_not_end_the_walk(tmp_path: Path) -> None:
    """rignore, a binding to the walk of ripgrep, raises an error for such a name."""
    name = os.fsdecode(b"caf\xe9")
    fill(tmp_path, {name: "x", "a.py": "x"})
    assert found(tmp_path) == not_ignored_by_git(tmp_path) == ["a.py", name]
