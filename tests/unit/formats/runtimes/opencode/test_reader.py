"""Reading the database and the exports of OpenCode."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import ImagePart, ThinkingPart
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.opencode.messages import build_resume_request
from harken.formats.runtimes.opencode.reader import NATIVE, copy_merged_database
from harken.testing import odd_conversation, plain_conversation
from tests.unit.formats.native_kit import (
    HOSTILE,
    open_source,
    read_context,
    read_steps,
    store_and_load,
    texts_of_entries,
)

Told: TypeAlias = tuple[dict[str, Any], list[dict[str, Any]]]

SCHEMA = """
CREATE TABLE `session` (`id` text PRIMARY KEY, `parent_id` text, `directory` text NOT NULL,
  `title` text NOT NULL, `version` text NOT NULL, `revert` text, `time_updated` integer NOT NULL);
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `data` text NOT NULL);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `data` text NOT NULL);
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PICTURE = {
    "type": "file",
    "mime": "image/png",
    "filename": "a.png",
    "url": f"data:image/png;base64,{PIXEL}",
}
TOKENS = {"input": 2, "output": 3, "reasoning": 4, "cache": {"read": 5, "write": 7}}


def user_message(id_: str, *parts: dict[str, Any] | str) -> Told:
    info = {"id": id_, "role": "user", "time": {"created": 1_769_860_800_000}}
    return info, [
        {"type": "text", "text": part} if isinstance(part, str) else part for part in parts
    ]


def assistant_message(id_: str, *parts: dict[str, Any] | str, **options: Any) -> Told:
    info = {
        "id": id_,
        "role": "assistant",
        "modelID": "m",
        "providerID": "p",
        "tokens": TOKENS,
        "finish": "stop",
        "time": {"created": 1_769_860_801_000, "completed": 1_769_860_802_000},
        **options,
    }
    return info, [
        {"type": "text", "text": part} if isinstance(part, str) else part for part in parts
    ]


