"""Replay models return recorded answers to equal requests, and a miss describes the difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.events import Usage
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    message_hash,
)
from harken.core.stream import Finish, TextDelta
from harken.errors import InvalidLog, LogNotFound, ReplayMiss
from harken.llm.base import ModelRequest
from harken.llm.replay import ReplayModel
from tests.unit.llm.model_kit import (
    SessionRecorder,
    accumulate,
    assistant,
    collect_chunks,
    get_answer,
    request,
    user,
)

LOOK = {"name": "look", "description": "Look around", "parameters": {"type": "object"}}
TASK = {"name": "task", "description": "Make an agent", "parameters": {"type": "object"}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "cafe.jsonl"


@pytest.fixture
def recorder(log: Path) -> Iterator[SessionRecorder]:
    recorder = SessionRecorder.create(log)
    yield recorder
    recorder.session.close()


def miss(log: Path, model_request: ModelRequest) -> str:
    with pytest.raises(ReplayMiss) as caught:
        collect_chunks(ReplayModel.load(log, name="replay"), model_request)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_recorded_request_gets_its_recorded_answer(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_turn(jack, "Hi", "Hi Jill")
    recorder.add_turn(jack, "How are you?", "Fine.")
    model = ReplayModel.load(log)
    assert model.name == f"replay:{log}"
    assert get_answer(model, request("Hi")).content == "Hi Jill"
    repeated = request("Hi", assistant("Hi Jill"), "How are you?")
    assert get_answer(model, repeated).content == "Fine."


def test_answer_streams_with_its_usage_cost_model_and_stop_reason(
    log: Path, recorder: SessionRecorder
) -> None:
    finish = Finish(
        stop_reason="max_tokens",
        usage=Usage(input_tokens=5, output_tokens=2, cache_read_tokens=1),
        cost_usd=0.25,
        model="big-model-3",
    )
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    recorder.add_response(jack, recorder.add_request(jack), "Hi Jill", finish)
    assert collect_chunks(ReplayModel.load(log), request("Hi")) == [
        TextDelta("Hi "),
        TextDelta("Jill"),
        finish,
    ]


@pytest.mark.parametrize(
    "message",
    [
        Message(
            "assistant",
            [ThinkingPart("hm", {"signature": "c2ln"}), TextPart("I ask.")],
            [
                ToolCall("c1", FunctionCall("task", '{"name": ')),
                ToolCall("c2", FunctionCall("look", "")),
            ],
        ),
        Message(
            "assistant",
            [
                UnknownPart("redacted_thinking", '{"data":"x"}'),
                TextPart("one"),
                TextPart("two"),
                ToolCallSlot("c1"),
                ImagePart("image/png", "AAAA"),
            ],
            [ToolCall("c1", FunctionCall("run", "ls"), "custom")],
        ),
        Message("assistant", "", [ToolCall("c1", FunctionCall("look", "{}"))]),
    ],
)
def test_replayed_message_equals_the_recorded_one(
    log: Path, recorder: SessionRecorder, message: Message
) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_turn(jack, "Hi", message)
    answer = accumulate(ReplayModel.load(log), request("Hi"))
    assert answer.message() == message
    assert message_hash(answer.message()) == message_hash(message)
    assert answer.finish == Finish(stop_reason="tool_use")


def test_replay_does_not_depend_on_the_agent(log: Path, recorder: SessionRecorder) -> None:
    recorder.add_turn(recorder.create_agent("Jack"), "Hi", "Hi Jill")
    assert get_answer(ReplayModel.load(log), request("Hi", agent="Jill")).content == "Hi Jill"


def test_equal_requests_get_recorded_answers_in_order_and_then_the_last(
    log: Path, recorder: SessionRecorder
) -> None:
    root = recorder.create_agent("root")
    for name, answer in (("Jack", "one"), ("Jill", "two")):
        recorder.add_turn(recorder.create_agent(name, cause="msg_001"), "Hi", answer)
    recorder.add_turn(root, "Ho", "other")
    model = ReplayModel.load(log)
    assert [get_answer(model, request("Hi")).content for _ in range(3)] == ["one", "two", "two"]
    assert get_answer(model, request("Ho")).content == "other"


@pytest.mark.parametrize("stop_reason", ["cancelled", "error", "interrupted"])
def test_interrupted_answer_is_skipped(
    log: Path, recorder: SessionRecorder, stop_reason: str
) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    recorder.add_interrupted_response(jack, recorder.add_request(jack), stop_reason)
    assert miss(log, request("Hi")).endswith(
        f"msg_003 of Jack (agent_001): it is the same, but its answer is incomplete ({stop_reason})"
    )
    recorder.add_response(jack, recorder.add_request(jack), "Hi Jill")
    assert get_answer(ReplayModel.load(log), request("Hi")).content == "Hi Jill"


def test_cancelled_answer_is_not_replayed_despite_its_partial_text(
    log: Path, recorder: SessionRecorder
) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    recorder.add_response(jack, recorder.add_request(jack), "Hi J", Finish(stop_reason="cancelled"))
    assert "its answer is incomplete (cancelled)" in miss(log, request("Hi"))


def test_unanswered_request_is_a_miss(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    recorder.add_request(jack)
    assert miss(log, request("Hi")).endswith("it is the same, but was never answered")


def test_tools_and_parameters_are_part_of_a_request(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    model_request = recorder.add_request(jack, tools=[LOOK], parameters={"temperature": 0.5})
    recorder.add_response(jack, model_request, "Hi Jill")
    exact = request("Hi", tools=[LOOK], parameters={"temperature": 0.5})
    assert get_answer(ReplayModel.load(log), exact).content == "Hi Jill"


@pytest.mark.parametrize(
    ("model_request", "difference"),
    [
        (request("Hi"), "the tools differ: look is only in the recorded request"),
        (
            request("Hi", tools=[LOOK, TASK]),
            "the tools differ: task is only in the new request",
        ),
        (
            request("Hi", tools=[{**LOOK, "description": "Look away"}]),
            "the tools differ: look was ",
        ),
        (
            request("Hi", tools=[LOOK], parameters={"temperature": 1}),
            "the parameters differ: temperature was 1.0, is 1",
        ),
        (
            request("Hi", tools=[LOOK]),
            "the parameters differ: temperature is only in the recorded request",
        ),
    ],
)
def test_miss_names_the_tool_or_parameter_that_differs(
    log: Path, recorder: SessionRecorder, model_request: ModelRequest, difference: str
) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    recorder.add_response(
        jack, recorder.add_request(jack, tools=[LOOK], parameters={"temperature": 1.0}), "Hi Jill"
    )
    assert f"the messages are the same, {difference}" in miss(log, model_request)


def test_order_of_tools_is_part_of_a_request(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "Hi")
    recorder.add_response(jack, recorder.add_request(jack, tools=[LOOK, TASK]), "Hi Jill")
    assert "the tools differ: in their order" in miss(log, request("Hi", tools=[TASK, LOOK]))


def test_miss_shows_the_first_message_that_differs(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_turn(jack, "Hi", "Hi Jill")
    recorder.add_turn(jack, "How are you?", "Fine.")
    assert miss(log, request("Hi", assistant("Hi Jill"), "How are they?")) == (
        "replay: no answer to this request of Jack (3 messages); "
        "nearest is msg_007 of Jack (agent_001): "
        "message 2 differs: recorded user 'How are you?', asked user 'How are they?'"
    )


def test_miss_shows_a_long_text_from_the_first_difference(
    log: Path, recorder: SessionRecorder
) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_turn(jack, "a" * 500 + "RED" + "b" * 500, "Hi Jill")
    text = miss(log, request("a" * 500 + "BLUE" + "b" * 500))
    assert f"recorded user '...{'a' * 20}RED" in text
    assert f"asked user '...{'a' * 20}BLUE" in text
    assert len(text) < 350


def test_miss_shows_white_space_differences(log: Path, recorder: SessionRecorder) -> None:
    recorder.add_turn(recorder.create_agent("Jack"), "Hi", "Hi Jill")
    assert r"recorded user 'Hi', asked user 'Hi\n'" in miss(log, request("Hi\n"))


def test_miss_shows_calls_errors_and_roles(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    call = Message("assistant", None, [ToolCall("c1", FunctionCall("look", '{"at": 1}'))])
    recorder.add_turn(jack, "Hi", call)
    recorder.add_turn(jack, Message("tool", "dark", tool_call_id="c1", name="look"), "Done")
    second = Message("assistant", None, [ToolCall("c1", FunctionCall("look", '{"at": 2}'))])
    result = Message("tool", "dark", tool_call_id="c1", name="look", is_error=True)
    assert (
        """message 1 differs: recorded assistant 'look({"at": 1})', """
        """asked assistant 'look({"at": 2})'"""
    ) in miss(log, request("Hi", second, result))
    assert "recorded tool 'dark', asked tool '[error] dark'" in miss(
        log, request("Hi", call, result)
    )
    assert "recorded user 'Hi', asked system 'Hi'" in miss(log, request(Message("system", "Hi")))


def test_miss_reports_a_difference_in_an_image_only(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_turn(
        jack, Message("user", [TextPart("Look"), ImagePart("image/png", "AAAA")]), "A cat"
    )
    model_request = request(Message("user", [TextPart("Look"), ImagePart("image/png", "BBBB")]))
    assert miss(log, model_request).endswith(
        "message 0 differs in parts other than text: user 'Look'"
    )


def test_miss_reports_which_context_is_longer(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    recorder.add_message(jack, "system")
    recorder.add_turn(jack, "Hi", "Hi Jill")
    assert miss(log, request("system")).endswith(
        "msg_004 of Jack (agent_001): this context ends before message 1, "
        "the recorded one has user 'Hi'"
    )
    assert miss(log, request("system", "Hi", assistant("Hi Jill"), "Bye")).endswith(
        "msg_004 of Jack (agent_001): the recorded context ends before message 2, "
        "this one has assistant 'Hi Jill'"
    )


def test_nearest_request_is_preferably_of_the_same_agent(
    log: Path, recorder: SessionRecorder
) -> None:
    recorder.add_turn(recorder.create_agent("Jack"), "You are Jack", "Hi")
    recorder.add_turn(recorder.create_agent("Jill", cause="msg_001"), "You are Jill", "Hi")
    assert "of Jill (agent_002)" in miss(log, request("You are new", agent="Jill"))


def test_nearest_request_has_the_most_similar_length(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    for number in range(5):
        recorder.add_turn(jack, f"Hi {number}", "ok")
    ok = assistant("ok")
    text = miss(log, request("Hi 0", ok, "no", ok, "Hi 2", ok, "Hi 3"))
    assert "msg_015 of Jack (agent_001): message 2 differs" in text


def test_miss_handles_edits_of_the_context(log: Path, recorder: SessionRecorder) -> None:
    jack = recorder.create_agent("Jack")
    for number in range(3):
        recorder.add_turn(jack, f"Hi {number}", "ok")
    recorder.session.append(
        ev.TranscriptEdited(
            agent_id=jack, segments=[ev.Segment(start=0, stop=1), ev.Segment(start=4, stop=6)]
        )
    )
    recorder.add_turn(jack, "last", "ok")
    recorder.add_turn(jack, "very last", "ok")
    ok = assistant("ok")
    text = miss(log, request("Hi 0", "Hi 2", ok, "last", ok, "not the last"))
    assert "message 5 differs: recorded user 'very last', asked user 'not the last'" in text


def test_log_without_model_calls_is_reported(log: Path, recorder: SessionRecorder) -> None:
    recorder.add_message(recorder.create_agent("Jack"), "Hi")
    assert miss(log, request("Hi")).endswith("the log has no model calls")


def test_log_with_unresolvable_contexts_is_reported(log: Path) -> None:
    log.write_text(
        '{"event_type":"llm_request","message_id":"msg_001","agent_id":"agent_001","context":'
        '[{"loaded":"msg_000","start":0,"stop":1}],"count":1,"context_hash":"00","model":"m"}\n'
        '{"event_type":"llm_request","message_id":"msg_002","agent_id":"agent_001","context":'
        '[{"request":"msg_001","start":0,"stop":1}],"count":1,"context_hash":"00","model":"m"}\n'
    )
    assert miss(log, request("Hi")).endswith("can be rebuilt from this log alone")


def test_request_whose_tools_are_not_in_the_log_is_a_miss(log: Path) -> None:
    log.write_text(
        '{"event_type":"llm_request","message_id":"msg_001","agent_id":"agent_001","context":[],'
        '"count":0,"context_hash":"","model":"m","tools":"msg_000"}\n'
        '{"event_type":"transcript_entry","message_id":"msg_002","agent_id":"agent_001",'
        '"role":"assistant","content":"Hi"}\n'
        '{"event_type":"llm_response","message_id":"msg_003","agent_id":"agent_001",'
        '"request":"msg_001","entry":"msg_002","stop_reason":"end_turn"}\n'
    )
    assert "msg_001 of agent_001" in miss(log, request())


def test_wrong_context_hash_of_a_request_is_reported(log: Path, recorder: SessionRecorder) -> None:
    recorder.add_turn(recorder.create_agent("Jack"), "Hi", "Hi Jill")
    invalid = ModelRequest(agent="Jack", messages=[user("Hi")])
    assert "says a context_hash that is not that of its messages" in miss(log, invalid)


def test_invalid_log_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound):
        ReplayModel.load(tmp_path / "none.jsonl")
    with pytest.raises(InvalidLog):
        ReplayModel.load(tmp_path)


def test_session_can_be_replayed_while_it_is_written(log: Path, recorder: SessionRecorder) -> None:
    recorder.add_turn(recorder.create_agent("Jack"), "Hi", "Hi Jill")
    with log.open("ab") as file:
        file.write(b'{"event_type":"transcript_en')
    assert get_answer(ReplayModel.load(log), request("Hi")).content == "Hi Jill"
