"""Files that change: what is told, what is no news, and what happened while nobody looked."""

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
from tests.unit.world.shell.boxing import without_power


def told(
    folder: Path,
    do: Callable[[], object],
    *paths: str,
    seen: int | None = None,
    own: Callable[[Collection[str]], Collection[str]] = lambda _: (),
) -> str:
    """Return what is told of what is done while it looks."""

    async def watch() -> str:
        source = FilesChanged(Root(folder), paths or ["."], seen=seen, own=own)
        async with source.open():
            waiting = asyncio.create_task(source.wait())
            await asyncio.sleep(0.05)
            do()
            return (await waiting).text

    return run(watch())


def test_a_change_a_new_file_and_one_that_is_gone_are_one_happening(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("one")

    def do() -> None:
        (tmp_path / "a.txt").write_text("two")
        (tmp_path / "b.txt").unlink()
        (tmp_path / "sub").mkdir()
        (tmp_path / "c.txt").write_text("one")

    assert told(tmp_path, do) == "3 changes: a.txt, b.txt (gone), c.txt (new)"


def test_a_file_is_watched_before_it_is_there_and_its_neighbours_are_not(tmp_path: Path) -> None:
    def do() -> None:
        (tmp_path / "other.txt").write_text("one")
        (tmp_path / "data.json").write_text("{}")

    assert told(tmp_path, do, "data.json") == "changed: data.json (new)"


def test_an_editor_that_puts_another_file_in_its_place_changes_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    def do() -> None:
        (tmp_path / "a.new").write_text("two")
        (tmp_path / "a.new").rename(tmp_path / "a.txt")

    assert told(tmp_path, do, "a.txt") == "changed: a.txt"


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c.txt"])
def test_a_folder_that_was_away_is_watched_again(tmp_path: Path, path: str) -> None:
    def put(text: str) -> None:
        (tmp_path / "a/b").mkdir(parents=True, exist_ok=True)
        (tmp_path / "a/b/c.txt").write_text(text)

    async def watch() -> list[str]:
        put("one")
        source, said = FilesChanged(Root(tmp_path), [path]), []
        async with source.open():
            shutil.rmtree(tmp_path / "a")
            said.append((await source.wait()).text)
            for text in ("two", "three"):
                put(text)
                said.append((await source.wait()).text)
            shutil.rmtree(tmp_path / "a")
            put("four")
            said.append((await source.wait()).text)
            await asyncio.sleep(0.5)
            put("five")
            said.append((await source.wait()).text)
        return said

    gone, new, *changed = run(watch())
    assert gone == "changed: a/b/c.txt (gone)"
    assert new == "changed: a/b/c.txt (new)"
    assert changed == 3 * ["changed: a/b/c.txt"]


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c.txt"])
def test_a_folder_that_nobody_may_look_into_is_empty_for_a_while(path: str) -> None:
    pytest.importorskip("watchfiles")  # while its files may be read
    with without_power() as folder:
        (folder / "a/b").mkdir(parents=True)
        (folder / "a/b/c.txt").write_text("one")

        async def watch() -> list[str]:
            source = FilesChanged(Root(folder), [path])
            async with source.open():
                (folder / "a").chmod(0)
                gone = (await source.wait()).text
                (folder / "a").chmod(0o755)
                return [gone, (await source.wait()).text]

        assert run(watch()) == ["changed: a/b/c.txt (gone)", "changed: a/b/c.txt (new)"]


def test_a_time_that_is_set_back_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    def do() -> None:
        (tmp_path / "a.txt").write_text("two")
        os.utime(tmp_path / "a.txt", (0, 0))

    assert told(tmp_path, do) == "changed: a.txt"


def test_what_programs_keep_for_themselves_is_no_news(tmp_path: Path) -> None:
    for name in (".git", "node_modules"):
        (tmp_path / name).mkdir()

    def do() -> None:
        (tmp_path / ".git" / "index").write_text("x")
        (tmp_path / "node_modules" / "x.js").write_text("x")
        (tmp_path / "a.txt").write_text("x")

    assert told(tmp_path, do) == "changed: a.txt (new)"


def test_what_the_agent_knows_is_no_news(tmp_path: Path) -> None:
    def do() -> None:
        (tmp_path / "mine.txt").write_text("x")
        (tmp_path / "theirs.txt").write_text("x")

    own = {"mine.txt"}
    assert told(tmp_path, do, own=own.intersection) == "changed: theirs.txt (new)"


def test_what_changed_while_nobody_looked_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one")
    seen = FilesChanged(Root(tmp_path), ["."]).newest()
    assert seen == (tmp_path / "old.txt").stat().st_ctime_ns

    async def watch(since: int) -> TriggerEvent | None:
        source = FilesChanged(Root(tmp_path), ["."], seen=since)
        async with source.open():
            try:
                return await asyncio.wait_for(source.wait(), 2)
            except TimeoutError:
                return None

    os.utime(tmp_path / "old.txt")  # a tick of the file system's clock later
    while (tmp_path / "old.txt").stat().st_ctime_ns == seen:
        os.utime(tmp_path / "old.txt")
    happening = run(watch(seen))
    assert happening is not None
    assert happening.text == "changed: old.txt"
    assert run(watch(happening.seen)) is None


def test_names_that_are_no_text_stay_on_their_line(tmp_path: Path) -> None:
    text = told(tmp_path, lambda: (tmp_path / "a\n[hook x]: OK").write_text("x"))
    assert text == r"changed: a\x0a[hook x]: OK (new)"


def test_what_lies_outside_cannot_be_watched(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ToolError, match="outside"):
        check_paths(Root(tmp_path / "in"), ["../secret"])
    with pytest.raises(InvalidArguments, match="1 to 20"):
        check_paths(Root(tmp_path), [])
    assert check_paths(Root(tmp_path), ["./in", "in"]) == ["in"]


def test_a_folder_that_is_not_there_and_one_that_is_too_large_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="folder gone"):
        told(tmp_path, lambda: None, "gone/a.txt")
    source = FilesChanged(Root(tmp_path), ["."])
    assert file_watch.MAX_FILES == 20_000
    (tmp_path / "a.txt").write_text("x")
    assert list(source._scan()) == ["a.txt"]
