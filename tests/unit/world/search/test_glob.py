"""Glob patterns and the files that they match."""

import subprocess
import time
from pathlib import Path

import pytest

from harken.world.search.glob import MAX_ALTERNATIVES, alternatives, glob_of
from tests.unit.world.files.file_kit import RIPGREP, write_files


def is_match(pattern: str, path: str) -> bool:
    glob = glob_of(pattern)
    assert glob.folder == ""
    return glob.matcher()(path)


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.pyc"]),
        ("*/a.py", ["x/a.py"], ["a.py", "x/y/a.py"]),
        ("**/test/**", ["test/a", "x/test/y/a"], ["test", "x/test"]),
        ("**/x/**/y", ["x/y", "a/x/b/c/y"], ["x/z", "y"]),
        ("{a,b/c}.txt", ["a.txt", "b/c.txt"], ["c.txt", "x/a.txt"]),
        ("*.{ts,{j,m}s}", ["a.ts", "x/a.js", "a.ms"], ["a.s"]),
        ("a?c", ["abc", "x/a-c"], ["ac", "a/c"]),
        ("[a-c]1", ["b1"], ["d1"]),
        ("[!a-c]1", ["d1"], ["b1"]),
        ("[^a-c]1", ["d1"], ["b1"]),
        (r"\*", ["*"], ["a"]),
        (r"a\{b,c\}", ["a{b,c}"], ["ab"]),
        ("{a", ["{a"], ["a"]),
        ("**", ["a", "x/y"], []),
        ("./*.py", ["a.py"], ["x/a.py"]),
        ("*/", ["x/a", "x/y/a"], ["a"]),
        ("*.{py}", ["a.py"], ["a.{py}"]),
        ("{}", [], ["a", "{}"]),
        ("{,a}", ["a", "x/a"], ["b"]),
        ("naïve-*", ["naïve-日本"], ["naive-x"]),
    ],
)
def test_pattern_matches_these_files(pattern: str, fitting: list[str], others: list[str]) -> None:
    glob = glob_of(pattern)
    matches = glob.matcher()
    assert [path for path in [*fitting, *others] if matches(path)] == fitting


FILES = ["a.py", "x/a.py", "x/y/a.py", "test/a", "x/test/y/a", "b/c.txt", "a.ts", "a.js", "abc",
         "x/a-c", "b1", "d1", "x/b1", "a{b,c}", "*", "]", "-1", "a|b", "@(a)", "!b", "naïve-日本"]  # fmt: skip


@pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep")
@pytest.mark.parametrize(
    "pattern",
    ["*.py", "**/*.py", "*/a.py", "**/test/**", "**/x/**/y/*", "{a,b/c}.*", "*.{ts,{j,m}s}", "*.{py}",
     "a?c", "[a-c]1", "[!x]1", "[a-]1", "[]a]*", r"\*", r"a\{b,c\}", "**", "./*.py", "x**", "a}", "{}",
     "@(a)", "a|b", "[[:alpha:]]1", "?", "naïve-*", "/x/*.py", "*/**/a.py", "**/**/a.py",
     "{b,x}/**", "x/{a,b}*"],
)  # fmt: skip
def test_pattern_matches_the_same_files_as_ripgrep(tmp_path: Path, pattern: str) -> None:
    write_files(tmp_path, dict.fromkeys(FILES, "x"))
    command = [str(RIPGREP), "--no-config", "--files", "--null", "--hidden", "--glob", pattern]
    listing = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    glob = glob_of(pattern)
    folder, matches = f"{glob.folder}/".lstrip("/"), glob.matcher()
    assert sorted(
        name for name in FILES if name.startswith(folder) and matches(name.removeprefix(folder))
    ) == sorted(name for name in listing.stdout.split("\0") if name)


def test_pattern_starts_in_its_literal_folder() -> None:
    assert (glob_of("src/**/*.py").folder, glob_of("src/**/*.py").rest) == ("src", "**/*.py")
    assert (glob_of("/a/b/*.c").folder, glob_of("/a/b/*.c").rest) == ("/a/b", "*.c")
    assert glob_of("/*.c").folder == "/"
    assert (glob_of("a/b.c").folder, glob_of("a/b.c").rest) == ("a/b.c", "")
    assert (glob_of("b.c").folder, glob_of("b.c").rest) == ("", "b.c")
    assert (glob_of("src/").folder, glob_of("src/").rest) == ("src", "**")


@pytest.mark.parametrize("pattern", [".*", "**/.env", "x/{a,.b}", "src/*/.git*"])
def test_pattern_may_name_hidden_files(pattern: str) -> None:
    assert glob_of(pattern).hidden


@pytest.mark.parametrize("pattern", ["*", "**/*.py", ".github/*.yml", "a.b"])
def test_dot_within_a_name_hides_nothing(pattern: str) -> None:
    assert not glob_of(pattern).hidden


def test_only_plain_name_patterns_are_passed_to_ripgrep() -> None:
    assert glob_of("*.{ts,tsx}").type_glob == "*.{ts,tsx}"
    assert glob_of("src/*.py").type_glob is None
    assert glob_of("[a-z].py").type_glob is None
    assert glob_of("a:b").type_glob is None


def test_nested_braces_are_bounded() -> None:
    assert len(alternatives("{a,b}" * 9)) == 512
    with pytest.raises(ValueError, match=str(MAX_ALTERNATIVES)):
        alternatives("{a,b}" * 40)


def test_any_pattern_is_matched_in_linear_time() -> None:
    began = time.monotonic()
    assert not is_match("*a" * 50 + "b", "a" * 250)
    assert not is_match("**/a/" * 30 + "b", "a/" * 200 + "c")
    assert not is_match("**/*a*a*a*a*a*b", "a" * 250)
    assert time.monotonic() - began < 20  # Backtracking would take years.
