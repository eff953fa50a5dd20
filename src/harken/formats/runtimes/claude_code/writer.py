"""Conversations as transcripts of Claude Code, which it resumes.

One idea: a transcript is written as the client itself writes one: a record for each block of an
answer, one for each result, each the child of the one above. What Claude Code wrote once keeps its
names; all else is fitted first, and says in its records what its source said.

Source: docs/formats/claude-code.md, "Writing".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.core import canonical
from harken.core.messages import Part, ThinkingPart, ToolCall, UnknownPart
from harken.formats.base import ConversationEntry
from harken.formats.providers.anthropic import THINKER
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.claude_code.entries import block_of
from harken.formats.runtimes.claude_code.records import LOCAL_COMMAND, QUEUED
from harken.formats.runtimes.claude_code.resume_request import DEFAULT_MODEL, INTERRUPTED
from harken.formats.runtimes.new_session import RecordNames, named_by_content, timed
from harken.formats.runtimes.normalize import fitted
from harken.formats.runtimes.steps import SYSTEM
from harken.formats.runtimes.target import ID_LENGTH, TargetRules
from harken.formats.tool_calls import clean, in_order, well_formed

VERSION = "2.1.329"
"""Whose form is written."""
_MODELS = "claude"
"""How the models that it knows are called, to begin with."""

_NUMBERED = re.compile(r"_[0-9]+\Z")

Record = dict[str, Any]


def writes(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Return a conversation as a transcript. See `harken.formats.runtimes.base.Writes`."""
    return _lines([*_title(session), *_records(entries, session)])


def exported(entries: Sequence[ConversationEntry]) -> bytes:
    """Return a conversation as a transcript that is named by what it says.

    Its first record says no parent rather than that it has none: so the lines of one transcript
    may follow those of another, and go on with what was said there.
    """
    session = named_by_content(entries)
    records = _records(entries, session)
    records[0].pop("parentUuid", None)
    return _lines(records)


