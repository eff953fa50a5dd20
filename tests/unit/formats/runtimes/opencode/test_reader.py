"""The database of OpenCode, and what it exports."""

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
from tests.unit.formats.natives import HOSTILE, context, read, said, source_of, stored

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


def asked(id_: str, *parts: dict[str, Any] | str) -> Told:
    info = {"id": id_, "role": "user", "time": {"created": 1_769_860_800_000}}
    return info, [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]


def answered(id_: str, *parts: dict[str, Any] | str, **more: Any) -> Told:
    info = {
        "id": id_,
        "role": "assistant",
        "modelID": "m",
        "providerID": "p",
        "tokens": TOKENS,
        "finish": "stop",
        "time": {"created": 1_769_860_801_000, "completed": 1_769_860_802_000},
        **more,
    }
    return info, [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]


def called(id_: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    time = {"start": 1, "end": 2, **state.pop("time", {})}
    held = {"status": status, "input": {"at": id_}, "time": time, **state}
    return {"type": "tool", "tool": "look", "callID": id_, "state": held}


START, FINISH = {"type": "step-start"}, {"type": "step-finish", "tokens": TOKENS, "reason": "stop"}


def exported(*messages: Told, **info: Any) -> bytes:
    told = [{"info": one, "parts": parts} for one, parts in messages]
    session = {"id": "ses_1", "directory": "/w", "title": "T", "version": "1.18.33", **info}
    return json.dumps({"info": session, "messages": told}).encode()


def database(
    path: Path, sessions: dict[str, dict[str, Any]], messages: dict[str, list[Told]]
) -> Path:
    """Write a database as OpenCode has it."""
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(SCHEMA)
        for at, (id_, more) in enumerate(sessions.items()):
            row = {"parent_id": None, "revert": None, "time_updated": at, **more}
            values = [id_, row["parent_id"], "/w", f"title of {id_}", "1.18.33"]
            opened.execute(
                "INSERT INTO session VALUES (?,?,?,?,?,?,?)",
                [*values, row["revert"], row["time_updated"]],
            )
        for session, told in messages.items():
            for at, (info, parts) in enumerate(told):
                held = {name: value for name, value in info.items() if name != "id"}
                message = (info["id"], session, at, json.dumps(held))
                opened.execute("INSERT INTO message VALUES (?,?,?,?)", message)
                for number, part in enumerate(parts):
                    id_ = f"prt_{info['id']}_{number:03}"
                    opened.execute(
                        "INSERT INTO part VALUES (?,?,?,?)",
                        (id_, info["id"], session, json.dumps(part)),
                    )
        opened.commit()
    return path


def tip(data: bytes | Path) -> list[ConversationEntry]:
    steps, reading = read(NATIVE, data)
    return context(steps, next(iter(reading.tips.values()), None))


TALK = [
    asked("msg_1", "Look.", PICTURE),
    answered(
        "msg_2",
        START,
        {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "c2ln"}}},
        "I look.",
        called("c1", output="seen", attachments=[PICTURE]),
        called("c2", "error", error="no"),
        FINISH,
        START,
        "Seen.",
        FINISH,
    ),
    asked("msg_3", "And?"),
    answered("msg_4", called("c3", "running")),
]


