"""Scripted models: the matching rule, its answer, and the error if no rule matches."""

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
from tests.unit.llm.model_kit import (
    accumulate,
    assistant,
    collect_chunks,
    get_answer,
    request,
    user,
)


def text_rule(*rules: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(rules)


def test_first_matching_rule_answers() -> None:
    model = text_rule({"pattern": "Jill", "answer": "one"}, {"answer": "two"}, {"answer": "three"})
    assert get_answer(model, request("Hi Jill")).content == "one"
    assert get_answer(model, request("Hi")).content == "two"


def test_rule_may_match_one_agent_or_a_glob() -> None:
    model = text_rule({"agent": "Jack", "answer": "one"}, {"agent": "Ji*", "answer": "two"})
    assert get_answer(model, request("Hi", agent="Jack")).content == "one"
    assert get_answer(model, request("Hi", agent="Jill")).content == "two"


def test_agent_name_with_glob_characters_matches_literally() -> None:
    model = text_rule({"agent": "Jack [old]", "answer": "yes"})
    assert get_answer(model, request("Hi", agent="Jack [old]")).content == "yes"


def test_pattern_matches_only_the_last_message() -> None:
    model = text_rule({"pattern": "first", "answer": "no"}, {"answer": "yes"})
    assert get_answer(model, request("first", assistant("ok"), "second")).content == "yes"


def test_pattern_matches_tool_results_and_text_parts() -> None:
    model = text_rule({"pattern": "^42$", "answer": "yes"})
    result = Message("tool", [TextPart("42")], tool_call_id="c1", name="sum")
    assert get_answer(model, request("Add", result)).content == "yes"


def test_empty_context_has_an_empty_text() -> None:
    assert get_answer(text_rule({"pattern": "^$", "answer": "yes"}), request()).content == "yes"


def test_turn_is_the_number_of_answers_in_the_context() -> None:
    model = text_rule({"turn": 2, "answer": "again"}, {"answer": "first"})
    assert get_answer(model, request("Hi")).content == "first"
    assert get_answer(model, request("Hi", assistant("first"), "Hi")).content == "again"


def test_scripted_model_has_no_memory() -> None:
    model, model_request = text_rule({"turn": 1, "answer": "first"}), request("Hi")
    assert [get_answer(model, model_request).content for _ in range(2)] == ["first", "first"]


def test_window_on_a_growing_context_is_unchanged() -> None:
    context = [user("Hi"), assistant("first"), user("more")]
    model_request = ModelRequest(agent="Jack", messages=MessageWindow(context, 1))
    model = text_rule({"turn": 1, "pattern": "Hi", "calls": [{"look": {}}]})
    calls = get_answer(model, model_request).tool_calls
    assert calls is not None
    assert calls[0].id == "call_001_0"


def test_answer_streams_word_by_word_and_finishes() -> None:
    assert collect_chunks(text_rule({"answer": "Hi Jill"}), request("")) == [
        TextDelta("Hi "),
        TextDelta("Jill"),
        Finish(stop_reason="end_turn"),
    ]


def test_usage_and_stop_reason_are_those_of_the_rule() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2}
    model = text_rule({"answer": "Hi", "usage": usage, "stop_reason": "max_tokens"})
    assert accumulate(model, request("")).finish == Finish(
        stop_reason="max_tokens", usage=Usage(input_tokens=10, output_tokens=2)
    )


def test_thinking_precedes_the_answer() -> None:
    answer = get_answer(text_rule({"answer": "Hi", "thinking": "be brief"}), request(""))
    assert answer.content == [ThinkingPart("be brief"), TextPart("Hi")]


def test_thinking_may_precede_calls_without_text() -> None:
    answer = get_answer(text_rule({"thinking": "look", "calls": [{"look": {}}]}), request(""))
    assert answer.content == [ThinkingPart("look")]


def test_answer_and_calls_may_be_combined() -> None:
    model = text_rule({"answer": "I ask.", "calls": [{"task": {"name": "Jack"}}, {"look": None}]})
    answer = accumulate(model, request("Hi", assistant("Yes?"), "Go"))
    assert answer.message() == Message(
        "assistant",
        "I ask.",
        [
            ToolCall("call_003_0", FunctionCall("task", '{"name":"Jack"}')),
            ToolCall("call_003_1", FunctionCall("look", "{}")),
        ],
    )
    assert answer.finish == Finish(stop_reason="tool_use")


def test_arguments_of_a_call_stream_in_chunks() -> None:
    model = text_rule({"calls": [{"say": {"text": "one two"}}]})
    assert collect_chunks(model, request(""))[:-1] == [
        ToolCallDelta(0, "", "call_001_0", "say"),
        ToolCallDelta(0, '{"text":"one '),
        ToolCallDelta(0, 'two"}'),
    ]


def test_call_may_have_an_explicit_id() -> None:
    model = text_rule({"calls": [{"tool": "task", "id": "c1", "arguments": {"name": "Jack"}}]})
    assert get_answer(model, request("")).tool_calls == [
        ToolCall("c1", FunctionCall("task", '{"name":"Jack"}'))
    ]


