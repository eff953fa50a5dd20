"""`harken replay` without a terminal: the steps of a session as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.messages import Message, extend_context_hash
from harken.session.session import Session
from tests.cli.kit import Cli
from tests.unit.formats.transcript_kit import Transcript, text_block
from tests.unit.views.log_builder import LogBuilder

JILL = (
    '{"name":"Jill","instructions":"You are Jill, an aspiring author. '
    'Ask your inner voice before you speak to a stranger."}'
)
TALK = '{"prompt":"You meet in a cafe. Introduce yourselves.","speakers":["Jack","Jill"]}'


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def headings(text: str) -> list[str]:
    return [line.split(" · ")[0] for line in text.splitlines() if line.startswith("── ")]


def import_one(cli: Cli, folder: Path) -> None:
    """Import a conversation of another program: `claude:5e551011`."""
    told = Transcript()
    told.user("Which tea?")
    told.answer(text_block("Green."))
    projects = folder / "projects"
    projects.mkdir()
    (projects / "a.jsonl").write_bytes(told.data)
    cli.ok("import", projects)


def test_all_steps_are_printed_with_what_was_new_and_what_came_of_it(demo: Cli) -> None:
    ran = demo.ok("replay", "demo")
    assert len(headings(ran.out)) == 9
    assert ran.err == ""
    third = ran.out.split("── ")[3]
    assert third.splitlines()[2:] == [
        "Context",
        "= 4 messages as before",
        "+ assistant",
        f"    <call c2> task {JILL}",
        "+ tool task (c2)",
        "    Created subagent: Jill",
        "",
        "Response",
        f"> discuss {TALK}",
        "< result",
        "    [Jack]: Hi, I'm Jack. *extends hand*",
        "",
        "    [Jill]: *smiles* Hello Jack, I'm Jill.",
        "",
    ]


def test_one_step_or_some_or_those_of_one_agent(demo: Cli) -> None:
    def shown(*arguments: str) -> list[str]:
        return headings(demo.ok("replay", *arguments).out)

    assert shown("demo", "--at", "3") == ["── request 3 of 9"]
    assert shown("demo", "--at", "-1") == ["── request 9 of 9"]
    assert shown("demo", "--at", "msg_027") == ["── request 4 of 9"]
    jill = ["── request 5 of 9", "── request 6 of 9", "── request 8 of 9"]
    assert shown("demo", "--agent", "Jill") == jill
    assert shown("demo", "--first", "5", "--last", "6") == jill[:2]
    assert shown("demo", "--agent", "Jill", "--first", "-3") == jill[2:]


@pytest.mark.req("S3-29")
def test_a_thread_is_a_session_and_an_agent(demo: Cli) -> None:
    expected = demo.ok("replay", "demo", "--agent", "Jill").out
    log = str(demo.sessions()[0])
    for thread in ("demo/Jill", "dem/Jill", "latest/Jill", "demo/agent_003", f"{log}/Jill"):
        assert demo.ok("replay", thread).out == expected
    for at, request in (("1", 5), ("-1", 8), ("msg_050", 8)):
        [heading] = headings(demo.ok("replay", "demo/Jill", "--at", at).out)
        assert heading == f"── request {request} of 9"
    assert headings(demo.ok("replay", "demo/Jill", "--first", "2").out)[0] == "── request 6 of 9"
    assert "existing model calls: 1 to 3" in demo.refused("replay", "demo/Jill", "--at", "4")
    assert "agent 'Joe' not found" in demo.refused("replay", "demo/Joe")
    demo.refused("replay", "nowhere/Jill")


def test_json_is_a_line_a_step(demo: Cli) -> None:
    found = rows(demo.ok("replay", "demo", "--json").out)
    assert [row["number"] for row in found] == [*range(1, 10)]
    assert found[3]["outcome"]["answer"]["content"] == "Hi, I'm Jack. *extends hand*"
    assert [row["kind"] for row in found[4]["changes"]["messages"]] == ["added"] * 3
    assert "context" not in found[0]
    [whole] = rows(demo.ok("replay", "demo", "--at", "8", "--json", "--context").out)
    assert len(whole["context"]) == whole["messages"] == 7
    assert whole["verified"]
    assert {tool["name"] for tool in whole["tools"]} == {"task", "discuss", "terminate"}


def test_the_whole_context_stands_in_the_text_where_it_is_asked_for(demo: Cli) -> None:
    out = demo.ok("replay", "demo", "--at", "9", "--context").out
    assert "The full context: 8 messages" in out
    assert "  0 system  msg_002" in out
    assert "+ 7 tool discuss (c3)" in out


def test_an_imported_session_is_stepped_through_too(cli: Cli, tmp_path: Path) -> None:
    import_one(cli, tmp_path)
    ran = cli.ok("replay", "claude:5e551011")
    assert "    Which tea?" in ran.out
    assert "  Green." in ran.out
    assert ran.err.startswith("Imported from claude")
    for thread in ("claude:5e551011/main", "5e55/main", "latest/main"):
        assert cli.ok("replay", thread).out == ran.out


def test_what_cannot_be_shown_is_one_line(demo: Cli, tmp_path: Path) -> None:
    assert "model call '99' not found" in demo.refused("replay", "demo", "--at", "99")
    assert "1 to 9" in demo.refused("replay", "demo", "--at", "nothing")
    assert "1 to 9" in demo.refused("replay", "demo", "--at", "9" * 5000)
    assert demo.refused("replay", "demo", "--agent", "Jack", "--first", "5") == (
        "no request of Jack from 5 to 9"
    )
    demo.refused("replay", "no-such-session")
    demo.refused("replay", "demo", "--first", "7", "--last", "3")
    empty = tmp_path / "empty.jsonl"
    Session(empty).close()
    assert "no model calls" in demo.refused("replay", str(empty))


def test_a_request_that_cannot_be_rebuilt_says_so_and_the_others_are_shown(
    cli: Cli, tmp_path: Path
) -> None:
    lines: list[dict[str, Any]] = [
        {"event_type": "transcript_entry", "message_id": "msg_001", "role": "user"},
        {"event_type": "llm_request", "message_id": "msg_002", "context": [{"entries": ["x"]}]},
        {"event_type": "llm_request", "message_id": "msg_003", "context": []},
    ]
    base = {"agent_id": "a", "time": "2026", "model": "m", "count": 1, "context_hash": ""}
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(json.dumps({**base, **line, "content": "hi"}) + "\n" for line in lines))
    out = cli.ok("replay", str(file)).out
    assert "! msg_002 saw 'x', which this log lacks" in out
    assert len(headings(out)) == 2
    found = rows(cli.ok("replay", str(file), "--json").out)
    assert "which this log lacks" in found[0]["cannot"]


def test_hostile_text_is_made_harmless(cli: Cli, tmp_path: Path) -> None:
    with LogBuilder(tmp_path) as play:
        play.hears(play.root, "a\x1b]0;owned\x07b\u202e\r\x9b2J")
        tools = [{"name": "x\x1b[2J", "y\x1b": "\x1b"}]
        id_ = play.session.append(ev.ToolsDefined(tools=tools, tools_hash="h\x1b"))
        play.answers(play.root, play.asks(play.root, tools=id_), "c\x1b[31m\ud800")
        play.asks(play.root, parameters={"a\x1b": "\x1b"})
        log = play.session.path
    for options in ([], ["--json"], ["--context"], ["--json", "--context"]):
        out = cli.ok("replay", str(log), *options).out
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(out)


def test_a_session_whose_store_is_gone_says_so_and_is_shown(cli: Cli, tmp_path: Path) -> None:
    def two(_: object) -> list[Message]:
        return [Message("user", "before"), Message("assistant", "then")]

    rolling = ""
    for message in two(None):
        rolling = extend_context_hash(rolling, message)
    with LogBuilder(tmp_path, resolver=two) as play:
        play.session.append(
            ev.ContextLoaded(agent_id=play.root, ctx="ctx-12", count=2, context_hash=rolling)
        )
        play.hears(play.root, "Hi")
        play.asks(play.root)
        log = play.session.path
    ran = cli.ok("replay", str(log))
    assert "~ started from the commit ctx-12" in ran.out
    assert "which is in a store that is not open" in ran.out
    assert ran.err.startswith("harken: ")


def test_a_session_is_checked_by_running_it_again(demo: Cli) -> None:
    before = demo.sessions()[0].read_bytes()
    ran = demo.ok("replay", "demo", "--check")
    assert ran.out == "demo: the same (9 requests, 57 events of 4 agents)\n"
    assert ran.err == ""
    assert demo.ok("replay", "demo", "--check", "--json").json == {
        "session": "demo",
        "same": True,
        "requests": 9,
        "events": 57,
        "agents": 4,
    }
    assert demo.sessions()[0].read_bytes() == before


def changed(log: Path, old: str, new: str) -> Path:
    """Write a log anew in which something else was said, without its sums."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.pop("sum")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert old in text
    file = log.parent.parent / "changed.jsonl"
    file.write_text(text.replace(old, new))
    return file


