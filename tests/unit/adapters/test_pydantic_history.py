"""`HarkenHistory`: messages of pydantic-ai come back equal, writers, forks, other histories."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from harken.adapters.pydantic_ai import HarkenHistory
from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.history import commit_history
from harken.context.materialize import materialize
from harken.core.messages import FunctionCall, Message, ToolCall, text_of
from harken.errors import BranchConflict
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from tests.unit.adapters.pydantic_kit import make_agent, say

MESSAGES: list[ModelMessage] = [
    ModelRequest(
        parts=[
            SystemPromptPart("Be brief."),
            UserPromptPart(
                [
                    "Grüezi \u2028 \x00",
                    ImageUrl("https://example.test/a.png"),
                    BinaryContent(b"\xff\xfe\xfd", media_type="image/png"),
                ]
            ),
        ],
        instructions="Answer.",
    ),
    ModelResponse(
        parts=[
            ThinkingPart("hm", signature="s"),
            NativeToolCallPart("search", {"q": "Rome"}, "n1"),
            NativeToolReturnPart("search", {"hits": [1, 2.5, None]}, "n1"),
            TextPart("I look."),
            ToolCallPart("weather", '{"place": "Rome"}', "c1"),
        ],
        model_name="m",
    ),
    ModelRequest(parts=[ToolReturnPart("weather", {"sky": "sunny"}, "c1")]),
    ModelResponse(parts=[TextPart("Sunny.")]),
]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[HarkenHistory]:
    with HarkenHistory("s", tmp_path) as history:
        yield history


def load(history: HarkenHistory) -> list[ModelMessage]:
    return asyncio.run(history.load())


def add(history: HarkenHistory, *messages: ModelMessage) -> None:
    asyncio.run(history.add(messages))


def user(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def test_messages_come_back_equal(history: HarkenHistory, tmp_path: Path) -> None:
    add(history, *MESSAGES[:2])
    add(history)
    add(history, *MESSAGES[2:])
    expected = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(MESSAGES))
    with HarkenHistory("s", tmp_path) as other:
        assert load(other) == load(history) == expected


def test_a_commit_has_the_texts_calls_and_results(history: HarkenHistory) -> None:
    add(history, *MESSAGES)
    messages = materialize(history._store, history.head).messages
    roles = [message.role for message in messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert text_of(messages[1].content).startswith("Grüezi")
    calls = [call for message in messages for call in message.tool_calls or ()]
    assert [call.function.name for call in calls] == ["search", "weather"]
    assert calls[1].function.arguments == '{"place": "Rome"}'
    assert messages[5] == Message("tool", '{"sky":"sunny"}', tool_call_id="c1", name="weather")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PARTS = st.lists(
    st.builds(TextPart, TEXT)
    | st.builds(ThinkingPart, TEXT)
    | st.builds(
        lambda name, args: ToolCallPart(name, args, "c"), TEXT, st.dictionaries(TEXT, TEXT)
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(user, TEXT) | st.builds(lambda p: ModelResponse(parts=p), PARTS)))
def test_any_messages_come_back_equal(messages: list[Any]) -> None:
    store = MemoryStore()
    history = HarkenHistory("s", store=store)
    for message in messages:
        add(history, message)
    assert load(HarkenHistory("s", store=store)) == messages
    if history.head is not None:
        materialize(store, history.head)
    assert list(fsck(store)) == []


def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    program = f"""
import asyncio
from harken.adapters.pydantic_ai import HarkenHistory
from tests.unit.adapters.pydantic_kit import say
with HarkenHistory("trip", {str(tmp_path)!r}) as history:
    assert asyncio.run(say(history, "the weather please")) == "It is sunny in Rome."
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with HarkenHistory("trip", tmp_path) as history:
        assert asyncio.run(say(history, "thanks")) == "echo thanks"
        assert len(load(history)) == 6


def test_two_writers_lose_no_message(history: HarkenHistory, tmp_path: Path) -> None:
    add(history, user("start"))
    with HarkenHistory("s", tmp_path) as other:
        load(other)
        add(history, user("a"))
        add(other, user("b"))
        add(history, user("c"))
        texts = [message.parts[0].content for message in load(other)]  # type: ignore[union-attr]
        assert texts == ["start", "a", "b", "c"]


def test_a_replacement_keeps_the_earlier_messages_in_the_history(history: HarkenHistory) -> None:
    add(history, user("a"), user("b"))
    kept, _ = load(history)
    summary = user("summary")
    asyncio.run(history.replace([summary]))
    assert load(history) == [summary]
    messages = materialize(history._store, history.head, "root").messages
    assert [text_of(message.content) for message in messages] == ["a", "b"]
    asyncio.run(history.replace([summary, kept]))
    commits = commit_history(history._store, history.head or kept)  # type: ignore[arg-type]
    assert [commit.commit.type for commit in commits] == ["delta", "compaction", "delta"]


def test_a_replacement_is_refused_if_another_writer_was_faster(
    history: HarkenHistory, tmp_path: Path
) -> None:
    add(history, user("a"))
    with HarkenHistory("s", tmp_path) as other:
        load(other)
        add(history, user("b"))
        with pytest.raises(BranchConflict):
            asyncio.run(other.replace([user("c")]))
        assert len(load(history)) == 2
        load(other)
        asyncio.run(other.replace([user("c")]))
        assert len(load(history)) == 1


def test_a_fork_copies_nothing(history: HarkenHistory) -> None:
    add(history, user("a"))
    past = history.head
    add(history, user("b"))
    fork = asyncio.run(history.fork("fork", at=past))
    add(fork, user("c"))
    texts = [message.parts[0].content for message in load(fork)]  # type: ignore[union-attr]
    assert texts == ["a", "c"]
    with pytest.raises(BranchConflict):
        asyncio.run(history.fork("fork"))


def test_a_conversation_begins_with_any_commit() -> None:
    store = MemoryStore()
    call = ToolCall("c1", FunctionCall("weather", '{"place":"Rome"}'))
    messages = [
        Message("system", "Be brief."),
        Message("user", "Is it sunny?"),
        Message("assistant", "I look.", [call]),
        Message("tool", "sunny", tool_call_id="c1"),
    ]
    ctx = checkpoint(store, CommitDraft(messages=messages, created_at="2026-01-01T00:00:00Z"))
    fork = asyncio.run(HarkenHistory("s", store=store).fork("t", at=ctx))
    loaded = load(fork)
    assert [message.kind for message in loaded] == ["request", "request", "response", "request"]
    part = loaded[3].parts[0]
    assert isinstance(part, ToolReturnPart)
    assert (part.tool_name, part.content) == ("weather", "sunny")
    result = asyncio.run(make_agent().run("thanks", message_history=loaded))
    assert result.output == "echo thanks"


def test_a_closed_history_refuses_all_calls(history: HarkenHistory) -> None:
    history.close()
    for work in (history.load(), history.add([]), history.replace([])):
        with pytest.raises(RuntimeError, match="conversation 's' is closed"):
            asyncio.run(work)


def test_a_missing_package_names_the_extra() -> None:
    for module, code in {
        "pydantic_ai": "import harken.adapters.pydantic_ai",
        "pydantic_ai_harness": "from harken.adapters.pydantic_ai import HarkenStepStore",
    }.items():
        program = f"""
import sys
sys.modules[{module!r}] = None
try:
    {code}
except ImportError as error:
    print(error)
"""
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert "pip install harken[pydantic-ai]" in ran.stdout


def test_an_agent_is_made_of_the_kit() -> None:
    assert isinstance(make_agent(), Agent)
