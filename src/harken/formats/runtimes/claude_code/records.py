"""Records of Claude Code: one line of a transcript, and what it is.

One idea: a line is looked at twice. The first look takes only what says where it belongs, without
making objects of its content; the second one, at those lines that hold conversation, takes all.

Source: docs/formats/claude-code.md, "Records".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from harken.core import canonical
from harken.formats.runtimes.user_text import CLAUDE_CODE_PHRASES, CLAUDE_CODE_TAGS

MOST_TEXT = 4096
"""How much of a text is looked at to say who wrote it."""


class RecordKind(Enum):
    """What a record is for the conversation."""

    PROMPT = auto()
    """Something that a user, or the client in their name, says."""
    RESULT = auto()
    """Results of tools, perhaps with a text."""
    ANSWER = auto()
    """A part of what the model answered; a response may be several records."""
    BOUNDARY = auto()
    """Before it the conversation was compacted."""
    SUMMARY = auto()
    """What takes the place of all that was compacted."""
    LINK = auto()
    """No conversation, but others may name it as their parent."""
    ASIDE = auto()
    """Neither."""


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    tool_use_id: str = ""


class _Body(msgspec.Struct, gc=False):
    id: str | None = None
    role: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"")


class _Attachment(msgspec.Struct, gc=False):
    type: str = ""


class _Head(msgspec.Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | msgspec.UnsetType | None = msgspec.UNSET  # noqa: N815
    logicalParentUuid: str | None = None  # noqa: N815
    isSidechain: bool | None = False  # noqa: N815
    agentId: str | None = None  # noqa: N815
    isCompactSummary: bool | None = False  # noqa: N815
    message: _Body | None = None
    attachment: _Attachment | None = None
    compactMetadata: dict[str, Any] | None = None  # noqa: N815


class RecordOutline(msgspec.Struct, gc=False):
    """What the first look at a line takes."""

    kind: RecordKind
    label: str
    """What it is called where lines are counted: `assistant`, `system/init`."""
    uuid: str | None = None
    parent: str | None = None
    has_parent: bool = False
    """Whether it says what its parent is; it may say that it has none."""
    logical_parent: str | None = None
    is_side: bool = False
    agent: str = ""
    response: str | None = None
    """The id of the response that it is a part of."""
    calls: tuple[str, ...] = ()
    """The calls whose results it has."""
    preserved: tuple[str, ...] = ()
    """Of a boundary: the records that are still sent after the summary."""


_heads = msgspec.json.Decoder(_Head)
_blocks = msgspec.json.Decoder(list[_Block])
QUEUED = "queued_command"
"""An attachment that holds what a user wrote while the model was at work."""


LOCAL_COMMAND = "local_command"
"""A record of the system that says to the model what a user did beside it."""


def outlined(data: bytes) -> RecordOutline:
    """Take the first look at a line. Raises ValueError where it is no JSON object."""
    try:
        head = _heads.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        head = _head_of(record_of(data))
    kind, calls = _kind_of(head)
    agent = head.agentId or ""
    return RecordOutline(
        kind=kind,
        label=_label(head),
        uuid=head.uuid or None,
        parent=head.parentUuid or None,
        has_parent=head.parentUuid is not msgspec.UNSET,
        logical_parent=head.logicalParentUuid,
        is_side=bool(head.isSidechain),
        agent=agent if head.isSidechain else "",
        response=head.message.id if head.message is not None else None,
        calls=calls,
        preserved=_preserved(head.compactMetadata) if kind is RecordKind.BOUNDARY else (),
    )


def _label(head: _Head) -> str:
    return "/".join(filter(None, (head.type or "no type", head.subtype)))


def record_of(data: bytes) -> dict[str, Any]:
    """Return the record of a line. Raises ValueError where it is no JSON object."""
    try:
        value = canonical.from_json(data)
    except ValueError:
        value = _decoded(data.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _decoded(text: str) -> Any:
    """Return a JSON value as far as it can be held. Raises ValueError where it is none."""
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(digits: str) -> int | str:
    """Return an integer; one that is longer than Python reads stays a text."""
    try:
        return int(digits)
    except ValueError:
        return digits


def _head_of(record: Mapping[str, Any]) -> _Head:
    """Return what a record says where its members have the right types, whatever else it says."""

    def text(holder: Mapping[str, Any], name: str) -> str | None:
        value = holder.get(name)
        return value if isinstance(value, str) else None

    body, attachment = record.get("message"), record.get("attachment")
    metadata = record.get("compactMetadata")
    return _Head(
        type=text(record, "type") or "",
        subtype=text(record, "subtype"),
        uuid=text(record, "uuid"),
        parentUuid=text(record, "parentUuid") if "parentUuid" in record else msgspec.UNSET,
        logicalParentUuid=text(record, "logicalParentUuid"),
        isSidechain=record.get("isSidechain") is True,
        agentId=text(record, "agentId"),
        isCompactSummary=record.get("isCompactSummary") is True,
        message=_Body(text(body, "id"), text(body, "role"), _raw(body.get("content")))
        if isinstance(body, dict)
        else None,
        attachment=_Attachment(text(attachment, "type") or "")
        if isinstance(attachment, dict)
        else None,
        compactMetadata=metadata if isinstance(metadata, dict) else None,
    )


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(canonical.to_json_line(value))


def _kind_of(head: _Head) -> tuple[RecordKind, tuple[str, ...]]:
    if head.type == "assistant" and head.message is not None:
        return RecordKind.ANSWER, ()
    if head.type == "user" and head.message is not None:
        if head.isCompactSummary:
            return RecordKind.SUMMARY, ()
        calls = _answered(bytes(head.message.content))
        return (RecordKind.PROMPT, ()) if calls is None else (RecordKind.RESULT, calls)
    if head.type == "system" and head.subtype == "compact_boundary":
        return RecordKind.BOUNDARY, ()
    if head.type == "system" and head.subtype == LOCAL_COMMAND:
        return RecordKind.PROMPT, ()
    if head.attachment is not None and head.attachment.type == QUEUED:
        return RecordKind.PROMPT, ()
    return (RecordKind.LINK if head.uuid else RecordKind.ASIDE), ()


def _answered(content: bytes) -> tuple[str, ...] | None:
    """Return the calls that a content has results of; None: it has no result."""
    if not content.startswith(b"["):
        return None
    try:
        blocks = _blocks.decode(content)
    except msgspec.DecodeError:
        blocks = [_block_of(value) for value in canonical.from_json(content)]
    calls = tuple(block.tool_use_id for block in blocks if block.type == "tool_result")
    return calls or None


def _block_of(value: object) -> _Block:
    members = value if isinstance(value, dict) else {}
    kind, call = members.get("type"), members.get("tool_use_id")
    return _Block(*(text if isinstance(text, str) else "" for text in (kind, call)))


def _preserved(metadata: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the records that stay after a compaction, oldest first."""
    messages = (metadata or {}).get("preservedMessages")
    uuids = messages.get("uuids") if isinstance(messages, dict) else None
    listed = uuids if isinstance(uuids, list) else []
    return tuple(uuid for uuid in listed if isinstance(uuid, str))


