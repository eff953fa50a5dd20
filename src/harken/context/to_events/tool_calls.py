"""Calls, told such that a log could hold them: each has an id of its own while it is open.

One idea: files are full of calls that nobody answered, of results without a call, and of ids that
come twice; a log has none of that. So an id that is taken becomes another one, and a call whose
result comes too late is made again. Neither changes what a model reads but for the id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from harken.core.messages import FunctionCall, Message, ToolCall, ToolCallSlot, text_of
from harken.formats.base import ConversationEntry
from harken.formats.tool_calls import as_object
from harken.session.state import OpenCall

UNNAMED = "unknown"
"""What a tool is called whose name nobody says."""
_LONG = 20
"""So many characters are no accident where one text holds another."""


def with_own_ids(message: Message, taken: Collection[str]) -> tuple[Message, dict[str, str]]:
    """Return an answer whose calls have ids that are no others', and what became of which id."""
    own: list[str] = []
    for call in message.tool_calls or ():
        wanted, count = call.id or "call", 1
        while wanted in taken or wanted in own:
            count += 1
            wanted = f"{call.id or 'call'}~{count}"
        own.append(wanted)
    calls = message.tool_calls or []
    renamed = {call.id: id_ for call, id_ in zip(calls, own, strict=True) if call.id != id_}
    if not renamed:
        return message, {}
    content = message.content
    if isinstance(content, list):
        content = [
            ToolCallSlot(renamed.get(part.id, part.id)) if isinstance(part, ToolCallSlot) else part
            for part in content
        ]
    made = [msgspec.structs.replace(c, id=id_) for c, id_ in zip(calls, own, strict=True)]
    return msgspec.structs.replace(message, content=content, tool_calls=made), renamed


def call_again(call: ToolCall | None, id_: str, name: str | None) -> ToolCall:
    """Return a call that is made once more; one that stands nowhere has nothing but a name."""
    if call is not None:
        return msgspec.structs.replace(call, id=id_)
    return ToolCall(id_, FunctionCall(name or UNNAMED, "{}"))


def spawning(calls: Iterable[OpenCall], agent: str, prompt: str) -> OpenCall | None:
    """Return the open call that made an agent: it has its name, or says what it was told first.

    Where it is the only one, it is the one that it was made in.
    """
    listed = list(calls)
    for fits in ([call for call in listed if call.id == agent], _saying(listed, prompt)):
        if fits:
            return fits[0]
    return listed[0] if len(listed) == 1 else None


def prompt_of(entries: Iterable[ConversationEntry]) -> str:
    """Return what an agent was told first; empty: nothing."""
    heard = (entry.message for entry in entries if entry.message.role == "user")
    return next((text_of(message.content) for message in heard), "")


def holds(text: str, part: str) -> bool:
    """Whether a text is another one, or holds it, which is long enough to be no accident."""
    text, part = text.strip(), part.strip()
    return bool(part) and (text == part or (len(part) >= _LONG and part in text))


def _saying(calls: Iterable[OpenCall], prompt: str) -> list[OpenCall]:
    return [call for call in calls if any(holds(prompt, text) for text in _texts(call))]


def _texts(call: OpenCall) -> Iterator[str]:
    given = as_object(call.arguments) or {}
    return (value for value in given.values() if isinstance(value, str))
