"""Checks of a request body against the rules of providers, and the shared checks if available.

These checks are stricter than any provider, so an accepted body is valid for all of them.
"""

from __future__ import annotations

import base64
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

Json = dict[str, Any]
SHARED = Path(__file__).parents[2].parent / "shared" / "clients"
IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


def shared(name: str) -> ModuleType | None:
    """Return a module of the shared clients. Return None if they are not installed."""
    file = SHARED / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"shared_{name}", file)
    if not file.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_anthropic(body: Json) -> None:
    """Check a body of Anthropic Messages."""
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], roles
    for block in body.get("system", []):
        _check_text(block)
    waiting: list[str] = []
    visited: set[str] = set()
    for message in messages:
        blocks = message["content"]
        assert blocks, "an empty message"
        results = [block for block in blocks if block["type"] == "tool_result"]
        assert blocks[: len(results)] == results, "results stand first"
        assert sorted(block["tool_use_id"] for block in results) == sorted(waiting)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len({*waiting}) == len(waiting)
        assert not visited & {*waiting}
        visited |= {*waiting}
        for block in blocks:
            _check_block(block, message["role"])
    assert not waiting
    marks = str(body).count("'cache_control'")
    assert marks <= 4, f"{marks} cache breakpoints"


def _check_block(block: Json, role: str) -> None:
    match block["type"]:
        case "text":
            _check_text(block)
        case "thinking":
            assert role == "assistant"
            assert block["signature"]
        case "tool_use":
            assert role == "assistant"
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert role == "user"
            assert block["content"]
            if block.get("is_error"):
                assert {inner["type"] for inner in block["content"]} == {"text"}
            for inner in block["content"]:
                _check_block(inner, "user")
        case "image":
            assert role == "user"
            _check_source(block["source"])


def _check_text(block: Json) -> None:
    assert {*block} <= {"type", "text", "cache_control"}
    assert block["text"].strip()
    block["text"].encode()


def _check_source(source: Json) -> None:
    if source["type"] == "base64":
        assert source["media_type"] in IMAGE_TYPES
        assert base64.b64decode(source["data"], validate=True)
    else:
        assert source["url"].startswith(("http://", "https://"))


def check_openai(body: Json) -> None:
    """Check a body of OpenAI Chat Completions."""
    messages = body["messages"]
    spoken_roles = [m["role"] for m in messages if m["role"] not in ("tool", "system")]
    assert "assistant" not in spoken_roles[:1], "the user begins"
    assert messages[-1]["role"] in ("user", "tool")
    system = [index for index, m in enumerate(messages) if m["role"] == "system"]
    assert system == [*range(len(system))], "system messages stand at the beginning"
    waiting: list[str] = []
    visited: set[str] = set()
    last = ""
    for message in messages:
        role = message["role"]
        if role == "tool":
            waiting.remove(message["tool_call_id"])
            assert message["content"].strip()
        else:
            assert not waiting, f"no results for {waiting}"
            assert role == "system" or role != last, "two in a row"
            ids = [_check_call(call) for call in message.get("tool_calls", ())]
            assert len({*ids}) == len(ids)
            assert not visited & {*ids}
            visited |= {*ids}
            waiting = ids
            assert message["content"] or message.get("tool_calls")
        _check_content(message["content"])
        last = role
    assert not waiting


def _check_call(call: Json) -> str:
    assert call["type"] == "function"
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", call["id"])
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
    assert isinstance(call["function"]["arguments"], str)
    return str(call["id"])


def _check_content(content: Any) -> None:
    if isinstance(content, str):
        content.encode()
    for block in content if isinstance(content, list) else ():
        if block["type"] == "text":
            assert block["text"].strip()
        if block["type"] == "image_url":
            head, comma, data = block["image_url"]["url"].partition(";base64,")
            if comma:
                assert head.removeprefix("data:") in IMAGE_TYPES
                assert base64.b64decode(data, validate=True)
