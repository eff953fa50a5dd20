"""Models behind a network, asked for real: what goes out, what comes back, what the log says."""

from __future__ import annotations

import asyncio
import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harken import tool
from harken.core.events import Usage
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.core.stream import StreamAccumulator
from harken.formats.providers import anthropic, openai_chat
from harken.llm.anthropic import MAX_TOKENS, AnthropicModel
from harken.llm.base import ModelRequest
from harken.llm.openai import OpenAIModel
from harken.llm.replay import ReplayLog
from harken.testing import request_of
from tests.agent_kit import check_log, open_stage, run
from tests.provider import checks
from tests.provider.server import Answer, Provider
from tests.provider.wire import ANTHROPIC, KEY, OPENAI, WIRES, Wire, endpoint
from tests.unit.formats.contexts import PNG, flat

every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


@tool(reads_only=True)
def look(at: str) -> list[TextPart | ImagePart]:
    """Look at something."""
    return [TextPart(f"Here is {at}.", {"files": {at: "0f"}}), ImagePart("image/png", PNG)]


@tool
def wait(minutes: int) -> str:
    """Wait."""
    return f"{minutes} minutes later."


def drafted(model: AnthropicModel | OpenAIModel, asked: ModelRequest) -> StreamAccumulator:
    async def collect() -> StreamAccumulator:
        draft = StreamAccumulator()
        async for chunk in model.stream(asked):
            draft.add(chunk)
        return draft

    return asyncio.run(collect())


def call(name: str, id_: str, **arguments: Any) -> ToolCall:
    return ToolCall(id_, FunctionCall(name, json.dumps(arguments)))


THOUGHT = ThinkingPart("I should look first.", {"signature": "c2lnbmF0dXJl"})
ACTED = Message(
    "assistant",
    [THOUGHT, TextPart("I look and wait.")],
    [call("look", "c1", at="the door"), call("wait", "c2", minutes=5)],
)


@every_wire
@pytest.mark.req("S0-22")
def test_the_request_on_the_wire_is_the_logged_context(tmp_path: Path, wire: Wire) -> None:
    """Of every request, in a conversation with thinking, calls in pieces and images."""
    again = Message("assistant", None, [call("wait", "c3", minutes=1)])
    answers: list[str | Message] = [ACTED, "It is Jill.", again, "Still Jill."]
    with Provider([wire.answer(said) for said in answers]) as provider:
        play = open_stage(tmp_path, wire.model(provider), tools=[look, wait])
        play.ask("Who is at the door?")
        assert play.resume().ask("And now?") == "Still Jill."
    check_log(play.log)
    recording = ReplayLog.read(play.log)
    requests = [*recording.requests.values()]
    assert len(requests) == len(provider.bodies) == 4
    for request, body in zip(requests, provider.bodies, strict=True):
        assert _said(wire, body) == _logged(wire, recording.context(request))
        _check(wire, body)
        assert "files" not in json.dumps(body["messages"]), "bookkeeping is not sent"
        assert [tool.get("name", tool.get("function", {}).get("name")) for tool in body["tools"]]


def _check(wire: Wire, body: Any) -> None:
    check = checks.check_anthropic if wire is ANTHROPIC else checks.check_openai
    check(body)


def _said(wire: Wire, body: Any) -> Any:
    if wire is ANTHROPIC:
        return flat(anthropic.parse_request_messages(body))
    return flat(openai_chat.parse_request_messages(body), with_thinking=False)


def _logged(wire: Wire, context: Any) -> Any:
    """Say what is logged, as far as the wire can; images of results are the user's for OpenAI."""
    if wire is ANTHROPIC:
        return flat(context)
    return flat(
        openai_chat.parse_request_messages(openai_chat.build_request_body(context)),
        with_thinking=False,
    )


