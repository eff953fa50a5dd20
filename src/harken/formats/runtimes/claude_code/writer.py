"""The writer of transcripts that Claude Code resumes.

A transcript is written in the form of the client: a record for each block of an answer, and one for
each result, each the child of the previous one. Entries of Claude Code keep their ids; all others
are first adapted to the target rules.

Source: docs/formats/claude-code.md, "Writing".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import Part, ThinkingPart, ToolCall, UnknownPart, text_of
from harken.formats.base import ConversationEntry
from harken.formats.providers.anthropic import THINKING_MODEL_KEY
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.claude_code.entries import COST, build_block, take_result_members
from harken.formats.runtimes.claude_code.hook_output import build_hook_attachment
from harken.formats.runtimes.claude_code.origins import MODE, ORIGIN
from harken.formats.runtimes.claude_code.records import LOCAL_COMMAND, QUEUED
from harken.formats.runtimes.claude_code.resume_request import INTERRUPTED
from harken.formats.runtimes.new_session import RecordNames, derive_session_info, iter_timed
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.steps import SYSTEM
from harken.formats.runtimes.target import ID_LENGTH, TargetRules
from harken.formats.tool_calls import iter_items, replace_surrogates, sanitize_name

VERSION = "2.1.329"
"""The version of Claude Code that defines the form of the transcript."""
DEFAULT_MODEL = "claude-opus-5-5"
"""The model of answers of other runtimes, which the client requires in each answer."""
_MODEL_PREFIX = "claude"
"""The common prefix of the names of accepted models."""

_NUMBERED_PATTERN = re.compile(r"_[0-9]+\Z")

Record = dict[str, Any]


def write_session(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Return a conversation as a transcript. See `harken.formats.runtimes.base.SessionWriter`."""
    return _encode_lines([*_iter_title(session), *_build_records(entries, session)])


def write_transcript(entries: Sequence[ConversationEntry]) -> bytes:
    """Return a conversation as a transcript with a session id derived from its content.

    Its first record has no member for the parent instead of a null parent: so the lines of one
    transcript may follow those of another, and continue its conversation.
    """
    session = derive_session_info(entries)
    records = _build_records(entries, session)
    records[0].pop("parentUuid", None)
    return _encode_lines(records)


