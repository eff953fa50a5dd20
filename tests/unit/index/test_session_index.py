"""The index: one row per message, however many files and commits repeat it."""

from __future__ import annotations

import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.errors import ConfigError
from harken.formats.base import ConversationEntry
from harken.index.session_index import SessionIndex
from harken.store.base import RetentionPolicy
from harken.store.sqlite.store import SqliteStore
from tests.unit.formats.transcript_kit import Transcript, text_block, thinking_block, tool_use_block
from tests.unit.index.index_kit import Imports

ID = "msg_01Xa9bK3vQ7rT5wY2zN4cM6d"
FIRST, SECOND = "5e551011-0000-4000-8000-000000000001", "6f662022-0000-4000-8000-000000000002"


def cafe(session: str = FIRST, prompt: str = "Is the cafe open?") -> Transcript:
    """A prompt, two calls in an answer of three lines, and the answer to their results."""
    transcript = Transcript(session)
    transcript.user(prompt)
    transcript.answer(thinking_block("I look."), id=ID)
    transcript.answer(tool_use_block("c1", path="/cafe"), id=ID)
    transcript.answer(tool_use_block("c2", "Read"), id=ID)
    transcript.result("c1", "yes")
    transcript.result("c2", "no such sign", is_error=True)
    transcript.answer(text_block("It is open."), id=f"msg_{session}")
    return transcript


