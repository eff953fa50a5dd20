"""Tool calls with ids that are unique among the open calls, as a log requires.

Files contain calls without result, results without call, and repeated ids; a log must not. So a
used id is replaced, and a call whose result comes too late is repeated. Neither changes the context
except for the id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from harken.core.messages import FunctionCall, Message, ToolCall, ToolCallSlot, text_of
from harken.formats.base import ConversationEntry
from harken.formats.tool_calls import parse_json_object
from harken.session.state import OpenCall

UNNAMED = "unknown"
"""The name of a tool whose name is missing."""
_MIN_PART_CHARS = 20
"""A common text of this length is not accidental."""


def make_ids_unique(message: Message, used_ids: Collection[str]) -> tuple[Message, dict[str, str]]:
    """Return an answer with unique call ids, and the replaced ids."""
    new_ids: list[str] = []
    for call in message.tool_calls or ():
        candidate, count = call.id or "call", 1
        while candidate in used_ids or candidate in new_ids:
            count += 1
            candidate = f"{call.id or 'call'}~{count}"
        new_ids.append(candidate)
    calls = message.tool_calls or []
    renamed = {call.id: id_ for call, id_ in zip(calls, new_ids, strict=True) if call.id != id_}
    if not renamed:
        return message, {}
    content = message.content
    if isinstance(content, list):
        content = [
            ToolCallSlot(renamed.get(part.id, part.id)) if isinstance(part, ToolCallSlot) else part
            for part in content
        ]
    new_calls = [
        msgspec.structs.replace(call_, id=id_) for call_, id_ in zip(calls, new_ids, strict=True)
    ]
    return msgspec.structs.replace(message, content=content, tool_calls=new_calls), renamed


def build_repeated_call(call: ToolCall | None, id_: str, name: str | None) -> ToolCall:
    """Return a repeated call. A call that is nowhere recorded has only a name."""
    if call is not None:
        return msgspec.structs.replace(call, id=id_)
    return ToolCall(id_, FunctionCall(name or UNNAMED, "{}"))


def find_spawning_call(calls: Iterable[OpenCall], agent: str, prompt: str) -> OpenCall | None:
    """Return the open call that created an agent: its id is the agent's name, or it has the prompt.

    If there is only one open call, it is that one.
    """
    open_calls = list(calls)
    for matches in (
        [call for call in open_calls if call.id == agent],
        _find_by_prompt(open_calls, prompt),
    ):
        if matches:
            return matches[0]
    return open_calls[0] if len(open_calls) == 1 else None


def find_prompt(entries: Iterable[ConversationEntry]) -> str:
    """Return the first user message of an agent, or an empty text."""
    messages = (entry.message for entry in entries if entry.message.role == "user")
    return next((text_of(message.content) for message in messages), "")


def contains_text(text: str, part: str) -> bool:
    """Whether the texts are equal, or `text` contains a `part` that is long enough."""
    text, part = text.strip(), part.strip()
    return bool(part) and (text == part or (len(part) >= _MIN_PART_CHARS and part in text))


def _find_by_prompt(calls: Iterable[OpenCall], prompt: str) -> list[OpenCall]:
    return [
        call for call in calls if any(contains_text(prompt, text) for text in _iter_arguments(call))
    ]


def _iter_arguments(call: OpenCall) -> Iterator[str]:
    arguments = parse_json_object(call.arguments) or {}
    return (value for value in arguments.values() if isinstance(value, str))
