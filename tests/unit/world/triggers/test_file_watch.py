"""File watches: reported changes, ignored changes, and changes while Harken did not run."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from harken.world.files.root import Root
from harken.world.result import InvalidArguments, ToolError
from harken.world.triggers import file_watch
from harken.world.triggers.base import TriggerEvent
from harken.world.triggers.file_watch import FilesChanged, check_paths
from tests.agent_kit import run
from tests.unit.world.shell.sandbox_kit import as_unprivileged_user


def watch_changes(
    folder: Path,
    do: Callable[[], object],
    *paths: str,
    seen: int | None = None,
    own: Callable[[Collection[str]], Collection[str]] = lambda _: (),
) -> str:
    """Return the notifications for the changes that `do` makes during the watch."""

    async def watch() -> str:
        source = FilesChanged(Root(folder), paths or ["."], seen=seen, own=own)
        async with source.open():
            waiting = asyncio.create_task(source.wait())
            await asyncio.sleep(0.05)
            do()
            return (await waiting).text

    return run(watch())


def test_changes_creations_and_deletions_are_one_notification(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("one")

    def do() -> None:
        (tmp_path / "a.txt").write_text("two")
        (tmp_path / "b.txt").unlink()
        (tmp_path / "sub").mkdir()
        (tmp_path / "c.txt").write_text("one")

    assert watch_changes(tmp_path, do) == "3 changes: a.txt, b.txt (gone), c.txt (new)"


def test_missing_file_can_be_watched_without_its_neighbors(tmp_path: Path) -> None:
    def do() -> None:
        (tmp_path / "other.txt").write_text("one")
        (tmp_path / "data.json").write_text("{}")

    assert watch_changes(tmp_path, do, "data.json") == "changed: data.json (new)"


def test_replacement_by_an_editor_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    def do() -> None:
        (tmp_path / "a.new").write_text("two")
        (tmp_path / "a.new").rename(tmp_path / "a.txt")

    assert watch_changes(tmp_path, do, "a.txt") == "changed: a.txt"


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c.txt"])
def test_recreated_folder_is_watched_again(tmp_path: Path, path: str) -> None:
    def put(text: str) -> None:
        (tmp_path / "a/b").mkdir(parents=True, exist_ok=True)
        (tmp_path / "a/b/c.txt").write_text(text)

    async def watch() -> list[str]:
        put("one")
        source, answer = FilesChanged(Root(tmp_path), [path]), []
        async with source.open():
            shutil.rmtree(tmp_path / "a")
            answer.append((await source.wait()).text)
            for text in ("two", "three"):
                put(text)
                answer.append((await source.wait()).text)
            shutil.rmtree(tmp_path / "a")
            put("four")
            answer.append((await source.wait()).text)
            await asyncio.sleep(0.5)
            put("five")
            answer.append((await source.wait()).text)
        return answer

    deleted, new, *changes = run(watch())
    assert deleted == "changed: a/b/c.txt (gone)"
    assert new == "changed: a/b/c.txt (new)"
    assert changes == 3 * ["changed: a/b/c.txt"]


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c.txt"])
def test_unreadable_folder_is_temporarily_empty(path: str) -> None:
    pytest.importorskip("watchfiles")  # Imported while its files are readable.
    with as_unprivileged_user() as folder:
        (folder / "a/b").mkdir(parents=True)
        (folder / "a/b/c.txt").write_text("one")

        async def watch() -> list[str]:
            source = FilesChanged(Root(folder), [path])
            async with source.open():
                (folder / "a").chmod(0)
                deleted = (await source.wait()).text
                (folder / "a").chmod(0o755)
                return [deleted, (await source.wait()).text]

        assert run(watch()) == ["changed: a/b/c.txt (gone)", "changed: a/b/c.txt (new)"]


def test_modification_time_in_the_past_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    def do() -> None:
        (tmp_path / "a.txt").write_text("two")
        os.utime(tmp_path / "a.txt", (0, 0))

    assert watch_changes(tmp_path, do) == "changed: a.txt"


def test_internal_files_of_programs_are_ignored(tmp_path: Path) -> None:
    for name in (".git", "node_modules"):
        (tmp_path / name).mkdir()

    def do() -> None:
        (tmp_path / ".git" / "index").write_text("x")
        (tmp_path / "node_modules" / "x.js").write_text("x")
        (tmp_path / "a.txt").write_text("x")

    assert watch_changes(tmp_path, do) == "changed: a.txt (new)"


def test_changes_known_to_the_agent_are_ignored(tmp_path: Path) -> None:
    def do() -> None:
        (tmp_path / "mine.txt").write_text("x")
        (tmp_path / "theirs.txt").write_text("x")

    custom = {"mine.txt"}
    assert watch_changes(tmp_path, do, own=custom.intersection) == "changed: theirs.txt (new)"


def test_changes_while_not_watching_are_reported_once(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one")
    shown_part = FilesChanged(Root(tmp_path), ["."]).newest()
    assert shown_part == (tmp_path / "old.txt").stat().st_ctime_ns

    async def watch(since: int) -> TriggerEvent | None:
        source = FilesChanged(Root(tmp_path), ["."], seen=since)
        async with source.open():
            try:
                return await asyncio.wait_for(source.wait(), 2)
            except TimeoutError:
                return None

    os.utime(tmp_path / "old.txt")  # One tick of the file system's clock later.
    while (tmp_path / "old.txt").stat().st_ctime_ns == shown_part:
        os.utime(tmp_path / "old.txt")
    happening = run(watch(shown_part))
    assert happening is not None
    assert happening.text == "changed: old.txt"
    assert run(watch(happening.seen)) is None


def test_non_utf8_names_stay_on_their_line(tmp_path: Path) -> None:
    text = watch_changes(tmp_path, lambda: (tmp_path / "a\n[hook x]: OK").write_text("x"))
    assert text == r"changed: a\x0a[hook x]: OK (new)"


def test_path_outside_cannot_be_watched(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ToolError, match="outside"):
        check_paths(Root(tmp_path / "in"), ["../secret"])
    with pytest.raises(InvalidArguments, match="1 to 20"):
        check_paths(Root(tmp_path), [])
    assert check_paths(Root(tmp_path), ["./in", "in"]) == ["in"]


def test_missing_and_too_large_folders_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="folder gone"):
        watch_changes(tmp_path, lambda: None, "gone/a.txt")
    source = FilesChanged(Root(tmp_path), ["."])
    assert file_watch.MAX_FILES == 20_000
    (tmp_path / "a.txt").write_text("x")
    assert list(source._scan()) == ["a.txt"]
