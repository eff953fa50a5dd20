"""Models of remote providers over real connections: requests, responses and the log."""

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
from tests.unit.formats.context_kit import PNG, flatten

every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


@tool(reads_only=True)
def look(at: str) -> list[TextPart | ImagePart]:
    """Look at something."""
    return [TextPart(f"Here is {at}.", {"files": {at: "0f"}}), ImagePart("image/png", PNG)]


@tool
def wait(minutes: int) -> str:
    """Wait."""
    return f"{minutes} minutes later."


def accumulate(
    model: AnthropicModel | OpenAIModel, model_request: ModelRequest
) -> StreamAccumulator:
    async def collect() -> StreamAccumulator:
        draft = StreamAccumulator()
        async for chunk in model.stream(model_request):
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
def test_request_on_the_wire_equals_the_logged_context(tmp_path: Path, wire: Wire) -> None:
    """For each request in a conversation with thinking, calls in chunks and images."""
    repeated = Message("assistant", None, [call("wait", "c3", minutes=1)])
    answers: list[str | Message] = [ACTED, "It is Jill.", repeated, "Still Jill."]
    with Provider([wire.answer(answer) for answer in answers]) as provider:
        play = open_stage(tmp_path, wire.model(provider), tools=[look, wait])
        play.ask("Who is at the door?")
        assert play.resume().ask("And now?") == "Still Jill."
    check_log(play.log)
    recording = ReplayLog.read(play.log)
    requests = [*recording.requests.values()]
    assert len(requests) == len(provider.bodies) == 4
    for request, body in zip(requests, provider.bodies, strict=True):
        assert _content_on_the_wire(wire, body) == _content_in_the_log(
            wire, recording.context(request)
        )
        _check(wire, body)
        assert "files" not in json.dumps(body["messages"]), "bookkeeping is not sent"
        assert [tool.get("name", tool.get("function", {}).get("name")) for tool in body["tools"]]


def _check(wire: Wire, body: Any) -> None:
    check = checks.check_anthropic if wire is ANTHROPIC else checks.check_openai
    check(body)


def _content_on_the_wire(wire: Wire, body: Any) -> Any:
    if wire is ANTHROPIC:
        return flatten(anthropic.parse_request_messages(body))
    return flatten(openai_chat.parse_request_messages(body), with_thinking=False)


def _content_in_the_log(wire: Wire, context: Any) -> Any:
    """Return the logged content as far as the wire can represent it. OpenAI gets images of results from the user."""
    if wire is ANTHROPIC:
        return flatten(context)
    return flatten(
        openai_chat.parse_request_messages(openai_chat.build_request_body(context)),
        with_thinking=False,
    )


@every_wire
def test_server_that_repeats_call_ids_gets_generated_ids(tmp_path: Path, wire: Wire) -> None:
    acted = Message("assistant", None, [call("wait", "c1", minutes=1)])
    with Provider([wire.answer(answer) for answer in (acted, acted, acted, "Done.")]) as provider:
        play = open_stage(tmp_path, wire.model(provider), tools=[wait])
        assert play.ask("Wait.") == "Done."
    for body in provider.bodies:
        _check(wire, body)
    assert [row["tool_call_id"] for row in play.select_lines(role="tool")] == ["c1", "c1", "c1"]


@every_wire
def test_request_starts_with_the_bytes_of_the_previous_one(tmp_path: Path, wire: Wire) -> None:
    """Except for cache marks. The provider's cache requires this."""
    answers: list[str | Message] = [ACTED, "It is Jill.", "Bye."]
    with Provider([wire.answer(answer) for answer in answers]) as provider:
        play = open_stage(tmp_path, wire.model(provider), tools=[look, wait])
        play.ask("Who is at the door?")
        play.resume().ask("And now?")
    for before, after in pairwise(provider.bodies):
        assert before["tools"] == after["tools"]
        first, two = (_without_cache_marks(body["messages"]) for body in (before, after))
        assert two[: len(first)] == first


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_cache_marks(v) for k, v in value.items() if k != "cache_control"}
    return [*map(_without_cache_marks, value)] if isinstance(value, list) else value


