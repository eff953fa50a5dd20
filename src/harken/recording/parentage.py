"""Where a new agent comes from: the call that it was made by, its parent, and its name.

One idea: who was told the prompt of a tool call was begun by that call. A client may also say whose
child it is; where nobody says anything, it stands below the first agent, whose conversation it
accompanies (titles, summaries, checks).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from harken.core import canonical
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import Content, TextPart, ToolCall
from harken.recording.item import Item
from harken.session.fold import reference_to
from harken.session.session import Session

MAIN = "main"
ASIDE = "aside"
"""The name of an agent of which nothing is known."""
_PROMPT = 12
"""A text of a call that is shorter is no sign of anything."""
_NAMES = ("name", "agent_name", "subagent_type", "agent_type", "agent", "role", "description")
"""Arguments of a call that say what it makes."""
_MOST_CALLS = 64
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class OpenToolCall:
    """A tool call that an agent made."""

    agent: AgentId
    reference: Reference
    name: str
    """What it makes is called so."""
    texts: tuple[str, ...]
    """The texts among its arguments that could be a prompt."""


@dataclass(slots=True)
class OpenToolCalls:
    """The last calls of a session that nobody was born from."""

    made: deque[OpenToolCall] = field(default_factory=lambda: deque(maxlen=_MOST_CALLS))

    def learn(self, agent: AgentId, entry: TranscriptEntry) -> None:
        """Take the calls of an answer."""
        for call in entry.tool_calls or ():
            arguments = _arguments(call)
            texts = sorted(filter(_could_be_prompt, _texts(arguments)), key=len, reverse=True)
            if texts:
                name = next(filter(None, (_name(arguments.get(one)) for one in _NAMES)), "")
                reference = reference_to(entry, call.id)
                name = name or call.function.name
                self.made.append(OpenToolCall(agent, reference, name, tuple(texts)))

    def take(self, items: Sequence[Item]) -> OpenToolCall | None:
        """Return, and forget, the call whose prompt a conversation begins with."""
        begins = takewhile(lambda item: item.messages[0].role != "assistant", items)
        said = [
            text.strip()
            for item in begins
            for message in item.messages
            if message.role == "user"
            for text in _parts(message.content)
        ]
        for call in reversed(self.made):
            if any(_is_told(prompt, text) for prompt in call.texts for text in said):
                self.made.remove(call)
                return call
        return None


def cause(session: Session, call: OpenToolCall | None, parent: AgentId) -> Reference:
    """Return the cause of a birth: the call, while it has no result; else the parent's birth."""
    if call is not None and call.reference in session.state.open_references:
        return call.reference
    above = session.agents[parent if call is None else call.agent]
    return above.birth


def free_name(session: Session, wished: str) -> str:
    """Return a name that no agent of the session has: `aside`, `aside 2`, ..."""
    taken = {state.name for state in session.agents.values()}
    names = (wished if count == 1 else f"{wished} {count}" for count in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        found = canonical.from_json(call.function.arguments.encode("utf-8", "replace"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _texts(value: Any, depth: int = _DEPTH) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif depth and isinstance(value, dict | list):
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for one in inner:
            yield from _texts(one, depth - 1)


def _parts(content: Content) -> list[str]:
    if isinstance(content, list):
        return [part.text for part in content if isinstance(part, TextPart)]
    return [content or ""]


def _is_told(prompt: str, text: str) -> bool:
    """Whether a text is a prompt, with little around it: who quotes one in passing is not it."""
    return len(text) <= 2 * len(prompt) and prompt in text


def _could_be_prompt(text: str) -> bool:
    return len(text) >= _PROMPT


def _name(value: Any) -> str:
    return " ".join(value.split())[:60] if isinstance(value, str) else ""
