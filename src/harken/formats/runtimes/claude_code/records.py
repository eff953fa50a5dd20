"""Parsing and classification of Claude Code records, the lines of a transcript.

A line is parsed twice. The first pass decodes only the members that define its position, without
creating objects for its content; the second pass decodes the complete lines with conversation.

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
from harken.formats.runtimes.claude_code.hook_output import hook_output
from harken.formats.runtimes.claude_code.origins import find_origin, is_other, read_origin
from harken.formats.runtimes.steps import NOTIFICATION, PROMPT, SYSTEM
from harken.formats.runtimes.user_text import CLAUDE_CODE_PHRASES, CLAUDE_CODE_TAGS

MAX_ORIGIN_CHARS = 4096
"""The number of characters of a text that are checked for its origin."""


class RecordKind(Enum):
    """The role of a record in the conversation."""

    PROMPT = auto()
    """A message of a user, or of the client in the user's name."""
    RESULT = auto()
    """Results of tools, possibly with a text."""
    ANSWER = auto()
    """A part of a response of the model, which may be several records."""
    BOUNDARY = auto()
    """The conversation before it was compacted."""
    SUMMARY = auto()
    """Replaces all compacted records."""
    LINK = auto()
    """No conversation, but a possible parent of other records."""
    ASIDE = auto()
    """Neither conversation nor a possible parent."""


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    tool_use_id: str = ""


class _Body(msgspec.Struct, gc=False):
    id: str | None = None
    role: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"")


class _Attachment(msgspec.Struct, gc=False):
    type: str = ""
    hookEvent: str = ""  # noqa: N815
    content: Any = None


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
    """The members of a line that the first pass decodes."""

    kind: RecordKind
    label: str
    """The name under which lines are counted: `assistant`, `system/init`."""
    uuid: str | None = None
    parent: str | None = None
    has_parent: bool = False
    """Whether the record has the member for its parent, which may be null."""
    logical_parent: str | None = None
    is_side: bool = False
    agent: str = ""
    response: str | None = None
    """The id of the response that the record belongs to."""
    calls: tuple[str, ...] = ()
    """The ids of the calls with results in the record."""
    preserved: tuple[str, ...] = ()
    """Of a boundary: the records that are still sent after the summary."""


_head_decoder = msgspec.json.Decoder(_Head)
_blocks_decoder = msgspec.json.Decoder(list[_Block])
QUEUED = "queued_command"
"""An attachment with a message that a user wrote during a turn of the model."""
LOCAL_COMMAND = "local_command"
"""A system record that reports a user's local action to the model."""


def decode_outline(data: bytes) -> RecordOutline:
    """Decode the outline of a line. Raises ValueError if the line is no JSON object."""
    try:
        head = _head_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        head = _parse_head(parse_record(data))
    kind, calls = _classify(head)
    agent = head.agentId or ""
    return RecordOutline(
        kind=kind,
        label=_format_label(head),
        uuid=head.uuid or None,
        parent=head.parentUuid or None,
        has_parent=head.parentUuid is not msgspec.UNSET,
        logical_parent=head.logicalParentUuid,
        is_side=bool(head.isSidechain),
        agent=agent if head.isSidechain else "",
        response=head.message.id if head.message is not None else None,
        calls=calls,
        preserved=_preserved_uuids(head.compactMetadata) if kind is RecordKind.BOUNDARY else (),
    )


def _format_label(head: _Head) -> str:
    return "/".join(filter(None, (head.type or "no type", head.subtype)))


