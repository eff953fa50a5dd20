"""A session of another runtime that is recorded and imported is one session in the index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.formats.events import Event, MetricEvent
from harken.formats.events_v1 import encode_events
from harken.index.search import SearchQuery, search
from harken.recording.exchange import ClientHints
from harken.session.branch import branch
from tests.recording_kit import RecordedClient, open_recorder, request_body, response_body
from tests.session_kit import create_agent, new_session
from tests.two_sources_kit import (
    NAME,
    NATIVE,
    SUBAGENT,
    Exchange,
    IndexContent,
    TwoSources,
    read_rebuilt_index,
)
from tests.unit.formats.transcript_kit import (
    Transcript,
    text_block,
    tool_result_block,
    tool_use_block,
)
from tests.unit.index.index_kit import Imports

SCRIPT = (
    Exchange("I look.", "Is the cafe open?", has_call=True),
    Exchange("It is open.", is_failed=True),
    Exchange("Two.", "How many teas?", has_command=True),
    Exchange("I ask.", "Ask a waiter", agent=SUBAGENT, has_call=True),
    Exchange("He is asleep.", agent=SUBAGENT),
    Exchange("Two.", "How many teas?"),
)
N = len(SCRIPT)
TOOLS = [{"name": "Bash", "description": "d", "input_schema": {}}]
"""Claude Code asks for titles without tools."""


@pytest.fixture
def play(imports: Imports, tmp_path: Path) -> Callable[..., TwoSources]:
    """Return a function that makes the sources of a script in the home."""

    def start(exchanges: Any = SCRIPT) -> TwoSources:
        return TwoSources(exchanges, tmp_path / "logs", imports.store)

    return start


def index(imports: Imports, sources: TwoSources, *orders: str) -> None:
    """Let the sources arrive in an order: `log`, `file`, `update`."""
    for order in orders:
        match order:
            case "log":
                sources.record(N)
                imports.logs[:] = sorted(sources.folder.glob("*.jsonl"))
            case "file":
                for name, data in sources.files(N).items():
                    imports.add(name, data)
            case "update":
                imports.update()


ORDERS = [
    ("log", "file", "update"),
    ("log", "update", "file", "update"),
    ("file", "update", "log", "update"),
]


@pytest.mark.parametrize("orders", ORDERS)
def test_both_sources_are_one_session(
    imports: Imports, play: Callable[..., TwoSources], orders: tuple[str, ...]
) -> None:
    index(imports, play(), *orders)
    query = "SELECT name, runtime, title, log, source <> '' FROM sessions"
    log = "rec-claude-code-5e551011"
    assert imports.rows(query) == [(NAME, "claude", "Is the cafe open?", log, 1)]


@pytest.mark.parametrize("orders", ORDERS)
def test_each_message_counts_once(
    imports: Imports, play: Callable[..., TwoSources], orders: tuple[str, ...]
) -> None:
    index(imports, play(), *orders)
    kinds = "SELECT kind, count(*) FROM messages WHERE NOT is_repeat AND role <> 'system' "
    assert dict(imports.rows(f"{kinds} GROUP BY 1")) == {
        "prompt": 3,
        "response": N,
        "tool_result": 2,
        "system": 2,  # The task of the subagent, and the local command, which only the file has.
    }
    assert imports.column("SELECT count(*) FROM tool_calls WHERE result_id IS NOT NULL") == [2]


@pytest.mark.parametrize("orders", ORDERS)
def test_each_response_has_the_usage_of_the_recording(
    imports: Imports, play: Callable[..., TwoSources], orders: tuple[str, ...]
) -> None:
    index(imports, play(), *orders)
    query = "SELECT input_tokens, output_tokens, is_recorded FROM requests ORDER BY response"
    assert imports.rows(query) == [(100 + number, 5, 1) for number in range(N)]


@pytest.mark.parametrize("orders", ORDERS)
def test_a_message_is_found_once(
    imports: Imports, play: Callable[..., TwoSources], orders: tuple[str, ...]
) -> None:
    index(imports, play(), *orders)
    for words, number in (("open", 2), ("asleep", 1), ("teas", 2), ("cost", 1), ("result", 2)):
        results = search(imports.facts, imports.store, SearchQuery(text=words))
        assert (words, len([*results.hits])) == (words, number)


@pytest.mark.parametrize("orders", ORDERS)
def test_an_agent_of_both_is_one_agent(
    imports: Imports, play: Callable[..., TwoSources], orders: tuple[str, ...]
) -> None:
    index(imports, play(), *orders)
    query = "SELECT name, principal, relation FROM agents ORDER BY name"
    assert imports.rows(query) == [
        ("", NAME, "primary"),
        ("Explore", f"{NAME}/{SUBAGENT}", "subagent"),
    ]


def test_what_the_file_knows_better_is_taken_from_it(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    index(imports, play(), "log", "file", "update")
    failed = "SELECT is_error FROM messages WHERE role = 'tool' AND NOT is_repeat ORDER BY id"
    assert imports.column(failed) == [1, 0]
    assert imports.column("SELECT is_error FROM tool_calls ORDER BY time") == [1, 0]


def test_unrecorded_turns_are_those_of_the_file(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    script = (
        Exchange("One.", "How many cups?", is_recorded=False),
        Exchange("Two.", "How many teas?"),
        Exchange("Three.", "How many cakes?", is_recorded=False),
    )
    sources = play(script)
    index(imports, sources, "log", "file", "update")
    query = "SELECT kind, event IS NULL FROM messages WHERE NOT is_repeat AND role <> 'system'"
    assert sorted(imports.rows(query)) == [
        *[("prompt", 0)] * 2,  # The request of the second turn has the first one, too.
        ("prompt", 1),
        *[("response", 0)] * 2,
        ("response", 1),
    ]
    query = "SELECT input_tokens, is_recorded, m.event IS NULL FROM requests "
    query += "JOIN messages m ON m.id = message_id ORDER BY response"
    assert imports.rows(query) == [(10, 0, 0), (101, 1, 0), (10, 0, 1)]


def test_equal_texts_are_paired_in_their_order(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    script = [Exchange(f"Answer {number}.", "Go on") for number in range(4)]
    sources = play(script)
    sources.record(2)
    imports.logs[:] = sorted(sources.folder.glob("*.jsonl"))
    index(imports, sources, "file", "update")
    query = "SELECT count(*) FROM messages WHERE kind = 'prompt' AND NOT is_repeat"
    assert imports.column(query) == [4]
    index(imports, sources, "log", "update")
    assert imports.column(query) == [4]


def test_equal_answers_with_different_ids_are_two(imports: Imports, tmp_path: Path) -> None:
    """The file has only the first answer, and the log only the second one."""
    transcript = Transcript(NATIVE)
    transcript.user("Tea?")
    transcript.answer(text_block("Yes."), id="msg_01A000000000000000000")
    client = RecordedClient(
        open_recorder(tmp_path / "logs"), ClientHints(client="claude-code", session=NATIVE)
    )
    body = {**response_body("Yes."), "id": "msg_01B000000000000000000"}
    client.end(client.begin(request_body("Cake?", tools=TOOLS)), whole=body)
    client.recorder.close()
    imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
    imports.add_and_update("a.jsonl", transcript)
    query = "SELECT count(*) FROM messages WHERE kind = 'response' AND NOT is_repeat"
    assert imports.column(query) == [2]
    assert imports.column("SELECT count(*) FROM requests") == [2]


def test_a_user_message_that_the_client_wrote_is_no_prompt(
    imports: Imports, tmp_path: Path
) -> None:
    """Only the file says so."""
    client = RecordedClient(
        open_recorder(tmp_path / "logs"), ClientHints(client="claude-code", session=NATIVE)
    )
    client.ask(request_body("Keep it short.", tools=TOOLS), "Yes.")
    client.recorder.close()
    imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
    imports.update()
    query = "SELECT kind FROM messages WHERE role = 'user' AND NOT is_repeat"
    assert imports.column(query) == ["prompt"]
    transcript = Transcript(NATIVE)
    transcript.user("Keep it short.", isMeta=True)
    transcript.answer(text_block("Yes."), id="msg_1")
    imports.add_and_update("a.jsonl", transcript)
    assert imports.column(query) == ["system"]


def test_a_request_without_an_answer_yet_repeats_no_prompt(
    imports: Imports, tmp_path: Path
) -> None:
    transcript = Transcript(NATIVE)
    transcript.user("Tea?")
    transcript.answer(text_block("Yes."), id="msg_1")
    imports.add_and_update("a.jsonl", transcript)
    client = RecordedClient(
        open_recorder(tmp_path / "logs"), ClientHints(client="claude-code", session=NATIVE)
    )
    client.begin(request_body("Tea?", tools=TOOLS))
    imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
    imports.update()
    query = "SELECT event IS NULL FROM messages WHERE kind = 'prompt' AND NOT is_repeat"
    assert imports.column(query) == [0]


def test_a_recorded_call_gets_the_recorded_result(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    """The result of the file is read first."""
    sources = play()
    sources.record(1)
    imports.logs[:] = sorted(sources.folder.glob("*.jsonl"))
    index(imports, sources, "file", "update", "log", "update")
    query = "SELECT r.event IS NOT NULL FROM tool_calls t JOIN messages r ON r.id = t.result_id"
    assert imports.column(query) == [1, 1]


def test_commits_of_the_recording_without_its_log_count_once(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    index(imports, play(), "log", "file")
    imports.logs.clear()
    imports.update()
    query = "SELECT kind, count(*) FROM messages WHERE NOT is_repeat AND role <> 'system' "
    rows = dict(imports.rows(f"{query} GROUP BY 1"))
    assert (rows["prompt"], rows["response"], rows["tool_result"]) == (3, N, 2)
    query = "SELECT count(*), sum(input_tokens) FROM requests WHERE input_tokens IS NOT NULL"
    assert imports.rows(query) == [(N, 10 * N)]  # Only the file has the usage then.


def test_a_log_that_comes_after_its_commits_replaces_their_messages(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    sources = play()
    index(imports, sources, "log", "file")
    logs, imports.logs[:] = [*imports.logs], []
    imports.update()
    imports.logs[:] = logs
    imports.update()
    assert IndexContent.read(imports.facts.database) == read_rebuilt_index(imports)


@pytest.mark.parametrize("orders", ORDERS)
def test_a_rebuilt_index_is_the_same(
    imports: Imports, play: Callable[..., TwoSources], orders: tuple[str, ...]
) -> None:
    index(imports, play(), *orders)
    assert IndexContent.read(imports.facts.database) == read_rebuilt_index(imports)


def test_a_branch_of_a_recording_is_a_session_of_its_own(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    sources = play()
    index(imports, sources, "log")
    sources.close()
    imports.logs.append(branch(imports.logs[0], sources.folder / "mine.jsonl").path)
    index(imports, sources, "file", "update")
    assert sorted(imports.rows("SELECT name, runtime FROM sessions")) == [
        (NAME, "claude"),
        ("mine", "harken"),
    ]


def test_the_outcome_of_the_client_takes_precedence_over_the_recording(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    sources = play()
    index(imports, sources, "log", "file")
    sources.close()
    imports.update()
    assert imports.column("SELECT outcome FROM sessions") == ["success"]
    metric = encode_events([Event(MetricEvent(status="error_max_turns"))])
    origin = CommitOrigin(session_id=NAME, principal=NAME)
    tip: list[bytes] = imports.column("SELECT name FROM commits WHERE checkpoint = 'import'")
    parent = CommitId(f"ctx-{tip[-1].hex()}")
    draft = CommitDraft(
        data=metric,
        trigger="session_end",
        origin=origin,
        message_count=0,
        parent=parent,
        created_at="2026-01-31T13:00:00Z",
    )
    checkpoint(imports.store, draft)
    imports.update()
    assert imports.column("SELECT outcome FROM sessions") == ["error_max_turns"]
    assert read_rebuilt_index(imports) == IndexContent.read(imports.facts.database)


def test_a_renamed_log_is_read_on(imports: Imports, play: Callable[..., TwoSources]) -> None:
    sources = play()
    sources.record(2)
    sources.close()
    imports.logs[:] = sorted(sources.folder.glob("*.jsonl"))
    imports.update()
    renamed = imports.logs[0].rename(imports.logs[0].with_name("kettle.jsonl"))
    imports.logs[:] = [renamed]
    index(imports, sources, "file", "update")
    query = "SELECT count(*) FROM messages WHERE NOT is_repeat AND kind = 'prompt'"
    assert imports.column(query) == [3]
    assert IndexContent.read(imports.facts.database) == read_rebuilt_index(imports)


def test_two_logs_of_a_session_count_each_response_once(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    """Another recorder writes its own log while the first one has the session open."""
    sources, others = play(), play()
    sources.record(N)
    index(imports, others, "log", "file", "update")
    assert len(imports.logs) == 2
    assert imports.column("SELECT name FROM sessions") == [NAME]
    assert imports.column("SELECT count(*) FROM requests") == [N]
    query = "SELECT count(*) FROM messages WHERE kind = 'response' AND NOT is_repeat"
    assert imports.column(query) == [N]


def test_commits_of_a_chat_that_began_from_the_file_belong_to_the_chat(
    imports: Imports, play: Callable[..., TwoSources]
) -> None:
    """Its log names the commit of the file as the parent of its own."""
    sources = play()
    index(imports, sources, "log", "file")
    imports.update()
    tips = imports.column("SELECT name FROM commits WHERE checkpoint = 'import' ORDER BY id")
    tip = f"ctx-{tips[-1].hex()}"
    session = new_session(sources.folder)
    agent = create_agent(session, name="main")
    session.append(
        ev.ContextCommitted(agent_id=agent, ctx=f"ctx-{'0' * 64}", parent_ctx=tip, upto=None)
    )
    session.close()
    imports.logs.append(session.path)
    before = IndexContent.read(imports.facts.database).tables["messages"]
    assert read_rebuilt_index(imports).tables["messages"] == before


def test_an_answer_of_a_subagent_that_equals_an_earlier_one_counts(imports: Imports) -> None:
    main = Transcript(NATIVE)
    main.user("Is the cafe open?")
    main.answer(text_block("I look."), tool_use_block("c1", "Task"))
    main.user([tool_result_block("c1", "done")], toolUseResult={"agentId": SUBAGENT})
    main.answer(text_block("It is."))
    child = Transcript(NATIVE, shared={"isSidechain": True, "agentId": SUBAGENT})
    child.user("Look.")
    child.user("Be quick.")  # So that the answer has an id of its own.
    child.answer(text_block("I look."), tool_use_block("c2", "Task"), id="msg_9")
    imports.add("a.jsonl", main)
    imports.add_and_update("agent.jsonl", child)
    assert imports.column("SELECT count(*) FROM edges WHERE kind = 'spawn'") == [1]
    assert imports.column("SELECT count(*) FROM requests") == [3]


def test_a_compaction_of_both_counts_once(imports: Imports, tmp_path: Path) -> None:
    client = RecordedClient(
        open_recorder(tmp_path / "logs", store=imports.store),
        ClientHints(client="claude-code", session=NATIVE),
    )
    transcript = Transcript(NATIVE)
    last = transcript.user("Hi")
    client.ask(request_body("Hi"), "Hello.")
    summary = "So far: two people greeted each other, and one of them asked how the other was."
    transcript.answer(text_block("Hello."), id="msg_1")
    client.ask(request_body("Hi", "Hello.", "Summarize."), summary)
    transcript.boundary(last)
    transcript.summary(summary)
    begins = "This session is being continued from a previous conversation"
    client.ask(request_body(f"{begins}. {summary}"), "Go on.")
    transcript.answer(text_block("Go on."), id="msg_9")
    client.recorder.close()
    imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
    imports.add_and_update("a.jsonl", transcript)
    query = "SELECT count(*) FROM commits WHERE type = 'compaction'"
    assert imports.column(query) == [2]
    assert imports.column(f"{query} AND NOT is_repeat") == [1]
