"""Determine the parent, the cause and the name of a new agent.

If the first messages of an agent contain the prompt of a tool call, that call started the agent. A
client may also name the parent. Otherwise the parent is the first agent, whose conversation such
calls accompany (titles, summaries, checks).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import Content, TextPart, ToolCall
from harken.recording.writer.item import Item
from harken.session.fold import format_call_reference
from harken.session.session import Session

MAIN_NAME = "main"
ASIDE_NAME = "aside"
"""The name of an agent that neither a call nor its client names."""
_MIN_PROMPT_CHARS = 12
"""A shorter text in the arguments of a call is not considered a prompt."""
_NAME_ARGUMENTS = (
    "name",
    "agent_name",
    "subagent_type",
    "agent_type",
    "agent",
    "role",
    "description",
)
"""Arguments of a call that may name the agent it starts."""
_MAX_CALLS = 64
_MAX_DEPTH = 4


class OpenToolCall(msgspec.Struct, frozen=True):
    """A tool call that may start an agent."""

    agent: AgentId
    reference: Reference
    name: str
    """The name for the agent it starts."""
    texts: tuple[str, ...]
    """The texts in its arguments that could be a prompt."""


class OpenToolCalls(msgspec.Struct):
    """The most recent tool calls of a session that have not started an agent."""

    calls: deque[OpenToolCall] = msgspec.field(default_factory=lambda: deque(maxlen=_MAX_CALLS))

    def add(self, agent: AgentId, entry: TranscriptEntry) -> None:
        """Add the tool calls of an answer."""
        for call in entry.tool_calls or ():
            arguments = _parse_arguments(call)
            texts = sorted(filter(_could_be_prompt, _iter_texts(arguments)), key=len, reverse=True)
            if texts:
                name = next(
                    filter(
                        None,
                        (
                            _format_name(arguments.get(argument_name))
                            for argument_name in _NAME_ARGUMENTS
                        ),
                    ),
                    "",
                )
                reference = format_call_reference(entry, call.id)
                name = name or call.function.name
                self.calls.append(OpenToolCall(agent, reference, name, tuple(texts)))

    def pop_started_by(self, items: Sequence[Item]) -> OpenToolCall | None:
        """Remove and return the call whose prompt a conversation starts with.

        Return None if there is none.
        """
        opening_items = takewhile(lambda item: item.messages[0].role != "assistant", items)
        user_texts = [
            text.strip()
            for item in opening_items
            for message in item.messages
            if message.role == "user"
            for text in _text_parts(message.content)
        ]
        for call in reversed(self.calls):
            if any(_is_prompt(prompt, text) for prompt in call.texts for text in user_texts):
                self.calls.remove(call)
                return call
        return None


def find_cause(session: Session, call: OpenToolCall | None, parent: AgentId) -> Reference:
    """Return the cause of a new agent: the call while it has no result, else its parent's birth."""
    if call is not None and call.reference in session.state.open_references:
        return call.reference
    parent_state = session.agents[parent if call is None else call.agent]
    return parent_state.birth


def free_name(session: Session, wished: str) -> str:
    """Return a name that no agent of the session has: `aside`, `aside 2`, ..."""
    used_names = {state.name for state in session.agents.values()}
    names = (
        wished if count == 1 else f"{wished} {count}" for count in range(1, len(used_names) + 2)
    )
    return next(name for name in names if name not in used_names)


def _parse_arguments(call: ToolCall) -> dict[str, Any]:
    try:
        value = canonical.from_json(call.function.arguments.encode("utf-8", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _iter_texts(value: Any, depth: int = _MAX_DEPTH) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif depth and isinstance(value, dict | list):
        values: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for nested in values:
            yield from _iter_texts(nested, depth - 1)


def _text_parts(content: Content) -> list[str]:
    if isinstance(content, list):
        return [part.text for part in content if isinstance(part, TextPart)]
    return [content or ""]


def _is_prompt(prompt: str, text: str) -> bool:
    """Whether a text is mostly this prompt. A text that only quotes the prompt does not count."""
    return len(text) <= 2 * len(prompt) and prompt in text


def _could_be_prompt(text: str) -> bool:
    return len(text) >= _MIN_PROMPT_CHARS


def _format_name(value: Any) -> str:
    return " ".join(value.split())[:60] if isinstance(value, str) else ""
