"""`harken search`: what a person sees, and what a program reads."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.kit import Cli, start
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

ESCAPE = "\x1b[31m"


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> Cli:
    """A home with a session of Claude Code."""
    made = Transcript()
    made.user(f"Is the cafe {ESCAPE}open?")
    made.answer(tool_use_block("c1", "Look", at="the door"))
    made.result("c1", "It is open.\u202e")
    made.answer(text_block("The cafe is open."))
    made.add("custom-title", customTitle=f"The {ESCAPE}cafe")
    path = tmp_path / "projects" / "a.jsonl"
    path.parent.mkdir()
    path.write_bytes(made.data)
    cli.ok("import", path)
    return cli


def test_hits_are_told_with_the_commit_to_go_on_from(imported: Cli) -> None:
    out = imported.ok("search", "cafe").out
    assert out.index("The cafe is open.") < out.index("Is the cafe")
    assert "2 of 2, newest first." in out
    ctx = out[: len("ctx-") + 12]
    assert "The cafe is open." in imported.ok("ctx", "cat", ctx).out


def test_what_is_hostile_is_harmless(imported: Cli) -> None:
    out = imported.ok("search", "cafe OR open").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert r"Is the cafe \x1b[31mopen?" in out


def test_a_program_reads_json(imported: Cli) -> None:
    found = imported.ok("search", "open", "--tool", "Look", "--json").json
    (hit,) = found["hits"]
    assert found["total"] == 1
    assert hit["ctx"].startswith("ctx-")
    assert len(hit["ctx"]) == 68
    assert (hit["agent"], hit["role"], hit["tool"]) == ("main", "tool", "Look")
    assert hit["time"] == "2026-01-31T12:00:03+00:00"
    assert [hit["text"][a:b] for a, b in hit["marks"]] == ["open"]


def test_all_that_was_asked_for_counts(imported: Cli) -> None:
    def total(*arguments: str) -> int:
        return int(imported.ok("search", *arguments, "--json").json["total"])

    assert total("cafe", "-is") == 0
    assert total("open", "OR", "door") == 3
    assert total("open", "--kind", "prompt") == 0
    assert total("open", "--role", "assistant", "--agent", "main") == 1
    assert total("open", "--project", "cafe", "--runtime", "claude") == 2
    assert total("open", "--since", "2026-01-31", "--until", "2026-02-01") == 2
    assert total("open", "--until", "2026-01-01") == 0
    assert len(imported.ok("search", "open", "--limit", "1", "--json").json["hits"]) == 1
    assert len(imported.ok("search", "open", "--limit", "1", "--all", "--json").json["hits"]) == 2


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["!!"], "contains no word"),
        (["x", "--runtime", "y"], "runtime 'y' not found; existing runtimes: claude"),
        (["x", "--tool", "y"], "tool 'y' not found; existing tools: Look"),
        (["x", "--agent", "y"], "agent 'y' not found; existing agents: main"),
        (["x", "--project", "y"], "project 'y' not found"),
        (["x", "--since", "soon"], "'soon' is not a time"),
        (["x", "--limit", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_looked_for_is_refused_in_a_line(
    imported: Cli, arguments: list[str], because: str
) -> None:
    assert because in imported.refused("search", *arguments)


def test_nothing_found_is_said(imported: Cli) -> None:
    ran = imported.ok("search", "nowhere")
    assert ran.out == ""
    assert "No matches" in ran.err
    assert json.loads(imported.ok("search", "nowhere", "--json").out) == {
        "total": 0,
        "is_more": False,
        "hits": [],
    }


def test_of_very_many_hits_it_says_that_there_are_more(cli: Cli, tmp_path: Path) -> None:
    made = Transcript()
    for number in range(10_001):
        made.user(f"Cup {number}.")
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path)
    assert "20 of more than 10,000, newest first." in cli.ok("search", "cup").out
    found = cli.ok("search", "cup", "--json").json
    assert (found["total"], found["is_more"], len(found["hits"])) == (10_000, True, 20)


def test_a_session_of_harken_is_found_by_its_log(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello there")
    out = cli.ok("search", "hello").out
    assert out.startswith("ctx-")
    assert "prompt" in out
    cli.ok("demo")
    assert "chat --resume" in cli.ok("search", "smiles").out


def test_an_empty_home_has_nothing(cli: Cli) -> None:
    assert "No matches" in cli.ok("search", "tea").err


def test_without_the_index_import_leaves_it_to_the_search(cli: Cli, tmp_path: Path) -> None:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text_block("It is."))
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path, "--no-index")
    assert not (cli.home / "facts.db").exists()
    assert cli.ok("search", "cafe", "--json").json["total"] == 1


def test_a_secret_that_was_purged_is_found_no_more(imported: Cli) -> None:
    assert imported.ok("search", "door", "--json").json["total"] == 1
    done = start(imported.home, "store", "purge", "--yes", stdin="the door")
    assert done.returncode == 0, done
    assert b"facts.db" not in done.stdout
    assert not [*imported.home.glob("facts.db*")]
    assert imported.ok("search", "door", "--json").json["total"] == 0


def test_what_a_collection_took_is_found_no_more(imported: Cli) -> None:
    found = imported.ok("search", "cafe", "--kind", "response", "--json").json
    ctx = found["hits"][0]["ctx"]
    imported.ok("store", "retain", ctx, "--for", "1s")
    time.sleep(1.1)
    assert ctx in imported.ok("store", "gc", "--grace", "0s", "--json").json["commits"]
    left = imported.ok("search", "cafe", "--json").json
    assert ctx not in [hit["ctx"] for hit in left["hits"]]
    assert left["total"] == 1
