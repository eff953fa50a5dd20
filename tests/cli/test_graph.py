"""Graphs of commits in a terminal: nothing is fetched, and nothing that stands in them acts."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harken.context.graph import layout_graph
from harken.context.history import iter_histories
from harken.context.refs import abbreviate_name
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.terminal.commit_graph import TerminalStyle, detect_terminal_style, graph_lines
from harken.terminal.styled_text import cell_width
from harken.testing.store import batch_of, commit_in
from tests.cli.kit import Cli

CODES = re.compile(r"\x1b\[[0-9;]*m")


class MetadataOnly(MemoryStore):
    """Gives no content."""

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        raise AssertionError("a message was fetched")

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        raise AssertionError("a delta was fetched")

    def raw(self, name: ArtifactRef) -> bytes:
        raise AssertionError("raw bytes were fetched")


@pytest.fixture
def store() -> MetadataOnly:
    return MetadataOnly()


def put(store: MemoryStore | SqliteStore, parent: CommitId | None, **members: Any) -> CommitId:
    at = len(store.newest_commits(10_000))
    batch = batch_of(f"message {at}", parent=parent, second=at, **members)
    store.write(batch)
    return commit_in(batch)


def family(store: MemoryStore | SqliteStore) -> dict[str, CommitId]:
    """A trunk with a compaction, a subagent and a branch."""
    root = put(store, None, principal="ann", notes=CommitNotes(summary="root"))
    trunk = put(store, root, principal="ann", template="coder", notes=CommitNotes(labels=("good",)))
    spawned = put(store, trunk, type="snapshot", checkpoint="spawn", principal="ann/Jack")
    compacted = put(store, trunk, type="compaction", principal="ann")
    branch = put(
        store, root, type="snapshot", principal="bob", notes=CommitNotes(summary="a branch")
    )
    found = locals()
    return {name: found[name] for name in ("root", "trunk", "spawned", "compacted", "branch")}


def shown(store: MemoryStore, tips: list[CommitId], look: TerminalStyle | None = None) -> list[str]:
    rows = layout_graph(iter_histories(store, tips))
    return list(
        graph_lines(rows, lambda name: abbreviate_name(store, name), look or TerminalStyle())
    )


@pytest.mark.req("S2-63")
def test_history_reads_like_git_log_and_fetches_no_delta(store: MetadataOnly) -> None:
    made = family(store)
    lines = shown(store, [made["branch"], made["compacted"], made["spawned"]])
    names = {name: made[name][:16] for name in made}
    assert lines == [
        f"▫ {names['branch']}  2026-01-01 00:00  bob snapshot  a branch",
        f"| ◊ {names['compacted']}  2026-01-01 00:00  ann compaction  ",
        f"| | ► {names['spawned']}  2026-01-01 00:00  ann/Jack spawn  ",
        "| |/",
        f"| * {names['trunk']}  2026-01-01 00:00  ann (coder) [good]  ",
        "|/",
        f"* {names['root']}  2026-01-01 00:00  ann  root",
    ]


def test_where_the_terminal_has_few_letters_signs_are_ascii(store: MetadataOnly) -> None:
    made = family(store)
    tip = put(store, made["branch"], principal="鳥", notes=CommitNotes(summary="茶 …"))
    tips = [tip, made["compacted"], made["spawned"]]
    lines = shown(store, tips, TerminalStyle(width=58, encoding="ascii"))
    assert all(line.isascii() for line in lines)
    assert lines[0].endswith("\\u9ce5  \\u8336 \\u20~")
    assert [line.split(" ctx")[0] for line in lines] == [
        "*", "+", "| =", "| | >", "| |/", "| *", "|/", "*",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [20, 40, 61, 100])
def test_no_row_is_wider_than_the_terminal(store: MetadataOnly, width: int) -> None:
    notes = CommitNotes(summary="茶を一杯入れて、それから窓を開けた。鳥が鳴いている。" * 3)
    trunk = [put(store, None)]
    for _ in range(60):
        trunk.append(put(store, trunk[-1], principal="鳥居さん", notes=notes))
    tips = [put(store, fork, principal="鳥居さん", notes=notes) for fork in reversed(trunk)]
    lines = shown(store, tips, TerminalStyle(width=width))
    assert max(map(cell_width, lines)) in (width, width - 1)
    assert any("~" in line for line in lines)


def test_what_stands_in_a_commit_cannot_act_on_the_terminal(store: MetadataOnly) -> None:
    evil = "a\x1b[2J\x1b]0;title\x07b\nc\r\u202e\ud800\x9b"
    tip = put(
        store, None, principal=evil, template=evil, notes=CommitNotes(summary=evil, labels=(evil,))
    )
    [line] = shown(store, [tip], TerminalStyle(color=True, styled=True))
    assert CODES.sub("", line).isprintable()
    assert line.count("title") == 4


def test_lanes_have_colours_of_their_own_in_a_terminal(store: MetadataOnly) -> None:
    made = family(store)
    tips = [made["branch"], made["trunk"]]
    coloured = shown(store, tips, TerminalStyle(color=True, styled=True))
    assert coloured[0].startswith("\x1b[1;31m▫\x1b[0m ")
    assert coloured[1].startswith("\x1b[31m|\x1b[0m \x1b[1;32m*\x1b[0m ")
    for look in (TerminalStyle(styled=True), TerminalStyle()):
        assert "31m" not in "".join(shown(store, tips, look))


def test_a_file_is_given_whole_lines_without_colours(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w", encoding="utf-8") as file:
        look = detect_terminal_style(file, {"TERM": "xterm"})
    assert (look.color, look.styled, look.is_wide) == (False, False, True)
    assert look.width > 1000

    class Terminal(io.StringIO):
        encoding = "UTF-8"

        def isatty(self) -> bool:
            return True

    assert detect_terminal_style(Terminal(), {"TERM": "xterm"}).color
    assert not detect_terminal_style(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}).color
    assert not detect_terminal_style(Terminal(), {"TERM": "dumb"}).styled
    assert not detect_terminal_style(Terminal(), {}).styled


@pytest.fixture
def grown(cli: Cli) -> tuple[Cli, dict[str, CommitId]]:
    cli.home.mkdir()
    store = SqliteStore(cli.home / "store.db")
    made = family(store)
    store.close()
    return cli, made


def test_the_command_draws_all_or_what_led_to_some(grown: tuple[Cli, dict[str, CommitId]]) -> None:
    cli, made = grown
    assert cli.ok("ctx", "log", "--graph").out.count("ctx-") == 5
    some = cli.ok("ctx", "log", "--graph", made["compacted"], made["spawned"][:12]).out
    assert some.count("ctx-") == 4
    assert "bob" not in some
    cut = cli.ok("ctx", "log", "--graph", "-n", "2").out.splitlines()
    assert (len(cut), cut[-1]) == (3, ": :")
    assert cli.ok("ctx", "log", "--graph", "--all", "-n", "1").out.count("ctx-") == 5


def test_json_lists_commits_whether_drawn_or_not(grown: tuple[Cli, dict[str, CommitId]]) -> None:
    cli, made = grown
    drawn = cli.ok("ctx", "log", "--graph", "--json").json
    assert {row["id"] for row in drawn} == set(made.values())
    plain = cli.ok("ctx", "log", made["trunk"], made["branch"], "--json").json
    assert [row["id"] for row in plain] == [made["branch"], made["trunk"], made["root"]]