_INJECTED = re.compile(
    rf"(?:{'|'.join(map(re.escape, CLAUDE_CODE_PHRASES))}|<(?:{'|'.join(CLAUDE_CODE_TAGS)})\b)"
)


def said_by(record: Mapping[str, Any]) -> str:
    """Return who says a text that stands in a user's place: `prompt`: a person; else `system`.

    The client writes much in the user's name. What it marks is believed; else the text says so.
    """
    if record.get("isMeta") is True or record.get("isCompactSummary") is True:
        return "system"
    if record.get("type") == "system":
        return "system"
    origin = record.get("origin")
    if isinstance(origin, dict) and origin.get("kind") not in (None, "user", "human"):
        return "system"
    texts = _texts_in(record)
    return "system" if texts and all(_INJECTED.match(text) for text in texts) else "prompt"


def _texts_in(record: Mapping[str, Any]) -> list[str]:
    """Return the beginnings of the texts of a record; what is shown beside them counts as none."""
    texts = (block.get("text") for block in blocks_in(record_content(record)))
    found = [text[:MOST_TEXT].lstrip() for text in texts if isinstance(text, str)]
    return [text for text in found if text]


def record_content(record: Mapping[str, Any]) -> object:
    """Return what a record says, wherever its kind has it: a text, blocks, or anything else."""
    body, attachment = record.get("message"), record.get("attachment")
    if isinstance(body, dict):
        return body.get("content")
    return attachment.get("prompt") if isinstance(attachment, dict) else record.get("content")


def blocks_in(content: object) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a content; a text that stands for one is one."""
    items = content if isinstance(content, list) else [content]
    for item in items:
        if isinstance(item, dict):
            yield item
        elif isinstance(item, str):
            yield {"type": "text", "text": item}
