"""Resolving the path of a model below the root, and rejecting paths outside."""

import os
from pathlib import Path

import pytest

from harken.world.files.root import Root, decode_shown_name, display_name, size_text, unescape_name
from harken.world.result import ToolError
from tests.unit.world.files.file_kit import write_files


def resolve_error(root: Root, path: str) -> str:
    with pytest.raises(ToolError) as raised:
        root.resolve(path)
    return str(raised.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "project"
    write_files(tmp_path, {"project/src/a.py": "a", "outside/secret": "s"})
    return inside


def test_path_is_relative_to_the_folder(folder: Path) -> None:
    root = Root(folder)
    assert root.resolve("src/a.py") == folder / "src/a.py"
    assert root.resolve("./src/../src//a.py") == folder / "src/a.py"
    assert root.resolve(".") == folder
    assert root.resolve("not/there") == folder / "not/there"


def test_absolute_path_below_the_folder_is_accepted(folder: Path) -> None:
    assert Root(folder).resolve(f"{folder}/src/a.py") == folder / "src/a.py"


@pytest.mark.parametrize("path", ["../outside/secret", "/etc/passwd", "..", "src/../../outside"])
def test_path_outside_is_rejected_with_the_folder_and_the_option(folder: Path, path: str) -> None:
    text = resolve_error(Root(folder), path)
    assert f"{path} is outside" in text
    assert str(folder) in text
    assert "allow more folders" in text


def test_folder_with_the_same_name_prefix_is_outside(folder: Path) -> None:
    write_files(folder.parent, {"project-2/x": "x"})
    assert "outside" in resolve_error(Root(folder), "../project-2/x")


def test_additional_folders_can_be_allowed(folder: Path) -> None:
    root = Root(folder, allowed=[folder.parent / "outside"])
    secret = folder.parent / "outside/secret"
    assert root.resolve(str(secret)) == secret
    assert root.name(secret) == str(secret)
    assert root.name(folder / "src/a.py") == "src/a.py"


def test_symlink_is_checked_by_its_target(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "outside")
    (folder / "in").symlink_to("src")
    assert "a link to" in resolve_error(Root(folder), "out/secret")
    assert Root(folder).resolve("in/a.py") == folder / "src/a.py"


def test_dangling_symlink_is_checked_by_its_target(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "outside/new")
    (folder / "in").symlink_to("src/new")
    assert "outside" in resolve_error(Root(folder), "out")
    assert Root(folder).resolve("in") == folder / "src/new"


def test_root_symlink_is_resolved_to_its_target(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert Root(link).resolve("src/a.py") == folder / "src/a.py"
    assert Root(link).resolve(f"{link}/src/a.py") == folder / "src/a.py"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("~/x", "not expanded"),
        ("~root/x", "not expanded"),
        ("~", "not expanded"),
        ("a\ud800", "not valid text"),
        ("a/" * 5000, "too long"),
        ("a/" * 2000 + "x", "too deep: 2001 names; the maximum is 256"),
    ],
)
def test_invalid_path_is_rejected(folder: Path, path: str, reason: str) -> None:
    assert reason in resolve_error(Root(folder), path)


def test_tilde_in_a_name_is_literal(folder: Path) -> None:
    assert Root(folder).resolve("./~x") == folder / "~x"
    assert Root(folder).resolve("a~") == folder / "a~"


def test_kernel_files_are_rejected() -> None:
    assert "kernel" in resolve_error(Root("/"), "/proc/kmsg")
    assert "kernel" in resolve_error(Root("/"), "sys/power/state")


def test_symlink_loop_is_rejected_with_the_reason(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    root = Root(folder)
    path = root.resolve("a/x")
    with pytest.raises(ToolError, match="symbolic links"), root.convert_errors(path):
        path.read_bytes()


def test_shown_name_of_a_non_utf8_file_resolves_to_the_file(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n.txt")
    write_files(folder, {name: "x"})
    root = Root(folder)
    shown_name = root.format_name(folder / name)
    assert shown_name == r"caf\xe9\x0a.txt"
    assert root.resolve(shown_name) == folder / name
    assert unescape_name(shown_name) == name


def test_name_with_a_real_backslash_takes_precedence(folder: Path) -> None:
    write_files(folder, {r"a\x41": "x", "aA": "y"})
    assert Root(folder).resolve(r"a\x41").name == r"a\x41"


def test_only_names_that_need_it_may_be_escaped(folder: Path) -> None:
    write_files(folder, {"secret/key": "x"})
    for path in (r"secret\x2fkey", r"\x73ecret/key", r"secret\x00", "\ud800\\x41"):
        assert decode_shown_name(folder, path) == path


def test_unicode_names_are_shown_unchanged() -> None:
    assert display_name("Grüße/日本語/🙂.txt") == "Grüße/日本語/🙂.txt"
    assert display_name("a\u202eb\x1b[31m") == r"a\xe2\x80\xaeb\x1b[31m"


def test_similar_names_are_suggested_for_a_missing_one(folder: Path) -> None:
    root = Root(folder)
    missing = folder / "src/b.py"
    with (
        pytest.raises(ToolError, match="src/b.py does not exist; similar: src/a.py"),
        root.convert_errors(missing),
    ):
        missing.read_bytes()
    assert root.find_similar(folder / "scr/a.py") == "; similar: src"
    assert root.find_similar(folder / "SRC") == "; similar: src"
    assert root.find_similar(folder / "quite different") == ""


def test_sizes_are_formatted_at_unit_boundaries() -> None:
    assert [size_text(n) for n in (0, 1, 999, 1000, 999_949, 999_999, 10**13)] == [
        "0 bytes", "1 byte", "999 bytes", "1.0 kB", "999.9 kB", "1.0 MB", "10.0 TB",
    ]  # fmt: skip
