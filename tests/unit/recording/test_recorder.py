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


def test_a_conversation_becomes_one_session(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.ask(request_body("Hi", "Hello.", "How are you?", "Fine.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    said = [entry.content for entry in read_events_of_type(tmp_path, ev.TranscriptEntry)]
    assert len(said) == 7
    assert not read_events_of_type(tmp_path, ev.TranscriptEdited)
    assert agent_names(tmp_path) == ["main"]


def test_what_a_call_took_and_cost_is_in_the_log(client: RecordedClient, tmp_path: Path) -> None:
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


def test_a_retry_is_the_same_agent_and_costs_nothing_new(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), None)
    client.ask(request_body("Hi"), None)
    client.ask(request_body("Hi"), "Hello.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 3


def test_the_same_question_once_more_is_the_same_agent(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi"), "Hi there.")
    client.ask(request_body("Hi", "Hi there.", "How are you?"), "Fine.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]


def test_who_goes_another_way_is_a_fork(client: RecordedClient, tmp_path: Path) -> None:
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


def test_what_was_changed_in_the_past_is_rewritten(client: RecordedClient, tmp_path: Path) -> None:
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


def test_a_prompt_that_changes_a_little_is_the_same_agent(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi", system="You are Jack. It is 12:00:01."), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye", system="You are Jack. It is 12:00:09."), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]


def test_who_has_another_prompt_is_another_agent(client: RecordedClient, tmp_path: Path) -> None:
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
    assert [one.agent_id for one in requests] == ["agent_001", "agent_002"] * 2


def test_a_summary_in_place_of_the_past_is_a_compaction(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.ask(request_body("Hi", "Hello.", "How are you?", "Fine.", "Sum it up."), SUMMARY)
    told = f"What happened before:\n{SUMMARY}\nGo on."
    client.ask(request_body(told), "I go on.")
    client.ask(request_body(told, "I go on.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    (edit,) = read_events_of_type(tmp_path, ev.TranscriptEdited)
    summary = next(
        e for e in read_events_of_type(tmp_path, ev.TranscriptEntry) if e.content == told
    )
    assert (edit.reason, edit.summary) == ("compaction", summary.message_id)
    assert agent_names(tmp_path) == ["main"]


def test_a_compaction_may_keep_the_last_messages(client: RecordedClient, tmp_path: Path) -> None:
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


def test_who_is_told_the_prompt_of_a_call_is_born_from_it(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.hints = ClientHints(client="claude-code", session="5e551017-aaaa")
    tools = [{"name": "Agent", "input_schema": {}}]
    client.ask(request_body("Hi", tools=tools), [CALL])
    client.ask(request_body("Find the door in the wall.", system="You explore."), "It is there.")
    assert [path.name for path in log_paths(tmp_path)] == ["rec-claude-code-5e551017.jsonl"]
    check_rebuilt_bodies(tmp_path, [client])
    _, born = read_events_of_type(tmp_path, ev.AgentCreated)
    asked = next(e for e in read_events_of_type(tmp_path, ev.TranscriptEntry) if e.tool_calls)
    assert (born.name, born.cause, born.relation) == ("Explore", asked.message_id, "subagent")


def test_requests_beside_the_conversation_are_agents_below_it(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.hints = ClientHints(client="opencode", session="ses_1")
    client.ask(request_body("Hi", system="You write titles."), "A greeting")
    tools = [{"name": "look", "input_schema": {}}]
    client.ask(request_body("Hi", tools=tools), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye", tools=tools), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main", "aside"]
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    assert [one.agent_id for one in requests] == ["agent_002", "agent_001", "agent_001"]


def test_agents_that_the_client_names_are_told_apart(
    client: RecordedClient, tmp_path: Path
) -> None:
    main = ClientHints(client="codex", session="s-1", agent="s-1")
    other = ClientHints(client="codex", session="s-1", agent="s-2", parent="s-1", name="review")
    client.ask(request_body("Hi"), "Hello.", hints=main)
    client.ask(request_body("Hi"), "Hello!", hints=other)
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye.", hints=main)
    client.ask(request_body("Hi", "Hello!", "Bye"), "Bye.", hints=other)
    check_rebuilt_bodies(tmp_path, [client])
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    assert [one.agent_id for one in requests] == ["agent_001", "agent_002"] * 2


def test_who_names_the_answer_before_is_the_same_agent(
    client: RecordedClient, tmp_path: Path
) -> None:
    client.protocol, client.path = "openai-responses", "/v1/responses"
    said = {"type": "message", "role": "assistant", "content": []}
    for turn in range(3):
        asked = {"model": "gpt", "input": f"Question {turn}"}
        before = {"previous_response_id": f"resp_{turn - 1}"} if turn else {}
        text = [{"type": "output_text", "text": f"Answer {turn}"}]
        answered = {"id": f"resp_{turn}", "status": "completed"}
        id_ = client.begin({**asked, **before})
        client.end(id_, whole={**answered, "output": [{**said, "content": text}]})
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]


def test_calls_at_once_are_agents_of_their_own(client: RecordedClient, tmp_path: Path) -> None:
    first, second = client.begin(request_body("Hi")), client.begin(request_body("Hi"))
    client.end(second, "Hello, two.")
    client.end(first, "Hello, one.")
    client.ask(request_body("Hi", "Hello, two.", "Bye"), "Bye.")
    client.ask(request_body("Hi", "Hello, one.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    requests = read_events_of_type(tmp_path, ev.LlmRequest)
    agents = ["agent_001", "agent_002", "agent_002", "agent_001"]
    assert [one.agent_id for one in requests] == agents


def test_a_call_that_goes_on_from_an_answer_waits_for_it(
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


def test_what_waits_is_recorded_at_the_end(client: RecordedClient, tmp_path: Path) -> None:
    client.begin(request_body("Hi"))
    client.ask(request_body("Hi", "Hello.", "How are you?"), "Fine.")
    client.recorder.close()
    check_rebuilt_bodies(tmp_path, [client])
    assert [one.stop_reason for one in read_events_of_type(tmp_path, ev.LlmResponse)] == [
        "interrupted",
        "end_turn",
    ]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize(
    "hints", [ClientHints(), ClientHints(client="x", session="abc", agent="a")]
)
def test_a_session_goes_on_after_a_restart(
    client: RecordedClient, tmp_path: Path, hints: ClientHints, *, is_closed: bool
) -> None:
    client.hints = hints
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", [{"type": "text", "text": "How?"}]), "Fine.")
    half = client.begin(request_body("Hi", "Hello.", "How?", "Fine.", "Bye"))
    if is_closed:
        client.recorder.close()
    before = client.recorder  # it holds the locks until it is gone
    for run in before._pool.open_sessions:
        run.close()
    client.recorder = open_recorder(tmp_path)
    for id_ in [*client.sent_bodies]:  # the spool may give again what it gave
        client.recorder.begin(client.captured_request(id_))
        client.end(id_, "Bye!")
    client.ask(request_body("Hi", "Hello.", "How?", "Fine.", "Bye", "Bye!", "..."), "?")
    check_rebuilt_bodies(tmp_path, [client])
    assert agent_names(tmp_path) == ["main"]
    assert half in client.sent_bodies
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 9


def test_a_session_is_found_after_a_restart_where_its_prompt_is_another(tmp_path: Path) -> None:
    """Gemini CLI tells of its skills in another order each time it starts."""
    prompts = ["You are Jack. You can read, write.", "You are Jack. You can write, read."]
    with open_recorder(tmp_path) as first:
        one = RecordedClient(first)
        one.ask(request_body("Hi", system=prompts[0]), "Hello.")
    with open_recorder(tmp_path) as second:
        other = RecordedClient(second)
        other.ask(request_body("Hi", "Hello.", "Bye", system=prompts[1]), "Bye.")
    check_rebuilt_bodies(tmp_path, [one, other])
    assert agent_names(tmp_path) == ["main"]


def test_agents_share_how_a_text_is_written_also_after_a_restart(tmp_path: Path) -> None:
    """What one agent wrote otherwise was, after a restart, unknown to one that shares the text."""
    in_block, hints = (
        [{"type": "text", "text": "You are Jack."}],
        ClientHints(client="x", session="abc"),
    )
    with open_recorder(tmp_path) as first:
        one = RecordedClient(first, hints)
        one.ask(request_body("Hi", system=in_block), "Hello.")
        one.ask(request_body("Hi", "Hello.", "Why?", system=in_block), "So.")
        one.ask(request_body("Hi", "Hello.", "Who?", system=in_block), "Me.")
    with open_recorder(tmp_path) as second:
        other = RecordedClient(second, hints)
        other.ask(request_body("Hi", "Hello.", "Why?", "So.", "Ah.", system="You are Jack."), "Oh.")
        other.ask(request_body("Hi", "Hello.", "Who?", "Me.", "Ah.", system=in_block), "Oh.")
    check_rebuilt_bodies(tmp_path, [one, other])
    assert agent_names(tmp_path) == ["main", "main (fork)"]


def test_an_answer_alone_is_recorded_after_a_restart(
    client: RecordedClient, tmp_path: Path
) -> None:
    id_ = client.begin(request_body("Hi"))
    for run in client.recorder._pool.open_sessions:
        run.close()
    client.recorder = open_recorder(tmp_path)
    client.end(id_, "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye.")
    check_rebuilt_bodies(tmp_path, [client])
    assert [one.stop_reason for one in read_events_of_type(tmp_path, ev.LlmResponse)] == [
        "end_turn"
    ] * 2


def test_a_killed_recorder_loses_nothing_that_was_told(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.recording_kit import RecordedClient, request_body, open_recorder\n"
        "client = RecordedClient(open_recorder(Path(sys.argv[1])))\n"
        "client.ask(request_body('Hi'), 'Hello.')\n"
        "print(client.begin(request_body('Hi', 'Hello.', 'Bye')), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    client = RecordedClient(open_recorder(tmp_path))
    client.end(done.stdout.decode().strip(), "Bye.")
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye.", "..."), "?")
    assert len(read_events_of_type(tmp_path, ev.TranscriptEntry)) == 7
    assert [one.stop_reason for one in read_events_of_type(tmp_path, ev.LlmResponse)] == [
        "end_turn"
    ] * 3


def test_idle_sessions_are_closed_and_found_again(tmp_path: Path) -> None:
    client = RecordedClient(open_recorder(tmp_path, max_open_sessions=2))
    for turn in range(3):
        for talk in range(5):
            said = [f"Talk {talk}.", *["Hello.", "Go on."] * turn]
            client.ask(request_body(*said), "Hello.")
            assert len(client.recorder._pool.open_sessions) <= 2
    client.recorder.close()
    check_rebuilt_bodies(tmp_path, [client])
    assert len(log_paths(tmp_path)) == 5


def test_sessions_with_like_names_have_files_of_their_own(tmp_path: Path) -> None:
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


def test_a_log_that_cannot_be_written_is_told_and_tried_again(tmp_path: Path) -> None:
    told: list[str] = []
    folder = tmp_path / "sessions"
    folder.write_text("in the way")
    client = RecordedClient(open_recorder(folder, told))
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi"), "Hello.")
    assert len(told) == 1
    folder.unlink()
    client.sent_bodies.clear()
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye.")
    check_rebuilt_bodies(folder, [client])
    assert told[1:] == ["calls are being recorded again"]


def test_who_is_no_person_prompts_nobody(client: RecordedClient, tmp_path: Path) -> None:
    client.hints = ClientHints(client="x", session="abc")
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("A title?", system="You write titles."), "A greeting")
    users = [one for one in read_events_of_type(tmp_path, ev.TranscriptEntry) if one.role == "user"]
    assert [one.cause for one in users] == [None, "msg_001"]


def test_what_cannot_be_recorded_is_told_and_passed_over(tmp_path: Path) -> None:
    told: list[str] = []
    client = RecordedClient(open_recorder(tmp_path, told))
    client.protocol = "smoke-signals"
    client.ask(request_body("Hi"), "Hello.")
    client.protocol = "anthropic-messages"
    client.sent_bodies["bad"] = {"messages": 7}
    client.recorder.begin(client.captured_request("bad"))
    client.end("bad", "Hello.")
    client.end("never", "Hello.")
    assert len(told) == 2
    assert not log_paths(tmp_path)


def test_answers_that_failed_say_why(client: RecordedClient, tmp_path: Path) -> None:
    id_ = client.begin(request_body("Hi"))
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    client.end(id_, "", status=529, body=error)
    id_ = client.begin(request_body("Hi"))
    client.end(id_, None, broken="the provider cut the connection")
    one, two = read_events_of_type(tmp_path, ev.LlmResponse)
    assert "Overloaded" in one.error
    assert (one.stop_reason, two.stop_reason) == ("error", "error")
    assert two.error == "the provider cut the connection"


def test_who_hangs_up_after_the_end_missed_nothing(client: RecordedClient, tmp_path: Path) -> None:
    """Codex does so after each answer."""
    client.end(client.begin(request_body("Hi")), "Hello.", broken=CLIENT_DISCONNECTED)
    (response,) = read_events_of_type(tmp_path, ev.LlmResponse)
    assert (response.stop_reason, response.error) == ("end_turn", None)


def test_the_log_is_an_ordinary_one(client: RecordedClient, tmp_path: Path) -> None:
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