@every_wire
def test_a_server_that_repeats_its_ids_is_asked_with_ids_of_our_own(
    tmp_path: Path, wire: Wire
) -> None:
    acted = Message("assistant", None, [call("wait", "c1", minutes=1)])
    with Provider([wire.answer(said) for said in (acted, acted, acted, "Done.")]) as provider:
        play = open_stage(tmp_path, wire.model(provider), tools=[wait])
        assert play.ask("Wait.") == "Done."
    for body in provider.bodies:
        _check(wire, body)
    assert [row["tool_call_id"] for row in play.select_lines(role="tool")] == ["c1", "c1", "c1"]


@every_wire
def test_a_request_begins_as_the_one_before_it(tmp_path: Path, wire: Wire) -> None:
    """Byte by byte, marks aside: that is what a provider's cache needs."""
    answers: list[str | Message] = [ACTED, "It is Jill.", "Bye."]
    with Provider([wire.answer(said) for said in answers]) as provider:
        play = open_stage(tmp_path, wire.model(provider), tools=[look, wait])
        play.ask("Who is at the door?")
        play.resume().ask("And now?")
    for before, after in pairwise(provider.bodies):
        assert before["tools"] == after["tools"]
        one, two = (_unmarked(body["messages"]) for body in (before, after))
        assert two[: len(one)] == one


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [*map(_unmarked, value)] if isinstance(value, list) else value


@pytest.mark.req("S0-22")
def test_thinking_goes_back_unchanged(tmp_path: Path) -> None:
    redacted = UnknownPart("redacted_thinking", '{"type":"redacted_thinking","data":"x=="}')
    acted = Message("assistant", [THOUGHT, redacted], [call("wait", "c1", minutes=1)])
    with Provider([ANTHROPIC.answer(acted), ANTHROPIC.answer("Done.")]) as provider:
        open_stage(tmp_path, ANTHROPIC.model(provider), tools=[wait]).ask("Wait.")
    assert provider.bodies[1]["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": THOUGHT.text, "signature": "c2lnbmF0dXJl"},
        {"type": "redacted_thinking", "data": "x=="},
    ]


def test_after_a_change_of_the_model_each_gets_back_what_it_thought_itself() -> None:
    """Claude, then GPT, then another Claude, then the first one again."""
    with Provider([ANTHROPIC.answer(ACTED)]) as provider:
        first = AnthropicModel("a/one", "claude-one", endpoint=endpoint(provider))
        said = drafted(first, request_of("Look.")).message()
    results = [Message("tool", "a door", tool_call_id=id_) for id_ in ("c1", "c2")]
    context = [Message("user", "Look."), said, *results]
    kinds = {
        model: [block["type"] for block in sent["messages"][1]["content"]]
        for model in ("claude-one", "claude-two")
        for sent in [anthropic.build_request_body(context, model=model)]
    }
    assert kinds["claude-one"] == ["thinking", "text", "tool_use", "tool_use"]
    assert kinds["claude-two"] == ["text", "tool_use", "tool_use"]
    checks.check_openai(openai_chat.build_request_body(context, model="gpt"))


def test_a_server_that_wants_its_thinking_back_gets_it(tmp_path: Path) -> None:
    with Provider([OPENAI.answer(ACTED), OPENAI.answer("Done.")]) as provider:
        open_stage(tmp_path, OPENAI.model(provider), tools=[look, wait]).ask("Wait.")
    assert provider.bodies[1]["messages"][2]["reasoning_content"] == THOUGHT.text


