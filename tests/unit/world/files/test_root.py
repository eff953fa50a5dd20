"""Which path a model means, and which it may not mean."""

import os
from pathlib import Path

import pytest

from harken.world.files.root import Root, decode_shown_name, display_name, size_text, unescape_name
from harken.world.result import ToolError
from tests.unit.world.files.filing import fill


def refused(root: Root, path: str) -> str:
    with pytest.raises(ToolError) as raised:
        root.resolve(path)
    return str(raised.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "project"
    fill(tmp_path, {"project/src/a.py": "a", "outside/secret": "s"})
    return inside


def test_a_path_starts_at_the_folder(folder: Path) -> None:
    root = Root(folder)
    assert root.resolve("src/a.py") == folder / "src/a.py"
    assert root.resolve("./src/../src//a.py") == folder / "src/a.py"
    assert root.resolve(".") == folder
    assert root.resolve("not/there") == folder / "not/there"


def test_an_absolute_path_below_the_folder_is_taken(folder: Path) -> None:
    assert Root(folder).resolve(f"{folder}/src/a.py") == folder / "src/a.py"


@pytest.mark.parametrize("path", ["../outside/secret", "/etc/passwd", "..", "src/../../outside"])
def test_what_is_outside_is_refused_with_the_folder_and_a_way_out(folder: Path, path: str) -> None:
    text = refused(Root(folder), path)
    assert f"{path} is outside" in text
    assert str(folder) in text
    assert "allow more folders" in text


def test_a_folder_with_a_name_that_begins_the_same_is_outside(folder: Path) -> None:
    fill(folder.parent, {"project-2/x": "x"})
    assert "outside" in refused(Root(folder), "../project-2/x")


def test_other_folders_can_be_allowed(folder: Path) -> None:
    root = Root(folder, allowed=[folder.parent / "outside"])
    secret = folder.parent / "outside/secret"
    assert root.resolve(str(secret)) == secret
    assert root.name(secret) == str(secret)
    assert root.name(folder / "src/a.py") == "src/a.py"


def test_a_symlink_is_judged_by_where_it_leads(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "outside")
    (folder / "in").symlink_to("src")
    assert "a link to" in refused(Root(folder), "out/secret")
    assert Root(folder).resolve("in/a.py") == folder / "src/a.py"


def test_a_dangling_symlink_is_judged_by_where_it_would_lead(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "outside/new")
    (folder / "in").symlink_to("src/new")
    assert "outside" in refused(Root(folder), "out")
    assert Root(folder).resolve("in") == folder / "src/new"


def test_a_root_that_is_a_symlink_is_the_folder_that_it_leads_to(folder: Path) -> None:
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
def test_what_is_no_path_is_refused(folder: Path, path: str, reason: str) -> None:
    assert reason in refused(Root(folder), path)


def test_a_tilde_in_a_name_is_a_letter(folder: Path) -> None:
    assert Root(folder).resolve("./~x") == folder / "~x"
    assert Root(folder).resolve("a~") == folder / "a~"


def test_files_of_the_kernel_are_refused() -> None:
    assert "kernel" in refused(Root("/"), "/proc/kmsg")
    assert "kernel" in refused(Root("/"), "sys/power/state")


def test_a_loop_of_symlinks_is_refused_by_the_system_and_said_so(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    root = Root(folder)
    path = root.resolve("a/x")
    with pytest.raises(ToolError, match="symbolic links"), root.convert_errors(path):
        path.read_bytes()


def test_a_name_that_is_no_utf8_is_shown_and_found_again(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n.txt")
    fill(folder, {name: "x"})
    root = Root(folder)
    told = root.format_name(folder / name)
    assert told == r"caf\xe9\x0a.txt"
    assert root.resolve(told) == folder / name
    assert unescape_name(told) == name


def test_a_name_that_really_has_a_backslash_comes_first(folder: Path) -> None:
    fill(folder, {r"a\x41": "x", "aA": "y"})
    assert Root(folder).resolve(r"a\x41").name == r"a\x41"


def test_only_what_is_shown_so_may_be_written_so(folder: Path) -> None:
    fill(folder, {"secret/key": "x"})
    for path in (r"secret\x2fkey", r"\x73ecret/key", r"secret\x00", "\ud800\\x41"):
        assert decode_shown_name(folder, path) == path


def test_names_of_all_languages_are_shown_as_they_are() -> None:
    assert display_name("Grüße/日本語/🙂.txt") == "Grüße/日本語/🙂.txt"
    assert display_name("a\u202eb\x1b[31m") == r"a\xe2\x80\xaeb\x1b[31m"


def test_similar_names_are_offered_for_one_that_is_not_there(folder: Path) -> None:
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


def test_sizes_read_well_at_their_borders() -> None:
    assert [size_text(n) for n in (0, 1, 999, 1000, 999_949, 999_999, 10**13)] == [
        "0 bytes", "1 byte", "999 bytes", "1.0 kB", "999.9 kB", "1.0 MB", "10.0 TB",
    ]  # fmt: skip
