"""Subjects of rules: texts, and paths after resolution."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harken import Tool, tool
from harken.world.permissions.subjects import PathSubject, TextSubject, subjects_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "secrets").mkdir()
    (folder / "src" / "shortcut").symlink_to(folder / "secrets")
    (folder / "src" / "out").symlink_to(tmp_path)
    (folder / "round").symlink_to("round")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "./src/a.py",
        "src//a.py",
        "src/./a.py",
        "src/deep/../a.py",
        "secrets/../src/a.py",
        "src/new/and/deep.py",
        "src",
        "{folder}/src/a.py",
        "//{folder}/src/a.py",
    ],
)
def test_path_matches_in_each_notation(folder: Path, path: str) -> None:
    path = path.replace("{folder}", str(folder))
    subject = PathSubject(path, folder)
    assert subject.is_inside
    assert subject.is_within(["src/**"])
    assert subject.is_within(["./src/**"])
    assert subject.is_within([f"{folder}/**"])
    assert subject.match_pattern("src/**") == "yes"
    assert subject.match_pattern("secrets/**") == "no"


@pytest.mark.parametrize(
    "path",
    [
        "src/../x",
        "src/../../x",
        "src/../secrets/x",
        "src/shortcut/x",
        "src/out/x",
        "src/out/../x",
        "../project2/src/x",
        "/etc/passwd",
        "/src/x",
        "//etc/passwd",
        "secrets/src/x",
        "srcs/x",
        "SRC/x",
        "",
        ".",
        "src/\x00",
        "src/\ud800",
    ],
)
def test_no_path_bypasses_an_allow_rule(folder: Path, path: str) -> None:
    assert not PathSubject(path, folder).is_within(["src/**"])


@pytest.mark.parametrize(
    "path",
    [
        "secrets/key",
        "./secrets/../secrets/key",
        "src/../secrets/key",
        "src/shortcut/key",
        "Secrets/KEY",
        "{folder}/secrets/key",
        "//{folder}/secrets/key",
        "../project/secrets/key",
        "secrets",
        "secrets/\x00",
    ],
)
@pytest.mark.parametrize(
    "pattern", ["secrets/**", "**/secrets/**", "/**/secrets/**", "secrets", "secrets/"]
)
def test_no_path_bypasses_a_deny_rule(folder: Path, path: str, pattern: str) -> None:
    path = path.replace("{folder}", str(folder))
    assert PathSubject(path, folder).match_pattern(pattern) == "yes"


def test_deny_pattern_with_leading_two_stars_matches_everywhere(folder: Path) -> None:
    assert PathSubject("/elsewhere/.env", folder).match_pattern("**/.env") == "yes"
    assert PathSubject("/elsewhere/.env", folder).match_pattern(".env") == "no"
    assert not PathSubject("/elsewhere/.env", folder).is_within(["**/.env", "**"])
    assert PathSubject("/elsewhere/.env", folder).is_within(["/elsewhere/**"])
    assert PathSubject("a/b.py", folder).match_pattern("a/**.py") == "yes"


def test_shown_name_is_judged_as_its_file(folder: Path) -> None:
    (folder / "src" / "odd\nlink").symlink_to(folder / "secrets")
    (folder / "secrets" / "key").touch()
    subject = PathSubject(r"src/odd\x0alink/key", folder)
    assert subject.match_pattern("secrets/**") == "yes"
    assert not subject.is_within(["src/**"])


def test_trailing_star_of_a_deny_rule_stays_within_a_name(folder: Path) -> None:
    assert PathSubject("src/deep/a.py", folder).match_pattern("src/*") == "no"
    assert PathSubject("src/deep/a.py", folder).match_pattern("src/*.py") == "no"
    assert PathSubject("secrets2/a", folder).match_pattern("secrets/") == "no"
    assert not PathSubject("src/a.py", folder).is_within(["src"])


def test_deny_rule_matches_confusable_letters(folder: Path) -> None:
    assert PathSubject("geha\u0308use/x", folder).match_pattern("GEHÄUSE/**") == "yes"


def test_unresolvable_path_is_neither_allowed_nor_passed(folder: Path) -> None:
    assert PathSubject("\x00", folder).match_pattern("src/**") == "unknown"
    assert not PathSubject("\x00", folder).is_inside
    assert PathSubject("round/x", folder).is_inside


def test_symlinked_folder_is_resolved_to_its_target(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert PathSubject("src/a", link).is_within(["src/**"])
    assert PathSubject(f"{link}/src/a", link).is_within(["src/**"])


def test_folder_may_be_relative(folder: Path) -> None:
    relative = Path(os.path.relpath(folder))
    assert PathSubject("src/a", relative).is_within(["src/**"])
    assert not PathSubject("../x", relative).is_inside


def test_paths_are_literal_without_a_folder() -> None:
    assert PathSubject("src/./a", None).is_within(["src/**"])
    assert not PathSubject("src/../../a", None).is_within(["**"])
    assert PathSubject("../a", None).match_pattern("**/a") == "yes"
    assert PathSubject("/etc/x", None).is_within(["/etc/**"])


def test_file_is_suggested_before_its_folder(folder: Path) -> None:
    assert PathSubject("src/deep/../a*.py", folder).suggest_patterns() == ["src/a\\*.py", "src/**"]
    assert PathSubject("a.py", folder).suggest_patterns() == ["a.py", "**"]
    assert PathSubject("/etc/passwd", folder).suggest_patterns() == ["/etc/passwd", "/etc/**"]
    assert PathSubject("src/shortcut/x", folder).suggest_patterns() == ["secrets/x", "secrets/**"]
    assert PathSubject("src/" + 400 * "x", folder).suggest_patterns() == ["src/**"]


def test_text_is_matched_literally() -> None:
    text = TextSubject("https://a.org/x")
    assert text.is_within(["https://b.org/*", "https://a.org/*"])
    assert not text.is_within(["https://A.org/*", "a.org"])
    assert text.match_pattern("HTTPS://A.org/*") == "yes"
    assert text.match_pattern("a.org") == "no"
    assert text.suggest_patterns() == ["https://a.org/x"]
    assert TextSubject("two\nlines").suggest_patterns() == []


@tool
def copy(paths: list[str], to: str | None = None, count: int = 1) -> str:
    """Copy."""
    return ""


@pytest.mark.parametrize(
    ("created", "texts"),
    [
        (copy, []),
        (copy.with_subject(by="paths"), ["a", "b"]),
        (copy.with_subject(by="to"), []),
        (copy.with_subject(by="count"), ["3"]),
        (copy.with_subject(by="not an argument"), []),
    ],
)
def test_subject_of_a_call_is_the_argument_that_its_tool_declares(
    created: Tool, texts: list[str]
) -> None:
    arguments: dict[str, Any] = {"paths": ["a", "b"], "to": None, "count": 3}
    assert [subject.text for subject in subjects_of(created, arguments, None)] == texts


def test_kind_of_matching_follows_from_the_tool_or_is_declared() -> None:
    assert copy.with_subject(by="to").subject_kind == "text"
    assert copy.with_subject(by="path").subject_kind == "path"
    assert copy.with_subject(by="to", edits_files=True).subject_kind == "path"
    assert copy.with_subject(by="path", kind="text").subject_kind == "text"
    assert copy.with_subject(by="to", kind="command").subject_kind == "command"