def tool_part(id_: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    time = {"start": 1, "end": 2, **state.pop("time", {})}
    value_ = {"status": status, "input": {"at": id_}, "time": time, **state}
    return {"type": "tool", "tool": "look", "callID": id_, "state": value_}


START, FINISH = {"type": "step-start"}, {"type": "step-finish", "tokens": TOKENS, "reason": "stop"}


def export_bytes(*messages: Told, **info: Any) -> bytes:
    conversation = [{"info": item, "parts": parts} for item, parts in messages]
    session = {"id": "ses_1", "directory": "/w", "title": "T", "version": "1.18.33", **info}
    return json.dumps({"info": session, "messages": conversation}).encode()


def write_database(
    path: Path, sessions: dict[str, dict[str, Any]], messages: dict[str, list[Told]]
) -> Path:
    """Write a database with the schema of OpenCode."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for index, (id_, members) in enumerate(sessions.items()):
            row = {"parent_id": None, "revert": None, "time_updated": index, **members}
            values = [id_, row["parent_id"], "/w", f"title of {id_}", "1.18.33"]
            connection.execute(
                "INSERT INTO session VALUES (?,?,?,?,?,?,?)",
                [*values, row["revert"], row["time_updated"]],
            )
        for session, conversation in messages.items():
            for index, (info, parts) in enumerate(conversation):
                state = {name: value for name, value in info.items() if name != "id"}
                message = (info["id"], session, index, json.dumps(state))
                connection.execute("INSERT INTO message VALUES (?,?,?,?)", message)
                for number, part in enumerate(parts):
                    id_ = f"prt_{info['id']}_{number:03}"
                    connection.execute(
                        "INSERT INTO part VALUES (?,?,?,?)",
                        (id_, info["id"], session, json.dumps(part)),
                    )
        connection.commit()
    return path


def read_tip(data: bytes | Path) -> list[ConversationEntry]:
    steps, reading = read_steps(NATIVE, data)
    return read_context(steps, next(iter(reading.tips.values()), None))


TALK = [
    user_message("msg_1", "Look.", PICTURE),
    assistant_message(
        "msg_2",
        START,
        {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "c2ln"}}},
        "I look.",
        tool_part("c1", output="seen", attachments=[PICTURE]),
        tool_part("c2", "error", error="no"),
        FINISH,
        START,
        "Seen.",
        FINISH,
    ),
    user_message("msg_3", "And?"),
    assistant_message("msg_4", tool_part("c3", "running")),
]


def test_database_and_export_are_read_the_same(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    assert read_tip(path) == read_tip(export_bytes(*TALK))
    steps, reading = read_steps(NATIVE, path)
    assert (reading.session_id, reading.title, reading.folder) == ("ses_1", "title of ses_1", "/w")
    assert reading.tips == {"ses_1": steps[-1].id}
    assert reading.lines == reading.used_lines == len(TALK) + sum(len(parts) for _, parts in TALK)
    assert NATIVE.is_session_file("x.db", path.read_bytes())
    assert NATIVE.is_session_file("x.json", export_bytes(*TALK))
    assert not NATIVE.is_session_file("x.jsonl", b'{"sessionId":"x","level":"info","info":{}}')
    assert list(read_steps(NATIVE, export_bytes(*TALK))[1].tips) == [""]


def test_turn_is_a_step_and_results_are_in_their_calls() -> None:
    steps, _ = read_steps(NATIVE, export_bytes(*TALK))
    assert [[entry.message.role for entry in step.entries] for step in steps] == [
        ["user", "assistant", "tool", "tool"],
        ["assistant"],
        ["user", "assistant"],
    ]
    prompt, answer, shown_part, failed = store_and_load(steps[0].entries)
    assert prompt.source == {"kind": "prompt", "id": "msg_1"}
    assert isinstance(answer.message.content, list)
    signed = {"opencode": {"metadata": {"anthropic": {"signature": "c2ln"}}}}
    assert answer.message.content[0] == ThinkingPart("hm", signed)
    assert answer.source == {
        "id": "msg_2",
        "model": "m",
        "usage": {
            "input_tokens": 14,
            "output_tokens": 7,
            "cache_read_tokens": 5,
            "cache_write_tokens": 7,
            "reasoning_tokens": 4,
        },
        "provider": "p",
    }
    assert isinstance(shown_part.message.content, list)
    assert shown_part.message.content[1] == ImagePart("image/png", PIXEL)
    assert (failed.message.content, failed.message.is_error) == ("no", True)


def test_each_session_of_a_database_is_a_conversation(tmp_path: Path) -> None:
    spawning = tool_part("c1", output="found", metadata={"sessionId": "ses_child"})
    path = write_database(
        tmp_path / "opencode.db",
        {"ses_child": {"parent_id": "ses_old"}, "ses_old": {}, "ses_new": {}},
        {
            "ses_old": [
                user_message("a", "old"),
                assistant_message("b", spawning),
                assistant_message("c", "done"),
            ],
            "ses_new": [user_message("d", "new")],
            "ses_child": [user_message("e", "explore"), assistant_message("f", "found")],
        },
    )
    steps, reading = read_steps(NATIVE, path)
    assert list(reading.tips) == ["ses_new", "ses_old", "ses_child"]
    assert reading.session_id == "ses_new"
    first = next(step for step in steps if step.agent == "ses_child")
    spawning_step = next(step for step in steps if texts_of_entries(step.entries)[0][1] == "old")
    assert (first.type, first.trigger, first.parent) == ("snapshot", "spawn", spawning_step.id)
    assert [
        content for _, content in texts_of_entries(read_context(steps, reading.tips["ses_child"]))
    ] == [
        "explore",
        "found",
    ]


def test_reader_returns_the_session_of_each_step(tmp_path: Path) -> None:
    sessions: dict[str, dict[str, Any]] = {"ses_1": {}, "ses_2": {}}
    talks = {"ses_1": [user_message("a", "1")], "ses_2": [user_message("b", "2")]}
    path = write_database(tmp_path / "opencode.db", sessions, talks)
    reading = ReadReport()
    result = [(step.id, reading.session_id) for step in NATIVE.steps(open_source(path), reading)]
    assert result == [("1", "ses_1"), ("2", "ses_2")]


COMPACTED = [
    user_message("msg_1", "one"),
    assistant_message("msg_2", "first"),
    user_message("msg_3", "two"),
    assistant_message("msg_4", "second"),
    user_message("msg_5", {"type": "compaction", "auto": False, "tail_start_id": "msg_3"}),
    assistant_message("msg_6", "Summed up.", summary=True, parentID="msg_5"),
    user_message("msg_7", "three"),
]


def test_compaction_has_its_request_its_summary_and_retained_messages(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": COMPACTED})
    steps, reading = read_steps(NATIVE, path)
    (compaction,) = (step for step in steps if step.type == "compaction")
    assert compaction.summary == "Summed up."
    assert [
        content for _, content in texts_of_entries(read_context(steps, reading.tips["ses_1"]))
    ] == [
        "What did we do so far?",
        "Summed up.",
        "two",
        "second",
        "three",
    ]
    assert read_tip(path) == read_tip(export_bytes(*COMPACTED))


def test_failed_compaction_is_ignored() -> None:
    failed = assistant_message(
        "msg_6", "x", summary=True, parentID="msg_5", error={"name": "UnknownError"}
    )
    steps, _ = read_steps(NATIVE, export_bytes(*COMPACTED[:5], failed))
    assert {step.type for step in steps} == {"delta"}


def test_reverted_messages_are_a_branch(tmp_path: Path) -> None:
    revert = json.dumps({"messageID": "msg_3"})
    path = write_database(tmp_path / "opencode.db", {"ses_1": {"revert": revert}}, {"ses_1": TALK})
    steps, reading = read_steps(NATIVE, path)
    assert [role for role, _ in texts_of_entries(read_context(steps, reading.tips["ses_1"]))][
        -1
    ] == "assistant"
    ((_, branch),) = reading.branches
    assert [content for _, content in texts_of_entries(read_context(steps, branch))][-2] == "And?"
    all_back = export_bytes(*TALK, revert={"messageID": "msg_1"})
    assert read_steps(NATIVE, all_back)[1].tips == {}


def test_write_ahead_log_of_a_database_is_read(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    with closing(sqlite3.connect(path)) as writing:
        writing.execute("PRAGMA journal_mode=WAL")
        writing.execute("PRAGMA wal_autocheckpoint=0")
        row = ("msg_5", "ses_1", 9, json.dumps({"role": "user"}))
        writing.execute("INSERT INTO message VALUES (?,?,?,?)", row)
        part = ("prt_z", "msg_5", "ses_1", json.dumps({"type": "text", "text": "late"}))
        writing.execute("INSERT INTO part VALUES (?,?,?,?)", part)
        writing.commit()
        before = {file: file.read_bytes() for file in tmp_path.iterdir()}
        assert before[tmp_path / "opencode.db-wal"]
        folder = tmp_path / "copies"
        folder.mkdir()
        copy = copy_merged_database(path, folder)
        assert {file: file.read_bytes() for file in tmp_path.iterdir() if file != folder} == before
    assert read_tip(copy)[-1].message.content == "late"


def test_database_without_a_log_is_copied_byte_by_byte(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    folder = tmp_path / "copies"
    folder.mkdir()
    assert copy_merged_database(path, folder).read_bytes() == path.read_bytes()


SENT = [
    *TALK,
    user_message("msg_5", {"type": "text", "text": "x", "ignored": True}, "See:", PICTURE),
    assistant_message("msg_6", START, tool_part("c4", output="old", time={"compacted": 9}), FINISH),
    assistant_message(
        "msg_7", "half", error={"name": "MessageAbortedError", "data": {"message": "x"}}
    ),
    assistant_message(
        "msg_8", "lost", error={"name": "APIError", "data": {"message": "x", "isRetryable": False}}
    ),
    assistant_message(
        "msg_9",
        tool_part("c5", "error", error="x", metadata={"interrupted": True, "output": "part"}),
    ),
]


def call(id_: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"at": id_}, separators=(",", ":"))}
    return {"id": id_, "type": "function", "function": function}


def test_request_equals_that_of_the_client() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    media = {"type": "text", "text": "Attached media from tool result:"}
    assert build_resume_request(store_and_load(read_tip(export_bytes(*SENT)))) == [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
        {"role": "assistant", "content": "hmI look.", "tool_calls": [call("c1"), call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "tool", "tool_call_id": "c2", "content": "no"},
        {"role": "assistant", "content": "Seen."},
        {"role": "user", "content": [media, image]},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "", "tool_calls": [call("c3")]},
        {"role": "tool", "tool_call_id": "c3", "content": "[Tool execution was interrupted]"},
        {"role": "user", "content": [{"type": "text", "text": "See:"}, image]},
        {"role": "assistant", "content": "", "tool_calls": [call("c4")]},
        {"role": "tool", "tool_call_id": "c4", "content": "[Old tool result content cleared]"},
        {"role": "assistant", "content": "half"},
        {"role": "assistant", "content": "", "tool_calls": [call("c5")]},
        {"role": "tool", "tool_call_id": "c5", "content": "part"},
    ]


def test_conversations_of_other_runtimes_can_be_sent() -> None:
    roles = [message["role"] for message in build_resume_request(plain_conversation())]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert build_resume_request(odd_conversation())


@pytest.mark.parametrize(
    "data", [*HOSTILE, b"SQLite format 3\0" + b"\0" * 4000, b"SQLite format 3\0"]
)
def test_hostile_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(FormatError):
        list(NATIVE.steps(open_source(data), ReadReport()))


def test_damaged_database_is_rejected_or_reported(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK * 1})
    document = path.read_bytes()
    for index in range(0, len(document), 97):
        data = document[:index] + b"\xff" * 50 + document[index + 50 :]
        for damaged in (data, document[:index]):
            try:
                steps = list(NATIVE.steps(open_source(damaged), ReadReport()))
            except FormatError:
                continue
            store_and_load([entry for step in steps for entry in step.entries])


def test_rows_without_an_object_are_reported(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO message VALUES ('bad', 'ses_1', 0, '[]')")
        connection.execute("INSERT INTO part VALUES ('prt_bad', 'msg_1', 'ses_1', x'ff')")
        connection.commit()
    _, reading = read_steps(NATIVE, path)
    assert {bad.reason for bad in reading.bad} == {
        "row 'prt_bad' has no object",
        "row 'bad' has no object",
    }


def test_view_with_the_name_of_a_table_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE x (id); CREATE VIEW session AS SELECT 1 AS id;"
            "CREATE VIEW message AS SELECT 1; CREATE VIEW part AS SELECT 1;"
        )
    with pytest.raises(FormatError):
        list(NATIVE.steps(open_source(path), ReadReport()))


VALUE = st.sampled_from(
    [None, 5, "x", [], {}, [5], {"a": 5}, [{"type": 5}], True, {"status": "error"}]
)
PART = st.dictionaries(
    st.sampled_from(["type", "text", "state", "callID", "tool", "mime", "url", "metadata"]), VALUE
) | st.builds(
    lambda kind, more: {**more, "type": kind},
    st.sampled_from(["text", "tool", "file", "reasoning", "compaction", "step-start"]),
    st.dictionaries(st.sampled_from(["text", "state", "url", "mime", "metadata"]), VALUE),
)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(["id", "role", "time", "tokens", "error", "parentID"]), VALUE
            ),
            st.sampled_from(["user", "assistant"]),
            st.lists(PART),
        )
    )
)
def test_any_message_is_read(
    messages: list[tuple[dict[str, Any], str, list[dict[str, Any]]]],
) -> None:
    talk: list[Told] = [({**info, "role": role}, parts) for info, role, parts in messages]
    steps, _ = read_steps(NATIVE, export_bytes(*talk))
    build_resume_request(store_and_load([entry for step in steps for entry in step.entries]))


@pytest.mark.parametrize(
    ("cost", "expected"),
    [(0.25, 0.25), (0, None), ("1", None), (True, None), (-1, None), (1e9, None)],
)
def test_cost_of_an_answer_is_kept_where_it_was_counted(cost: Any, expected: float | None) -> None:
    steps, _ = read_steps(
        NATIVE,
        export_bytes(user_message("msg_1", "hi"), assistant_message("msg_2", "ho", cost=cost)),
    )
    (_, answer) = store_and_load(steps[0].entries)
    assert (answer.source or {}).get("cost_usd") == expected


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        ({}, {}),
        ({"input": 5}, {"input_tokens": 5}),
        ({"output": 5}, {"output_tokens": 5}),
        ({"reasoning": 5}, {"output_tokens": 5, "reasoning_tokens": 5}),
        ({"cache": {"read": 5}}, {"input_tokens": 5, "cache_read_tokens": 5}),
        ({"cache": {"write": 5}}, {"input_tokens": 5, "cache_write_tokens": 5}),
    ],
)
def test_counts_that_are_absent_are_none(tokens: dict[str, Any], usage: dict[str, int]) -> None:
    message = assistant_message("msg_2", "ho", tokens=tokens)
    steps, _ = read_steps(NATIVE, export_bytes(user_message("msg_1", "hi"), message))
    (_, answer) = store_and_load(steps[0].entries)
    assert (answer.source or {}).get("usage", {}) == usage


def test_each_step_of_an_answer_has_its_own_cost() -> None:
    parts: list[dict[str, Any] | str]
    parts = [START, "a", {**FINISH, "cost": 0.5}, START, "b", {**FINISH, "cost": 0.25}]
    steps, _ = read_steps(
        NATIVE,
        export_bytes(user_message("msg_1", "hi"), assistant_message("msg_2", *parts, cost=0.75)),
    )
    sources = [entry.source or {} for step in steps for entry in store_and_load(step.entries)]
    assert [source.get("cost_usd") for source in sources] == [None, 0.5, 0.25]