@every_wire
@pytest.mark.req("S0-22")
def test_the_log_has_the_usage_with_the_cached_part_of_it_and_the_cost(
    tmp_path: Path, wire: Wire
) -> None:
    usage, priced = Usage(1000, 50, 700, 200), []

    def cost(used: Usage, model: str) -> float | None:
        priced.append((used, model))
        return None if model == "test-1-2026" else 0.5

    with Provider([wire.answer("Hi.", usage=usage, model="test-1-2026")]) as provider:
        base = "" if wire is ANTHROPIC else "/v1"
        kind = AnthropicModel if wire is ANTHROPIC else OpenAIModel
        model = kind("x/test-1", "test-1", endpoint=endpoint(provider, base), cost=cost)
        play = open_stage(tmp_path, model)
        play.ask("Hi!")
    [row] = play.select_lines(event_type="llm_response")
    assert row["usage"] == {
        "input_tokens": 1000,
        "output_tokens": 50,
        "cache_read_tokens": 700,
        "cache_write_tokens": 200,
    }
    assert (row["model"], row["cost_usd"]) == ("test-1-2026", 0.5)
    assert priced == [(usage, "test-1-2026"), (usage, "test-1")], "who answered, then who was asked"


def test_what_was_billed_in_another_way_has_no_known_cost() -> None:
    flex = OPENAI.events("Hi.")[-2].replace(b'"usage": {', b'"service_tier": "flex", "usage": {')
    with Provider([Answer([*OPENAI.events("Hi.")[:-2], flex])]) as provider:
        at = endpoint(provider, "/v1")
        model = OpenAIModel("x/test-1", "test-1", endpoint=at, cost=lambda *_: 0.5)
        finish = drafted(model, request_of("Hi!")).finish
    assert finish is not None
    assert finish.usage is not None
    assert finish.cost_usd is None


@every_wire
def test_a_cost_that_nobody_knows_is_none(tmp_path: Path, wire: Wire) -> None:
    with Provider([wire.answer("Hi.")]) as provider:
        kind = AnthropicModel if wire is ANTHROPIC else OpenAIModel
        where = endpoint(provider, "" if wire is ANTHROPIC else "/v1")
        play = open_stage(
            tmp_path, kind("x/y", "y", endpoint=where, cost=lambda usage, model: None)
        )
        play.ask("Hi!")
    assert "cost_usd" not in play.select_lines(event_type="llm_response")[0]


