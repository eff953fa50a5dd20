"""Conversion of Claude Code records to entries.

Records that belong together are one message: the blocks of a response are merged, and a result of a
tool is a separate message. `source` holds data of this runtime; usage is stored once per response.

Source: docs/formats/claude-code.md, "Entries".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from harken.core import canonical, structs
from harken.core.event_types.message_parser import MESSAGE_KEY, block_members
from harken.core.messages import (
    Content,
    ImagePart,
    Message,
    Meta,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.first_part import add_leftover, take_leftover, with_first_part
from harken.formats.json_records import get_object
from harken.formats.providers.anthropic import OCCURRENCE_MEMBERS, THINKING_MODEL_KEY, parse_block
from harken.formats.runtimes.base import parse_time
from harken.formats.runtimes.claude_code.hook_output import read_hook
from harken.formats.runtimes.claude_code.origins import read_origin
from harken.formats.runtimes.claude_code.records import (
    RecordKind,
    classify_origin,
    iter_blocks,
    record_content,
)
from harken.formats.runtimes.steps import NOTIFICATION
from harken.formats.tool_calls import build_assistant_message, parse_json_object

Record = Mapping[str, Any]
SYNTHETIC = "<synthetic>"
"""The model of an answer that the client wrote itself."""
_BODY_MEMBERS = ("model", "stop_reason", "usage")
USAGE_MEMBERS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
}
"""Token counts of a record without `usage`, and their names in it."""
COST = "costUSD"
"""The member with the cost of a response."""


def entries_from_records(kind: RecordKind, records: Sequence[Record]) -> list[ConversationEntry]:
    """Return the entries of the records of one group, oldest first."""
    if kind is RecordKind.ANSWER and records:
        return [_response_entry(records)]
    visible = (record for record in records if record.get("subtype") != "compact_boundary")
    return [entry for record in visible for entry in _iter_user_entries(record)]


def _response_entry(records: Sequence[Record]) -> ConversationEntry:
    """Return the message of a response."""
    bodies = [_body(record) for record in records]
    last, body = records[-1], bodies[-1]
    model = _text(body.get("model")) or _text(last.get("model"))
    block_lists = [[*iter_blocks(body_.get("content"))] for body_ in bodies]
    items = [_parse_answer_block(model, block) for blocks in block_lists for block in blocks]
    source: dict[str, Any] = {"kind": "response", "uuids": _uuids(records)}
    ids = {"id": body.get("id"), "request": last.get("requestId")}
    source |= {name: value for name, value in ids.items() if isinstance(value, str)}
    if len(items) != len(block_lists) or not all(block_lists):
        source["blocks"] = [len(blocks) for blocks in block_lists]
    source |= {name: body[name] for name in _BODY_MEMBERS if body.get(name) is not None}
    source |= _read_record_metadata(last, source)
    if model == SYNTHETIC or last.get("isApiErrorMessage") is True:
        source["kind"] = "error" if last.get("isApiErrorMessage") is True else "client"
    return ConversationEntry(build_assistant_message(items), _time(last), source)


def _read_record_metadata(record: Record, source: Record) -> dict[str, Any]:
    """Return the model, the usage and the cost that a record states outside of its message."""
    metadata: dict[str, Any] = {}
    if "model" not in source and _text(record.get("model")):
        metadata["model"] = record["model"]
    counts = {
        name: record[member]
        for member, name in USAGE_MEMBERS.items()
        if type(record.get(member)) is int
    }
    if counts and "usage" not in source:
        metadata["usage"] = counts
    if type(record.get(COST)) in (int, float):
        metadata["cost_usd"] = record[COST]
    return metadata


def _parse_answer_block(model: str, block: dict[str, Any]) -> Part | ToolCall:
    """Parse a block of an answer. Thinking is tagged with its model."""
    item = parse_block(block)
    if isinstance(item, ToolCall):
        arguments = block.get("input")
        names = _CALL_MEMBERS | {*block_members(item.extra)}
        meta = {name: block[name] for name in block if name not in names}
        if not isinstance(arguments, dict):  # The arguments stay verbatim.
            function = structs.replace(item.function, arguments=_as_json_text(arguments))
            item = structs.replace(item, function=function)
        return structs.replace(item, meta=meta) if meta else item
    if model and (isinstance(item, ThinkingPart) or _is_hidden(item)):
        return structs.replace(item, meta={**(item.meta or {}), THINKING_MODEL_KEY: model})
    return item


_CALL_MEMBERS = frozenset({"type", "id", "name", "input", "cache_control"})
_RESULT_MEMBERS = frozenset({"type", "content", "is_error"})


def _as_json_text(value: object) -> str:
    return value if isinstance(value, str) else canonical.to_json_line(value or {}).decode()


def _is_hidden(item: object) -> bool:
    return isinstance(item, UnknownPart) and item.kind == "redacted_thinking"


def _iter_user_entries(record: Record) -> Iterator[ConversationEntry]:
    """Yield the results of a record as separate messages, and the remaining content."""
    time, uuid = _time(record), _text(record.get("uuid"))
    content, kind = record_content(record), classify_origin(record)
    role: Role = "system" if kind == NOTIFICATION else "user"
    if isinstance(content, str):
        yield ConversationEntry(Message(role, content), time, _build_source(record, kind, uuid))
        return
    for is_result, blocks in groupby(iter_blocks(content), _is_result):
        source = _build_source(record, "tool_result" if is_result else kind, uuid)
        if is_result:
            for block in blocks:
                flags = {"is_error": False} if block.get("is_error") is False else {}
                yield ConversationEntry(_parse_result(block), time, {**source, **flags})
        else:
            yield ConversationEntry(Message(role, [*_parse_parts(blocks)]), time, source)


def _is_result(block: Record) -> bool:
    return block.get("type") == "tool_result"


def _build_source(record: Record, kind: str, uuid: str) -> dict[str, Any]:
    source: dict[str, Any] = {"kind": kind, "uuid": uuid} if uuid else {"kind": kind}
    attachment = record.get("attachment")
    if record.get("isMeta") is True or (
        isinstance(attachment, dict) and attachment.get("isMeta") is True
    ):
        source["meta"] = True
    if record.get("isCompactSummary") is True:
        source["summary"] = True
    if hook := read_hook(attachment):
        return source | hook
    if record.get("type") == "attachment":
        source["queued"] = True
    if record.get("type") == "system":
        source["local"] = True
    return source | read_origin(record)


def _parse_result(block: Record) -> Message:
    """Return the result of a tool, with its text or its parts."""
    raw = block.get("content")
    content: Content = None
    if raw is not None:
        content = raw if isinstance(raw, str) else [*_parse_parts(iter_blocks(raw))]
    message = Message(
        "tool",
        content,
        tool_call_id=_text(block.get("tool_use_id")),
        is_error=block.get("is_error") is True,
    )
    names = _RESULT_MEMBERS | OCCURRENCE_MEMBERS
    unknown = {name: value for name, value in block.items() if name not in names}
    return add_leftover(with_first_part(message), {MESSAGE_KEY: unknown}) if unknown else message


def take_result_members(entry: ConversationEntry) -> tuple[ConversationEntry, dict[str, Any]]:
    """Return a result without the members of its block that no field carries, and those members."""
    message, leftover = take_leftover(entry.message)
    return structs.replace(entry, message=message), get_object(leftover, MESSAGE_KEY)


def _parse_parts(blocks: Iterable[dict[str, Any]]) -> list[Part]:
    return [item for item in map(_parse_user_block, blocks) if not isinstance(item, ToolCall)]


def _parse_user_block(block: dict[str, Any]) -> Part | ToolCall:
    """Parse a block of a message that is no answer. A call in it is an unknown part."""
    item = parse_block(block)
    if isinstance(item, ToolCall):
        return UnknownPart("tool_use", canonical.to_json_line(block).decode())
    return item


def build_block(item: Part | ToolCall) -> dict[str, Any]:
    """Return a part or a call as a block. Thinking has its model in `THINKER`."""
    extra = block_members(item.extra)
    meta: Meta = {**extra, **(item.meta if isinstance(item.meta, dict) else {})}
    match item:
        case ToolCall():
            arguments = parse_json_object(item.function.arguments)
            call = {"type": "tool_use", "id": item.id, "name": item.function.name}
            return {**call, "input": {} if arguments is None else arguments, **meta}
        case TextPart():
            return {"type": "text", "text": item.text, **meta}
        case ThinkingPart():
            return {"type": "thinking", "thinking": item.text, **meta}
        case ImagePart(url=str(url)):
            return {"type": "image", "source": {"type": "url", "url": url}, **extra}
        case ImagePart():
            source = {"type": "base64", "media_type": item.media_type, "data": item.data}
            return {"type": "image", "source": source, **extra}
        case UnknownPart():
            return {**(parse_json_object(item.data) or {}), "type": item.kind, **meta}


def _body(record: Record) -> dict[str, Any]:
    body = record.get("message")
    return body if isinstance(body, dict) else {}


def _uuids(records: Iterable[Record]) -> list[str]:
    return [uuid for record in records if isinstance(uuid := record.get("uuid"), str)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(record: Record) -> str | None:
    return parse_time(record.get("timestamp"))