def _build_records(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> list[Record]:
    """Return the records of a conversation, or an empty operation for no entries."""
    session_members = {"sessionId": session.id, "timestamp": session.time}
    empty_operation = {"type": "queue-operation", "operation": "dequeue", **session_members}
    return list(_TranscriptBuilder(session).records(entries)) or [empty_operation]


def _encode_lines(records: Sequence[Record]) -> bytes:
    return b"".join(canonical.to_json_line(record) + b"\n" for record in records)


def _iter_title(session: NewSessionInfo) -> Iterator[Record]:
    if session.title.strip():
        yield {"type": "ai-title", "aiTitle": session.title, "sessionId": session.id}


def _source_of(entry: ConversationEntry) -> Mapping[str, Any]:
    return entry.source or {}


def _owns(entry: ConversationEntry) -> bool:
    """Whether Claude Code wrote an entry: its records have uuids."""
    source = _source_of(entry)
    return "uuid" in source or "uuids" in source


def _is_error(entry: ConversationEntry) -> bool:
    return _owns(entry) and _source_of(entry).get("kind") == "error"


def _accepts(entry: ConversationEntry, part: ThinkingPart | UnknownPart) -> bool:
    """Whether a provider can verify a thought. Other blocks are sent if they were sent before."""
    meta = part.meta if isinstance(part.meta, dict) else {}
    is_known = _owns(entry) or str(meta.get(THINKING_MODEL_KEY, "")).startswith(_MODEL_PREFIX)
    if isinstance(part, ThinkingPart):
        signature = meta.get("signature")
        return is_known and isinstance(signature, str) and bool(signature)
    return _owns(entry) or (is_known and part.kind == "redacted_thinking")


class _Ids(msgspec.Struct):
    """Assigns call ids that the client distinguishes.

    The client takes `a_2` for a repetition of `a`, and drops its result as a duplicate.

    >>> ids = _Ids()
    >>> ids.new("a"), ids.new("a_2"), ids.new("b_2")
    ('a', 'toolu_9707810bbb9cbd9e3ac20432', 'b_2')
    """

    _used_ids: set[str] = msgspec.field(default_factory=set)

    def new(self, raw: str) -> str:
        """Return the id of the next call. The same calls in the same order get the same ids."""
        candidate, count = sanitize_name(raw, ID_LENGTH), 0
        while not candidate or not self._used_ids.isdisjoint(
            (candidate, _NUMBERED_PATTERN.sub("", candidate))
        ):
            count += 1
            digest = hashlib.sha256(replace_surrogates(f"{count} {raw}").encode()).hexdigest()
            candidate = f"toolu_{digest[:24]}"
        self._used_ids.add(candidate)
        return candidate


FIT = TargetRules(
    owns=_owns,
    ids=_Ids,
    accepts=_accepts,
    is_aside=_is_error,
    has_calls_last=True,
    has_notifications=True,
    has_error_images=False,
    no_result=INTERRUPTED,
)
"""The rules of Claude Code and its provider."""


@dataclass(slots=True)
class _TranscriptBuilder:
    """Builds the records of a transcript."""

    session: NewSessionInfo
    names: RecordNames = field(init=False)
    responses: set[str] = field(default_factory=set)
    """Ids of the previous responses."""
    _last_uuid: str | None = None

    def __post_init__(self) -> None:
        self.names = RecordNames(self.session)

    def records(self, entries: Sequence[ConversationEntry]) -> Iterator[Record]:
        """Yield the records of a conversation."""
        for entry, time in iter_timed(normalize_entries(entries, FIT), self.session):
            records_ = (
                self._answer_records(entry)
                if entry.message.role == "assistant"
                else self._user_records(entry)
            )
            for uuid, record in records_:
                yield self._build_record(uuid, time, record)

    def _build_record(self, uuid: str | None, time: str, members: Record) -> Record:
        name = uuid or str(self.names.new())
        record = {
            "parentUuid": self._last_uuid,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.session.folder,
            "sessionId": self.session.id,
            "version": VERSION,
            "gitBranch": "",
            **members,
            "uuid": name,
            "timestamp": time,
        }
        self._last_uuid = name
        return record

    def _answer_records(self, entry: ConversationEntry) -> Iterator[tuple[str | None, Record]]:
        """Yield the records of an answer: as originally split, or one for each block."""
        source = _source_of(entry) if _owns(entry) else {}
        items = list(iter_items(entry.message))
        body = {"id": self._response_id(source.get("id")), "type": "message", "role": "assistant"}
        body["model"] = _claude_model(entry) or self.session.model or DEFAULT_MODEL
        has_calls = any(isinstance(item, ToolCall) for item in items)
        stop_reason = source.get(
            "stop_reason", None if source else "tool_use" if has_calls else "end_turn"
        )
        stop_members = {"stop_reason": stop_reason, "stop_sequence": None}
        if source.get("usage") is not None:
            stop_members["usage"] = source["usage"]
        request = source.get("request")
        extra: Record = {"requestId": request} if isinstance(request, str) else {}
        if source.get("kind") == "error":
            extra["isApiErrorMessage"] = True
        if source.get("cost_usd") is not None:
            extra[COST] = source["cost_usd"]
        uuids = source.get("uuids")
        original_uuids = iter(uuids if isinstance(uuids, list) else ())
        for group in _group_items(items, source.get("blocks")):
            content = [_answer_block(item) for item in group]
            message = {**body, "content": content, **stop_members}
            yield (
                self.names.reuse_id(next(original_uuids, None)),
                {"type": "assistant", "message": message, **extra},
            )

    def _response_id(self, original: object) -> str:
        """Return a unique id of a response. Records with equal ids are one response."""
        id_ = original if isinstance(original, str) and original not in self.responses else None
        id_ = id_ or f"msg_{self.names.new().hex}"
        self.responses.add(id_)
        return id_

    def _user_records(self, entry: ConversationEntry) -> Iterator[tuple[str | None, Record]]:
        """Yield the record of a result or of a user message."""
        source = _source_of(entry)
        origin = {ORIGIN: source[ORIGIN]} if _owns(entry) and ORIGIN in source else {}
        hook = build_hook_attachment(source, text_of(entry.message.content))
        if entry.message.role == "tool":
            record: Record = {"type": "user", "message": _user_message([_build_result(entry)])}
        elif _owns(entry) and hook is not None:
            record = {"type": "attachment", "attachment": hook}
        elif _owns(entry) and source.get("queued") is True:
            mode = source.get(MODE, "prompt")
            attachment = {"type": QUEUED, "prompt": _build_content(entry), "commandMode": mode}
            meta = {"isMeta": True} if source.get("meta") is True else {}
            record = {"type": "attachment", "attachment": {**attachment, **origin, **meta}}
        elif _owns(entry) and source.get("local") is True:
            members = {"subtype": LOCAL_COMMAND, "level": "info"}
            record = {"type": "system", **members, "content": _build_content(entry)}
        else:
            record = {"type": "user", "message": _user_message(_build_content(entry)), **origin}
            if source.get("summary") is True and self._last_uuid is None:
                record |= {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        is_meta = source.get("meta") is True if _owns(entry) else source.get("kind") == SYSTEM
        if is_meta and record["type"] != "attachment":
            record["isMeta"] = True
        yield self.names.reuse_id(source.get("uuid")), record


def _user_message(content: object) -> Record:
    return {"role": "user", "content": content}


def _build_content(entry: ConversationEntry) -> str | list[Record]:
    content = entry.message.content
    return (
        content
        if isinstance(content, str)
        else [build_block(item) for item in iter_items(entry.message)]
    )


def _claude_model(entry: ConversationEntry) -> str:
    """Return the Claude model of an answer, or an empty string for another model."""
    source = _source_of(entry)
    candidates = [source.get("model")]
    if not _owns(entry):
        candidates += [(part.meta or {}).get(THINKING_MODEL_KEY) for part in _iter_thinking(entry)]
    models = [name for name in candidates if isinstance(name, str) and name]
    accepted = [name for name in models if _owns(entry) or name.startswith(_MODEL_PREFIX)]
    return accepted[-1] if accepted else ""


def _iter_thinking(entry: ConversationEntry) -> Iterator[ThinkingPart]:
    yield from (part for part in iter_items(entry.message) if isinstance(part, ThinkingPart))


def _group_items(
    items: Sequence[Part | ToolCall], counts: object
) -> Iterator[Sequence[Part | ToolCall]]:
    """Yield items by record: by the original counts, or one each."""
    sizes = [n for n in counts if isinstance(n, int) and n >= 0] if isinstance(counts, list) else []
    if sum(sizes) != len(items) or (not items and not sizes):
        sizes = [1] * len(items) or [0]
    start = 0
    for count in sizes:
        yield items[start : start + count]
        start += count


def _answer_block(item: Part | ToolCall) -> Record:
    block = build_block(item)
    if isinstance(item, ThinkingPart | UnknownPart):
        block.pop(THINKING_MODEL_KEY, None)  # The model is a member of the record.
    return block


def _build_result(entry: ConversationEntry) -> Record:
    entry, members = take_result_members(entry)
    message = entry.message
    block: Record = {"tool_use_id": message.tool_call_id or "", "type": "tool_result"}
    if message.content is not None:
        block["content"] = _build_content(entry)
    if message.is_error or "is_error" in _source_of(entry):
        block["is_error"] = message.is_error
    return {**block, **members}
