"""`MessageUnit`: what has a position of its own in a thread, and an id.

One idea: a message is one unit, except that of an assistant's message each text and each call is
one (a thought belongs to the text after it). A unit is itself a message, with one part: its id is
the hash of that. So the id of most messages is the name under which the store has them, and a text
that is content cannot be taken for another one.

Source: docs/formats/interactions.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
    Message,
    MessageContent,
    Occurrence,
    Role,
    join_occurrence,
    part_hash,
    split_occurrence,
)
from harken.errors import FormatError
from harken.interactions.records import LoggedMessage, MessageMetadata, MessageRole

_ROLES: dict[Role, MessageRole] = {
    "system": MessageRole.SYSTEM,
    "user": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
    "tool": MessageRole.TOOL_RESULT,
}
_BYTES_PER_TOKEN = 4
Parts = list[dict[str, Any]]


@dataclass(frozen=True)
class MessageUnit:
    """A message, or what of an assistant's message stands for itself."""

    id: str
    """64 hex digits."""
    role: MessageRole
    content: str
    tool_name: str | None = None
    thinking: str | None = None

    @cached_property
    def tokens(self) -> int:
        """How many tokens it takes, estimated."""
        texts = (self.content, self.tool_name or "", self.thinking or "")
        size_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        return -(-size_bytes // _BYTES_PER_TOKEN)

    def logged(self, time: str, model: str | None = None, *, tokens: bool = True) -> LoggedMessage:
        """Return it as a record. model: of what a model said."""
        said = self.role in (MessageRole.ASSISTANT, MessageRole.TOOL_CALL)
        metadata = MessageMetadata(
            model=(model or None) if said else None,
            tool_name=self.tool_name,
            token_count=self.tokens if tokens else None,
            thinking_content=self.thinking,
        )
        return LoggedMessage(
            id=self.id,
            timestamp=time,
            role=self.role,
            content=self.content,
            metadata=None if metadata == MessageMetadata() else metadata,
        )


def units_of(message: ChatMessage) -> tuple[MessageUnit, ...]:
    """Return the units of a message, in order; at least one.

    >>> [unit.role.value for unit in units_of(Message("user", "Hi"))]
    ['USER']
    """
    return units_in(split_occurrence(message)[0], message.name)


def units_in(pure: MessageContent, tool: str | None = None) -> tuple[MessageUnit, ...]:
    """Return the same of a message without its occurrence. tool: whose result it is."""
    if pure.role == "tool":
        content = pure.parts[0]["content"]
        return (_unit("tool", pure.parts, _text(content), tool_name=tool or None),)
    found: list[MessageUnit] = []
    thoughts: Parts = []
    for part in pure.parts:
        if part["type"] == "thinking":
            found += _thought(pure.role, thoughts)
            thoughts = [part]
        elif part["type"] == "text" and (part["text"] or thoughts or len(pure.parts) == 1):
            thinking = thoughts[0]["text"] if thoughts else None
            found.append(_unit(pure.role, [*thoughts, part], part["text"], thinking=thinking))
            thoughts = []
        elif part["type"] != "text":  # an empty text beside calls is none
            found += _thought(pure.role, thoughts)
            thoughts = []
            found.append(_other(pure.role, part))
    found += _thought(pure.role, thoughts)
    return tuple(found) or (_unit(pure.role, pure.parts[:1], ""),)


def message_of(logged: LoggedMessage) -> Message:
    """Return the message that a record stands for. Its call, or what it answers, has no id.

    Where the record says no id, its content is a text. Raises FormatError where the id is not
    that of its content.
    """
    metadata = logged.metadata or MessageMetadata()
    found = (pure for pure in _readings(logged, metadata) if logged.id in ("", id_of(pure)))
    pure = next(found, None)
    if pure is None:
        raise FormatError("logged message", f"its id {logged.id[:80]!r} is not that of its content")
    return joined(pure, metadata.tool_name)


def joined(pure: MessageContent, tool: str | None = None) -> Message:
    """Put a unit's message together, without the ids of an occurrence."""
    types = [part["type"] for part in pure.parts]
    if pure.role == "tool":
        inner = pure.parts[0]["content"]
        shape: Any = "text" if [one["type"] for one in inner] == ["text"] else "list"
        return join_occurrence(pure, Occurrence(shape=shape, tool_call_id="", name=tool or ""))
    if types == ["tool_call"]:
        return join_occurrence(pure, Occurrence(shape="none", calls=[{"id": ""}]))
    shapes = {(): "none", ("text",): "text"}
    return join_occurrence(pure, Occurrence(shape=shapes.get(tuple(types), "list")))  # type: ignore[arg-type]


def id_of(pure: MessageContent) -> str:
    """Return the hash of a message: `message_hash` of what was taken apart."""
    hashes = [part_hash(part) for part in pure.parts]
    return canonical.hash_value(canonical.MESSAGE, {"parts": hashes, "role": pure.role})


def _readings(logged: LoggedMessage, metadata: MessageMetadata) -> Iterator[MessageContent]:
    """Yield what a record may stand for; its id says which of it. The plain one comes first."""
    content = logged.content
    text = {"type": "text", "text": content}
    match logged.role:
        case MessageRole.TOOL_CALL:
            for kind in ("function", "custom"):
                call = {"kind": kind, "name": metadata.tool_name or "", "arguments": content}
                yield MessageContent("assistant", [{"type": "tool_call", **call}])
        case MessageRole.TOOL_RESULT:
            for inner in ([text], _json(content)):
                for is_error in (False, True) if isinstance(inner, list) else ():
                    result = {"type": "tool_result", "content": inner, "is_error": is_error}
                    yield MessageContent("tool", [result])
        case role:
            whose = next(name for name, known in _ROLES.items() if known is role)
            thinking = metadata.thinking_content
            thoughts = [] if thinking is None else [{"type": "thinking", "text": thinking}]
            yield MessageContent(whose, [*thoughts, text])
            if not content:
                yield MessageContent(whose, thoughts)
            elif isinstance(part := _json(content), dict):
                yield MessageContent(whose, [part])


def _json(content: str) -> Any:
    try:
        return canonical.from_json(content.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _unit(role: Role, parts: Parts, content: str, **more: str | None) -> MessageUnit:
    return MessageUnit(id_of(MessageContent(role, parts)), _ROLES[role], content, **more)


def _thought(role: Role, thoughts: Parts) -> Iterator[MessageUnit]:
    """Yield the unit of a thought that no text follows."""
    if thoughts:
        yield _unit(role, thoughts, "", thinking=thoughts[0]["text"])


def _other(role: Role, part: dict[str, Any]) -> MessageUnit:
    """Return the unit of a call, or of what is no text."""
    if part["type"] != "tool_call":
        return _unit(role, [part], _as_json(part))
    id_ = id_of(MessageContent(role, [part]))
    return MessageUnit(id_, MessageRole.TOOL_CALL, part["arguments"], tool_name=part["name"])


def _text(content: Parts) -> str:
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return _as_json(content)


def _as_json(value: Any) -> str:
    return canonical.to_canonical_bytes(value).decode("utf-8", "surrogatepass")
