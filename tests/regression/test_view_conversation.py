"""`harken view SESSION` shows the conversation, folded and as wide as the terminal.

Without a view it said "Missing command"; the nearest view, `perspective`, printed 30,561 lines for
one imported session and needed the name of the only agent. Now the chat's own renderer shows the
session, long output of a terminal goes through a pager, and no line is wider than the terminal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.terminal.styled_text import cell_width
from tests.cli.kit import Cli
from tests.terminal.kit import HARKEN, Terminal

LONG = "\n".join(f"line {number} of a long result" for number in range(40))
DEMO = """\
demo · scripted:demo · {} UTC · 4 agents
system prompt, 15 words: You are the host of a small cafe. You create people a…

› Let Jack and Jill meet in a cafe.

● task(Jack)
● task(Jill)
● discuss(Jack, Jill: You meet in a cafe. Introduce yourselves.)
  Jack: Hi, I'm Jack. *extends hand*
  ● Jill task(Inner)
  ● Jill discuss(Inner: Jack just introduced himself. What should I say?)
    Inner: Be friendly but not over-eager. A simple greeting with a smile.
  Jill: *smiles* Hello Jack, I'm Jill.

Jack and Jill have met. Jill asked her inner voice first; Jack never heard it.
"""
SCRIPT: dict[str, Any] = {
    "rules": [
        {"pattern": "line 39", "thinking": "It is long indeed.", "answer": "It is long."},
        {"pattern": "", "calls": [{"bash": {"command": "cat long.txt"}}]},
    ]
}


@pytest.fixture
def talked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return a home with a session that has a long result and a thought in it."""
    monkeypatch.setenv("COLUMNS", "80")
    Path("script.yaml").write_text(json.dumps(SCRIPT))
    Path("long.txt").write_text(LONG)
    cli.ok("chat", "--model", "scripted:script.yaml", "--permission", "all", "-p", "Look.")
    return cli


def test_a_session_without_a_view_is_its_conversation(
    demo: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = demo.ok("view", "demo")
    began = " ".join(shown.out.split(" · ")[2].split()[:2])
    assert shown.out == DEMO.format(began)
    assert demo.ok("view", "demo", "conversation").out == shown.out
    perspective = demo.ok("view", "demo", "perspective", "main", "--json").json
    assert demo.ok("view", "demo", "--json").json == perspective


def test_results_and_thinking_are_folded_until_full(talked: Cli) -> None:
    folded = talked.ok("view", "latest").out
    assert "● bash(cat long.txt)\n" in folded
    assert "line 0 of a long result" in folded
    assert "more lines (--full)" in folded
    assert "thought, 4 words (--full)" in folded
    assert "line 39" not in folded
    for full in (talked.ok("view", "latest", "--full"), talked.ok("view", "--full", "latest")):
        assert "line 39 of a long result" in full.out
        assert "It is long indeed." in full.out
        assert "command: cat long.txt" in full.out
        assert "--full" not in full.out


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("view", ["", "timeline"])
def test_no_line_is_wider_than_the_terminal(
    talked: Cli, monkeypatch: pytest.MonkeyPatch, columns: int, view: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = talked.ok("view", "latest", *view.split()).out.splitlines()
    assert max(map(cell_width, lines)) <= columns


def test_the_only_agent_needs_no_name_and_of_several_all_are_listed(talked: Cli) -> None:
    for view in ("perspective", "transcript"):
        alone = talked.ok("view", "latest", view)
        assert alone.out == talked.ok("view", "latest", view, "main").out
    talked.ok("demo")
    several = talked.refused("view", "demo", "perspective")
    assert "no agent given; existing agents: main, Jack, Jill, Inner" in several


def test_an_option_that_a_view_does_not_have_says_where_it_belongs(demo: Cli) -> None:
    refused = demo.refused("view", "--full", "demo", "tree")
    assert "--full after the view: tree --full" in refused


def test_hostile_text_cannot_reach_the_terminal(cli: Cli) -> None:
    rules = [{"answer": "\x1b]0;owned\x07 done"}]
    Path("script.yaml").write_text(json.dumps({"rules": rules}))
    cli.ok("chat", "--model", "scripted:script.yaml", "-p", "\x1b[2J Hi")
    out = cli.ok("view", "latest").out
    assert "\x1b" not in out
    assert "\\x1b]0;owned" in out


def test_long_output_of_a_terminal_goes_through_the_pager(talked: Cli) -> None:
    environment = {"LESS": "FRX", "PAGER": "less", "HARKEN_HOME": str(talked.home)}
    with viewing(**environment) as terminal:
        terminal.wait("system prompt")
        assert "line 39 of a long result" not in terminal.written
        terminal.type("G")
        terminal.wait("It is long.")
        terminal.type("q")
        assert terminal.end() == 0
    with viewing(**{**environment, "PAGER": "cat"}) as terminal:
        terminal.wait("It is long.")


def viewing(**environment: str) -> Terminal:
    command = (HARKEN, "view", "latest", "--full")
    return Terminal(*command, columns=60, rows=12, **environment)
