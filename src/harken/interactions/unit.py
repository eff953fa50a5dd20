"""`MessageUnit`: the part of a message that has its own position and id in a thread.

A message is one unit, except that in an assistant message each text and each tool call is a unit (a
thought belongs to the text after it). A unit is itself a message with one part, and its id is the
hash of that message. So the id of most messages is their name in the store, and a text and a JSON
part with equal content have different ids.

Source: docs/formats/interactions.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import msgspec

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


class MessageUnit(msgspec.Struct, frozen=True, dict=True):
    """A message, or one text or tool call of an assistant message."""

    id: str
    """A hash of 64 hex digits."""
    role: MessageRole
    content: str
    tool_name: str | None = None
    thinking: str | None = None
    extras: tuple[str | None, ...] | None = None
    """The `extra` of each part, if a part has one that is not in the content."""

    @cached_property
    def tokens(self) -> int:
        """Estimated number of tokens."""
        texts = (self.content, self.tool_name or "", self.thinking or "")
        size_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        return -(-size_bytes // _BYTES_PER_TOKEN)

    def logged(self, time: str, model: str | None = None, *, tokens: bool = True) -> LoggedMessage:
        """Return the unit as a record. `model` applies to units of an assistant message only."""
        is_from_model = self.role in (MessageRole.ASSISTANT, MessageRole.TOOL_CALL)
        metadata = MessageMetadata(
            model=(model or None) if is_from_model else None,
            tool_name=self.tool_name,
            token_count=self.tokens if tokens else None,
            thinking_content=self.thinking,
            extras=self.extras,
        )
        return LoggedMessage(
            id=self.id,
            timestamp=time,
            role=self.role,
            content=self.content,
            metadata=None if metadata == MessageMetadata() else metadata,
        )


def split_message(message: ChatMessage) -> tuple[MessageUnit, ...]:
    """Split a message into its units, in order; at least one.

    >>> [unit.role.value for unit in split_message(Message("user", "Hi"))]
    ['USER']
    """
    return split_content(split_occurrence(message)[0], message.name)


def split_content(pure: MessageContent, tool: str | None = None) -> tuple[MessageUnit, ...]:
    """Split the content of a message into units. `tool` is the tool that returned a result."""
    if pure.role == "tool":
        content = pure.parts[0]["content"]
        return (_build_unit("tool", pure.parts, _content_text(content), tool_name=tool or None),)
    units: list[MessageUnit] = []
    thoughts: Parts = []
    for part in pure.parts:
        if part["type"] == "thinking":
            units += _iter_thought_unit(pure.role, thoughts)
            thoughts = [part]
        elif part["type"] == "text" and (_is_shown(part) or thoughts or len(pure.parts) == 1):
            thinking = thoughts[0]["text"] if thoughts else None
            units.append(_build_unit(pure.role, [*thoughts, part], part["text"], thinking=thinking))
            thoughts = []
        elif part["type"] != "text":  # An empty text beside calls is not a unit.
            units += _iter_thought_unit(pure.role, thoughts)
            thoughts = []
            units.append(_build_other_unit(pure.role, part))
    units += _iter_thought_unit(pure.role, thoughts)
    return tuple(units) or (_build_unit(pure.role, pure.parts[:1], ""),)


def to_message(logged: LoggedMessage) -> Message:
    """Convert a record to a message. Its calls and results have empty ids.

    Content of a record without an id is a text; so is it with the id of the specification, the
    SHA-256 of the content. Raises FormatError if the id does not match the content.
    """
    metadata = logged.metadata or MessageMetadata()
    has_plain_id = logged.id in ("", _spec_id(logged.content))
    candidates = (
        pure
        for pure in _iter_candidates(logged, metadata)
        if has_plain_id or logged.id == unit_id(pure)
    )
    pure = next(candidates, None)
    if pure is None:
        raise FormatError("logged message", f"its id {logged.id[:80]!r} is not that of its content")
    return join_unit(pure, metadata.tool_name)


def join_unit(pure: MessageContent, tool: str | None = None) -> Message:
    """Build the message of a unit, with empty occurrence ids."""
    types = [part["type"] for part in pure.parts]
    if pure.role == "tool":
        inner = pure.parts[0]["content"]
        is_text = [part["type"] for part in inner] == ["text"] and _get_extras(inner) is None
        shape: Any = "text" if is_text else "list"
        return join_occurrence(pure, Occurrence(shape=shape, tool_call_id="", name=tool or ""))
    if types == ["tool_call"]:
        return join_occurrence(pure, Occurrence(shape="none", calls=[{"id": ""}]))
    shapes = {(): "none", ("text",): "text"}
    form: Any = "list" if _get_extras(pure.parts) else shapes.get(tuple(types), "list")
    return join_occurrence(pure, Occurrence(shape=form))


def unit_id(pure: MessageContent) -> str:
    """Return the hash of a message, as `message_hash` does for a message with occurrence."""
    hashes = [part_hash(part) for part in pure.parts]
    return canonical.hash_value(canonical.MESSAGE_DOMAIN, {"parts": hashes, "role": pure.role})


def _iter_candidates(logged: LoggedMessage, metadata: MessageMetadata) -> Iterator[MessageContent]:
    """Yield the possible contents of a record, plain text first; its id decides between them."""
    content = logged.content
    text = {"type": "text", "text": content}
    match logged.role:
        case MessageRole.TOOL_CALL:
            for kind in ("function", "custom"):
                call = {"kind": kind, "name": metadata.tool_name or "", "arguments": content}
                yield _with_extras("assistant", [{"type": "tool_call", **call}], metadata)
        case MessageRole.TOOL_RESULT:
            for inner in ([text], _parse_json(content)):
                for is_error in (False, True) if isinstance(inner, list) else ():
                    result = {"type": "tool_result", "content": inner, "is_error": is_error}
                    yield MessageContent("tool", [result])
        case role:
            role_name = next(name for name, message_role in _ROLES.items() if message_role is role)
            thinking = metadata.thinking_content
            thoughts = [] if thinking is None else [{"type": "thinking", "text": thinking}]
            yield _with_extras(role_name, [*thoughts, text], metadata)
            if not content:
                yield _with_extras(role_name, thoughts, metadata)
            elif isinstance(part := _parse_json(content), dict):
                yield MessageContent(role_name, [part])


def _spec_id(content: str) -> str:
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _is_shown(part: dict[str, Any]) -> bool:
    return bool(part["text"] or part.get("extra"))


def _with_extras(role: Role, parts: Parts, metadata: MessageMetadata) -> MessageContent:
    """Return the content of these parts with the extras of a record."""
    pairs = zip_longest(parts, (metadata.extras or ())[: len(parts)])
    return MessageContent(role, [{**part, "extra": e} if e else part for part, e in pairs])


def _get_extras(parts: Parts) -> tuple[str | None, ...] | None:
    extras = tuple(part.get("extra") for part in parts)
    return extras if any(extras) else None


def _parse_json(content: str) -> Any:
    try:
        return canonical.from_json(content.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _build_unit(role: Role, parts: Parts, content: str, **members: str | None) -> MessageUnit:
    id_, extras = unit_id(MessageContent(role, parts)), _get_extras(parts)
    return MessageUnit(id_, _ROLES[role], content, **members, extras=extras)


def _iter_thought_unit(role: Role, thoughts: Parts) -> Iterator[MessageUnit]:
    """Yield the unit of a thought that is not followed by a text."""
    if thoughts:
        yield _build_unit(role, thoughts, "", thinking=thoughts[0]["text"])


def _build_other_unit(role: Role, part: dict[str, Any]) -> MessageUnit:
    """Return the unit of a tool call, or of another part that is not text."""
    if part["type"] != "tool_call":
        id_ = unit_id(MessageContent(role, [part]))
        return MessageUnit(id_, _ROLES[role], _as_json(part))
    id_ = unit_id(MessageContent(role, [part]))
    return MessageUnit(
        id_,
        MessageRole.TOOL_CALL,
        part["arguments"],
        tool_name=part["name"],
        extras=_get_extras([part]),
    )


def _content_text(content: Parts) -> str:
    if len(content) == 1 and content[0]["type"] == "text" and "extra" not in content[0]:
        text: str = content[0]["text"]
        return text
    return _as_json(content)


def _as_json(value: Any) -> str:
    return canonical.to_canonical_bytes(value).decode("utf-8", "surrogatepass")
