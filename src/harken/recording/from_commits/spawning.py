"""Find the tool call that created an agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.tool_calls import parse_json_object
from harken.session.state import OpenCall

_MIN_PART_CHARS = 20
"""A common text of this length is not accidental."""


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
