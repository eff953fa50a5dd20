"""What Gemini CLI resumes: the chat of a new session, whoever had the conversation.

One idea: a message of the model holds the results of its calls. So an answer and the results after
it are one line, and nothing is said twice: what the client's own files also hold as lines of a user
it would send twice.

Source: docs/formats/gemini-cli.md, "Writing".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid5

import msgspec

from harken.core.messages import Part, TextPart, ThinkingPart, ToolCall, UnknownPart, text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_count, get_object, get_text
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.gemini_cli.messages import (
    OWN,
    PRESENT,
    block_of,
    is_unsent,
    own_of,
    response_of,
)
from harken.formats.runtimes.json_lines import to_line
from harken.formats.runtimes.new_session import milliseconds, timed
from harken.formats.runtimes.normalize import fitted
from harken.formats.runtimes.steps import SYSTEM
from harken.formats.runtimes.target import Block, TargetRules, has_own, message_parts
from harken.formats.tool_calls import as_object, clean, content_of, in_order, well_formed

USER = "[user]: "
"""Before what was said to the model, and what Gemini CLI would take for a command and not send."""
_NAMES = UUID("0d9a8a1e-25a4-4d1f-8b86-0a2f4c53a1d1")
"""In which messages are named, by the id of the session and their place."""
_NAME_LENGTH = 64
_SUBJECT = re.compile(r"\*\*(?P<subject>[^*\n]+)\*\* (?P<description>.*)", re.DOTALL)
_BLOCKS = frozenset({"executableCode", "codeExecutionResult", "fileData", "inlineData"})
"""Parts that only Gemini knows, and takes back."""


def writes(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Write a conversation as the lines of a chat."""
    fit = TargetRules(
        owns=_owns,
        takes=_takes,
        is_aside=_is_aside,
        has_image_urls=False,
        has_answers_in_a_row=True,
    )
    chat = _Chat(session)
    for entry, time in timed(_spoken_to(fitted(entries, fit)), session):
        chat.add(entry, time)
    return b"".join(map(to_line, chat.lines()))


def _owns(entry: ConversationEntry) -> bool:
    return has_own(entry, OWN)


def _takes(entry: ConversationEntry, part: Block) -> bool:
    if isinstance(part, UnknownPart):
        return part.kind in _BLOCKS and block_of(part) is not None
    return OWN in (part.meta or {})


def _is_aside(entry: ConversationEntry) -> bool:
    """Whether it is what Gemini CLI says of the present, and says anew."""
    message, kind = entry.message, (entry.source or {}).get("kind")
    is_user = message.role == "user" and kind == SYSTEM
    return is_user and text_of(message.content).strip().startswith(PRESENT)


def _spoken_to(entries: Sequence[ConversationEntry]) -> Iterator[ConversationEntry]:
    """Yield entries such that all that a model has read, and is to read, is sent."""
    for at, entry in enumerate(entries):
        after = entries[at + 1].message.role if at + 1 < len(entries) else "assistant"
        is_read = after == "assistant" and not _is_aside(entry)
        message = entry.message
        if message.role == "user" and is_read and is_unsent(message):
            content = content_of([TextPart(USER), *message_parts(message)])
            if isinstance(message.content, str):
                content = USER + message.content
            message = msgspec.structs.replace(message, content=content)
        yield replace(entry, message=message)


