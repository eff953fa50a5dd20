"""`harken view SESSION context` and `transcript`: messages in full, nothing left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.core import events as ev
from harken.core.messages import extend_context_hash
from harken.session.session import Session
from tests.cli.kit import Cli

LOOK = {"name": "look", "description": "Look there."}
TASK = {"type": "function", "function": {"name": "task"}}
PARTS: list[dict[str, Any]] = [
    {"type": "thinking", "text": "hm", "meta": {"signature": "s"}},
    {"type": "text", "text": "I look."},
    {"type": "image", "media_type": "image/png", "data": "A" * 2000},
    {"type": "call", "id": "c2"},
    {"type": "other", "kind": "citation", "data": "{}"},
    {"type": "call", "id": "c1"},
]
CALLS = [
    {"id": "c2", "function": {"name": "task", "arguments": "not json"}, "type": "custom"},
    {"id": "c1", "function": {"name": "look", "arguments": '{ "at":1}'}},
]
RESULT = {"role": "tool", "name": "task", "content": "no", "tool_call_id": "c2", "is_error": True}


def log_with(*messages: dict[str, Any], tools: list[dict[str, Any]] | None = None) -> None:
    """Write s.jsonl: Ann's transcript, and a model call that saw it."""
    with Session(Path("s.jsonl")) as session:
        root = session.allocate_agent_id()
        session.log_agent_created(root, None, "Ann")
        for message in messages:
            session.log_transcript_entry(root, message)
        defined = session.append(ev.ToolsDefined(tools=tools, tools_hash="h")) if tools else None
        context_hash = ""
        for seen in session.context(root):
            context_hash = extend_context_hash(context_hash, seen)
        request = ev.LlmRequest(
            agent_id=root,
            context=session.agent(root).segments(),
            count=len(messages),
            context_hash=context_hash,
            model="m",
            parameters={"temperature": 0, "stop": ["x"]} if tools else None,
            tools=defined,
        )
        session.append(request)


def log_of_everything() -> None:
    log_with(
        {"role": "user", "content": "Hi\nthere"},
        {"role": "assistant", "content": PARTS, "tool_calls": CALLS},
        RESULT,
        tools=[LOOK, TASK],
    )


def test_a_context_has_every_part_call_result_tool_and_parameter(cli: Cli) -> None:
    log_of_everything()
    ran = cli.ok("view", "s.jsonl", "context", "6")
    assert ran.err == ""
    assert ran.out == (
        "msg_006: Ann asked m with 3 messages\n"
        "+   0 msg_002 user: Hi\n"
        "      there\n"
        "+   1 msg_003 assistant: <thinking hm>\n"
        "      I look.\n"
        "      <image image/png, 1.5 KB>\n"
        "      <custom call c2> task not json\n"
        "      <block citation, 2 B>\n"
        '      <call c1> look { "at":1}\n'
        "+   2 msg_004 tool task (c2, error): no\n"
        'tools: look, task; parameters: temperature=0, stop=["x"]\n'
    )


def test_the_schemas_of_tools_are_in_the_json(cli: Cli) -> None:
    log_of_everything()
    view = cli.ok("view", "s.jsonl", "context", "6", "--json").json
    assert view["tools"] == [LOOK, TASK]
    assert view["messages"][1]["message"]["content"] == PARTS


def test_a_context_without_tools_and_parameters_says_so(cli: Cli) -> None:
    log_with({"role": "user", "content": "Hi"})
    assert cli.ok("view", "s.jsonl", "context", "3").out.endswith(
        "user: Hi\ntools: none; parameters: none\n"
    )


def test_a_transcript_and_an_event_are_written_in_the_same_words(cli: Cli) -> None:
    log_of_everything()
    transcript = cli.ok("view", "s.jsonl", "transcript", "Ann").out
    assert "msg_003 assistant: <thinking hm>\n  I look.\n  <image image/png, 1.5 KB>" in transcript
    assert transcript.endswith("msg_004 tool task (c2, error): no\n")
    raw = cli.ok("view", "s.jsonl", "raw").out
    assert "msg_003 Ann assistant: <thinking hm> I look. <image image/png, 1.5 KB> <custom" in raw


def test_what_a_context_lost_is_shown_below_it(cli: Cli) -> None:
    log_with({"role": "user", "content": "one"})
    with Session.load(Path("s.jsonl")) as session:
        root = session.state.primary
        assert root is not None
        summary = session.log_transcript_entry(root, {"role": "user", "content": "sum"})
        kept = [ev.Segment(entries=[summary])]
        session.append(ev.TranscriptEdited(agent_id=root, segments=kept))
        heard = session.context(root)
        request = ev.LlmRequest(
            agent_id=root,
            context=session.agent(root).segments(),
            count=len(heard),
            context_hash="no such hash",
            model="m",
        )
        session.append(request)
    ran = cli.ok("view", "s.jsonl", "context", "6")
    assert "+   0 msg_004 user: sum\n-   0 msg_002 user: one\n" in ran.out
    assert "differs from the logged hash" in ran.err
