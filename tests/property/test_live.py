"""Laws of what running clients say, whatever they say."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harken.capture.live.claude_code import parse_claude_line
from harken.capture.live.codex import CodexLines
from harken.capture.live.display import LineSplitter, make_formatter
from harken.capture.live.invocation import Invocation
from harken.capture.live.stream_commits import StreamCommits
from harken.capture.live.stream_event import LineParser
from harken.context.history import commit_history
from harken.context.materialize import materialize
from harken.formats.events import event_to_record, parse_event
from harken.store.memory import MemoryStore

TEXTS = st.text(max_size=8) | st.sampled_from(["text", "tool_use", "tool_result", "t1", "\ud800"])
MEMBERS = (
    "type subtype message content text id tool_use_id name input uuid role item usage source "
    "parent_tool_use_id session_id timestamp thinking compact_metadata preserved_messages uuids "
    "is_error aggregated_output"
)
TYPES = (
    "system assistant user tool result thread.started turn.completed turn.failed item.started "
    "item.completed error stream_event"
)
NAMES, KINDS = st.sampled_from(MEMBERS.split()), st.sampled_from(TYPES.split())
ITEMS = st.sampled_from(
    ["agent_message", "reasoning", "command_execution", "mcp_tool_call", "file_change"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=5,
)
RECORDS = st.builds(
    lambda kind, subtype, item, members: {
        **members,
        "type": kind,
        "subtype": subtype,
        **(
            {"item": {**(members if isinstance(members, dict) else {}), "type": item}}
            if item
            else {}
        ),
    },
    KINDS,
    st.sampled_from(["init", "compact_boundary", "text", "success", "result"]),
    st.none() | ITEMS,
    st.dictionaries(NAMES, VALUES, max_size=4),
)
LINES = st.lists(
    st.binary(max_size=30) | RECORDS.map(lambda value: json.dumps(value).encode()), max_size=4
)


def listeners() -> list[LineParser]:
    return [parse_claude_line, CodexLines().parse_line]


@settings(max_examples=settings().max_examples // 2)
@given(LINES)
def test_client_output_converts_to_events_that_round_trip(
    lines: list[bytes],
) -> None:
    for listen in listeners():
        for line in lines:
            for event in listen(line).events:
                assert parse_event(event_to_record(event)) == event


@settings(max_examples=settings().max_examples // 2)
@given(LINES)
def test_client_output_converts_to_readable_commits(lines: list[bytes]) -> None:
    for listen in listeners():
        store = MemoryStore()
        chain = StreamCommits(store, "claude", lambda: 1_800_000_000_000_000)
        for index, line in enumerate(lines):
            chain.add(listen(line))
            if index % 2:
                chain.note_silence()
        chain.end()
        if chain.newest is not None:
            assert len(materialize(store, chain.newest).messages) >= 0
            assert commit_history(store, chain.newest)


@given(st.lists(st.binary(max_size=6) | st.just(b"\n"), max_size=8))
def test_lines_do_not_depend_on_chunk_boundaries(pieces: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    assert [*lines, splitter.end()] == b"".join(pieces).split(b"\n")


@settings(max_examples=settings().max_examples // 2)
@given(LINES, st.sampled_from(["text", "json", "jsons"]))
def test_formatter_accepts_any_output(lines: list[bytes], output: Any) -> None:
    formatter = make_formatter(Invocation(runtime="claude", command=("claude",), output=output))
    for line in lines:
        formatter.feed(line + b"\n")
    formatter.end()