def test_a_database_and_an_export_say_the_same(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    assert tip(path) == tip(exported(*TALK))
    steps, reading = read(NATIVE, path)
    assert (reading.session_id, reading.title, reading.folder) == ("ses_1", "title of ses_1", "/w")
    assert reading.tips == {"ses_1": steps[-1].id}
    assert reading.lines == reading.used_lines == len(TALK) + sum(len(parts) for _, parts in TALK)
    assert NATIVE.is_session_file("x.db", path.read_bytes())
    assert NATIVE.is_session_file("x.json", exported(*TALK))
    assert not NATIVE.is_session_file("x.jsonl", b'{"sessionId":"x","level":"info","info":{}}')
    assert list(read(NATIVE, exported(*TALK))[1].tips) == [""]


def test_a_round_is_a_step_and_results_stand_in_their_calls() -> None:
    steps, _ = read(NATIVE, exported(*TALK))
    assert [[entry.message.role for entry in step.entries] for step in steps] == [
        ["user", "assistant", "tool", "tool"],
        ["assistant"],
        ["user", "assistant"],
    ]
    prompt, answer, seen, failed = stored(steps[0].entries)
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
    assert isinstance(seen.message.content, list)
    assert seen.message.content[1] == ImagePart("image/png", PIXEL)
    assert (failed.message.content, failed.message.is_error) == ("no", True)


def test_each_session_of_a_database_is_a_conversation(tmp_path: Path) -> None:
    spawning = called("c1", output="found", metadata={"sessionId": "ses_child"})
    path = database(
        tmp_path / "opencode.db",
        {"ses_child": {"parent_id": "ses_old"}, "ses_old": {}, "ses_new": {}},
        {
            "ses_old": [asked("a", "old"), answered("b", spawning), answered("c", "done")],
            "ses_new": [asked("d", "new")],
            "ses_child": [asked("e", "explore"), answered("f", "found")],
        },
    )
    steps, reading = read(NATIVE, path)
    assert list(reading.tips) == ["ses_new", "ses_old", "ses_child"]
    assert reading.session_id == "ses_new"
    first = next(step for step in steps if step.agent == "ses_child")
    assert (first.type, first.trigger, first.parent) == ("snapshot", "spawn", "a")
    assert [content for _, content in said(context(steps, reading.tips["ses_child"]))] == [
        "explore",
        "found",
    ]


def test_who_reads_knows_the_session_of_each_step(tmp_path: Path) -> None:
    sessions: dict[str, dict[str, Any]] = {"ses_1": {}, "ses_2": {}}
    talks = {"ses_1": [asked("a", "1")], "ses_2": [asked("b", "2")]}
    path = database(tmp_path / "opencode.db", sessions, talks)
    reading = ReadReport()
    found = [(step.id, reading.session_id) for step in NATIVE.steps(source_of(path), reading)]
    assert found == [("a", "ses_1"), ("b", "ses_2")]


COMPACTED = [
    asked("msg_1", "one"),
    answered("msg_2", "first"),
    asked("msg_3", "two"),
    answered("msg_4", "second"),
    asked("msg_5", {"type": "compaction", "auto": False, "tail_start_id": "msg_3"}),
    answered("msg_6", "Summed up.", summary=True, parentID="msg_5"),
    asked("msg_7", "three"),
]


def test_a_compaction_is_the_question_its_summary_and_what_is_kept(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": COMPACTED})
    steps, reading = read(NATIVE, path)
    (compaction,) = (step for step in steps if step.type == "compaction")
    assert compaction.summary == "Summed up."
    assert [content for _, content in said(context(steps, reading.tips["ses_1"]))] == [
        "What did we do so far?",
        "Summed up.",
        "two",
        "second",
        "three",
    ]
    assert tip(path) == tip(exported(*COMPACTED))


def test_a_compaction_that_failed_is_none() -> None:
    failed = answered("msg_6", "x", summary=True, parentID="msg_5", error={"name": "UnknownError"})
    steps, _ = read(NATIVE, exported(*COMPACTED[:5], failed))
    assert {step.type for step in steps} == {"delta"}


def test_what_was_taken_back_is_a_branch(tmp_path: Path) -> None:
    revert = json.dumps({"messageID": "msg_3"})
    path = database(tmp_path / "opencode.db", {"ses_1": {"revert": revert}}, {"ses_1": TALK})
    steps, reading = read(NATIVE, path)
    assert [role for role, _ in said(context(steps, reading.tips["ses_1"]))][-1] == "assistant"
    ((_, branch),) = reading.branches
    assert [content for _, content in said(context(steps, branch))][-2] == "And?"
    all_back = exported(*TALK, revert={"messageID": "msg_1"})
    assert read(NATIVE, all_back)[1].tips == {}


def test_what_is_in_the_log_beside_a_database_is_read(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
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
    assert tip(copy)[-1].message.content == "late"


def test_a_database_without_a_log_is_copied_byte_by_byte(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    folder = tmp_path / "copies"
    folder.mkdir()
    assert copy_merged_database(path, folder).read_bytes() == path.read_bytes()


SENT = [
    *TALK,
    asked("msg_5", {"type": "text", "text": "x", "ignored": True}, "See:", PICTURE),
    answered("msg_6", START, called("c4", output="old", time={"compacted": 9}), FINISH),
    answered("msg_7", "half", error={"name": "MessageAbortedError", "data": {"message": "x"}}),
    answered(
        "msg_8", "lost", error={"name": "APIError", "data": {"message": "x", "isRetryable": False}}
    ),
    answered(
        "msg_9", called("c5", "error", error="x", metadata={"interrupted": True, "output": "part"})
    ),
]


def call(id_: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"at": id_}, separators=(",", ":"))}
    return {"id": id_, "type": "function", "function": function}


def test_what_is_sent_is_what_the_client_sends() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    media = {"type": "text", "text": "Attached media from tool result:"}
    assert build_resume_request(stored(tip(exported(*SENT)))) == [
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


def test_conversations_of_others_can_be_sent() -> None:
    roles = [message["role"] for message in build_resume_request(plain_conversation())]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert build_resume_request(odd_conversation())


@pytest.mark.parametrize(
    "data", [*HOSTILE, b"SQLite format 3\0" + b"\0" * 4000, b"SQLite format 3\0"]
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        list(NATIVE.steps(source_of(data), ReadReport()))


def test_a_database_with_damage_is_refused_or_reported(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK * 1})
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        data = whole[:at] + b"\xff" * 50 + whole[at + 50 :]
        for damaged in (data, whole[:at]):
            try:
                steps = list(NATIVE.steps(source_of(damaged), ReadReport()))
            except FormatError:
                continue
            stored([entry for step in steps for entry in step.entries])


def test_rows_that_hold_no_object_are_reported(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("INSERT INTO message VALUES ('bad', 'ses_1', 0, '[]')")
        opened.execute("INSERT INTO part VALUES ('prt_bad', 'msg_1', 'ses_1', x'ff')")
        opened.commit()
    _, reading = read(NATIVE, path)
    assert {bad.reason for bad in reading.bad} == {
        "row 'prt_bad' holds no object",
        "row 'bad' holds no object",
    }


def test_what_only_looks_like_a_table_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(
            "CREATE TABLE x (id); CREATE VIEW session AS SELECT 1 AS id;"
            "CREATE VIEW message AS SELECT 1; CREATE VIEW part AS SELECT 1;"
        )
    with pytest.raises(FormatError):
        list(NATIVE.steps(source_of(path), ReadReport()))


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
    steps, _ = read(NATIVE, exported(*talk))
    build_resume_request(stored([entry for step in steps for entry in step.entries]))


@pytest.mark.parametrize(
    ("cost", "wanted"),
    [(0.25, 0.25), (0, None), ("1", None), (True, None), (-1, None), (1e9, None)],
)
def test_what_an_answer_cost_is_kept_where_it_was_counted(cost: Any, wanted: float | None) -> None:
    steps, _ = read(NATIVE, exported(asked("msg_1", "hi"), answered("msg_2", "ho", cost=cost)))
    (_, answer) = stored(steps[0].entries)
    assert (answer.source or {}).get("cost_usd") == wanted


def test_each_step_of_an_answer_has_its_own_cost() -> None:
    parts: list[dict[str, Any] | str]
    parts = [START, "a", {**FINISH, "cost": 0.5}, START, "b", {**FINISH, "cost": 0.25}]
    steps, _ = read(NATIVE, exported(asked("msg_1", "hi"), answered("msg_2", *parts, cost=0.75)))
    sources = [entry.source or {} for step in steps for entry in stored(step.entries)]
    assert [one.get("cost_usd") for one in sources] == [None, 0.5, 0.25]