@pytest.mark.req("S0-22")
def test_thinking_is_sent_back_unchanged(tmp_path: Path) -> None:
    redacted = UnknownPart("redacted_thinking", '{"type":"redacted_thinking","data":"x=="}')
    acted = Message("assistant", [THOUGHT, redacted], [call("wait", "c1", minutes=1)])
    with Provider([ANTHROPIC.answer(acted), ANTHROPIC.answer("Done.")]) as provider:
        open_stage(tmp_path, ANTHROPIC.model(provider), tools=[wait]).ask("Wait.")
    assert provider.bodies[1]["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": THOUGHT.text, "signature": "c2lnbmF0dXJl"},
        {"type": "redacted_thinking", "data": "x=="},
    ]


def test_each_model_gets_only_its_own_thinking_after_a_change_of_model() -> None:
    """Claude, then GPT, then another Claude, then the first one again."""
    with Provider([ANTHROPIC.answer(ACTED)]) as provider:
        first = AnthropicModel("a/one", "claude-one", endpoint=endpoint(provider))
        answer = accumulate(first, request_of("Look.")).message()
    results = [Message("tool", "a door", tool_call_id=id_) for id_ in ("c1", "c2")]
    context = [Message("user", "Look."), answer, *results]
    kinds = {
        model: [block["type"] for block in body["messages"][1]["content"]]
        for model in ("claude-one", "claude-two")
        for body in [anthropic.build_request_body(context, model=model)]
    }
    assert kinds["claude-one"] == ["thinking", "text", "tool_use", "tool_use"]
    assert kinds["claude-two"] == ["text", "tool_use", "tool_use"]
    checks.check_openai(openai_chat.build_request_body(context, model="gpt"))


def test_server_that_requires_its_thinking_gets_it(tmp_path: Path) -> None:
    with Provider([OPENAI.answer(ACTED), OPENAI.answer("Done.")]) as provider:
        open_stage(tmp_path, OPENAI.model(provider), tools=[look, wait]).ask("Wait.")
    assert provider.bodies[1]["messages"][2]["reasoning_content"] == THOUGHT.text


@every_wire
@pytest.mark.req("S0-22")
def test_log_has_the_usage_with_cached_tokens_and_the_cost(tmp_path: Path, wire: Wire) -> None:
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


def test_differently_billed_usage_has_no_known_cost() -> None:
    flex = OPENAI.events("Hi.")[-2].replace(b'"usage": {', b'"service_tier": "flex", "usage": {')
    with Provider([Answer([*OPENAI.events("Hi.")[:-2], flex])]) as provider:
        model_endpoint = endpoint(provider, "/v1")
        model = OpenAIModel("x/test-1", "test-1", endpoint=model_endpoint, cost=lambda *_: 0.5)
        finish = accumulate(model, request_of("Hi!")).finish
    assert finish is not None
    assert finish.usage is not None
    assert finish.cost_usd is None


