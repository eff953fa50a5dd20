from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Cli
from tests.session_kit import read_lines


def read_rows(cli: Cli, session: str) -> list[dict[str, Any]]:
    return read_lines(cli.home / "sessions" / f"{session}.jsonl")


def test_an_unchanged_rerun_does_not_part_from_its_session(demo: Cli) -> None:
    ran = demo.ok("rerun", "demo", "--at", "3")
    assert ran.out.startswith("demo-rerun  Jack and Jill have met.")
    assert "harken compare demo demo-rerun" in ran.err
    assert demo.ok("compare", "demo", "demo-rerun").out.startswith("The sessions do not diverge")


def test_an_edited_rerun_parts_where_it_was_edited(demo: Cli) -> None:
    demo.ok("rerun", "demo", "--at", "3", "--edit", "#1=Let Bob meet.", "--model", "scripted:demo")
    found = demo.ok("compare", "demo", "demo-rerun", "--json").json
    assert found["partings"][0]["position"] == 1
    assert found["partings"][0]["after"]["text"] == "Let Bob meet."
    out = demo.ok("compare", "demo", "demo-rerun").out
    assert "main: they diverge after 1 message\n" in out


def test_the_log_of_a_rerun_says_where_it_comes_from_and_so_do_views(demo: Cli) -> None:
    demo.ok("rerun", "demo", "--at", "3", "--edit", "#1=Hi.")
    origin = read_rows(demo, "demo-rerun")[0]["origin"]
    assert (origin["session"], origin["changes"]) == ("demo", ["edited #1"])
    text = f"fork of demo up to {origin['upto']}: edited #1"
    assert text in demo.ok("view", "demo-rerun", "tree").out
    assert f"\n{text}\n" in demo.ok("view", "demo-rerun").out
    assert "the context of main was edited: rerun: edited #1" in demo.ok("view", "demo-rerun").out


def test_several_reruns_have_numbers_and_are_compared_together(demo: Cli) -> None:
    ran = demo.ok("rerun", "demo", "--at", "-1", "--runs", "3", "--json")
    names = [row["session"] for row in ran.json]
    assert names == ["demo-rerun-1", "demo-rerun-2", "demo-rerun-3"]
    found = demo.ok("compare", "demo", "--with", *names, "--json").json
    assert (found["pairs"], found["same"]) == (3, 3)
    out = demo.ok("compare", "demo", "demo-rerun-*").out
    assert "3 of 3 pairs do not diverge." in out
    assert demo.ok("rerun", "demo", "--at", "-1").out.startswith("demo-rerun2  ")


def test_a_call_can_be_numbered_among_those_of_an_agent(demo: Cli) -> None:
    ran = demo.ok("rerun", "demo/Jill", "--at", "-1")
    assert "Waiting for Jill: main. Continue with `" in ran.err
    rows = read_rows(demo, "demo-rerun")
    asked = [row["agent_id"] for row in rows if row["event_type"] == "llm_request"]
    assert asked[-1] == "agent_003"
    demo.ok("chat", "--resume", "demo-rerun", "-p", "say nothing")
    refused = demo.refused("rerun", "demo/Jill", "--at", "9")
    assert refused.startswith("model call")


def test_another_system_prompt_comes_from_a_file(demo: Cli, tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("You are another host.\n")
    demo.ok("rerun", "demo", "--at", "1", "--system-prompt-file", file)
    (*_, request) = [
        row for row in read_rows(demo, "demo-rerun") if row["event_type"] == "llm_request"
    ]
    ran = demo.ok("view", "demo-rerun", "context", request["message_id"], "--json")
    assert ran.json["messages"][0]["message"]["content"] == "You are another host."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "99"], "model call '99' not found; existing model calls: 1 to 9"),
        (["--at", "msg_999"], "(call 9, of main)"),
        (["--at", "3", "--drop", "#3"], "(rule call-without-result; message #2, assistant)"),
        (["--at", "3", "--drop", "#2"], "(rule result-without-call; message #2, tool task (c1))"),
        (["--at", "1", "--drop", "#1"], "(rule nothing-to-answer; at the end)"),
        (["--at", "3", "--edit", "#77=x"], "message '#77' not found"),
        (["--at", "3", "--edit", "x"], "write MESSAGE=TEXT"),
        (["--at", "3", "--without-hook", "guard"], "hook 'guard' not found"),
        (["--at", "3", "--model", "nothing"], "model 'nothing' not found"),
    ],
)
def test_what_cannot_be_is_refused_on_one_line_and_leaves_nothing(
    demo: Cli, arguments: list[str], said: str
) -> None:
    assert said in demo.refused("rerun", "demo", *arguments)
    assert [path.stem for path in demo.sessions()] == ["demo"]


def test_a_failing_model_is_said_and_kept(demo: Cli, tmp_path: Path) -> None:
    script = tmp_path / "fails.yaml"
    script.write_text("rules:\n  - error: no credit\n")
    ran = demo("rerun", "demo", "--at", "3", "--model", f"scripted:{script}")
    assert ran.code == 1
    assert ran.out == "demo-rerun  failed: no credit\n"


def test_calls_that_are_not_in_the_record_are_refused_and_told(cli: Cli, tmp_path: Path) -> None:
    cli.home.mkdir()
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    script = "rules:\n  - pattern: Go\n    calls: [{{read: {{path: {}}}}}]\n  - answer: Done.\n"
    first.write_text(script.format("a.txt"))
    second.write_text(script.format("b.txt"))
    Path("a.txt").write_text("A")
    Path("b.txt").write_text("B")
    cli.ok("chat", "--model", f"scripted:{first}", "-p", "Go")
    session = cli.sessions()[0].stem
    ran = cli.ok("rerun", session, "--at", "1", "--model", f"scripted:{second}")
    assert "  1 call not recorded, refused: read\n" in ran.out
    ran = cli.ok("rerun", session, "--at", "1", "--model", f"scripted:{second}", "--live")
    assert "  1 call not recorded: read\n" in ran.out
    rows = read_lines(cli.home / "sessions" / f"{session}-rerun2.jsonl")
    (result,) = [row["content"] for row in rows if row.get("role") == "tool"]
    assert "B" in json.dumps(result)
