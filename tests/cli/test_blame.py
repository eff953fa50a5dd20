"""`harken blame` and `harken who`: the agents of lines, and their shares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harken.terminal.styled_text import cell_width
from tests.cli.git_kit import Repository, Session
from tests.cli.kit import HARKEN, Cli
from tests.terminal.kit import Terminal

TOTAL = "def total(order):\n    return order.price * order.count\n"
escapes = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
PERSON = "\n\nprint(total(None))\n"


@pytest.fixture
def history(cli: Cli, tmp_path: Path) -> Repository:
    """A file of an agent and a person in the top folder, and one of a person in another."""
    repository = Repository.create(Path.cwd())
    session = Session(repository).ask("Add a total for orders")
    cli.ok("import", session.write("a.py", TOTAL, "As asked.").save(tmp_path))
    repository.commit("Add totals", a_py=TOTAL + PERSON, shop__b_py="import math\n")
    return repository


def test_each_line_has_its_agent_or_its_author(cli: Cli, history: Repository) -> None:
    lines = cli.ok("blame", "a.py").out.splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("ctx-")
    assert "(Claude Code claude-opus-4-5-20251101 2026-01-31 12:00 2 )     return" in lines[1]
    commit = history.git("rev-parse", "HEAD").strip()
    assert lines[4].startswith(commit[:10])
    assert "(Jill " in lines[4]
    assert lines[4].endswith("5 ) print(total(None))")


def test_a_range_of_lines_and_an_earlier_commit(cli: Cli, history: Repository) -> None:
    history.commit("Remove", a_py="x = 1\n")
    (line,) = cli.ok("blame", "a.py", "-L", "2,2", "--rev", "HEAD~1").out.splitlines()
    assert line.endswith("    return order.price * order.count")
    assert "out of range" in cli.refused("blame", "a.py", "-L", "2")
    assert "-L 0" in cli.refused("blame", "a.py", "-L", "0")


def test_a_program_reads_the_lines(cli: Cli, history: Repository) -> None:
    rows = cli.ok("blame", "a.py", "--json").json
    assert [row["by"] for row in rows] == ["agent", "agent", "author", "author", "author"]
    assert rows[0]["edit"]["runtime"] == "claude"
    assert rows[0]["edit"]["ctx"].startswith("ctx-")
    assert rows[4]["edit"] is None


def test_colors_are_printed_if_asked_for(cli: Cli, history: Repository) -> None:
    assert "\x1b[" in cli.ok("blame", "a.py", "--color", "always").out
    assert "\x1b[" not in cli.ok("blame", "a.py").out


def test_lines_fit_the_terminal(cli: Cli, history: Repository) -> None:
    history.commit("Long", a_py=f"{TOTAL}x = {'1 + ' * 100}1\n")
    home = str(cli.home)
    with Terminal(HARKEN, "blame", "a.py", columns=60, HARKEN_HOME=home, PAGER="cat") as terminal:
        terminal.wait("x = ")
        while terminal.read():
            pass
    lines = [escapes.sub("", line) for line in terminal.written.splitlines() if line.strip()]
    assert len(lines) == 3
    assert [line for line in lines if cell_width(line) > 60] == []


def test_an_escape_sequence_of_a_file_is_not_sent_to_the_terminal(
    cli: Cli, history: Repository
) -> None:
    history.commit("Hostile", a_py='title = "\x1b]0;owned\x07"\n')
    assert "\x1b" not in cli.ok("blame", "a.py").out
    assert "\x1b" not in cli.ok("why", "a.py:1").out


def test_the_shares_of_folders(cli: Cli, history: Repository) -> None:
    rows = cli.ok("who", "--json").json["folders"]
    by_folder = {row["path"]: row for row in rows}
    assert set(by_folder) == {"./", "shop/"}
    assert by_folder["./"]["lines"] == 3
    assert by_folder["./"]["agent_lines"] == 2
    assert by_folder["shop/"]["agent_lines"] == 0
    out = cli.ok("who").out
    assert "Claude Code 67 %, Jill 33 %" in out
    assert "claude-opus-4-5-20251101" in out
    assert "no files tracked" in cli.refused("who", "missing")
