"""Replayed models: a recorded session answers exact requests, and a miss says what is different."""

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
from tests.unit.llm.asking import Recorder, answer, assistant, chunks, draft, request, user

LOOK = {"name": "look", "description": "Look around", "parameters": {"type": "object"}}
TASK = {"name": "task", "description": "Make an agent", "parameters": {"type": "object"}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "cafe.jsonl"


@pytest.fixture
def recorder(log: Path) -> Iterator[Recorder]:
    recorder = Recorder.begin(log)
    yield recorder
    recorder.session.close()


def miss(log: Path, asked: ModelRequest) -> str:
    with pytest.raises(ReplayMiss) as caught:
        chunks(ReplayModel.load(log, name="replay"), asked)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_recorded_request_gets_its_recorded_answer(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.says(jack, "Hi", "Hi Jill")
    recorder.says(jack, "How are you?", "Fine.")
    model = ReplayModel.load(log)
    assert model.name == f"replay:{log}"
    assert answer(model, request("Hi")).content == "Hi Jill"
    again = request("Hi", assistant("Hi Jill"), "How are you?")
    assert answer(model, again).content == "Fine."


def test_an_answer_streams_with_its_usage_cost_model_and_stop_reason(
    log: Path, recorder: Recorder
) -> None:
    finish = Finish(
        stop_reason="max_tokens",
        usage=Usage(input_tokens=5, output_tokens=2, cache_read_tokens=1),
        cost_usd=0.25,
        model="big-model-3",
    )
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    recorder.answers(jack, recorder.asks(jack), "Hi Jill", finish)
    assert chunks(ReplayModel.load(log), request("Hi")) == [
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
def test_a_replayed_message_is_the_recorded_one(
    log: Path, recorder: Recorder, message: Message
) -> None:
    jack = recorder.born("Jack")
    recorder.says(jack, "Hi", message)
    said = draft(ReplayModel.load(log), request("Hi"))
    assert said.message() == message
    assert message_hash(said.message()) == message_hash(message)
    assert said.finish == Finish(stop_reason="tool_use")


def test_it_does_not_matter_who_asks(log: Path, recorder: Recorder) -> None:
    recorder.says(recorder.born("Jack"), "Hi", "Hi Jill")
    assert answer(ReplayModel.load(log), request("Hi", agent="Jill")).content == "Hi Jill"


def test_equal_requests_are_answered_in_recorded_order_and_then_by_the_last(
    log: Path, recorder: Recorder
) -> None:
    root = recorder.born("root")
    for name, said in (("Jack", "one"), ("Jill", "two")):
        recorder.says(recorder.born(name, cause="msg_001"), "Hi", said)
    recorder.says(root, "Ho", "other")
    model = ReplayModel.load(log)
    assert [answer(model, request("Hi")).content for _ in range(3)] == ["one", "two", "two"]
    assert answer(model, request("Ho")).content == "other"


@pytest.mark.parametrize("stop_reason", ["cancelled", "error", "interrupted"])
def test_an_answer_that_broke_off_is_passed_over(
    log: Path, recorder: Recorder, stop_reason: str
) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    recorder.breaks(jack, recorder.asks(jack), stop_reason)
    assert miss(log, request("Hi")).endswith(
        f"msg_003 of Jack (agent_001): it is the same, but its answer is not whole ({stop_reason})"
    )
    recorder.answers(jack, recorder.asks(jack), "Hi Jill")
    assert answer(ReplayModel.load(log), request("Hi")).content == "Hi Jill"


def test_a_cancelled_answer_is_not_replayed_though_its_beginning_was_kept(
    log: Path, recorder: Recorder
) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    recorder.answers(jack, recorder.asks(jack), "Hi J", Finish(stop_reason="cancelled"))
    assert "its answer is not whole (cancelled)" in miss(log, request("Hi"))


def test_a_request_that_was_never_answered_is_a_miss(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    recorder.asks(jack)
    assert miss(log, request("Hi")).endswith("it is the same, but was never answered")


def test_tools_and_parameters_belong_to_a_request(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    asked = recorder.asks(jack, tools=[LOOK], parameters={"temperature": 0.5})
    recorder.answers(jack, asked, "Hi Jill")
    exact = request("Hi", tools=[LOOK], parameters={"temperature": 0.5})
    assert answer(ReplayModel.load(log), exact).content == "Hi Jill"


@pytest.mark.parametrize(
    ("asked", "difference"),
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
def test_a_miss_says_which_tool_or_parameter_differs(
    log: Path, recorder: Recorder, asked: ModelRequest, difference: str
) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    recorder.answers(
        jack, recorder.asks(jack, tools=[LOOK], parameters={"temperature": 1.0}), "Hi Jill"
    )
    assert f"the messages are the same, {difference}" in miss(log, asked)


def test_the_order_of_tools_is_part_of_a_request(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "Hi")
    recorder.answers(jack, recorder.asks(jack, tools=[LOOK, TASK]), "Hi Jill")
    assert "the tools differ: in their order" in miss(log, request("Hi", tools=[TASK, LOOK]))


def test_a_miss_shows_the_first_message_that_differs(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.says(jack, "Hi", "Hi Jill")
    recorder.says(jack, "How are you?", "Fine.")
    assert miss(log, request("Hi", assistant("Hi Jill"), "How are they?")) == (
        "replay: no answer to this request of Jack (3 messages); "
        "nearest is msg_007 of Jack (agent_001): "
        "message 2 differs: recorded user 'How are you?', asked user 'How are they?'"
    )


def test_a_miss_shows_a_long_text_from_where_it_differs(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.says(jack, "a" * 500 + "RED" + "b" * 500, "Hi Jill")
    text = miss(log, request("a" * 500 + "BLUE" + "b" * 500))
    assert f"recorded user '...{'a' * 20}RED" in text
    assert f"asked user '...{'a' * 20}BLUE" in text
    assert len(text) < 350


def test_a_miss_shows_white_space_that_differs(log: Path, recorder: Recorder) -> None:
    recorder.says(recorder.born("Jack"), "Hi", "Hi Jill")
    assert r"recorded user 'Hi', asked user 'Hi\n'" in miss(log, request("Hi\n"))


def test_a_miss_shows_calls_errors_and_roles(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    call = Message("assistant", None, [ToolCall("c1", FunctionCall("look", '{"at": 1}'))])
    recorder.says(jack, "Hi", call)
    recorder.says(jack, Message("tool", "dark", tool_call_id="c1", name="look"), "Done")
    other = Message("assistant", None, [ToolCall("c1", FunctionCall("look", '{"at": 2}'))])
    result = Message("tool", "dark", tool_call_id="c1", name="look", is_error=True)
    assert (
        """message 1 differs: recorded assistant 'look({"at": 1})', """
        """asked assistant 'look({"at": 2})'"""
    ) in miss(log, request("Hi", other, result))
    assert "recorded tool 'dark', asked tool '[error] dark'" in miss(
        log, request("Hi", call, result)
    )
    assert "recorded user 'Hi', asked system 'Hi'" in miss(log, request(Message("system", "Hi")))


def test_a_miss_says_where_only_an_image_differs(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.says(
        jack, Message("user", [TextPart("Look"), ImagePart("image/png", "AAAA")]), "A cat"
    )
    asked = request(Message("user", [TextPart("Look"), ImagePart("image/png", "BBBB")]))
    assert miss(log, asked).endswith("message 0 differs in parts that are no text: user 'Look'")


def test_a_miss_says_which_context_is_longer(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    recorder.hears(jack, "system")
    recorder.says(jack, "Hi", "Hi Jill")
    assert miss(log, request("system")).endswith(
        "msg_004 of Jack (agent_001): this context ends before message 1, "
        "the recorded one goes on with user 'Hi'"
    )
    assert miss(log, request("system", "Hi", assistant("Hi Jill"), "Bye")).endswith(
        "msg_004 of Jack (agent_001): the recorded context ends before message 2, "
        "this one goes on with assistant 'Hi Jill'"
    )


def test_the_nearest_request_is_preferably_one_of_the_same_agent(
    log: Path, recorder: Recorder
) -> None:
    recorder.says(recorder.born("Jack"), "You are Jack", "Hi")
    recorder.says(recorder.born("Jill", cause="msg_001"), "You are Jill", "Hi")
    assert "of Jill (agent_002)" in miss(log, request("You are new", agent="Jill"))


def test_the_nearest_request_is_the_one_of_the_most_similar_length(
    log: Path, recorder: Recorder
) -> None:
    jack = recorder.born("Jack")
    for number in range(5):
        recorder.says(jack, f"Hi {number}", "ok")
    ok = assistant("ok")
    text = miss(log, request("Hi 0", ok, "no", ok, "Hi 2", ok, "Hi 3"))
    assert "msg_015 of Jack (agent_001): message 2 differs" in text


def test_a_miss_sees_through_edits_of_the_context(log: Path, recorder: Recorder) -> None:
    jack = recorder.born("Jack")
    for number in range(3):
        recorder.says(jack, f"Hi {number}", "ok")
    recorder.session.append(
        ev.TranscriptEdited(
            agent_id=jack, segments=[ev.Segment(start=0, stop=1), ev.Segment(start=4, stop=6)]
        )
    )
    recorder.says(jack, "last", "ok")
    recorder.says(jack, "very last", "ok")
    ok = assistant("ok")
    text = miss(log, request("Hi 0", "Hi 2", ok, "last", ok, "not the last"))
    assert "message 5 differs: recorded user 'very last', asked user 'not the last'" in text


def test_a_log_without_model_calls_says_so(log: Path, recorder: Recorder) -> None:
    recorder.hears(recorder.born("Jack"), "Hi")
    assert miss(log, request("Hi")).endswith("the log holds no model calls")


def test_a_log_whose_contexts_cannot_be_rebuilt_says_so(log: Path) -> None:
    log.write_text(
        '{"event_type":"llm_request","message_id":"msg_001","agent_id":"agent_001","context":'
        '[{"loaded":"msg_000","start":0,"stop":1}],"count":1,"context_hash":"00","model":"m"}\n'
        '{"event_type":"llm_request","message_id":"msg_002","agent_id":"agent_001","context":'
        '[{"request":"msg_001","start":0,"stop":1}],"count":1,"context_hash":"00","model":"m"}\n'
    )
    assert miss(log, request("Hi")).endswith("can be rebuilt from this log alone")


def test_a_request_whose_tools_are_not_in_the_log_is_never_hit(log: Path) -> None:
    log.write_text(
        '{"event_type":"llm_request","message_id":"msg_001","agent_id":"agent_001","context":[],'
        '"count":0,"context_hash":"","model":"m","tools":"msg_000"}\n'
        '{"event_type":"transcript_entry","message_id":"msg_002","agent_id":"agent_001",'
        '"role":"assistant","content":"Hi"}\n'
        '{"event_type":"llm_response","message_id":"msg_003","agent_id":"agent_001",'
        '"request":"msg_001","entry":"msg_002","stop_reason":"end_turn"}\n'
    )
    assert "msg_001 of agent_001" in miss(log, request())


def test_a_request_that_misstates_its_context_hash_is_told(log: Path, recorder: Recorder) -> None:
    recorder.says(recorder.born("Jack"), "Hi", "Hi Jill")
    wrong = ModelRequest(agent="Jack", messages=[user("Hi")])
    assert "says a context_hash that is not that of its messages" in miss(log, wrong)


def test_a_log_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound):
        ReplayModel.load(tmp_path / "none.jsonl")
    with pytest.raises(InvalidLog):
        ReplayModel.load(tmp_path)


def test_a_session_can_be_replayed_while_it_is_written(log: Path, recorder: Recorder) -> None:
    recorder.says(recorder.born("Jack"), "Hi", "Hi Jill")
    with log.open("ab") as file:
        file.write(b'{"event_type":"transcript_en')
    assert answer(ReplayModel.load(log), request("Hi")).content == "Hi Jill"
