"""`harken view`: every view, as text and as JSON, by names and ids."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harken.session.session import Session
from tests.cli.kit import HARKEN, Cli, start
from tests.forks import processes

EXPECTED = {
    "tree": ("    Inner  (agent_004, scripted:demo, 3 entries, 1 model call)", 4),
    "dialog": ("user: Let Jack and Jill meet in a cafe.", 2),
    "dialog Jack Jill": ("Jack: Hi, I'm Jack. *extends hand*", 3),
    "perspective Jill": ("[Heard]: [Jack]: Hi, I'm Jack. *extends hand*", 8),
    "transcript Jill": ("msg_031 [substance=msg_028] user: [Jack]: Hi, I'm Jack.", 8),
    "flow msg_055": ("msg_028 Jack assistant: Hi, I'm Jack.", 4),
    "refs msg_028": ("msg_031 Jill (itself, hop 1): [Jack]: Hi, I'm Jack.", 2),
    "context msg_050": ("+   6 msg_049 tool discuss (c5): Be friendly but not over-eager.", None),
    "timeline": ("msg_002 main  system            You are the host", None),
    "raw": ("msg_028 Jack assistant: Hi, I'm Jack. *extends hand*", 60),
    "raw --role tool --agent Jill": ("msg_038 Jill tool task (c4): Created subagent: Inner", 2),
}


@pytest.mark.parametrize("view", EXPECTED)
def test_a_view_is_text_for_people_and_json_for_programs(demo: Cli, view: str) -> None:
    text, count = EXPECTED[view]
    plain, data = (
        demo.ok("view", "demo", *view.split()),
        demo.ok("view", "demo", *view.split(), "--json"),
    )
    assert text in plain.out
    assert plain.err == data.err == ""
    if count is not None:
        assert len(data.json) == count
    assert data.json


def test_agents_are_named_by_name_or_id(demo: Cli) -> None:
    for name, id_ in (("main", "agent_001"), ("Jill", "agent_003")):
        for view in ("perspective", "transcript", "dialog"):
            by_name = demo.ok("view", "demo", view, name)
            assert by_name.out == demo.ok("view", "demo", view, id_).out
            assert by_name.out


def test_messages_are_named_by_id_or_number(demo: Cli) -> None:
    for view, message in (("flow", "55"), ("refs", "28"), ("context", "50")):
        by_number = demo.ok("view", "demo", view, message).out
        assert by_number == demo.ok("view", "demo", view, f"msg_0{message}").out
        assert by_number


def test_sessions_are_named_by_id_by_its_beginning_or_by_file(demo: Cli) -> None:
    expected = demo.ok("view", "demo", "tree").out
    for name in ("d", "demo.jsonl", str(demo.sessions()[0])):
        assert demo.ok("view", name, "tree").out == expected


def test_an_id_comes_before_a_file_of_that_name(demo: Cli) -> None:
    Path("demo").mkdir()
    demo.ok("view", "demo", "tree")


def test_the_context_of_a_model_call_is_what_it_saw(demo: Cli) -> None:
    view = demo.ok("view", "demo", "context", "msg_050", "--json").json
    transcript = demo.ok("view", "demo", "transcript", "Jill", "--json").json
    seen = [row["message_id"] for row in transcript]
    assert [row["message_id"] for row in view["messages"]] == seen[:-1]  # all before the answer
    by_answer = demo.ok("view", "demo", "context", seen[-1], "--json").json
    assert by_answer == view


def test_of_an_agent_the_last_model_call_is_shown(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    cli.ok("chat", "--continue", "-p", "make Ann")
    last = cli.ok("view", "latest", "raw", "--type", "llm_request", "--agent", "main", "--json")
    shown = cli.ok("view", "latest", "context", "main").out
    assert shown == cli.ok("view", "latest", "context", last.json[-1]["message_id"]).out
    assert "Ann asked " in cli.ok("view", "latest", "context", "main/Ann").out
    assert "changed-files has no model requests" in cli.refused(
        *("view", "latest", "context", "main/changed-files")
    )


def test_the_tree_counts_nothing_for_code_and_shows_of_a_script_its_name(
    cli: Cli, script: str
) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    assert cli.ok("view", "latest", "tree").out == (
        "main  (agent_001, scripted:script.yaml, 3 entries, 1 model call)\n"
        "  changed-files  (agent_002, hook)\n"
    )


def test_a_transcript_is_not_cut(cli: Cli, script: str) -> None:
    long = "hello " + "x" * 500 + "\nand a second line"
    cli.ok("chat", "--model", script, "-p", long)
    out = cli.ok("view", "session_", "transcript", "main").out
    assert "user: hello " + "x" * 500 + "\n  and a second line\n" in out


def test_what_an_agent_thought_is_no_part_of_what_it_said(cli: Cli) -> None:
    Path("script.yaml").write_text("rules: [{thinking: Who is that, answer: Hello.}]\n")
    cli.ok("chat", "--model", "scripted:script.yaml", "-p", "Hi")
    out = cli.ok("view", "session_", "transcript", "main").out
    assert "assistant: <thinking Who is that>\n  Hello.\n" in out


def test_what_was_heard_differently_is_shown_beside_what_was_said(cli: Cli) -> None:
    with Session(Path("s.jsonl")) as session:
        root = session.log_agent_created(session.allocate_agent_id(), None, "Ann")
        session.log_agent_created(session.allocate_agent_id(), root, "Ben")
        said = session.log_transcript_entry("agent_001", {"role": "assistant", "content": "No."})
        heard = {"role": "user", "content": "[Ann]: Yes."}
        session.log_transcript_entry("agent_002", heard, said)
    out = cli.ok("view", "s.jsonl", "dialog", "Ann", "Ben").out
    assert out == "Ann: No.\n  (differs) Ben heard: [Ann]: Yes.\n"
    assert (
        "Ann proposed: No.\n  msg_004 Ben got: [Ann]: Yes."
        in cli.ok("view", "s.jsonl", "hooks").out
    )


def test_the_flow_of_an_answer_says_where_it_comes_from(demo: Cli) -> None:
    ran = demo.ok("view", "demo", "flow", "51", "--home", demo.home)
    assert ran.out == "msg_051 Jill assistant: *smiles* Hello Jack, I'm Jill.\n"
    [note] = ran.err.splitlines()
    assert note.startswith("The source of an answer is its full context: `")
    look = f"view demo context msg_051 --home {demo.home}` shows it."
    assert look in note
    assert demo.ok("view", "demo", "context", "msg_051").out
    assert demo.ok("view", "demo", "flow", "54").err == ""  # heard, not said


def test_the_latest_session_can_be_named_so(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "--system-prompt", "You like tea.", "-p", "hello")
    out = demo.ok("view", "latest", "transcript", "main").out
    assert "system: You like tea.\n" in out
    assert out.endswith("Hi there.\n")
    chat = demo.sessions()[1]
    os.utime(chat, (0, 0))
    assert "You like tea." not in demo.ok("view", "latest", "transcript", "main").out


def test_without_sessions_none_is_the_latest(cli: Cli) -> None:
    assert "no sessions; `harken demo` creates one" in cli.refused("view", "latest", "tree")


def test_a_session_with_the_id_latest_comes_first(demo: Cli) -> None:
    log = demo.sessions()[0]
    (log.parent / "latest.jsonl").write_bytes(log.read_bytes()[:-30])
    os.utime(log)
    assert "incomplete" in demo.ok("view", "latest", "tree").err


def test_raw_as_json_is_the_log_without_sums_and_groups(demo: Cli) -> None:
    lines = [json.loads(line) for line in demo.sessions()[0].read_text().splitlines()]
    for line in lines:
        del line["sum"]
        line.pop("more", None)
    assert demo.ok("view", "demo", "raw", "--json").json == lines


def test_raw_is_filtered_by_what_events_point_at(demo: Cli) -> None:
    rows = demo.ok("view", "demo", "raw", "--link", "28", "--json").json
    assert [row["message_id"] for row in rows] == ["msg_031", "msg_055"]


@pytest.mark.parametrize(
    ("view", "note"),
    [
        ("hooks", "No hooks"),
        ("refs msg_057", "No agent received it."),
        ("raw --agent Inner --role tool", "No event matches."),
    ],
)
def test_an_empty_view_says_that_it_is_empty(demo: Cli, view: str, note: str) -> None:
    ran = demo.ok("view", "demo", *view.split())
    assert ran.out == ""
    assert note in ran.err
    assert demo.ok("view", "demo", *view.split(), "--json").json == []


@pytest.mark.parametrize(
    ("view", "there_is"),
    [
        ("perspective Jakc", "main (agent_001), Jack (agent_002), Jill (agent_003), Inner"),
        ("transcript agent_009", "agent 'agent_009' not found; existing agents: main (agent_001)"),
        ("dialog Jack Nobody", "agent 'Nobody' not found; existing agents: main"),
        ("flow 999", "message '999' not found; existing messages: msg_000 to msg_059"),
        ("refs msg_xyz", "existing messages: msg_000 to msg_059"),
        (
            "context msg_010",
            "model call 'msg_010' not found; existing model calls: msg_005, msg_012",
        ),
        (
            "raw --type utterance",
            "existing event types: session_started, agent_created, transcript_entry",
        ),
        ("raw --role boss", "'system', 'user', 'assistant', 'tool'"),
        ("raw --agent Jakc", "existing agents: main (agent_001)"),
        ("raw --link 999", "existing messages: msg_000 to msg_059"),
        ("nonsense", "commands: conversation, context, dialog, flow, hooks"),
        ("flow", "Missing argument 'MESSAGE'; see `harken view SESSION flow --help`"),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(
    demo: Cli, view: str, there_is: str
) -> None:
    assert there_is in demo.refused("view", "demo", *view.split())


def test_an_unknown_session_is_answered_with_those_that_exist(demo: Cli) -> None:
    demo.ok("demo")
    assert demo.refused("view", "nobody", "tree") == (
        "session or commit 'nobody' not found; existing sessions or commits: demo-2, demo"
    )
    assert "is ambiguous: demo, demo-2" in demo.refused("view", "dem", "tree")
    assert "session or commit '' not found" in demo.refused("view", "", "tree")


def test_the_last_half_line_of_a_log_is_left_out_and_told(demo: Cli) -> None:
    log = demo.sessions()[0]
    whole = demo.ok("view", "demo", "raw").out
    log.write_bytes(log.read_bytes()[:-30])
    ran = demo.ok("view", "demo", "raw")
    assert ran.out.splitlines() == whole.splitlines()[:-1]
    assert "incomplete" in ran.err


def test_a_log_can_be_viewed_while_it_is_written(demo: Cli, script: str) -> None:
    with Session(demo.sessions()[0]):
        demo.ok("view", "demo", "tree")


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    start(tmp_path, "demo")
    read, write = os.pipe()
    os.close(read)
    ran = processes.run(
        [HARKEN, "--home", tmp_path, "view", "demo", "raw"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_looking_into_a_log_brings_no_agents_along(demo: Cli) -> None:
    """They take three times as long to import as all that a view needs."""
    code = (
        "import sys; from harken.cli.main import run_cli; run_cli(sys.argv[1:])\n"
        "print(sorted(name for name in sys.modules if name.startswith('harken.agents')))"
    )
    command = [sys.executable, "-c", code, "--home", str(demo.home), "view", "demo", "tree"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.startswith("main")
    assert ran.stdout.endswith("\n[]\n")