def test_arguments_as_a_string_are_unchanged() -> None:
    answer = get_answer(text_rule({"calls": [{"task": '{"name": '}]}), request(""))
    assert answer.tool_calls == [ToolCall("call_001_0", FunctionCall("task", '{"name": '))]


def test_groups_are_expanded_only_with_expand() -> None:
    rule = {"pattern": r"I am (?P<name>\w+)", "answer": r"Hi \1 \g<name>"}
    assert get_answer(text_rule(rule), request("I am Jack")).content == r"Hi \1 \g<name>"
    assert (
        get_answer(text_rule({**rule, "expand": True}), request("I am Jack")).content
        == "Hi Jack Jack"
    )


def test_error_rule_fails_the_call() -> None:
    with pytest.raises(ModelError, match="overloaded"):
        collect_chunks(text_rule({"error": "overloaded"}), request(""))


def test_error_after_an_answer_keeps_the_received_text() -> None:
    arrived = read_until_error(text_rule({"answer": "Hi J", "error": "overloaded"}), ModelError)
    assert (arrived.text, arrived.finish) == ("Hi J", None)


def read_until_error(model: Model, error: type[Exception]) -> StreamAccumulator:
    result = StreamAccumulator()

    async def read() -> None:
        async for chunk in model.stream(request("")):
            result.add(chunk)

    with pytest.raises(error):
        asyncio.run(read())
    return result


def test_cancelled_answer_keeps_the_received_text() -> None:
    arrived = StreamAccumulator()
    model = text_rule({"answer": " ".join(["word"] * 1000), "delay_s": 20})  # One chunk in 20 ms.

    async def read(started: asyncio.Event) -> None:
        async for chunk in model.stream(request("")):
            arrived.add(chunk)
            started.set()

    async def cancel_after_the_first_piece() -> bool:
        started = asyncio.Event()
        task = asyncio.create_task(read(started))
        await started.wait()
        return await cancel_and_wait(task)

    assert asyncio.run(cancel_after_the_first_piece())
    assert (arrived.message().content, arrived.finish) == ("word ", None)


async def cancel_and_wait(task: asyncio.Task[None]) -> bool:
    """Cancel a task and wait for it. Under coverage, `await` in Python 3.11 loses the exception."""
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


def test_delay_is_spread_over_the_answer() -> None:
    async def measure() -> list[float]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        model = text_rule({"answer": "one two three", "delay_s": 0.04})
        return [loop.time() - started async for _ in model.stream(request(""))]

    times = asyncio.run(measure())
    assert len(times) == 4
    assert all(time >= 0.009 * index for index, time in enumerate(times, 1))


def test_agents_in_an_endless_loop_can_be_cancelled() -> None:
    async def talk_for_ever() -> None:
        while True:
            async for _ in text_rule({"answer": "Hi"}).stream(request("")):
                pass

    async def stop() -> bool:
        task = asyncio.create_task(talk_for_ever())
        await asyncio.sleep(0.01)
        return await cancel_and_wait(task)

    assert asyncio.run(stop())


def missing_rule_error(model: ScriptedModel, model_request: ModelRequest) -> str:
    with pytest.raises(ScriptError) as caught:
        collect_chunks(model, model_request)
    return str(caught.value)


def test_missing_rule_error_names_agent_text_and_rules() -> None:
    model = text_rule(
        {"agent": "Jack", "pattern": "bye", "answer": "Bye"},
        {"agent": "Jill", "answer": "Hi"},
        {"turn": 3, "answer": "Hi"},
    )
    assert missing_rule_error(model, request("Hi\nJack")) == (
        "scripted: no rule for answer 1 of Jack to 'Hi Jack'; "
        "for Jack there is rule 1 (pattern 'bye'), rule 3 (turn 3)"
    )


def test_missing_rule_error_names_the_agents_that_have_rules() -> None:
    model = text_rule({"agent": "Jill", "answer": "a"}, {"agent": "J?", "answer": "b"})
    assert missing_rule_error(model, request("Hi")).endswith(
        "no rule is for Jack, they are for Jill, J?"
    )
    assert missing_rule_error(text_rule(), request("Hi")).endswith(
        "no rule is for Jack, they are for nobody"
    )


def test_missing_rule_error_is_one_short_line() -> None:
    text = missing_rule_error(
        text_rule(*[{"turn": 9, "answer": "a"}] * 20), request("long\n" * 1000)
    )
    assert "\n" not in text
    assert len(text) < 400


def test_malformed_rule_in_python_is_named_by_its_number() -> None:
    with pytest.raises(ScriptError, match="scripted: rule 2: a rule has no key 'anser'"):
        text_rule({"answer": "Hi"}, {"anser": "Hi"})


def test_rules_may_be_objects() -> None:
    model = ScriptedModel([ScriptRule(pattern=re.compile("hi", re.IGNORECASE), answer="Ho")])
    assert get_answer(model, request("Hi")).content == "Ho"