@dataclass(slots=True)
class _Chat:
    """A chat on its way."""

    session: NewSessionInfo
    messages: list[Record] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    calls: dict[str, Record] = field(default_factory=dict)
    """Those of the last answer, by their ids."""

    def lines(self) -> list[Record]:
        """Return all lines."""
        times = [get_text(message, "timestamp") for message in self.messages]
        began = milliseconds(self.session.time)
        folder = clean(self.session.folder).encode()
        header = {
            "sessionId": self.session.id,
            "projectHash": hashlib.sha256(folder).hexdigest(),
            "startTime": began,
            "lastUpdated": max(times, default=began),
            "kind": "main",
        }
        return [header, *self.messages]

    def add(self, entry: ConversationEntry, time: str) -> None:
        """Add what was said, or a result to the call of the answer before it."""
        message = entry.message
        if message.role == "tool":
            call = self.calls.get(message.tool_call_id or "", {})
            id_ = get_text(call, "id") or None
            call["result"] = response_of(entry, id_, get_text(call, "name"))
            call["status"] = "error" if message.is_error else "success"
            call["timestamp"] = time
            return
        told = {"id": self._name(entry), "timestamp": time}
        if message.role == "assistant":
            self.messages.append({**told, "type": "gemini", **self._answer(entry, told["id"])})
        else:
            blocks = [block for part in message_parts(message) if (block := block_of(part))]
            self.messages.append({**told, "type": "user", "content": blocks})

    def _name(self, entry: ConversationEntry) -> str:
        """Return the id of a message: its own, where it has a fit one that is free."""
        name = get_text(entry.source or {}, "id")
        if not name or name in self.named or well_formed(name, _NAME_LENGTH) != name:
            name = str(uuid5(_NAMES, f"{self.session.id} {len(self.messages)}"))
        self.named.add(name)
        return name

    def _answer(self, entry: ConversationEntry, name: str) -> Record:
        items, source = list(in_order(entry.message)), entry.source or {}
        made = [item for item in items if isinstance(item, ToolCall)]
        calls = [_call(item, name) for item in made]
        self.calls = {item.id: call for item, call in zip(made, calls, strict=True)}
        answer: Record = {}
        if _is_plain(items):
            thoughts = [_thought(item) for item in items if isinstance(item, ThinkingPart)]
            texts = [block_of(item) for item in items if isinstance(item, TextPart | UnknownPart)]
            answer["content"] = texts
            if thoughts:
                answer["thoughts"] = thoughts
        else:
            answer["content"] = [_inline(item) for item in items]
        if calls:
            answer["toolCalls"] = calls
        usage = get_object(source, "usage")
        if usage:
            answer["tokens"] = _tokens(usage)
        if get_text(source, "model"):
            answer["model"] = get_text(source, "model")
        return answer


def _is_plain(items: Sequence[Part | ToolCall]) -> bool:
    """Whether thoughts, texts and calls stand in this order, and nothing is signed."""
    ranks = [_RANKS.get(type(item), 1) for item in items]
    return ranks == sorted(ranks) and not any(
        isinstance(item, ThinkingPart | ToolCall) and {*own_of(item.meta)} - {"unnamed"}
        for item in items
    )


_RANKS: dict[type, int] = {ThinkingPart: 0, ToolCall: 2}


def _thought(part: ThinkingPart) -> Record:
    found = _SUBJECT.fullmatch(part.text)
    return found.groupdict() if found else {"subject": "", "description": part.text}


def _call(call: ToolCall, message: str) -> Record:
    """Return a call as the message holds it; one that never had an id has none."""
    made = {"id": call.id, "name": call.function.name, "args": as_object(call.function.arguments)}
    if own_of(call.meta).get("unnamed") == message:
        del made["id"]
    return made


def _inline(item: Part | ToolCall) -> Record | None:
    if isinstance(item, ToolCall):
        given = as_object(item.function.arguments)
        call = {"id": item.id, "name": item.function.name, "args": given}
        return {"functionCall": call, **own_of(item.meta)}
    if isinstance(item, ThinkingPart):
        return {"text": item.text, "thought": True, **own_of(item.meta)}
    return block_of(item)


def _tokens(usage: Record) -> Record:
    counts = {name: get_count(usage, f"{name}_tokens") or 0 for name in ("input", "output")}
    cached = get_count(usage, "cache_read_tokens") or 0
    whole = sum(counts.values())
    thoughts = min(get_count(usage, "reasoning_tokens") or 0, counts["output"])
    counts["output"] -= thoughts  # which Gemini counts beside it
    return {**counts, "cached": cached, "thoughts": thoughts, "tool": 0, "total": whole}