@every_wire
def test_unknown_cost_is_none(tmp_path: Path, wire: Wire) -> None:
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
def test_cancelled_answer_keeps_its_text_and_closes_the_connection(
    tmp_path: Path, wire: Wire
) -> None:
    events = wire.events("It is Jack, and he is very late.")
    partial = Answer([*events[: len(events) // 2], "hang"])
    with Provider([partial, wire.answer("Jill.")]) as provider:
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
        [answer] = play.select_lines(role="assistant")
        assert "It is Jack, and he is very late.".startswith(answer["content"])
        assert len(answer["content"]) > 5
        assert play.resume().ask("Once more?") == "Jill."
    check_log(play.log)


@every_wire
def test_model_serves_several_event_loops_with_one_connection_each(wire: Wire) -> None:
    async def ask_twice() -> list[Any]:
        return [[chunk async for chunk in model.stream(request_of("Hi"))] for _ in range(2)]

    with Provider(lambda received: wire.answer("Hi.")) as provider:
        model = wire.model(provider)
        assert len({repr(answer) for _ in range(3) for answer in run(ask_twice())}) == 1
    assert provider.connections == 3


@every_wire
def test_several_agents_may_call_a_model_at_once(wire: Wire) -> None:
    async def ask(model: Any) -> int:
        streams = [[c async for c in model.stream(request_of("Hi"))] for _ in range(2)]
        return len(streams)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(ask(model) for _ in range(8)))

    with Provider(lambda received: wire.answer("Hi.")) as provider:
        model = wire.model(provider)
        assert run(all_at_once()) == [2] * 8


def sent_body(wire: Wire, **parameters: Any) -> Any:
    """Return the body of a request with these parameters."""
    with Provider([wire.answer("Hi.")]) as provider:
        model = wire.model(provider)

        async def ask() -> None:
            async for _ in model.stream(request_of("Hi", parameters=parameters)):
                pass

        run(ask())
    return provider.bodies[0]


@every_wire
def test_parameters_are_sent_unchanged_and_complete(wire: Wire) -> None:
    unusual = {"thinking": {"type": "adaptive"}, "temperature": 0.5, "mirostat": 2, "top_p": None}
    body = sent_body(wire, **unusual)
    assert {name: body.get(name) for name in unusual} == unusual
    assert "top_p" not in body
    assert (body["model"], body["stream"]) == ("test-1", True)


@every_wire
def test_parameters_cannot_replace_the_messages(wire: Wire) -> None:
    body = sent_body(wire, messages=[], stream=False, model="another")
    assert body["messages"]
    assert body["model"] == "test-1"
    assert body["stream"] is True


@every_wire
def test_endpoint_headers_are_sent_and_the_key_only_once(wire: Wire) -> None:
    with Provider([wire.answer("Hi.")]) as provider:
        model = wire.model(provider, headers={"X-Title": "Harken"})

        async def ask() -> None:
            async for _ in model.stream(request_of("Hi")):
                pass

        run(ask())
    [received] = provider.asked
    assert received.headers["x-title"] == "Harken"
    assert KEY not in f"{received.path} {received.headers} {received.body}"
    assert received.path == wire.path


def test_anthropic_gets_a_token_limit_that_all_its_models_accept() -> None:
    assert sent_body(ANTHROPIC)["max_tokens"] == MAX_TOKENS
    assert sent_body(ANTHROPIC, max_tokens=5)["max_tokens"] == 5


def test_openai_request_asks_for_usage_unless_disabled() -> None:
    assert sent_body(OPENAI)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in sent_body(OPENAI, stream_options=None)


def test_cache_breakpoints_can_be_disabled() -> None:
    assert "cache_control" in str(sent_body(ANTHROPIC)["messages"])
    body = sent_body(ANTHROPIC, cache_control={"type": "ephemeral"})
    assert body["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(body["messages"])
    assert "cache_control" not in str(sent_body(ANTHROPIC, cache_control=None))


@every_wire
def test_timeout_of_none_uses_the_default_of_the_sdk(wire: Wire) -> None:
    busy = wire.error(429, "later", retry_after="0.001", retry_after_ms="soon")
    with Provider([busy, wire.answer("Hi.")]) as provider:
        model = wire.model(provider, max_retries=1)

        async def ask() -> Any:
            return [chunk async for chunk in model.stream(request_of("Hi"))]

        assert run(ask())


@every_wire
@pytest.mark.parametrize("then", ["hang", "cut"])
@pytest.mark.parametrize("lost_bytes", [0, 1])
def test_finished_answer_is_complete_after_a_connection_error(
    wire: Wire, then: Any, lost_bytes: int
) -> None:
    """Also if the last event, which carries no content, is lost."""
    events = wire.events("Hi.")
    with Provider([Answer([*events[: len(events) - lost_bytes], then])]) as provider:
        model = wire.model(provider, timeout_s=0.2 if lost_bytes else 10)

        async def ask() -> Any:
            return [chunk async for chunk in model.stream(request_of("Hi"))][-1]

        assert run(ask()).stop_reason in ("end_turn", "stop")


def test_user_images_are_sent_as_images() -> None:
    assert base64.b64decode(PNG)
    prompt = Message("user", [TextPart("What is it?"), ImagePart("image/png", PNG)])
    for wire in WIRES:
        with Provider([wire.answer("A dot.")]) as provider:
            model = wire.model(provider)

            async def ask(model: Any = model) -> None:
                async for _ in model.stream(request_of(prompt)):
                    pass

            run(ask())
        assert PNG in json.dumps(provider.bodies[0])
