"""The export format: the folder of the specification, and back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.errors import ConfigError
from harken.interactions.export.exporter import ExportOptions, ExportSummary, export_session
from harken.interactions.export.importer import import_folder
from harken.interactions.records import MemoryOpType, MemoryType
from harken.session.log.reader import iter_events
from harken.session.verify import verify
from harken.testing import ticking
from tests.agent_kit import call, call_message, open_stage, script_model
from tests.unit.interactions.kit import (
    DOOR,
    HI,
    KIND,
    LOOK,
    ROLE,
    SYSTEM,
    logger,
    message_record,
    row,
)

SECRET = "AKIAQ7WZX5T2MN3BVC4D"


def export(log: Path, out: Path, **how: Any) -> ExportSummary:
    return export_session(list(iter_events(log)), log.stem, out, ExportOptions(**how))


def files(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _without_model(body: bytes) -> Any:
    message = json.loads(body)
    if message.get("metadata", {}).pop("model", None) and not message["metadata"]:
        del message["metadata"]
    return message


def round_trip(log: Path, folder: Path, **how: Any) -> dict[str, bytes]:
    """Export, import and export a session. Return the first export; the second must be equal."""
    export(log, folder / "out", **how)
    imported = import_folder(folder / "out", folder / "again", clock=ticking())
    assert [imported_log.name for imported_log in imported] == [log.stem]
    assert verify(folder / "again" / log.name) == []
    export(folder / "again" / log.name, folder / "out-again", **how)
    first = files(folder / "out")
    assert {*files(folder / "out-again")} == {*first}
    for name, body in files(folder / "out-again").items():
        # Rows without a call may lose the model of a message; see the format.
        assert body == first[name] or json.loads(body) == _without_model(first[name])
    return first


def write_session_log(folder: Path) -> Path:
    """Return the log of a session with a tool, memory, a compaction, a failure, two agents."""
    with logger(folder) as log:
        thread = log.start_thread("cafe")
        messages: list[Any] = [SYSTEM, HI]
        with log.call(thread, messages, model="m") as call_log:
            messages += [call_log.answer(LOOK, model="m-2026"), DOOR]
        with log.call(thread, messages, model="m") as call_log:
            messages.append({"role": "assistant", "content": call_log.answer("A door.")})
        short: list[Any] = [SYSTEM, "So far: a door.", "And now?"]
        log.log_context_state(thread, short, KIND.CONTEXT_COMPACTED)
        log.log_memory_operation(
            thread, MemoryType.LTM, MemoryOpType.WRITE, file_path="a.md", content_preview=SECRET
        )
        with log.call(thread, short, model="m"):
            pass
        other_thread = log.start_thread("cafe", name="Ann")
        with log.call(
            other_thread, ["Tea?", {"role": "user", "content": f"key={SECRET}"}]
        ) as call_log:
            call_log.answer("Yes.")
        with log.call(
            other_thread, ["Tea?", {"role": "assistant", "content": "Yes."}, "Yes."]
        ) as call_log:
            call_log.answer("Yes.")
        log.log_context_state(thread, [*short, "Later."], KIND.MESSAGE_ADDED)
    return folder / "sessions" / "cafe.jsonl"


@pytest.mark.req("S3-19", "S3-25")
def test_exported_folder_matches_the_specification(tmp_path: Path) -> None:
    summary = export(write_session_log(tmp_path), tmp_path / "out")
    assert [thread_info.thread_id for thread_info in summary.threads] == [
        "cafe/agent_001",
        "cafe/agent_002",
    ]
    exported_files = files(tmp_path / "out")
    assert {name.split("/")[0] for name in exported_files} == {"index.json", "messages", "threads"}
    rows = [
        json.loads(line) for line in exported_files["threads/cafe--agent_001.jsonl"].splitlines()
    ]
    assert list(rows[0]) == ["timestamp", "messageId", "positionInContext", "eventType"]
    assert rows[2]["contextSnapshot"] == {
        "totalMessages": 2,
        "estimatedTokens": 5,
        "modelUsed": "m",
    }
    remembered = next(row_dict for row_dict in rows if row_dict["eventType"] == "MEMORY_WRITE")
    assert set(remembered) == {"timestamp", "eventType", "memoryOperation"}
    for row_dict in rows:
        if "messageId" in row_dict:
            message = json.loads(exported_files[f"messages/{row_dict['messageId']}.json"])
            assert message["id"] == row_dict["messageId"]
            assert {"timestamp", "role", "content"} <= set(message)
    index = json.loads(exported_files["index.json"])
    assert [thread_dict["file"] for thread_dict in index["threads"]] == [
        "cafe--agent_001.jsonl",
        "cafe--agent_002.jsonl",
    ]
    assert summary.messages == sum(name.startswith("messages/") for name in exported_files)


@pytest.mark.req("S3-25")
def test_messages_are_sharded_on_request(tmp_path: Path) -> None:
    exported_files = round_trip(write_session_log(tmp_path), tmp_path, shard=True)
    names = [name for name in exported_files if name.startswith("messages/")]
    assert all(name.split("/")[1] == name.split("/")[2][:2] for name in names)


@pytest.mark.req("S3-19")
def test_exported_rows_round_trip(tmp_path: Path) -> None:
    round_trip(write_session_log(tmp_path), tmp_path)
    log = (tmp_path / "again" / "cafe.jsonl").read_text()
    assert log.count('"event_type":"llm_request"') == 5
    assert log.count('"reason":"compaction"') == 1


@pytest.mark.req("S3-19")
def test_exported_harken_session_round_trips(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", "c1", name="Ann", prompt="Tea?"), text="I ask."),
            call_message(call("task", "c2", name="Bob"), call("nothing", "c3")),
            "Tea it is.",
            "Bye.",
        ],
        Ann=["Tea."],
    )
    scene = open_stage(tmp_path, model)
    scene.ask("What does Ann want?")
    scene.ask("Thanks.")
    scene.session.close()
    round_trip(scene.log, tmp_path)


def test_manual_rows_round_trip(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        ids = [log.log_message(message_record(ROLE.USER, text)) for text in ("abc", "def")]
        for kind, id_, position in (
            (KIND.CONTEXT_REPLAYED, ids[0], 4),
            (KIND.MESSAGE_ADDED, ids[1], 0),
            (KIND.LLM_REQUEST, None, None),
            (KIND.MEMORY_READ, ids[0], None),
            (KIND.LLM_RESPONSE, ids[0], 1),
            (KIND.CONTEXT_COMPACTED, None, None),
            (KIND.MESSAGE_ADDED, ids[1], 1),
        ):
            log.log_thread_entry(thread, row(kind, id_, position))
    round_trip(tmp_path / "sessions" / "cafe.jsonl", tmp_path)


@pytest.mark.req("D-06")
def test_credentials_are_redacted_and_counted(tmp_path: Path) -> None:
    log = write_session_log(tmp_path)
    summary = export(log, tmp_path / "out")
    assert dict(summary.credentials) == {"aws-key-id": 1}
    assert SECRET.encode() not in b"".join(files(tmp_path / "out").values())
    round_trip(log, tmp_path / "more")
    summary = export(log, tmp_path / "as-is", as_is=True)
    assert dict(summary.credentials) == {"aws-key-id": 1}
    assert SECRET.encode() in b"".join(files(tmp_path / "as-is").values())


@pytest.mark.req("D-06")
def test_no_exported_file_contains_a_credential(tmp_path: Path) -> None:
    """The credentials are in names, models, calls, call ids and memory."""
    with logger(tmp_path) as log:
        thread = log.start_thread(f"of-{SECRET}")
        asks = [{"role": "system", "content": SECRET}, {"role": "user", "content": SECRET}]
        function = {"name": f"f-{SECRET}", "arguments": json.dumps({SECRET: SECRET})}
        tool_call_dict = {"id": f"c-{SECRET}", "type": "function", "function": function}
        with log.call(thread, asks, model=f"m-{SECRET}") as call_log:
            call_log.answer(
                {"role": "assistant", "tool_calls": [tool_call_dict]}, model=f"n-{SECRET}"
            )
        memory_members: dict[str, Any] = {
            "file_path": SECRET,
            "query": SECRET,
            "content_preview": SECRET,
        }
        log.log_memory_operation(thread, MemoryType.LTM, MemoryOpType.READ, **memory_members)
    [log_file] = (tmp_path / "sessions").glob("*.jsonl")
    export(log_file, tmp_path / "out")
    assert [name for name, data in files(tmp_path / "out").items() if SECRET.encode() in data] == []
    assert not any(SECRET in name for name in files(tmp_path / "out"))


def test_several_sessions_share_a_folder_and_its_messages(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        for name in ("one", "two"):
            log.log_context_state(log.start_thread(name), [SYSTEM, name], KIND.MESSAGE_ADDED)
    for name in ("two", "one", "one"):
        export(tmp_path / "sessions" / f"{name}.jsonl", tmp_path / "out")
    exported_files = files(tmp_path / "out")
    assert len([name for name in exported_files if name.startswith("messages/")]) == 3
    index = json.loads(exported_files["index.json"])
    assert [thread_dict["sessionId"] for thread_dict in index["threads"]] == ["two", "one"]
    first = next(json.loads(v) for k, v in exported_files.items() if b"You are Jack" in v)
    # Of `one`, which was imported later.
    assert first["timestamp"] < index["threads"][0]["startedAt"]
    imported = import_folder(tmp_path / "out", tmp_path / "again")
    assert [imported_log.name for imported_log in imported] == ["two", "one"]


def test_existing_rows_are_not_imported_again(tmp_path: Path) -> None:
    export(write_session_log(tmp_path), tmp_path / "out")
    sessions = tmp_path / "again"
    assert [imported_log.is_new for imported_log in import_folder(tmp_path / "out", sessions)] == [
        True
    ]
    assert [imported_log.is_new for imported_log in import_folder(tmp_path / "out", sessions)] == [
        False
    ]
    with logger(tmp_path / "other") as log:
        log.log_context_state(log.start_thread("cafe"), [HI], KIND.MESSAGE_ADDED)
    target_folder = tmp_path / "other" / "sessions"
    assert [
        imported_log.name for imported_log in import_folder(tmp_path / "out", target_folder)
    ] == ["cafe-2"]
    assert sorted(path.name for path in target_folder.iterdir()) == ["cafe-2.jsonl", "cafe.jsonl"]


def test_folder_of_another_program_is_imported(tmp_path: Path) -> None:
    """The folder follows the specification: SHA-256, times in seconds, no index, one thread."""
    (tmp_path / "in" / "messages").mkdir(parents=True)
    (tmp_path / "in" / "threads").mkdir()
    ids = [sha256(text.encode()).hexdigest() for text in ("You are Jack.", "Hi")]
    for id_, role, content in zip(ids, ("SYSTEM", "USER"), ("You are Jack.", "Hi"), strict=True):
        record = {
            "id": id_,
            "timestamp": "2024-01-15T10:30:00Z",
            "role": role,
            "content": content,
            "metadata": None,
        }
        (tmp_path / "in" / "messages" / f"{id_}.json").write_text(json.dumps(record))
    rows = [
        {
            "timestamp": f"2024-01-15T10:30:0{second}Z",
            "messageId": ids[position],
            "positionInContext": position,
            "eventType": kind,
            "contextSnapshot": None,
        }
        for second, position, kind in (
            (0, 0, "MESSAGE_ADDED"),
            (1, 0, "CONTEXT_REPLAYED"),
            (1, 1, "MESSAGE_ADDED"),
        )
    ]
    thread = tmp_path / "in" / "threads" / "session-2024-01-15T10-30-00.jsonl"
    thread.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    [imported] = import_folder(tmp_path / "in", tmp_path / "sessions")
    with logger(tmp_path) as log:
        thread_rows = log.get_thread(imported.name)
        assert [
            (row_read.event_type, row_read.position_in_context) for row_read in thread_rows
        ] == [
            (KIND.MESSAGE_ADDED, 0),
            (KIND.CONTEXT_REPLAYED, 0),
            (KIND.MESSAGE_ADDED, 1),
        ]
        assert thread_rows[0].timestamp == "2024-01-15T10:30:00.000000Z"
        message = log.get_message(thread_rows[2].message_id or "")
        assert message is not None
        assert message.content == "Hi"


def _thread(folder: Path) -> Path:
    return folder / "threads" / "cafe--agent_001.jsonl"


def _message(folder: Path, **changes: Any) -> None:
    path = min((folder / "messages").iterdir())
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))


def _rename(folder: Path, old: str, new: str) -> None:
    index = (folder / "index.json").read_text()
    (folder / "index.json").write_text(index.replace(f'"{old}"', f'"{new}"'))


def _row(**members: Any) -> str:
    full_row = {"eventType": "LLM_REQUEST", "timestamp": "2024-01-15T10:30:00Z", **members}
    return json.dumps({name: value for name, value in full_row.items() if value is not None})


SPOILED: dict[str, Callable[[Path], Any]] = {
    "no folder": shutil.rmtree,
    "no threads": lambda out: shutil.rmtree(out / "threads"),
    "a message is gone": lambda out: min((out / "messages").iterdir()).unlink(),
    "the folder of messages is a file": lambda out: (
        (out / "messages").rename(out / "other"),
        (out / "messages").write_text(""),
    ),
    "a message is another one": lambda out: _message(out, content="something else"),
    "a message is no JSON": lambda out: min((out / "messages").iterdir()).write_text("{"),
    "a message has no role": lambda out: _message(out, role="KING"),
    "a row is no JSON": lambda out: _thread(out).write_bytes(b"{nonsense"),
    "a row is deep": lambda out: _thread(out).write_bytes(b"[" * 100_000),
    "a row has no time": lambda out: _thread(out).write_text(_row(timestamp=None)),
    "a row has an odd time": lambda out: _thread(out).write_text(_row(timestamp="yesterday")),
    "a row has an odd type": lambda out: _thread(out).write_text(_row(eventType="TEA")),
    "a row names a path": lambda out: _thread(out).write_text(_row(messageId="../../secret")),
    "the index is none": lambda out: (out / "index.json").write_text("[]"),
    "the index is new": lambda out: (out / "index.json").write_text('{"version":2}'),
    "the session is a path": lambda out: _rename(out, "cafe", "../up"),
    "the agent is the user": lambda out: _rename(out, "agent_001", "user"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_invalid_folder_is_an_error_on_one_line_and_imports_nothing(
    tmp_path: Path, how: str
) -> None:
    export(write_session_log(tmp_path), tmp_path / "out")
    SPOILED[how](tmp_path / "out")
    with pytest.raises(ConfigError) as error:
        import_folder(tmp_path / "out", tmp_path / "again")
    assert "\n" not in str(error.value)
    second_folder = tmp_path / "again"
    assert not second_folder.exists() or not list(second_folder.iterdir())


def test_pipe_in_a_folder_does_not_block(tmp_path: Path) -> None:
    export(write_session_log(tmp_path), tmp_path / "out")
    os.mkfifo(tmp_path / "out" / "threads" / "tea--agent_001.jsonl")
    with pytest.raises(ConfigError, match="not a regular file"):
        import_folder(tmp_path / "out", tmp_path / "again")
    assert list((tmp_path / "again").glob("*")) == []


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    log = write_session_log(tmp_path)
    (tmp_path / "file").write_text("here")
    with pytest.raises(ConfigError, match="cannot be created"):
        export(log, tmp_path / "file")


WORDS = st.sampled_from(["a", "b", "Yes.", "{}", "[1]", "\ud83d", "x\ny", SECRET])
PARTS = st.one_of(
    WORDS,
    st.lists(
        st.one_of(
            st.builds(lambda text: {"type": "text", "text": text}, WORDS),
            st.just({"type": "image", "media_type": "image/png", "data": "aGk="}),
        ),
        max_size=3,
    ),
)
TURNS = st.lists(
    st.fixed_dictionaries(
        {
            "heard": st.lists(PARTS, max_size=2),
            "answer": st.sampled_from(["text", "think", "call", "calls", "none"]),
            "change": st.sampled_from(["", "", "drop", "compact", "again", "assembled", "memory"]),
            "word": WORDS,
        }
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.req("S3-19")
@settings(max_examples=25, deadline=None, derandomize=True)
@given(TURNS)
def test_any_conversation_round_trips(
    tmp_path_factory: pytest.TempPathFactory, turns: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with logger(folder) as log:
        thread = log.start_thread("s")
        context: list[Any] = [SYSTEM]
        for turn in turns:
            if turn["change"] == "drop" and len(context) > 2:
                del context[1]
            elif turn["change"] == "compact":
                context = [context[0], f"summary {turn['word']}"]
                log.log_context_state(thread, context, KIND.CONTEXT_COMPACTED)
            elif turn["change"] == "again":
                context = [*context, *context[-1:]]
            elif turn["change"] == "assembled":
                log.log_context_state(thread, context, KIND.CONTEXT_REPLAYED)
            elif turn["change"] == "memory":
                log.log_memory_operation(thread, MemoryType.STM, MemoryOpType.QUERY, query="tea")
            context += [{"role": "user", "content": user_text} for user_text in turn["heard"]]
            with log.call(thread, context, model=turn["word"]) as call_log:
                answer = _answer(turn, len(context))
                if answer is not None:
                    context += [call_log.answer(answer), *_results(answer)]
    round_trip(folder / "sessions" / "s.jsonl", folder)


def _answer(turn: dict[str, Any], number: int) -> dict[str, Any] | None:
    call_dicts = [
        {"id": f"c{number}-{n}", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        for n in range({"call": 1, "calls": 2}.get(turn["answer"], 0))
    ]
    content: Any = turn["word"]
    if turn["answer"] == "none":
        return None
    if turn["answer"] == "think":
        content = [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": turn["word"]}]
    answer = {"role": "assistant", "content": content}
    return {**answer, "tool_calls": call_dicts} if call_dicts else answer


def _results(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": call_dict["id"], "content": "done"}
        for call_dict in answer.get("tool_calls", ())
    ]
