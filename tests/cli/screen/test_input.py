"""The input: completion, history, pastes, what waits, and what the status line says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from harken.chat.render.status_line import Status, folder_text
from harken.chat.running.turns import TypeAhead
from harken.chat.screen.completion import MAX_COMPLETIONS, FileTree, InputCompleter
from harken.chat.screen.input_history import MAX_HISTORY_CHARS, Pastes, PrivateHistory
from harken.terminal.styled_text import cell_width


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("src/tea.py", "src/teapot.py", "docs/tea time.md", "a/b/c/deep_tea.txt", "steam"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for hidden in (".git/tea", "node_modules/tea.js", ".tearc"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_text("")
    return tmp_path


def completions(folder: Path, text: str) -> list[str]:
    """Return what is offered, as the whole text that would stand there."""

    async def play() -> list[str]:
        document = Document(text)
        completer = InputCompleter(folder)
        return [
            text[: len(text) + one.start_position] + one.text
            async for one in completer.get_completions_async(document, CompleteEvent())
        ]

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("/con", ["/context"]),
        ("/co", ["/context", "/compact", "/cost"]),
        ("say /no-such", []),
        ("look at @teap", ["look at @src/teapot.py"]),
        ("src/te", ["src/tea.py", "src/teapot.py"]),
        ("in ./sr", ["in ./src/"]),
        ("@src/teap", ["@src/teapot.py"]),
        ("plain words", []),
        ("no/such/folder", []),
    ],
)
def test_commands_names_and_paths_are_completed(
    folder: Path, text: str, offered: list[str]
) -> None:
    assert completions(folder, text) == offered


def test_a_name_is_found_anywhere_in_the_tree_the_best_first(folder: Path) -> None:
    assert completions(folder, "@TEA") == [
        "@docs/tea time.md",
        "@src/tea.py",
        "@src/teapot.py",
        "@steam",
        "@a/b/c/deep_tea.txt",
    ]


def test_hidden_files_are_offered_where_they_are_named(folder: Path) -> None:
    assert completions(folder, "./.t") == ["./.tearc"]
    assert all(".tearc" not in one for one in completions(folder, "./"))


def test_a_big_tree_is_walked_once_and_offers_some(tmp_path: Path) -> None:
    for number in range(MAX_COMPLETIONS + 30):
        (tmp_path / f"file{number}").write_text("")
    assert len(completions(tmp_path, "@file")) == MAX_COMPLETIONS
    assert len(completions(tmp_path, "./file")) == MAX_COMPLETIONS
    tree = FileTree(tmp_path)
    walk = tree.refresh(now=100.0)
    assert walk is not None
    walk.join()
    assert tree.refresh(now=101.0) is None
    assert tree.refresh(now=120.0) is not None


def test_names_that_are_no_text_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "tea\x1b[2J").write_text("")
    assert completions(tmp_path, "@tea") == []
    assert completions(tmp_path, "./tea") == []


def test_history_is_private_and_keeps_lines_and_half_letters(tmp_path: Path) -> None:
    history = PrivateHistory(tmp_path / "history")
    for text in ("one", "two\nlines", "half \udc80 letter", "x" * (MAX_HISTORY_CHARS + 1)):
        history.append_string(text)
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    again = [*PrivateHistory(tmp_path / "history").load_history_strings()]
    assert again == ["half ? letter", "two\nlines", "one"]


def test_a_history_that_cannot_be_kept_is_no_failure(tmp_path: Path) -> None:
    history = PrivateHistory(tmp_path / "no" / "such" / "folder")
    history.append_string("one")
    assert history.get_strings() == ["one"]
    (tmp_path / "folder").mkdir()
    assert [*PrivateHistory(tmp_path / "folder").load_history_strings()] == []


def test_a_long_paste_is_a_mark_until_it_is_sent() -> None:
    pastes = Pastes()
    assert pastes.fold("short\r\ntext") == "short\ntext"
    lines, word = "line\n" * 100, "w" * 3000
    text = f"see {pastes.fold(lines)} and {pastes.fold(word)}"
    assert text == "see [paste 1: 100 lines] and [paste 2: 3000 characters]"
    assert pastes.unfold(text) == f"see {lines} and {word}"


def test_the_mark_of_a_paste_is_not_kept_for_other_chats(tmp_path: Path) -> None:
    history = PrivateHistory(tmp_path / "history")
    history.append_string(f"read {Pastes().fold('line' * 1000)}")
    assert history.get_strings() == ["read [paste 1: 4000 characters]"]
    assert [*PrivateHistory(tmp_path / "history").load_history_strings()] == []


def test_a_mark_that_somebody_typed_stays_as_it_is() -> None:
    for text in ("[paste 1: 3 lines]", "[paste 0: 1 lines]", "[paste 999999999999: 3 lines]"):
        assert Pastes().unfold(text) == text


def test_what_waits_goes_out_in_order_and_comes_back_as_one_text() -> None:
    queued = TypeAhead()
    assert queued.next() is None
    for text in ("a", "b", "c", "d", "e"):
        queued.add(text)
    assert queued.next() == "a"
    shown = ["".join(text for _, text in line) for line in queued.lines(40)]
    assert shown == ["  … 1 more", "  then: c", "  then: d", "  then: e  (Esc removes it)"]
    assert queued.take_back() == "b\n\nc\n\nd\n\ne"
    assert not queued


STATUS = Status(
    model="anthropic/claude",
    folder="~/tea",
    mode="ask",
    context_tokens=12_345,
    cost="$0.0123",
)


def line(status: Status, width: int) -> str:
    return "".join(text for _, text in status.line(width))


def test_the_status_line_leaves_out_what_matters_least() -> None:
    assert line(STATUS, 80) == "anthropic/claude · ~/tea · ask · 12.3k context · $0.0123"
    assert line(STATUS, 50) == "anthropic/claude · ~/tea · ask · 12.3k context"
    assert line(STATUS, 40) == "anthropic/claude · ask · 12.3k context"
    assert line(STATUS, 30) == "anthropic/claude · ask"
    assert line(STATUS, 10) == "anthropic…"
    assert all(cell_width(line(STATUS, width)) <= width for width in range(1, 90))


def test_where_the_window_is_known_the_status_says_how_full_it_is() -> None:
    assert line(msgspec.structs.replace(STATUS, context_window=17_000), 50).endswith(
        " · ask · 73% of context"
    )


def test_a_hint_takes_the_place_of_the_status() -> None:
    assert line(Status(model="m", folder="f", hint="Ctrl-C again\x1b"), 40) == "Ctrl-C again\\x1b"


def test_of_a_deep_folder_the_end_is_shown() -> None:
    assert folder_text("/srv/" + "deep/" * 20 + "tea", "/home/ann").startswith("…/deep/deep/")
    assert folder_text("/srv/" + "deep/" * 20 + "tea", "/home/ann").endswith("/tea")
    assert folder_text("/tea", "/") == "/tea"