def _records(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> list[Record]:
    """Return the records of a conversation; where nothing was said, one that says nothing."""
    about = {"sessionId": session.id, "timestamp": session.time}
    nothing = {"type": "queue-operation", "operation": "dequeue", **about}
    return list(_Writing(session).records(entries)) or [nothing]


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(canonical.to_json_line(record) + b"\n" for record in records)


def _title(session: NewSessionInfo) -> Iterator[Record]:
    if session.title.strip():
        yield {"type": "ai-title", "aiTitle": session.title, "sessionId": session.id}


def _source(entry: ConversationEntry) -> Mapping[str, Any]:
    return entry.source or {}


def _owns(entry: ConversationEntry) -> bool:
    """Whether Claude Code wrote an entry: its records have names."""
    source = _source(entry)
    return "uuid" in source or "uuids" in source


def _is_error(entry: ConversationEntry) -> bool:
    return _owns(entry) and _source(entry).get("kind") == "error"


def _takes(entry: ConversationEntry, part: ThinkingPart | UnknownPart) -> bool:
    """Whether a provider can verify a thought; other blocks are sent if they were before."""
    meta = part.meta if isinstance(part.meta, dict) else {}
    is_known = _owns(entry) or str(meta.get(THINKER, "")).startswith(_MODELS)
    if isinstance(part, ThinkingPart):
        signature = meta.get("signature")
        return is_known and isinstance(signature, str) and bool(signature)
    return _owns(entry) or (is_known and part.kind == "redacted_thinking")


@dataclass(slots=True)
class _Ids:
    """Gives calls ids that the client tells apart.

    It takes `a_2` for `a` said again, and its result for a second one, which goes.

    >>> ids = _Ids()
    >>> ids.new("a"), ids.new("a_2"), ids.new("b_2")
    ('a', 'toolu_9707810bbb9cbd9e3ac20432', 'b_2')
    """

    _taken: set[str] = field(default_factory=set)

    def new(self, raw: str) -> str:
        """Return the id of the next call; the same calls in the same order get the same ids."""
        wanted, count = well_formed(raw, ID_LENGTH), 0
        while not wanted or not self._taken.isdisjoint((wanted, _NUMBERED.sub("", wanted))):
            count += 1
            digest = hashlib.sha256(clean(f"{count} {raw}").encode()).hexdigest()
            wanted = f"toolu_{digest[:24]}"
        self._taken.add(wanted)
        return wanted


FIT = TargetRules(
    owns=_owns,
    ids=_Ids,
    takes=_takes,
    is_aside=_is_error,
    has_calls_last=True,
    has_error_images=False,
    no_result=INTERRUPTED,
)
"""What Claude Code, and its provider, accept."""


@dataclass(slots=True)
class _Writing:
    """A transcript that is being written."""

    session: NewSessionInfo
    names: RecordNames = field(init=False)
    responses: set[str] = field(default_factory=set)
    """Ids of the answers so far."""
    _last: str | None = None

    def __post_init__(self) -> None:
        self.names = RecordNames(self.session)

    def records(self, entries: Sequence[ConversationEntry]) -> Iterator[Record]:
        """Yield the records of a conversation."""
        for entry, time in timed(fitted(entries, FIT), self.session):
            said = self._answer(entry) if entry.message.role == "assistant" else self._heard(entry)
            for uuid, record in said:
                yield self._record(uuid, time, record)

    def _record(self, uuid: str | None, time: str, said: Record) -> Record:
        name = uuid or str(self.names.new())
        record = {
            "parentUuid": self._last,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.session.folder,
            "sessionId": self.session.id,
            "version": VERSION,
            "gitBranch": "",
            **said,
            "uuid": name,
            "timestamp": time,
        }
        self._last = name
        return record

    def _answer(self, entry: ConversationEntry) -> Iterator[tuple[str | None, Record]]:
        """Yield the records of an answer, as many as it had or one for each block."""
        source = _source(entry) if _owns(entry) else {}
        items = list(in_order(entry.message))
        body = {"id": self._response(source.get("id")), "type": "message", "role": "assistant"}
        body["model"] = _model(entry) or self.session.model or DEFAULT_MODEL
        calls = any(isinstance(item, ToolCall) for item in items)
        stopped = source.get("stop_reason", None if source else "tool_use" if calls else "end_turn")
        ends = {"stop_reason": stopped, "stop_sequence": None}
        if source.get("usage") is not None:
            ends["usage"] = source["usage"]
        request = source.get("request")
        more: Record = {"requestId": request} if isinstance(request, str) else {}
        if source.get("kind") == "error":
            more["isApiErrorMessage"] = True
        uuids = source.get("uuids")
        known = iter(uuids if isinstance(uuids, list) else ())
        for group in _grouped(items, source.get("blocks")):
            content = [_said(item) for item in group]
            message = {**body, "content": content, **ends}
            yield (
                self.names.own(next(known, None)),
                {"type": "assistant", "message": message, **more},
            )

    def _response(self, own: object) -> str:
        """Return the id of a response: what has the same one is the same."""
        id_ = own if isinstance(own, str) and own not in self.responses else None
        id_ = id_ or f"msg_{self.names.new().hex}"
        self.responses.add(id_)
        return id_

    def _heard(self, entry: ConversationEntry) -> Iterator[tuple[str | None, Record]]:
        """Yield the record of a result, or of what a user said."""
        source = _source(entry)
        if entry.message.role == "tool":
            said: Record = {"type": "user", "message": _user([_result(entry)])}
        elif _owns(entry) and source.get("queued") is True:
            queued = {"type": QUEUED, "prompt": _content(entry), "commandMode": "prompt"}
            said = {"type": "attachment", "attachment": queued}
        elif _owns(entry) and source.get("local") is True:
            about = {"subtype": LOCAL_COMMAND, "level": "info"}
            said = {"type": "system", **about, "content": _content(entry)}
        else:
            said = {"type": "user", "message": _user(_content(entry))}
            if source.get("summary") is True and self._last is None:
                said |= {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        is_meta = source.get("meta") is True if _owns(entry) else source.get("kind") == SYSTEM
        if is_meta:
            said["isMeta"] = True
        yield self.names.own(source.get("uuid")), said


def _user(content: object) -> Record:
    return {"role": "user", "content": content}


def _content(entry: ConversationEntry) -> str | list[Record]:
    content = entry.message.content
    return (
        content if isinstance(content, str) else [block_of(one) for one in in_order(entry.message)]
    )


def _model(entry: ConversationEntry) -> str:
    """Return the model of Claude's that answered; empty: it was another one."""
    source = _source(entry)
    named = [source.get("model")]
    if not _owns(entry):
        named += [(part.meta or {}).get(THINKER) for part in _thoughts(entry)]
    models = [name for name in named if isinstance(name, str) and name]
    known = [name for name in models if _owns(entry) or name.startswith(_MODELS)]
    return known[-1] if known else ""


def _thoughts(entry: ConversationEntry) -> Iterator[ThinkingPart]:
    yield from (part for part in in_order(entry.message) if isinstance(part, ThinkingPart))


def _grouped(
    items: Sequence[Part | ToolCall], counts: object
) -> Iterator[Sequence[Part | ToolCall]]:
    """Yield items by the records that they stand in: one each, if it is not known otherwise."""
    known = [n for n in counts if isinstance(n, int) and n >= 0] if isinstance(counts, list) else []
    if sum(known) != len(items) or (not items and not known):
        known = [1] * len(items) or [0]
    at = 0
    for count in known:
        yield items[at : at + count]
        at += count


def _said(item: Part | ToolCall) -> Record:
    block = block_of(item)
    if isinstance(item, ThinkingPart | UnknownPart):
        block.pop(THINKER, None)  # it stands in the record
    return block


def _result(entry: ConversationEntry) -> Record:
    message = entry.message
    block: Record = {"tool_use_id": message.tool_call_id or "", "type": "tool_result"}
    if message.content is not None:
        block["content"] = _content(entry)
    if message.is_error or "is_error" in _source(entry):
        block["is_error"] = message.is_error
    return block