def parse_record(data: bytes) -> dict[str, Any]:
    """Parse the record of a line. Raises ValueError if the line is no JSON object."""
    try:
        value = canonical.from_json(data)
    except ValueError:
        value = _parse_leniently(data.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _parse_leniently(text: str) -> Any:
    """Parse JSON leniently. Raises ValueError for invalid or too deeply nested JSON."""
    try:
        return json.loads(text, parse_int=_parse_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parse_integer(digits: str) -> int | str:
    """Return an integer, or the digits if it is longer than Python parses."""
    try:
        return int(digits)
    except ValueError:
        return digits


def _parse_head(record: Mapping[str, Any]) -> _Head:
    """Return the head of a record, without members of wrong types."""

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
        message=_Body(text(body, "id"), text(body, "role"), _to_raw(body.get("content")))
        if isinstance(body, dict)
        else None,
        attachment=_Attachment(
            text(attachment, "type") or "",
            text(attachment, "hookEvent") or "",
            attachment.get("content"),
        )
        if isinstance(attachment, dict)
        else None,
        compactMetadata=metadata if isinstance(metadata, dict) else None,
    )


def _to_raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(canonical.to_json_line(value))


def _classify(head: _Head) -> tuple[RecordKind, tuple[str, ...]]:
    if head.type == "assistant" and head.message is not None:
        return RecordKind.ANSWER, ()
    if head.type == "user" and head.message is not None:
        if head.isCompactSummary:
            return RecordKind.SUMMARY, ()
        calls = _result_call_ids(bytes(head.message.content))
        return (RecordKind.PROMPT, ()) if calls is None else (RecordKind.RESULT, calls)
    if head.type == "system" and head.subtype == "compact_boundary":
        return RecordKind.BOUNDARY, ()
    if head.type == "system" and head.subtype == LOCAL_COMMAND:
        return RecordKind.PROMPT, ()
    if head.attachment is not None and _is_read(head.attachment):
        return RecordKind.PROMPT, ()
    return (RecordKind.LINK if head.uuid else RecordKind.ASIDE), ()


def _is_read(attachment: _Attachment) -> bool:
    """Whether the model reads an attachment: a message, or the output of a hook."""
    members = {"type": attachment.type, "hookEvent": attachment.hookEvent}
    return attachment.type == QUEUED or bool(
        hook_output({**members, "content": attachment.content})
    )


def _result_call_ids(content: bytes) -> tuple[str, ...] | None:
    """Return the ids of the calls with results in a content. Return None if it has no result."""
    if not content.startswith(b"["):
        return None
    try:
        blocks = _blocks_decoder.decode(content)
    except msgspec.DecodeError:
        blocks = [_parse_block(value) for value in canonical.from_json(content)]
    calls = tuple(block.tool_use_id for block in blocks if block.type == "tool_result")
    return calls or None


def _parse_block(value: object) -> _Block:
    members = value if isinstance(value, dict) else {}
    kind, call = members.get("type"), members.get("tool_use_id")
    return _Block(*(text if isinstance(text, str) else "" for text in (kind, call)))


def _preserved_uuids(metadata: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the records that stay after a compaction, oldest first."""
    messages = (metadata or {}).get("preservedMessages")
    uuids = messages.get("uuids") if isinstance(messages, dict) else None
    values = uuids if isinstance(uuids, list) else []
    return tuple(uuid for uuid in values if isinstance(uuid, str))


_INJECTED_PATTERN = re.compile(
    rf"(?:{'|'.join(map(re.escape, CLAUDE_CODE_PHRASES))}|<(?:{'|'.join(CLAUDE_CODE_TAGS)})\b)"
)


def classify_origin(record: Mapping[str, Any]) -> str:
    """Return the kind of a user message: `prompt` for a person, `notification`, else `system`.

    The client writes many texts in the user's name. They are recognized by its marks. Only a record
    without an origin is recognized by its text.
    """
    origin = find_origin(read_origin(record))
    attachment = record.get("attachment")
    if is_other(origin) or hook_output(attachment):
        return NOTIFICATION
    is_meta = isinstance(attachment, dict) and attachment.get("isMeta") is True
    if is_meta or record.get("isMeta") is True or record.get("isCompactSummary") is True:
        return SYSTEM
    if record.get("type") == "system":
        return SYSTEM
    if origin is not None:
        return PROMPT
    texts = _text_beginnings(record)
    return SYSTEM if texts and all(_INJECTED_PATTERN.match(text) for text in texts) else PROMPT


def _text_beginnings(record: Mapping[str, Any]) -> list[str]:
    """Return the beginnings of the texts of a record. Other blocks are skipped."""
    texts = (block.get("text") for block in iter_blocks(record_content(record)))
    beginnings = [text[:MAX_ORIGIN_CHARS].lstrip() for text in texts if isinstance(text, str)]
    return [text for text in beginnings if text]


def record_content(record: Mapping[str, Any]) -> object:
    """Return the content of a record of any kind: a text, blocks, or any other value."""
    body, attachment = record.get("message"), record.get("attachment")
    if isinstance(body, dict):
        return body.get("content")
    if not isinstance(attachment, dict):
        return record.get("content")
    return hook_output(attachment) or attachment.get("prompt")


def iter_blocks(content: object) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a content. A text is converted to a block."""
    items = content if isinstance(content, list) else [content]
    for item in items:
        if isinstance(item, dict):
            yield item
        elif isinstance(item, str):
            yield {"type": "text", "text": item}