def test_a_difference_is_shown_and_the_exit_code_says_so(demo: Cli) -> None:
    file = str(changed(demo.sessions()[0], "Created subagent: Jack", "Made Jack\\u001b[2J"))
    ran = demo("replay", file, "--check")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0].endswith("first divergence at msg_011, event 7 of main (transcript_entry)")
    assert lines[1] == "  content: [-Made-]{+Created subagent:+} Jack[-\\x1b[2J-]"
    row = demo("replay", file, "--check", "--json").json
    assert not row["same"]
    assert (row["difference"]["agent"], row["difference"]["message_id"]) == ("main", "msg_011")


def test_of_what_other_programs_ran_every_request_is_rebuilt(cli: Cli, tmp_path: Path) -> None:
    import_one(cli, tmp_path)
    ran = cli.ok("replay", "claude:5e551011", "--check")
    assert "1 of 1 request rebuilt with the logged hash" in ran.out
    assert cli.ok("replay", "claude:5e551011", "--check", "--json").json["same"]


def test_what_cannot_be_run_again_is_one_line(demo: Cli, tmp_path: Path) -> None:
    with LogBuilder(tmp_path, resolver=lambda _: [Message("user", "before")]) as play:
        rolling = extend_context_hash("", Message("user", "before"))
        load = ev.ContextLoaded(agent_id=play.root, ctx="ctx-1", count=1, context_hash=rolling)
        play.session.append(load)
        play.asks(play.root)
        log = play.session.path
    ran = demo("replay", str(log), "--check")
    assert ran.code == 2
    assert "ctx-1" in ran.err
