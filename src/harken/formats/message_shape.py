"""Recognition of the shape of a message, and of the messages in a request or a response.

A shape is the name of a protocol of `harken.formats.wire`, or `ollama`. Shapes overlap: a plain
text with a role is the same message in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from harken.core.events import TranscriptEntry
from harken.core.messages import Message, Role
from harken.formats.json_records import get_object, get_objects, get_text

Shape: TypeAlias = str
"""The name of a protocol, or an empty string for any."""
Located: TypeAlias = tuple[Any, Role | None, Shape]
"""A value of a message, its role if it has none of its own, and its shape if that is clear."""
_ANTHROPIC, _CHAT, _RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
_GEMINI, _OLLAMA, _OWN = "gemini", "ollama", "messages-v1"
_RESPONSES_BLOCKS = frozenset(
    {"input_text", "output_text", "input_image", "input_file", "computer_screenshot"}
)
_ANTHROPIC_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "redacted_thinking",
        "document",
        "search_result",
        "container_upload",
        "server_tool_use",
    }
)
_OWN_BLOCKS = frozenset({"call", "other"})
_OWN_MEMBERS = frozenset({"meta", "extra"})
_OWN_IMAGE_MEMBERS = frozenset({"media_type", "data", "url"})
_RESPONSE_MEMBERS = frozenset({"id", "type", "model", "stop_reason", "stop_sequence", "usage"})
"""Members of an Anthropic response that describe the call, not its message."""
_LOG_MEMBERS = frozenset(TranscriptEntry.__struct_encode_fields__) - frozenset(
    Message.__struct_encode_fields__
) | {"event_type"}
_INSTRUCTIONS = ("systemInstruction", "system_instruction")


def find_messages(value: Any) -> list[Located] | None:
    """Return the values of the messages in the body of a request or a response.

    Return None if the value is a message itself, or of an unknown shape.
    """
    if isinstance(value, list):
        return [(item, None, "") for item in value]
    if not isinstance(value, dict):
        return None
    if "event_type" in value and "role" in value:
        own = {n: v for n, v in value.items() if n not in _LOG_MEMBERS and v is not None}
        return [(own, None, _OWN)]
    if "role" in value:
        return _find_response_message(value)
    return _find_request(value) or _find_response(value)


def _find_response_message(value: dict[str, Any]) -> list[Located] | None:
    """Return the message of an Anthropic response, which has its members."""
    if get_text(value, "type") != "message" or "model" not in value:
        return None
    message = {n: v for n, v in value.items() if n not in _RESPONSE_MEMBERS}
    return [(message, None, _ANTHROPIC)]


def _find_request(value: dict[str, Any]) -> list[Located] | None:
    if isinstance(value.get("messages"), list):
        shape = _ANTHROPIC if "system" in value else ""
        prompts = _iter_prompts(value.get("system"))
        return [*prompts, *((item, None, shape) for item in value["messages"])]
    if isinstance(value.get("contents"), list):
        names = (name for name in _INSTRUCTIONS if isinstance(value.get(name), dict))
        prompt: list[Located] = [({name: value[name]}, None, _GEMINI) for name in names]
        return [*prompt, *((item, None, _GEMINI) for item in value["contents"])]
    if isinstance(value.get("input"), list | str) and "type" not in value:
        text = value.get("instructions")
        start: list[Located] = [] if text is None else [({"instructions": text}, None, _RESPONSES)]
        if isinstance(value["input"], str):
            return [*start, (value["input"], "user", "")]
        return [*start, *((item, None, _RESPONSES) for item in value["input"])]
    return None


def _iter_prompts(system: Any) -> Iterator[Located]:
    if isinstance(system, list):
        yield from (({"system": [block]}, None, _ANTHROPIC) for block in system)
    elif system is not None:
        yield ({"system": system}, None, _ANTHROPIC)


def _find_response(value: dict[str, Any]) -> list[Located] | None:
    choices = get_objects(value, "choices")
    if choices and "message" in choices[0]:
        return [(choices[0]["message"], "assistant", "")]
    if get_text(value, "object") == "response" and isinstance(value.get("output"), list):
        return [(item, None, _RESPONSES) for item in value["output"]]
    candidates = get_objects(value, "candidates")
    if candidates:
        return [(get_object(candidates[0], "content"), "assistant", _GEMINI)]
    if isinstance(value.get("message"), dict) and "done" in value:
        return [(value["message"], "assistant", _OLLAMA)]
    return None


def find_shape(value: Any, role: Role) -> Shape:
    """Return the shape of a message. Return an empty string if it has none."""
    if not isinstance(value, dict):
        return ""
    if {*value} == {"system"}:
        return _ANTHROPIC
    if {*value} == {"instructions"}:
        return _RESPONSES
    if len(value) == 1 and {*value} <= {*_INSTRUCTIONS}:
        return _GEMINI
    if isinstance(value.get("parts"), list):
        return _GEMINI
    if "role" not in value and get_text(value, "type"):
        return _RESPONSES
    if "role" not in value and "content" not in value:
        return ""
    return _find_role_shape(value)


def _find_role_shape(value: dict[str, Any]) -> Shape:
    """Return the shape of a message with a role and a content."""
    blocks, calls = get_objects(value, "content"), get_objects(value, "tool_calls")
    if get_text(value, "type") == "message" or any(
        block.get("type") in _RESPONSES_BLOCKS for block in blocks
    ):
        return _RESPONSES
    if "is_error" in value or any(map(_is_own, [*blocks, *calls])):
        return _OWN
    if any(map(_is_anthropic, blocks)):
        return _ANTHROPIC
    if (
        "images" in value
        or "tool_name" in value
        or isinstance(value.get("thinking"), str)
        or any(isinstance(get_object(call, "function").get("arguments"), dict) for call in calls)
    ):
        return _OLLAMA
    return _CHAT


def _is_own(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    if kind in _OWN_BLOCKS or not _OWN_MEMBERS.isdisjoint(block):
        return True
    if kind == "image":
        return not _OWN_IMAGE_MEMBERS.isdisjoint(block)
    return kind == "thinking" and "text" in block


def _is_anthropic(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    if not isinstance(kind, str):
        return False
    if kind in _ANTHROPIC_BLOCKS or kind.endswith("_tool_result") or "citations" in block:
        return True
    return (kind == "image" and "source" in block) or (
        kind == "thinking" and isinstance(block.get("thinking"), str)
    )