def test_repeated_message_is_one_row(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", cafe())
    assert imports.rows("SELECT role, kind, is_repeat FROM messages") == [
        ("user", "prompt", 0),
        ("assistant", "response", 0),
        ("tool", "tool_result", 0),
        ("tool", "tool_result", 0),
        ("assistant", "response", 0),
    ]


def test_call_has_its_result(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", cafe())
    call_rows = imports.rows("SELECT name, call_id, result_id, is_error, duration FROM tool_calls")
    assert call_rows == [
        ("Bash", "c1", imports.messages[2], 0, 1_000_000),
        ("Read", "c2", imports.messages[3], 1, 2_000_000),
    ]


def test_call_has_a_result_that_came_later(imports: Imports) -> None:
    transcript = cafe()
    all_records, transcript.records = transcript.records, transcript.records[:4]
    imports.add_and_update("a.jsonl", transcript)
    assert imports.column("SELECT result_id FROM tool_calls") == [None, None]
    transcript.records = all_records
    imports.add_and_update("a.jsonl", transcript)
    assert imports.column("SELECT is_error FROM tool_calls") == [0, 1]


def test_call_has_a_result_that_was_read_before_it(imports: Imports) -> None:
    transcript = cafe()
    all_records, transcript.records = transcript.records, transcript.records[4:]
    imports.add_and_update("a.jsonl", transcript)
    transcript.records = all_records[:4]
    imports.add_and_update("b.jsonl", transcript)
    call_rows = imports.rows("SELECT call_id, is_error, duration FROM tool_calls")
    assert call_rows == [("c1", 0, 1_000_000), ("c2", 1, 2_000_000)]


@pytest.mark.req("S2-72", "S2-73")
def test_prompts_are_messages_of_the_user(imports: Imports) -> None:
    transcript = Transcript()
    transcript.user("Is the cafe open?")
    transcript.answer(tool_use_block("c1"))
    transcript.result("c1", "yes")
    transcript.answer(text_block("It is."))
    transcript.user("<command-name>/clear</command-name>")
    transcript.user("Never mind.", isMeta=True)
    transcript.user("Then tea, please.")
    transcript.answer(text_block("Coming."))
    imports.add_and_update("a.jsonl", transcript)
    imports.add_and_update("a-copy.jsonl", transcript)
    prompts = "SELECT count(*) FROM messages WHERE kind = 'prompt' AND NOT is_repeat"
    assert imports.column(prompts) == [2]


def test_usage_is_summed_over_distinct_responses(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", cafe())
    imports.add_and_update("b.jsonl", cafe(SECOND, prompt="Again: is it open?"))
    request_rows = imports.rows(
        "SELECT response, input_tokens, output_tokens FROM requests ORDER BY 1"
    )
    assert request_rows == [(ID, 10, 3), (f"msg_{FIRST}", 10, 6), (f"msg_{SECOND}", 10, 6)]


def test_partially_read_response_is_replaced(imports: Imports) -> None:
    transcript = cafe()
    all_records, transcript.records = transcript.records, transcript.records[:2]
    imports.add_and_update("a.jsonl", transcript)
    transcript.records = all_records
    imports.add_and_update("a.jsonl", transcript)
    count = "SELECT count(*) FROM messages WHERE kind = 'response' AND NOT is_repeat"
    assert imports.column(count) == [2]
    assert imports.column("SELECT name FROM tool_calls") == ["Bash", "Read"]
    assert imports.column("SELECT output_tokens FROM requests") == [3, 6]
    assert imports.column("SELECT count(*) FROM words WHERE words MATCH 'look'") == [1]


def test_compaction_repeats_no_row(imports: Imports) -> None:
    transcript = Transcript()
    prompt_id = transcript.user("Is the cafe open?")
    last = transcript.answer(text_block("It is."))
    transcript.boundary(last, kept=[prompt_id])
    transcript.summary()
    transcript.user("Then tea.")
    transcript.answer(text_block("Coming."))
    imports.add_and_update("a.jsonl", transcript)
    message_rows = imports.rows("SELECT kind, is_repeat FROM messages ORDER BY id")
    assert message_rows.count(("prompt", 0)) == 2
    assert message_rows.count(("prompt", 1)) == 1
    assert message_rows.count(("summary", 0)) == 1
    assert imports.column("SELECT kind FROM edges") == ["compaction", "next"]


def test_subagent_belongs_to_the_spawning_session(imports: Imports) -> None:
    transcript = Transcript()
    transcript.user("Ask Ann.")
    transcript.answer(tool_use_block("c1", "Task", prompt="Tea or coffee?"))
    transcript.shared = {"isSidechain": True}
    transcript.user("Tea or coffee?", parent=None)
    transcript.answer(text_block("Tea."))
    transcript.shared = {}
    imports.add_and_update("a.jsonl", transcript)
    agents = imports.rows("SELECT id, name = '', parent_id, session_id FROM agents")
    assert agents == [(1, 1, None, 1), (2, 0, 1, 1)]
    kinds = "SELECT kind FROM messages WHERE agent_id = 2"
    assert imports.column(kinds) == ["system", "response"]
    assert imports.column("SELECT kind FROM edges") == ["spawn"]


def test_second_run_reads_only_new_commits(imports: Imports) -> None:
    transcript = cafe()
    imports.add_and_update("a.jsonl", transcript)
    transcript.user("Tea, please.")
    transcript.answer(text_block("Coming."))
    imports.add_and_update("a.jsonl", transcript)
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [7]
    newest = imports.column("SELECT hex(c.name) FROM agents JOIN commits c ON c.id = tip_id")
    assert newest == [imports.store.newest_commits(1)[0][4:].upper()]


def test_thousands_of_commits_are_read_in_order(imports: Imports) -> None:
    parent: CommitId | None = None
    for number in range(700):
        parent = commit_text(imports.store, f"Cup {number}.", parent)
    imports.update()
    assert imports.column("SELECT count(*) FROM commits WHERE parent_id = id - 1") == [699]
    imports.update()
    parent = commit_text(imports.store, "The last cup.", parent)
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [701]


def commit_text(
    store: SqliteStore, words: str, parent: CommitId | None = None, **source: Any
) -> CommitId:
    entry = ConversationEntry(Message("user", words), "2026-01-31T12:00:00Z", source or None)
    origin = CommitOrigin(principal="codex:s1", session_id="s1")
    return checkpoint(store, CommitDraft(entries=[entry], parent=parent, origin=origin))


def test_catalogue_provides_title_folder_and_version(imports: Imports) -> None:
    transcript = cafe()
    imports.add_and_update("a.jsonl", transcript)
    where = "SELECT project, version, source, title FROM sessions"
    (row_found,) = imports.rows(where)
    assert row_found == (
        "/home/jill/cafe",
        "2.1.42",
        str(imports.sources / "a.jsonl"),
        "Is the cafe open?",
    )
    transcript.add("custom-title", customTitle="The cafe")
    imports.add_and_update("a.jsonl", transcript)
    assert imports.column("SELECT title FROM sessions") == ["The cafe"]


def test_session_duration_is_from_first_to_last_message(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", cafe())
    assert imports.rows("SELECT (ended - began) / 1000000 FROM sessions") == [(6,)]


def test_removed_commits_are_forgotten_and_can_return(
    imports: Imports,
) -> None:
    first = commit_text(imports.store, "Tea.", id="1")
    second = commit_text(imports.store, "Coffee.", first, id="2")
    last = commit_text(imports.store, "Milk.", second, id="3")
    commit_text(imports.store, "Coffee.", id="2")  # a copy that repeats the second message
    imports.update()
    assert imports.column("SELECT is_repeat FROM messages") == [0, 0, 0, 1]
    imports.store.set_retention(
        dict.fromkeys((second, last), RetentionPolicy("ephemeral", "2026-02-01T00:00:00Z"))
    )
    removed_count = imports.store.collect((), now="2027-01-01T00:00:00Z", grace_s=0).commits
    assert {*removed_count} == {second, last}
    imports.facts.forget(removed_count)
    imports.update()
    assert imports.column("SELECT is_repeat FROM messages") == [0, 0]
    assert imports.column("SELECT count(*) FROM words WHERE words MATCH 'coffee'") == [1]
    assert imports.column("SELECT count(*) FROM agents WHERE tip_id NOTNULL") == [1]
    commit_text(
        imports.store, "Milk.", commit_text(imports.store, "Coffee.", first, id="2"), id="3"
    )
    imports.update()
    assert imports.rows("SELECT characters, is_repeat FROM messages") == [
        *[(4, 0), (7, 0), (7, 1), (5, 0)],
    ]


def test_index_is_readable_by_its_owner_only(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", cafe())
    files = [*imports.folder.glob("facts.db*")]
    assert len(files) > 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_damaged_or_outdated_index_is_recreated(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", cafe())
    imports.facts.close()
    path = imports.folder / "facts.db"
    for harm in (b"no database at all" * 100, None):
        if harm is None:
            with sqlite3.connect(path) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
        else:
            path.write_bytes(harm)
        imports.facts = SessionIndex(path)
        imports.update()
        assert imports.column("SELECT count(*) FROM messages") == [5]
        imports.facts.close()


def test_database_of_another_program_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA application_id = 7")
        connection.execute("CREATE TABLE theirs (id)")
    connection.close()
    with pytest.raises(ConfigError, match="another program"):
        SessionIndex(path)


def test_concurrent_runs_insert_every_row_once(imports: Imports) -> None:
    second_index = SessionIndex(imports.folder / "facts.db")
    imports.add("a.jsonl", cafe())
    imports.facts.update(
        imports.store, None, (), tell=lambda *_: second_index.update(imports.store)
    )
    second_index.close()
    assert imports.column("SELECT count(*) FROM messages") == [5]


def test_hostile_sources_are_harmless(imports: Imports) -> None:
    hostile_records: list[dict[str, Any]] = [
        {"usage": {"input_tokens": -1, "output_tokens": 1 << 80}},
        {"usage": ["a"], "id": 7, "model": {"a": 1}, "kind": []},
        {"id": "\ud800", "uuids": [["\ud800"]], "pi": 3},
        {"pi": {"usage": {"cost": {"total": "free"}}, "provider": 1, "responseId": []}},
    ]
    for number, source in enumerate(hostile_records):
        for role in ("user", "assistant"):
            entry = ConversationEntry(Message(role, f"\ud800 {number}"), "not a time", source)
            origin = CommitOrigin(principal="pi:\ud800/\ud801", session_id="\ud800")
            draft = CommitDraft(
                entries=[entry], origin=origin, created_at=f"2026-01-31T12:00:0{number}Z"
            )
            checkpoint(imports.store, draft)
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [8]


def test_codex_exit_code_determines_failure(
    imports: Imports,
) -> None:
    def item(**payload: object) -> str:
        time = "2026-01-31T12:00:00Z"
        return json.dumps({"timestamp": time, "type": "response_item", "payload": payload})

    outputs = ["Exit code: 1\nOutput:\n", "Process exited with code 0\nOutput:\n", "Plan updated"]
    calls = [f"c{number}" for number in range(len(outputs))]
    call_records = [
        item(type="function_call", name="exec_command", arguments="{}", call_id=id_)
        for id_ in calls
    ]
    output_records = [
        item(type="function_call_output", call_id=id_, output=output)
        for id_, output in zip(calls, outputs, strict=True)
    ]
    head = json.dumps({"type": "session_meta", "payload": {"id": "s1", "cwd": "/w"}})
    imports.add_and_update(
        "rollout-s1.jsonl", "\n".join([head, *call_records, *output_records]).encode()
    )
    assert imports.column("SELECT is_error FROM tool_calls") == [1, 0, None]
    assert imports.column("SELECT is_error FROM messages WHERE role = 'tool'") == [1, 0, None]
