"""Strategies for odd and tidy contexts, and their content as a flat list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from tests.property.test_messages import JSON, MAYBE_META, PART, STRING

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
SIGNATURE = st.none() | st.just({"signature": "c2lnbg=="}) | st.just({"signature": 1}) | MAYBE_META

# Few ids, so that they collide, blank texts, JSON that is no object, and invalid images.
ODD_ID = st.sampled_from(["a", "b", "a", "", "call.1", "call/1", "call_1", "x" * 80, "é"])
ODD_TEXT = st.sampled_from(["", " ", "\n", "hi", "\ud800", "[error] no"]) | STRING
ODD_ARGUMENTS = (
    st.sampled_from(
        ["", "{", "{}", "[]", '{"a":1}', "text", '"\\ud800"', '{"a":NaN}', '{"\\ud800":1}']
    )
    | st.just('{"a":' * 70 + "1" + "}" * 70)
    | JSON.map(lambda value: canonical.to_json_line(value).decode("utf-8", "surrogatepass"))
)
ODD_CALL = st.builds(
    ToolCall,
    ODD_ID,
    st.builds(FunctionCall, st.sampled_from(["look", "", "a b", "n" * 200]), ODD_ARGUMENTS),
    st.sampled_from(["function", "custom"]),
)
ODD_IMAGE = st.builds(
    ImagePart,
    st.sampled_from([None, "image/png", "image/tiff", "image/\njpeg"]),
    st.sampled_from([None, PNG, GIF, "", "x", "aGk=", PNG[:60] + "\n" + PNG[60:]]),
    st.sampled_from(
        [None, "https://example.org/a.png", "file:///etc", f"data:image/png;base64,{PNG}"]
    ),
)
ODD_OTHER = st.builds(
    UnknownPart,
    st.sampled_from(["redacted_thinking", "document", "file", "reasoning"]),
    st.sampled_from(["", "1", '{"type":"redacted_thinking","data":"x"}', '{"type":"file"}']),
)
ODD_PART: st.SearchStrategy[ContentPart] = (
    PART
    | ODD_IMAGE
    | ODD_OTHER
    | st.builds(TextPart, ODD_TEXT)
    | st.builds(ThinkingPart, ODD_TEXT, SIGNATURE)
    | st.builds(ToolCallSlot, ODD_ID)
)
ODD_MESSAGE = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool", "system", "assistant", "tool"]),
    st.none() | ODD_TEXT | st.lists(ODD_PART, max_size=3),
    st.none() | st.lists(ODD_CALL, max_size=3),
    st.none() | ODD_ID,
    st.none(),
    st.booleans(),
)
ODD_CONTEXT = st.lists(ODD_MESSAGE, max_size=8)

WORDS = st.sampled_from(["Hello, you.", "Jack", "it is – Jill", "a\nb"])
TIDY_ARGUMENTS = st.dictionaries(WORDS, st.integers() | WORDS, max_size=2)
IMAGE = st.just(ImagePart("image/png", PNG)) | st.just(ImagePart(url="https://example.org/a.png"))


@st.composite
def tidy_contexts(draw: st.DrawFn, *, images: bool = True, placed: bool = True) -> list[Message]:
    """Draw a context of Harken's agents: each call is answered once, at once."""
    context = [Message("system", text) for text in draw(st.lists(WORDS, max_size=2))]
    texts = st.builds(TextPart, WORDS)
    parts = texts | IMAGE if images else texts
    context.append(Message("user", draw(WORDS)))
    for turn in range(draw(st.integers(0, 4))):
        answer: list[ContentPart] = draw(st.lists(texts, min_size=1, max_size=2))
        if draw(st.booleans()):
            answer.insert(0, ThinkingPart("Hm.", {"signature": f"s{turn}"}))
        calls = [
            ToolCall(
                f"c{turn}_{index}", FunctionCall("look", canonical.to_json_line(arguments).decode())
            )
            for index, arguments in enumerate(draw(st.lists(TIDY_ARGUMENTS, max_size=3)))
        ]
        if placed and calls and draw(st.booleans()):
            answer += [*(ToolCallSlot(call.id) for call in calls), TextPart("So.")]
        context.append(Message("assistant", answer, calls or None))
        for call in calls:
            content: Any = draw(WORDS | st.lists(parts, min_size=1, max_size=2))
            context.append(Message("tool", content, None, call.id, "look", draw(st.booleans())))
        if not calls or draw(st.booleans()):
            context += [
                Message("user", text) for text in draw(st.lists(WORDS, min_size=1, max_size=2))
            ]
        if draw(st.booleans()):
            user_message: Any = draw(st.lists(parts, min_size=1, max_size=2))
            context.append(Message("user", user_message))
    return context


def flatten(messages: Iterable[ChatMessage], *, with_thinking: bool = True) -> list[Any]:
    """Return one item for each text, image, call and result of the messages.

    Adjacent texts of one speaker are merged, because providers keep no message borders.
    """
    items: list[Any] = []
    for message in messages:
        content = message.content
        parts: Sequence[ContentPart] = (
            [TextPart(content)] if isinstance(content, str) else content or []
        )
        calls = {call.id: call for call in message.tool_calls or ()}
        texts: list[Any] = []
        for part in parts:
            if isinstance(part, ToolCallSlot):
                texts.append(_call(calls.pop(part.id)))
            elif with_thinking or not isinstance(part, ThinkingPart):
                _add(texts, _part(message.role, part))
        texts += [_call(call) for call in calls.values()]
        if message.role == "tool":
            items.append(("result", message.tool_call_id, message.is_error, texts))
        else:
            for item in texts:
                _add(items, item)
    return items


def _add(items: list[Any], item: Any) -> None:
    last = items[-1] if items else None
    if last and item[0] in ("user", "assistant", "tool") and last[0] == item[0]:
        items[-1] = (item[0], f"{last[1]}\n\n{item[1]}")
    else:
        items.append(item)


def _part(role: str, part: ContentPart) -> Any:
    match part:
        case TextPart():
            return role, part.text
        case ThinkingPart():
            return "thinking", part.text, (part.meta or {}).get("signature")
        case ImagePart():
            return "image", part.media_type, part.data, part.url
    return "other", msgspec.to_builtins(part)


def _call(call: ToolCall) -> Any:
    return "call", call.id, call.function.name, json.loads(call.function.arguments or "{}")
