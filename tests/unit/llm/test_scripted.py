"""Scripted models: which rule answers, what it says, and what is said where none does."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall
from harken.core.stream import Finish, StreamAccumulator, TextDelta, ToolCallDelta
from harken.errors import ModelError, ScriptError
from harken.llm.base import MessageWindow, Model, ModelRequest
from harken.llm.scripted import ScriptedModel, ScriptRule
from tests.unit.llm.asking import answer, assistant, chunks, draft, request, user


def says(*rules: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(rules)


def test_the_first_rule_that_fits_answers() -> None:
    model = says({"pattern": "Jill", "answer": "one"}, {"answer": "two"}, {"answer": "three"})
    assert answer(model, request("Hi Jill")).content == "one"
    assert answer(model, request("Hi")).content == "two"


def test_a_rule_may_be_for_one_agent_or_for_a_glob() -> None:
    model = says({"agent": "Jack", "answer": "one"}, {"agent": "Ji*", "answer": "two"})
    assert answer(model, request("Hi", agent="Jack")).content == "one"
    assert answer(model, request("Hi", agent="Jill")).content == "two"


def test_a_name_with_the_letters_of_a_glob_is_still_a_name() -> None:
    model = says({"agent": "Jack [old]", "answer": "yes"})
    assert answer(model, request("Hi", agent="Jack [old]")).content == "yes"


def test_a_pattern_sees_the_text_of_the_last_message_alone() -> None:
    model = says({"pattern": "first", "answer": "no"}, {"answer": "yes"})
    assert answer(model, request("first", assistant("ok"), "second")).content == "yes"


def test_a_pattern_sees_tool_results_and_text_parts() -> None:
    model = says({"pattern": "^42$", "answer": "yes"})
    result = Message("tool", [TextPart("42")], tool_call_id="c1", name="sum")
    assert answer(model, request("Add", result)).content == "yes"


def test_an_empty_context_is_an_empty_text() -> None:
    assert answer(says({"pattern": "^$", "answer": "yes"}), request()).content == "yes"


def test_a_turn_counts_the_answers_in_the_context() -> None:
    model = says({"turn": 2, "answer": "again"}, {"answer": "first"})
    assert answer(model, request("Hi")).content == "first"
    assert answer(model, request("Hi", assistant("first"), "Hi")).content == "again"


def test_the_model_remembers_nothing() -> None:
    model, asked = says({"turn": 1, "answer": "first"}), request("Hi")
    assert [answer(model, asked).content for _ in range(2)] == ["first", "first"]


def test_a_window_on_a_growing_context_is_what_it_was() -> None:
    context = [user("Hi"), assistant("first"), user("more")]
    asked = ModelRequest(agent="Jack", messages=MessageWindow(context, 1))
    model = says({"turn": 1, "pattern": "Hi", "calls": [{"look": {}}]})
    calls = answer(model, asked).tool_calls
    assert calls is not None
    assert calls[0].id == "call_001_0"


def test_an_answer_streams_word_by_word_and_finishes() -> None:
    assert chunks(says({"answer": "Hi Jill"}), request("")) == [
        TextDelta("Hi "),
        TextDelta("Jill"),
        Finish(stop_reason="end_turn"),
    ]


def test_usage_and_stop_reason_are_those_of_the_rule() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2}
    model = says({"answer": "Hi", "usage": usage, "stop_reason": "max_tokens"})
    assert draft(model, request("")).finish == Finish(
        stop_reason="max_tokens", usage=Usage(input_tokens=10, output_tokens=2)
    )


def test_thinking_comes_before_the_answer() -> None:
    said = answer(says({"answer": "Hi", "thinking": "be brief"}), request(""))
    assert said.content == [ThinkingPart("be brief"), TextPart("Hi")]


def test_thinking_may_come_before_calls_alone() -> None:
    said = answer(says({"thinking": "look", "calls": [{"look": {}}]}), request(""))
    assert said.content == [ThinkingPart("look")]


def test_an_answer_and_calls_may_come_together() -> None:
    model = says({"answer": "I ask.", "calls": [{"task": {"name": "Jack"}}, {"look": None}]})
    said = draft(model, request("Hi", assistant("Yes?"), "Go"))
    assert said.message() == Message(
        "assistant",
        "I ask.",
        [
            ToolCall("call_003_0", FunctionCall("task", '{"name":"Jack"}')),
            ToolCall("call_003_1", FunctionCall("look", "{}")),
        ],
    )
    assert said.finish == Finish(stop_reason="tool_use")


def test_the_arguments_of_a_call_stream_in_pieces() -> None:
    model = says({"calls": [{"say": {"text": "one two"}}]})
    assert chunks(model, request(""))[:-1] == [
        ToolCallDelta(0, "", "call_001_0", "say"),
        ToolCallDelta(0, '{"text":"one '),
        ToolCallDelta(0, 'two"}'),
    ]


def test_a_call_may_have_an_id_of_its_own() -> None:
    model = says({"calls": [{"tool": "task", "id": "c1", "arguments": {"name": "Jack"}}]})
    assert answer(model, request("")).tool_calls == [
        ToolCall("c1", FunctionCall("task", '{"name":"Jack"}'))
    ]


def test_arguments_given_as_a_text_stand_as_they_are() -> None:
    said = answer(says({"calls": [{"task": '{"name": '}]}), request(""))
    assert said.tool_calls == [ToolCall("call_001_0", FunctionCall("task", '{"name": '))]


def test_groups_stand_in_an_answer_only_where_it_says_expand() -> None:
    rule = {"pattern": r"I am (?P<name>\w+)", "answer": r"Hi \1 \g<name>"}
    assert answer(says(rule), request("I am Jack")).content == r"Hi \1 \g<name>"
    assert answer(says({**rule, "expand": True}), request("I am Jack")).content == "Hi Jack Jack"


def test_an_error_is_the_failure_of_the_call() -> None:
    with pytest.raises(ModelError, match="overloaded"):
        chunks(says({"error": "overloaded"}), request(""))


def test_an_error_after_an_answer_leaves_what_had_arrived() -> None:
    arrived = read_until_it_breaks(says({"answer": "Hi J", "error": "overloaded"}), ModelError)
    assert (arrived.text, arrived.finish) == ("Hi J", None)


def read_until_it_breaks(model: Model, error: type[Exception]) -> StreamAccumulator:
    result = StreamAccumulator()

    async def read() -> None:
        async for chunk in model.stream(request("")):
            result.add(chunk)

    with pytest.raises(error):
        asyncio.run(read())
    return result


def test_a_cancelled_answer_leaves_what_had_arrived() -> None:
    arrived = StreamAccumulator()
    model = says({"answer": " ".join(["word"] * 1000), "delay_s": 20})  # a piece in 20 ms

    async def read(seen: asyncio.Event) -> None:
        async for chunk in model.stream(request("")):
            arrived.add(chunk)
            seen.set()

    async def cancel_after_the_first_piece() -> bool:
        seen = asyncio.Event()
        task = asyncio.create_task(read(seen))
        await seen.wait()
        return await cancelled(task)

    assert asyncio.run(cancel_after_the_first_piece())
    assert (arrived.message().content, arrived.finish) == ("word ", None)


async def cancelled(task: asyncio.Task[None]) -> bool:
    """Cancel a task. Not by awaiting it: Python 3.11 under coverage loses that exception."""
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


def test_a_delay_is_spread_over_the_answer() -> None:
    async def measure() -> list[float]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        model = says({"answer": "one two three", "delay_s": 0.04})
        return [loop.time() - started async for _ in model.stream(request(""))]

    times = asyncio.run(measure())
    assert len(times) == 4
    assert all(time >= 0.009 * at for at, time in enumerate(times, 1))


def test_agents_that_never_stop_can_be_cancelled() -> None:
    async def talk_for_ever() -> None:
        while True:
            async for _ in says({"answer": "Hi"}).stream(request("")):
                pass

    async def stop() -> bool:
        task = asyncio.create_task(talk_for_ever())
        await asyncio.sleep(0.01)
        return await cancelled(task)

    assert asyncio.run(stop())


def missing(model: ScriptedModel, asked: ModelRequest) -> str:
    with pytest.raises(ScriptError) as caught:
        chunks(model, asked)
    return str(caught.value)


def test_a_missing_rule_names_the_agent_the_text_and_its_rules() -> None:
    model = says(
        {"agent": "Jack", "pattern": "bye", "answer": "Bye"},
        {"agent": "Jill", "answer": "Hi"},
        {"turn": 3, "answer": "Hi"},
    )
    assert missing(model, request("Hi\nJack")) == (
        "scripted: no rule for answer 1 of Jack to 'Hi Jack'; "
        "for Jack there is rule 1 (pattern 'bye'), rule 3 (turn 3)"
    )


def test_a_missing_rule_for_an_agent_without_any_names_the_agents_that_have_some() -> None:
    model = says({"agent": "Jill", "answer": "a"}, {"agent": "J?", "answer": "b"})
    assert missing(model, request("Hi")).endswith("no rule is for Jack, they are for Jill, J?")
    assert missing(says(), request("Hi")).endswith("no rule is for Jack, they are for nobody")


def test_a_missing_rule_stays_one_short_line() -> None:
    text = missing(says(*[{"turn": 9, "answer": "a"}] * 20), request("long\n" * 1000))
    assert "\n" not in text
    assert len(text) < 400


def test_a_malformed_rule_in_python_is_named_by_its_number() -> None:
    with pytest.raises(ScriptError, match="scripted: rule 2: a rule has no key 'anser'"):
        says({"answer": "Hi"}, {"anser": "Hi"})


def test_rules_may_be_given_as_objects() -> None:
    model = ScriptedModel([ScriptRule(pattern=re.compile("hi", re.IGNORECASE), answer="Ho")])
    assert answer(model, request("Hi")).content == "Ho"
