"""Checks of a resumed conversation that providers make and the client does not repair.

They are weaker than `tests.provider.checks`: a client adds its own system prompt and a final
user prompt.
"""

from __future__ import annotations

import base64
import itertools
import re
from typing import Any

from tests.provider.checks import IMAGE_TYPES, shared

Json = dict[str, Any]
STRICT = shared("strict")


def check(runtime: str, messages: list[Json]) -> None:
    """Check the messages that the client of a runtime sends."""
    match runtime:
        case "codex":
            check_responses(messages)
        case "gemini":
            check_gemini(messages)
        case _:
            check_chat(messages)


def check_responses(items: list[Json]) -> None:
    """Check the `input` of OpenAI Responses: each call has just one output, after it."""
    waiting: set[str] = set()
    visited: set[str] = set()
    for item in items:
        kind, id_ = item["type"], item.get("call_id")
        if kind.endswith("_output"):
            waiting.remove(item["call_id"])
            assert "output" in item or "tools" in item
        elif id_:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", id_)
            assert id_ not in visited
            visited.add(id_)
            waiting.add(id_)
        else:
            assert not waiting, f"no results for {waiting}"
            assert item["role"] in ("user", "assistant", "developer")
            assert item["content"], "an empty message"
    assert not waiting, f"no results for {waiting}"
    if STRICT:
        STRICT.check_responses({"input": items})


def check_gemini(contents: list[Json]) -> None:
    """Check the `contents` of Gemini: the results of n calls are n, in the next turn."""
    roles = [content["role"] for content in contents]
    assert all(first != second for first, second in itertools.pairwise(roles)), roles
    waiting: list[tuple[str, str]] = []
    for content in contents:
        responses = [
            part["functionResponse"] for part in content["parts"] if "functionResponse" in part
        ]
        assert [(first["id"], first["name"]) for first in responses] == waiting
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        waiting = [(call["id"], call["name"]) for call in calls]
        assert not (calls and content["role"] == "user")
        assert content["parts"], "an empty turn"
        for part in content["parts"]:
            if "inlineData" in part:
                _check_image(part["inlineData"]["mimeType"], part["inlineData"]["data"])
    assert not waiting
    if STRICT:
        STRICT.check_gemini({"contents": contents})


def check_chat(messages: list[Json]) -> None:
    """Check the `messages` of Chat Completions: the results of calls follow at once."""
    waiting: list[str] = []
    visited: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert isinstance(message["content"], str)
            continue
        assert not waiting, f"no results for {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert not visited & {*waiting}
        visited |= {*waiting}
        assert message["content"] or waiting, "an empty message"
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "image_url":
                head, comma, data = block["image_url"]["url"].partition(";base64,")
                if comma:
                    _check_image(head.removeprefix("data:"), data)
    assert not waiting
    if STRICT:
        STRICT.check_chat({"messages": messages})


def _check_image(kind: str, data: str) -> None:
    assert kind in IMAGE_TYPES
    assert base64.b64decode(data, validate=True)
