"""Calls of other programs become sessions."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.recording.exchange import CLIENT_DISCONNECTED, ClientHints
from tests.recording_kit import (
    RecordedClient,
    agent_names,
    check_rebuilt_bodies,
    log_paths,
    open_recorder,
    read_events,
    read_events_of_type,
    request_body,
    response_body,
)

SUMMARY = "So far: two people greeted each other, and one of them asked how the other was."


@pytest.fixture
def client(tmp_path: Path) -> RecordedClient:
    return RecordedClient(open_recorder(tmp_path))


def test_conversation_becomes_one_session(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.ask(request_body("Hi", "Hello.", "How are you?", "Fine.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    contents = [entry.content for entry in read_events_of_type(tmp_path, ev.TranscriptEntry)]
    assert len(contents) == 7
    assert not read_events_of_type(tmp_path, ev.TranscriptEdited)
    assert agent_names(tmp_path) == ["main"]


def test_duration_and_cost_of_a_call_are_logged(client: RecordedClient, tmp_path: Path) -> None:
    id_ = client.begin(request_body("Hi"))
    client.end(id_, "Hello.", latency_s=1.5)
    (response,) = read_events_of_type(tmp_path, ev.LlmResponse)
    assert (response.stop_reason, response.latency_s) == ("end_turn", 1.5)
    assert response.usage == ev.Usage(input_tokens=10, output_tokens=5)
    assert response.time == "2027-01-15T08:00:02.000000Z"


def test_two_conversations_are_two_sessions(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("What is this?"), "A test.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    check_rebuilt_bodies(tmp_path, [client])
    assert len(log_paths(tmp_path)) == 2


def test_retry_belongs_to_the_same_agent_without_new_entries(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), None)
    client.ask(request_body("Hi"), None)
    client.ask(request_body("Hi"), "Hello.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 3


def test_repeated_question_belongs_to_the_same_agent(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi"), "Hi there.")
    client.ask(request_body("Hi", "Hi there.", "How are you?"), "Fine.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]


def test_diverging_request_is_a_fork(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.ask(request_body("Hi", "Hello.", "Who are you?"), "Jack.")
    client.ask(request_body("Hi", "Hello.", "Who are you?", "Jack.", "Really?"), "Yes.")
    client.ask(request_body("Hi", "Hello.", "How are you?", "Fine.", "Good."), "Yes.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main", "main (fork)"]
    (edit,) = read_events_of_type(tmp_path, ev.TranscriptEdited)
    assert edit.reason == "rewound"
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 11


def test_changed_past_message_is_a_rewrite(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.ask(request_body("Hi!", "Hello.", "How are you?", "Fine.", "Bye"), "Bye.")
    last = [{"role": "assistant", "content": "Fine."}, {"role": "user", "content": "Bye"}]
    client.ask(request_body(*last), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]
    assert [edit.reason for edit in read_events_of_type(tmp_path, ev.TranscriptEdited)] == [
        "rewritten"
    ] * 2


def test_slightly_changed_prompt_is_the_same_agent(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi", system="You are Jack. It is 12:00:01."), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye", system="You are Jack. It is 12:00:09."), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]


def test_different_prompt_is_another_agent(client: RecordedClient, tmp_path: Path) -> None:
    two = ("Hi", "Hello.", "What do you say, Jill?")
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body(*two, system="Jill would never say that. You are her."), "Hm.")
    client.ask(request_body(*two, "Hm.", "Jack?"), "Well.")
    client.ask(
        request_body(
            *two, "Hm.", "Jack?", "Well.", "?", system="Jill would never say that. You are her."
        )
    )
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main", "aside"]
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    assert [request_event.agent_id for request_event in requests] == ["agent_001", "agent_002"] * 2


def test_summary_that_replaces_the_past_is_a_compaction(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.ask(request_body("Hi", "Hello.", "How are you?", "Fine.", "Sum it up."), SUMMARY)
    summary_prompt = f"What happened before:\n{SUMMARY}\nGo on."
    client.ask(request_body(summary_prompt), "I go on.")
    client.ask(request_body(summary_prompt, "I go on.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    (edit,) = read_events_of_type(tmp_path, ev.TranscriptEdited)
    summary = next(
        e for e in read_events_of_type(tmp_path, ev.TranscriptEntry) if e.content == summary_prompt
    )
    assert (edit.reason, edit.summary) == ("compaction", summary.message_id)
    assert agent_names(tmp_path) == ["main"]


def test_compaction_may_keep_the_last_messages(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), SUMMARY)
    client.ask(request_body(f"So far: {SUMMARY}", "Hello.", "How are you?", SUMMARY, "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert [edit.reason for edit in read_events_of_type(tmp_path, ev.TranscriptEdited)] == [
        "compaction"
    ]


CALL = {
    "type": "tool_use",
    "id": "t1",
    "name": "Agent",
    "input": {"subagent_type": "Explore", "prompt": "Find the door in the wall."},
}


def test_agent_with_the_prompt_of_a_call_is_created_by_it(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.hints = ClientHints(client="claude-code", session="5e551017-aaaa")
    tools = [{"name": "Agent", "input_schema": {}}]
    client.ask(request_body("Hi", tools=tools), [CALL])
    client.ask(request_body("Find the door in the wall.", system="You explore."), "It is there.")
    assert [path.name for path in log_paths(tmp_path)] == ["rec-claude-code-5e551017.jsonl"]
    check_rebuilt_bodies(tmp_path, [client])
    _, agent_event = read_events_of_type(tmp_path, ev.AgentCreated)
    call_entry = next(e for e in read_events_of_type(tmp_path, ev.TranscriptEntry) if e.tool_calls)
    assert (agent_event.name, agent_event.cause, agent_event.relation) == (
        "Explore",
        call_entry.message_id,
        "subagent",
    )


def test_side_requests_are_subagents(client: RecordedClient, tmp_path: Path) -> None:
    client.hints = ClientHints(client="opencode", session="ses_1")
    client.ask(request_body("Hi", system="You write titles."), "A greeting")
    tools = [{"name": "look", "input_schema": {}}]
    client.ask(request_body("Hi", tools=tools), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye", tools=tools), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main", "aside"]
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    assert [request_event.agent_id for request_event in requests] == [
        "agent_002",
        "agent_001",
        "agent_001",
    ]


def test_agents_named_by_the_client_are_separate(client: RecordedClient, tmp_path: Path) -> None:
    main = ClientHints(client="codex", session="s-1", agent="s-1")
    other_hints = ClientHints(
        client="codex", session="s-1", agent="s-2", parent="s-1", name="review"
    )
    client.ask(request_body("Hi"), "Hello.", hints=main)
    client.ask(request_body("Hi"), "Hello!", hints=other_hints)
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye.", hints=main)
    client.ask(request_body("Hi", "Hello!", "Bye"), "Bye.", hints=other_hints)
    check_rebuilt_bodies(tmp_path, [client])
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    assert [request_event.agent_id for request_event in requests] == ["agent_001", "agent_002"] * 2


def test_request_with_previous_response_id_is_the_same_agent(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.protocol, client.path = "openai-responses", "/v1/responses"
    answer_item = {"type": "message", "role": "assistant", "content": []}
    for turn in range(3):
        request_body = {"model": "gpt", "input": f"Question {turn}"}
        before = {"previous_response_id": f"resp_{turn - 1}"} if turn else {}
        text = [{"type": "output_text", "text": f"Answer {turn}"}]
        response_body = {"id": f"resp_{turn}", "status": "completed"}
        id_ = client.begin({**request_body, **before})
        client.end(id_, whole={**response_body, "output": [{**answer_item, "content": text}]})
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]


def test_concurrent_calls_are_separate_agents(client: RecordedClient, tmp_path: Path) -> None:
    first, second = client.begin(request_body("Hi")), client.begin(request_body("Hi"))
    client.end(second, "Hello, two.")
    client.end(first, "Hello, one.")
    client.ask(request_body("Hi", "Hello, two.", "Bye"), "Bye.")
    client.ask(request_body("Hi", "Hello, one.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    agents = ["agent_001", "agent_002", "agent_002", "agent_001"]
    assert [request_event.agent_id for request_event in requests] == agents


def test_call_with_previous_response_id_waits_for_that_response(
    client: RecordedClient, tmp_path: Path
) -> None:
    first = client.begin(request_body("Hi"))
    second = client.begin(request_body("Hi", "Hello.", "How are you?"))
    third = client.begin(request_body("Hi", "Hello.", "How are you?", "Fine.", "Bye"))
    client.end(second, "Fine.")
    client.end(first, "Hello.")
    client.end(third, "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 7


def test_waiting_calls_are_recorded_at_close(client: RecordedClient, tmp_path: Path) -> None:
    client.begin(request_body("Hi"))
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.recorder.close()
    check_rebuilt_bodies(tmp_path, [client])
    assert [
        response_event.stop_reason
        for response_event in read_events_of_type(tmp_path, ev.LlmResponse)
    ] == [
        "interrupted",
        "end_turn",
    ]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize(
    "hints", [ClientHints(), ClientHints(client="x", session="abc", agent="a")]
)
def test_session_continues_after_a_restart(
    client: RecordedClient, tmp_path: Path, hints: ClientHints, *, is_closed: bool
) -> None:
    client.hints = hints
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", [{"type": "text", "text": "How?"}]), "Fine.")
    half = client.begin(request_body("Hi", "Hello.", "How?", "Fine.", "Bye"))
    if is_closed:
        client.recorder.close()
    before = client.recorder  # the process holds the locks until it exits
    for run in before._pool.open_sessions:
        run.close()
    client.recorder = open_recorder(tmp_path)
    for id_ in [*client.sent_bodies]:  # the spool may repeat calls
        client.recorder.begin(client.captured_request(id_))
        client.end(id_, "Bye!")
    client.ask(request_body("Hi", "Hello.", "How?", "Fine.", "Bye", "Bye!", "..."), "?")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]
    assert half in client.sent_bodies
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 9


def test_session_with_another_prompt_is_recognized_after_a_restart(tmp_path: Path) -> None:
    """Gemini CLI lists its skills in another order at each start."""
    prompts = ["You are Jack. You can read, write.", "You are Jack. You can write, read."]
    with open_recorder(tmp_path) as first:
        first_client = RecordedClient(first)
        first_client.ask(request_body("Hi", system=prompts[0]), "Hello.")
    with open_recorder(tmp_path) as second:
        second_client = RecordedClient(second)
        second_client.ask(request_body("Hi", "Hello.", "Bye", system=prompts[1]), "Bye.")
    check_rebuilt_bodies(tmp_path, [first_client, second_client])
    assert agent_names(tmp_path) == ["main"]


def test_agents_share_wire_formats_after_a_restart(tmp_path: Path) -> None:
    """A regression: after a restart the wire format of a shared text was known to one agent
    only.
    """
    in_block, hints = (
        [{"type": "text", "text": "You are Jack."}],
        ClientHints(client="x", session="abc"),
    )
    with open_recorder(tmp_path) as first:
        first_client = RecordedClient(first, hints)
        first_client.ask(request_body("Hi", system=in_block), "Hello.")
        first_client.ask(request_body("Hi", "Hello.", "Why?", system=in_block), "So.")
        first_client.ask(request_body("Hi", "Hello.", "Who?", system=in_block), "Me.")
    with open_recorder(tmp_path) as second:
        second_client = RecordedClient(second, hints)
        second_client.ask(
            request_body("Hi", "Hello.", "Why?", "So.", "Ah.", system="You are Jack."), "Oh."
        )
        second_client.ask(
            request_body("Hi", "Hello.", "Who?", "Me.", "Ah.", system=in_block), "Oh."
        )
    check_rebuilt_bodies(tmp_path, [first_client, second_client])
    assert agent_names(tmp_path) == ["main", "main (fork)"]


def test_lone_answer_is_recorded_after_a_restart(client: RecordedClient, tmp_path: Path) -> None:
    id_ = client.begin(request_body("Hi"))
    for run in client.recorder._pool.open_sessions:
        run.close()
    client.recorder = open_recorder(tmp_path)
    client.end(id_, "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert [
        response_event.stop_reason
        for response_event in read_events_of_type(tmp_path, ev.LlmResponse)
    ] == ["end_turn"] * 2


def test_killed_recorder_loses_no_acknowledged_call(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.recording_kit import RecordedClient, open_recorder, request_body\n"
        "client = RecordedClient(open_recorder(Path(sys.argv[1])))\n"
        "client.ask(request_body('Hi'), 'Hello.')\n"
        "print(client.begin(request_body('Hi', 'Hello.', 'Bye')), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert result.returncode == -signal.SIGKILL
    client = RecordedClient(open_recorder(tmp_path))
    client.end(result.stdout.decode().strip(), "Bye.")
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye.", "..."), "?")
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 7
    assert [
        response_event.stop_reason
        for response_event in read_events_of_type(tmp_path, ev.LlmResponse)
    ] == ["end_turn"] * 3


def test_idle_sessions_are_closed_and_reopened(tmp_path: Path) -> None:
    client = RecordedClient(open_recorder(tmp_path, max_open_sessions=2))
    for turn in range(3):
        for talk in range(5):
            texts = [f"Talk {talk}.", *["Hello.", "Go on."] * turn]
            client.ask(request_body(*texts), "Hello.")
            assert len(client.recorder._pool.open_sessions) <= 2
    client.recorder.close()
    check_rebuilt_bodies(tmp_path, [client])
    assert len(log_paths(tmp_path)) == 5


def test_sessions_with_similar_names_have_separate_files(tmp_path: Path) -> None:
    client = RecordedClient(open_recorder(tmp_path))
    ids = ("01a20055-735a-72f2", "01a20055-735a-9999", "01a20055/735a-72f2", "01a20055-735a-72f2")
    for turn, id_ in enumerate(ids):
        client.hints = ClientHints(client="codex", session=id_, agent="a")
        client.ask(request_body("Hi", "Hello.", f"{turn}"), "Hello.")
    check_rebuilt_bodies(tmp_path, [client])
    assert [path.name for path in log_paths(tmp_path)] == [
        "rec-codex-01a20055-735a-72f2.jsonl",
        "rec-codex-01a20055-735a.jsonl",
        "rec-codex-01a20055.jsonl",
    ]


def test_unwritable_log_is_reported_and_retried(tmp_path: Path) -> None:
    warnings: list[str] = []
    folder = tmp_path / "sessions"
    folder.write_text("in the way")
    client = RecordedClient(open_recorder(folder, warnings))
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi"), "Hello.")
    assert len(warnings) == 1
    folder.unlink()
    client.sent_bodies.clear()
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye.")
    check_rebuilt_bodies(folder, [client])
    assert warnings[1:] == ["calls are being recorded again"]


def test_client_messages_are_no_prompts(client: RecordedClient, tmp_path: Path) -> None:
    client.hints = ClientHints(client="x", session="abc")
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("A title?", system="You write titles."), "A greeting")
    users = [
        entry for entry in read_events_of_type(tmp_path, ev.TranscriptEntry) if entry.role == "user"
    ]
    assert [entry.cause for entry in users] == [None, "msg_001"]


def test_unrecordable_calls_are_reported_and_skipped(tmp_path: Path) -> None:
    warnings: list[str] = []
    client = RecordedClient(open_recorder(tmp_path, warnings))
    client.protocol = "smoke-signals"
    client.ask(request_body("Hi"), "Hello.")
    client.protocol = "anthropic-messages"
    client.sent_bodies["bad"] = {"messages": 7}
    client.recorder.begin(client.captured_request("bad"))
    client.end("bad", "Hello.")
    client.end("never", "Hello.")
    assert len(warnings) == 2
    assert not log_paths(tmp_path)


def test_failed_answers_have_a_reason(client: RecordedClient, tmp_path: Path) -> None:
    id_ = client.begin(request_body("Hi"))
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    client.end(id_, "", status=529, body=error)
    id_ = client.begin(request_body("Hi"))
    client.end(id_, None, broken="the provider cut the connection")
    first, two = read_events_of_type(tmp_path, ev.LlmResponse)
    assert "Overloaded" in first.error
    assert (first.stop_reason, two.stop_reason) == ("error", "error")
    assert two.error == "the provider cut the connection"


def test_client_disconnect_after_the_end_is_no_failure(
    client: RecordedClient, tmp_path: Path
) -> None:
    """Codex disconnects after each answer."""
    client.end(client.begin(request_body("Hi")), "Hello.", broken=CLIENT_DISCONNECTED)
    (response,) = read_events_of_type(tmp_path, ev.LlmResponse)
    assert (response.stop_reason, response.error) == ("end_turn", None)


def test_recorded_log_is_an_ordinary_log(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), [CALL])
    kinds = [ev.event_type(event) for event in read_events(tmp_path)]
    assert kinds == [
        "session_started",
        "agent_created",
        *["transcript_entry"] * 2,
        "llm_request",
        "transcript_entry",
        "llm_response",
    ]
    assert response_body("x")["role"] == "assistant"
