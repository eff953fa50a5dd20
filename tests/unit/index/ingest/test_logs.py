"""Sessions of Harken: rows come from their logs, and commits to resume from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harken.agents.checkpointer import Checkpointer
from harken.cli.commands.sessions.cost import cost_of_log
from harken.core import events as ev
from harken.core.clock import parse_rfc3339
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.ids import AgentId, MessageId
from harken.session.branch import branch, branch_with_edit
from harken.session.log.reader import iter_events
from harken.session.session import Session
from tests.session_kit import (
    create_agent,
    entry_segment,
    log_answer,
    log_edit,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
    session_options,
)
from tests.unit.index.index_kit import Imports

ORDERED = "SELECT commit_id FROM messages ORDER BY id"
USAGE = ev.Usage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=10, output_tokens=7)


@pytest.fixture
def session(tmp_path: Path, imports: Imports) -> Session:
    new_log = new_session(tmp_path)
    imports.logs.append(new_log.path)
    return new_log


def commit(imports: Imports, session: Session, agent: AgentId) -> None:
    assert Checkpointer(store=imports.store).commit_pending(session, agent, "turn_boundary")


def test_session_without_commits_is_indexed(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    imports.update()
    assert imports.rows("SELECT name, runtime, title FROM sessions") == [("s", "harken", "turn 1")]
    assert imports.rows("SELECT kind, commit_id FROM messages") == [
        ("prompt", None),
        ("response", None),
        ("tool_result", None),
        ("response", None),
    ]
    expected_rows = [("look", imports.messages[2])]
    assert imports.rows("SELECT name, result_id FROM tool_calls") == expected_rows


def test_client_message_in_the_user_role_is_no_prompt(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main", spec=AgentSpec(foreign=ForeignAgent("claude-code")))
    log_user_message(session, main, "<system-reminder>It is noon.</system-reminder>")
    log_user_message(session, main, "<system-reminder>It is noon.</system-reminder>\n\nHi")
    imports.update()
    assert imports.column("SELECT kind FROM messages") == ["system", "prompt"]
    assert imports.column("SELECT title FROM sessions") == ["Hi"]


def test_second_run_reads_only_new_lines(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    calling = log_tool_calls(session, main, "c1")
    request = log_request(session, main)
    imports.update()
    log_response(session, main, request, entry=calling)
    log_tool_result(session, main, "c1")
    imports.update()
    imports.update()
    assert imports.column("SELECT kind FROM messages") == ["response", "tool_result"]
    prompt_row, answer = imports.messages
    assert imports.rows("SELECT message_id, model FROM requests") == [(prompt_row, "")]
    assert imports.column("SELECT result_id FROM tool_calls") == [answer]


def test_messages_are_linked_to_their_commit(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    commit(imports, session, main)
    imports.update()
    log_user_message(session, main, "and now?")
    imports.update()
    assert imports.column(ORDERED) == [1, 1, 1, 1, None]
    log_answer(session, main, "the end")
    commit(imports, session, main)
    imports.update()
    assert imports.column(ORDERED) == [1, 1, 1, 1, 2, 2]
    assert imports.rows("SELECT agent_id, parent_id FROM commits") == [(1, None), (1, 1)]
    assert imports.rows("SELECT name, tip_id FROM agents") == [("", 2)]


def test_commit_whose_log_is_read_later_is_linked_then(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    imports.update()
    commit(imports, session, main)
    logs, imports.logs = imports.logs, []
    imports.update()
    imports.logs = logs
    imports.update()
    assert imports.column(ORDERED) == [1, 1, 1, 1]


def test_usage_and_cost_come_from_the_log(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_user_message(session, main)
    request = log_request(session, main)
    answer_id = log_answer(session, main)
    log_response(
        session, main, request, entry=answer_id, usage=USAGE, cost_usd=0.25, stop_reason="stop"
    )
    commit(imports, session, main)
    imports.update()
    columns = (
        "message_id, model, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, "
        "cost_usd, is_cost_told, stop_reason"
    )
    rows_found = imports.rows(f"SELECT {columns} FROM requests")
    assert rows_found == [(imports.messages[1], "scripted:x", 30, 60, 10, 7, 0.25, 1, "stop")]


def test_message_forwarded_to_another_agent_counts_once(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_user_message(session, main)
    call_id = log_tool_calls(session, main, "c1")
    ann = create_agent(session, name="Ann", cause=call_id, relation="subagent")
    log_user_message(session, ann, "tea or coffee?", cause=call_id)
    answer_id = log_answer(session, ann, "tea")
    log_user_message(session, main, "[Ann]: tea", substance=answer_id)
    imports.update()
    assert imports.rows("SELECT name, parent_id FROM agents") == [("", None), ("Ann", 1)]
    assert imports.rows("SELECT agent_id, kind, is_repeat FROM messages") == [
        (1, "prompt", 0),
        (1, "response", 0),
        (2, "system", 0),
        (2, "response", 0),
        (1, "system", 1),
    ]
    assert imports.column("SELECT count(*) FROM words WHERE words MATCH 'tea'") == [2]


def test_agents_with_equal_names_are_separate(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    call_id = log_tool_calls(session, main, "c1", "c2")
    for _ in range(2):
        ann = create_agent(session, name="Ann", cause=call_id, relation="subagent")
        log_user_message(session, ann, "tea or coffee?", cause=call_id)
        log_answer(session, ann, "tea")
        commit(imports, session, ann)
    imports.update()
    assert imports.column("SELECT count(*) FROM agents") == [3]
    assert imports.column("SELECT agent_id FROM commits ORDER BY id") == [2, 2, 3, 3]


def test_compaction_summary_is_marked(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    summary = log_user_message(session, main, "they spoke", cause=MessageId("msg_001"))
    log_edit(session, main, entry_segment(summary), summary=summary)
    commit(imports, session, main)
    imports.update()
    assert imports.column("SELECT kind FROM messages WHERE kind = 'summary'") == ["summary"]
    assert imports.column("SELECT type FROM commits") == ["delta", "compaction"]
    assert imports.column("SELECT count(*) FROM messages") == [5]


def test_session_end_is_the_outcome(imports: Imports, session: Session) -> None:
    create_agent(session, name="main")
    session.append(ev.SessionEnded(reason="done"))
    imports.update()
    assert imports.column("SELECT outcome FROM sessions") == ["done"]


def test_replaced_log_is_read_from_the_start(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    imports.update()
    session.close()
    data = session.path.read_bytes()
    for different_data in (data.replace(b"turn 1", b"turn 2") + data[-200:], data[:-300]):
        session.path.write_bytes(different_data)
        imports.update()
        imports.update()
    assert imports.column("SELECT count(*) FROM sessions") == [1]
    assert imports.column("SELECT count(*) FROM words WHERE words MATCH 'turn'") == [1]


def test_torn_line_is_deferred_and_invalid_line_skipped(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    session.close()
    *lines, last = session.path.read_bytes().splitlines(keepends=True)
    session.path.write_bytes(b"".join([*lines, b"{bad\n", last[:-9]]))
    imports.update()
    before = imports.column("SELECT count(*) FROM requests")
    with session.path.open("ab") as file:
        file.write(last[-9:])
    imports.update()
    assert before == [1]
    assert imports.column("SELECT count(*) FROM requests") == [2]
    assert imports.column("SELECT count(*) FROM messages") == [4]


def test_copied_log_adds_nothing(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    copy = session.path.with_name("copy.jsonl")
    copy.write_bytes(session.path.read_bytes())
    imports.logs.append(copy)
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [4]


def test_file_that_is_no_log_is_skipped(imports: Imports, session: Session, tmp_path: Path) -> None:
    log_turn(session, create_agent(session, name="main"), 1)
    for name, data in (("a", b""), ("b", b"\x00" * 99), ("c", b'{"event_type": 5}\n')):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(data)
        imports.logs.insert(0, path)
    imports.logs.insert(0, tmp_path / "gone.jsonl")
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [4]


def test_an_unfinished_group_is_not_indexed(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    with session.group():
        for text in ("one", "two", "three"):
            log_user_message(session, main, text)
    session.close()
    full_log = session.path.read_bytes()
    lines = full_log.splitlines(keepends=True)
    for count in (2, 3, 4):
        session.path.write_bytes(b"".join(lines[:count]))
        imports.update()
        assert imports.rows("SELECT kind FROM messages") == []
    session.path.write_bytes(full_log)
    imports.update()
    assert imports.rows("SELECT kind FROM messages") == [("prompt",)] * 3


def log_priced_turn(session: Session, agent: AgentId, text: str) -> None:
    log_user_message(session, agent, text)
    request = log_request(session, agent)
    answer = log_answer(session, agent, f"to {text}")
    log_response(session, agent, request, entry=answer, usage=USAGE, cost_usd=1.0)


def test_what_a_branch_copied_counts_once(imports: Imports, session: Session) -> None:
    """The branch is listed first: its name sorts before that of its session."""
    main = create_agent(session, name="main")
    log_priced_turn(session, main, "tea")
    log_turn(session, main, 1)
    session.end("over")
    made = branch(session.path, session.path.with_name("s-fork.jsonl"))
    imports.logs.insert(0, made.path)
    with Session.load(made.path, options=session_options()) as fork:
        fork.log_transcript_entry(main, {"role": "user", "content": "coffee"})
        log_priced_turn(fork, main, "milk")
        fork_events = [*iter_events(made.path)]
    imports.update()
    assert imports.rows("SELECT name, title, outcome FROM sessions ORDER BY name") == [
        ("s", "tea", "over"),
        ("s-fork", "coffee", None),
    ]
    counted = (
        "SELECT sessions.name, count(*) FROM sessions JOIN {} t ON t.session_id = sessions.id "
        "WHERE {} GROUP BY 1 ORDER BY 1"
    )
    assert imports.rows(counted.format("messages", "NOT is_repeat")) == [("s", 6), ("s-fork", 3)]
    assert imports.rows(counted.format("requests", "1")) == [("s", 3), ("s-fork", 1)]
    assert imports.rows(counted.format("tool_calls", "1")) == [("s", 1)]
    (began,) = imports.column("SELECT began FROM sessions WHERE name = 's-fork'")
    first_own = next(event for event in fork_events if getattr(event, "content", "") == "coffee")
    assert began == parse_rfc3339(first_own.time or "")


def test_a_branch_whose_session_is_gone_counts_all(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_priced_turn(session, main, "tea")
    made = branch(session.path, session.path.with_name("s-fork.jsonl"))
    session.close()
    session.path.unlink()
    imports.logs[:] = [made.path]
    imports.update()
    assert imports.column("SELECT cost_usd FROM requests") == [1.0]
    assert imports.column("SELECT kind FROM messages WHERE NOT is_repeat") == ["prompt", "response"]


def test_an_edited_answer_is_no_response_of_a_model(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_priced_turn(session, main, "tea")
    (answer,) = [
        event.message_id
        for event in iter_events(session.path)
        if isinstance(event, ev.TranscriptEntry) and event.role == "assistant"
    ]
    to = session.path.with_name("s-fork.jsonl")
    branch_with_edit(session.path, to, answer, "Mine.", options=session_options())
    imports.logs.append(to)
    imports.update()
    assert imports.column("SELECT cost_usd FROM requests") == [1.0]
    assert cost_of_log(to) is None  # no call of its own
    assert cost_of_log(session.path) == 1.0


def test_event_of_a_message_and_its_links_are_columns(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    calling = log_tool_calls(session, main, "c1")
    jack = create_agent(session, name="Jack", cause=calling, relation="subagent")
    piece = session.log_piece_of_text(main, "Hello", calling)
    heard = log_user_message(session, jack, "Hello", substance=piece)
    result = session.append(
        ev.TranscriptEntry(
            agent_id=main,
            role="tool",
            content="no",
            tool_call_id="c1",
            name="look",
            closed="denied",
        )
    )
    message = log_user_message(session, main, "done", cause=[calling, result])
    imports.update()
    assert imports.rows("SELECT event, substance, cause, closed FROM messages ORDER BY event") == [
        (calling, None, None, None),
        (heard, piece, None, None),
        (result, None, None, "denied"),
        (message, None, f"{calling},{result}", None),
    ]


def test_relation_and_place_of_agents_are_columns(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    calling = log_tool_calls(session, main, "c1")
    jack = create_agent(session, name="Jack", cause=calling, relation="subagent")
    guard = create_agent(session, name="guard", cause=calling, relation="hook")
    imports.update()
    query = "SELECT relation, place FROM agents ORDER BY id"
    births = [("primary", "primary"), ("subagent", "subagent"), ("hook", "hook")]
    assert imports.rows(query) == births
    session.append(ev.AgentMoved(agent_id=jack, place="primary", replaces=main, replaced_as="hook"))
    session.append(ev.AgentMoved(agent_id=guard, place="gone"))
    imports.update()
    assert imports.rows(query) == [("primary", "hook"), ("subagent", "primary"), ("hook", "gone")]
    assert [session.agents[agent].place for agent in (main, jack, guard)] == [
        "hook",
        "primary",
        "gone",
    ]


def test_interlocutors_are_rows(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    calling = log_tool_calls(session, main, "c1")
    jack = create_agent(session, name="Jack", cause=calling, relation="subagent")
    jill = create_agent(session, name="Jill", cause=calling, relation="subagent")
    first = session.append(
        ev.InterlocutorsSet(agent_id=main, speakers=[jack, jill], listeners=[jill], cause=calling)
    )
    imports.update()
    second = session.append(ev.InterlocutorsSet(agent_id=jack, listeners=[main]))
    imports.update()
    assert imports.rows(
        "SELECT i.event, agents.name, others.name, role, cause FROM interlocutors i "
        "JOIN agents ON agents.id = agent_id JOIN agents AS others ON others.id = interlocutor_id "
        "ORDER BY i.id"
    ) == [
        (first, "", "Jack", "speaker", calling),
        (first, "", "Jill", "speaker", calling),
        (first, "", "Jill", "listener", calling),
        (second, "Jack", "", "listener", None),
    ]


def test_verdicts_are_rows(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    calling = log_tool_calls(session, main, "c1", "c2")
    guard = create_agent(session, name="guard", cause=calling, relation="hook")
    call = f"{calling}.c1"
    verdict = ev.HookVerdict(
        agent_id=guard, watched=main, subject=call, point="action", verdict="deny", text="no"
    )
    first = session.append(verdict)
    imports.update()
    log_tool_result(session, main, "c1")
    log_tool_result(session, main, "c2")
    answer = log_answer(session, main)
    failed = msgspec.structs.replace(
        verdict, subject=answer, point="response", failed="OSError: full"
    )
    second = session.append(failed)
    imports.update()
    assert imports.rows(
        "SELECT verdicts.event, subject, messages.event, point, verdict, is_failure, judged.name, "
        "hooks.name FROM verdicts JOIN messages ON messages.id = message_id "
        "JOIN agents AS judged ON judged.id = verdicts.agent_id "
        "JOIN agents AS hooks ON hooks.id = hook_id ORDER BY verdicts.id"
    ) == [
        (first, call, calling, "action", "deny", 0, "", "guard"),
        (second, answer, answer, "response", "deny", 1, "", "guard"),
    ]