@every_wire
@pytest.mark.req("S0-22")
def test_a_cancelled_answer_keeps_its_text_and_closes_the_connection(
    tmp_path: Path, wire: Wire
) -> None:
    events = wire.events("It is Jack, and he is very late.")
    begun = Answer([*events[: len(events) // 2], "hang"])
    with Provider([begun, wire.answer("Jill.")]) as provider:
        play = open_stage(tmp_path, wire.model(provider))

        async def interrupted() -> None:
            answering = asyncio.create_task(play.root.response("Who is it?"))
            while not provider.asked or not any(row for row in play.session.state.requests):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            answering.cancel()
            await asyncio.wait([answering])
            assert answering.cancelled()

        run(interrupted())
        assert provider.asked[0].left.wait(2), "the connection is closed"
        [said] = play.select_lines(role="assistant")
        assert "It is Jack, and he is very late.".startswith(said["content"])
        assert len(said["content"]) > 5
        assert play.resume().ask("Once more?") == "Jill."
    check_log(play.log)


@every_wire
def test_one_model_serves_several_event_loops_and_keeps_its_connection_in_each(wire: Wire) -> None:
    async def ask_twice() -> list[Any]:
        return [[chunk async for chunk in model.stream(request_of("Hi"))] for _ in range(2)]

    with Provider(lambda asked: wire.answer("Hi.")) as provider:
        model = wire.model(provider)
        assert len({repr(said) for _ in range(3) for said in run(ask_twice())}) == 1
    assert provider.connections == 3


@every_wire
def test_several_agents_may_ask_at_once(wire: Wire) -> None:
    async def ask(model: Any) -> int:
        streams = [[c async for c in model.stream(request_of("Hi"))] for _ in range(2)]
        return len(streams)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(ask(model) for _ in range(8)))

    with Provider(lambda asked: wire.answer("Hi.")) as provider:
        model = wire.model(provider)
        assert run(all_at_once()) == [2] * 8


def sent(wire: Wire, **parameters: Any) -> Any:
    """Return the body of a request with these parameters."""
    with Provider([wire.answer("Hi.")]) as provider:
        model = wire.model(provider)

        async def ask() -> None:
            async for _ in model.stream(request_of("Hi", parameters=parameters)):
                pass

        run(ask())
    return provider.bodies[0]


@every_wire
def test_parameters_are_sent_as_they_are_and_none_is_left_out(wire: Wire) -> None:
    odd = {"thinking": {"type": "adaptive"}, "temperature": 0.5, "mirostat": 2, "top_p": None}
    body = sent(wire, **odd)
    assert {name: body.get(name) for name in odd} == odd
    assert "top_p" not in body
    assert (body["model"], body["stream"]) == ("test-1", True)


@every_wire
def test_parameters_cannot_change_what_was_said(wire: Wire) -> None:
    body = sent(wire, messages=[], stream=False, model="another")
    assert body["messages"]
    assert body["model"] == "test-1"
    assert body["stream"] is True


@every_wire
def test_headers_of_an_endpoint_are_sent_and_the_key_only_as_one(wire: Wire) -> None:
    with Provider([wire.answer("Hi.")]) as provider:
        model = wire.model(provider, headers={"X-Title": "Harken"})

        async def ask() -> None:
            async for _ in model.stream(request_of("Hi")):
                pass

        run(ask())
    [asked] = provider.asked
    assert asked.headers["x-title"] == "Harken"
    assert KEY not in f"{asked.path} {asked.headers} {asked.body}"
    assert asked.path == wire.path


def test_anthropic_is_told_a_limit_that_all_its_models_have() -> None:
    assert sent(ANTHROPIC)["max_tokens"] == MAX_TOKENS
    assert sent(ANTHROPIC, max_tokens=5)["max_tokens"] == 5


def test_openai_is_asked_for_usage_unless_told_otherwise() -> None:
    assert sent(OPENAI)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in sent(OPENAI, stream_options=None)


def test_breakpoints_can_be_left_to_the_provider() -> None:
    assert "cache_control" in str(sent(ANTHROPIC)["messages"])
    body = sent(ANTHROPIC, cache_control={"type": "ephemeral"})
    assert body["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(body["messages"])
    assert "cache_control" not in str(sent(ANTHROPIC, cache_control=None))


@every_wire
def test_waiting_that_is_no_number_is_left_to_the_sdk(wire: Wire) -> None:
    busy = wire.error(429, "later", retry_after="0.001", retry_after_ms="soon")
    with Provider([busy, wire.answer("Hi.")]) as provider:
        model = wire.model(provider, max_retries=1)

        async def ask() -> Any:
            return [chunk async for chunk in model.stream(request_of("Hi"))]

        assert run(ask())


@every_wire
@pytest.mark.parametrize("then", ["hang", "cut"])
@pytest.mark.parametrize("lost", [0, 1])
def test_an_answer_that_has_ended_is_whole_whatever_the_connection_does_then(
    wire: Wire, then: Any, lost: int
) -> None:
    """Also where its very last event, which says nothing new, is lost."""
    events = wire.events("Hi.")
    with Provider([Answer([*events[: len(events) - lost], then])]) as provider:
        model = wire.model(provider, timeout_s=0.2 if lost else 10)

        async def ask() -> Any:
            return [chunk async for chunk in model.stream(request_of("Hi"))][-1]

        assert run(ask()).stop_reason in ("end_turn", "stop")


def test_images_of_a_user_are_sent_as_images() -> None:
    assert base64.b64decode(PNG)
    asked = Message("user", [TextPart("What is it?"), ImagePart("image/png", PNG)])
    for wire in WIRES:
        with Provider([wire.answer("A dot.")]) as provider:
            model = wire.model(provider)

            async def ask(model: Any = model) -> None:
                async for _ in model.stream(request_of(asked)):
                    pass

            run(ask())
        assert PNG in json.dumps(provider.bodies[0])
