"""The writer of exports that OpenCode imports, for conversations of any runtime.

An answer is a message, and a result is stored in the part of its call; so parts are created in
order, and a result completes the part of its call. OpenCode orders messages by time and other
records by id, and takes a session for answered if the last answer has a later id than the prompt:
so times never decrease, and ids are lower than all ids that OpenCode creates.

Source: docs/formats/opencode.md, "Writing".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec

from harken.core import structs
from harken.core.clock import parse_rfc3339
from harken.core.messages import (
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    parts_of,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_count, get_object, get_text, truncate_title
from harken.formats.runtimes.base import NewSessionInfo, parse_time
from harken.formats.runtimes.json_lines import to_line
from harken.formats.runtimes.new_session import format_milliseconds, iter_timed
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.opencode.messages import (
    ABORTED,
    INTERRUPTED,
    METADATA_KEY,
    is_replayed,
)
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.runtimes.target import Block, TargetRules
from harken.formats.tool_calls import iter_items, parse_json_object, replace_surrogates

_VERSION = "1.18.33"
"""The version of the client that reads this form."""
_AGENT = "build"
_PROVIDERS = {"claude": "anthropic", "gemini": "google", "gpt-": "openai"}
"""Providers in OpenCode by the prefix of the model's name."""
_MODEL = ("opencode", "big-pickle")
"""The provider and the name of a model that OpenCode offers without an account."""
_OWN_ID_PATTERN = re.compile(r"msg_[0-9a-f]{12}[0-9A-Za-z]{14}")
_DEFAULT_TITLE = "A conversation"
_ERROR_PREFIX = "[error]: "
_SEPARATOR = "\n\n"
"""The separator of texts of an answer."""

_ItemType: TypeAlias = Part | ToolCall


def write_session(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Write a conversation as the document of an export."""
    fit = TargetRules(
        owns=_owns,
        accepts=_accepts,
        has_image_urls=False,  # OpenCode fetches URLs and stops if that fails.
        has_answers_in_a_row=True,
        no_result=INTERRUPTED,
    )
    export = _ExportBuilder(session)
    start_time = next(filter(None, (parse_time(entry_.time) for entry_ in entries)), session.time)
    for entry, time in iter_timed(
        normalize_entries(_without_failed_answers(entries), fit),
        structs.replace(session, time=start_time),
    ):
        export.add(entry, _as_milliseconds(time))
    return to_line(export.build_document())


def session_id(session: NewSessionInfo) -> str:
    """Return OpenCode's id of a session.

    >>> session_id(NewSessionInfo(id="a", folder="/w", time="2026-01-31T12:00:00Z"))
    'ses_000000000000ca978112ca1bbd'
    """
    return f"ses_{_format_id(0, session)}"


def _format_id(number: int, session: NewSessionInfo) -> str:
    """Return an id in OpenCode's form: a number that orders, and letters of the session."""
    letters = sha256(replace_surrogates(session.id).encode()).hexdigest()[:14]
    return f"{number:012x}{letters}"


def _as_milliseconds(time: str) -> int:
    return parse_rfc3339(format_milliseconds(time)) // 1000


def _owns(entry: ConversationEntry) -> bool:
    match = _OWN_ID_PATTERN.fullmatch(get_text(entry.source or {}, "id"))
    return bool(match) or any(
        METADATA_KEY in (item.meta or {}) for item in iter_items(entry.message)
    )


def _accepts(entry: ConversationEntry, part: Block) -> bool:
    if isinstance(part, UnknownPart):
        return part.kind == "file" and entry.message.role != "assistant" and _build_file(part) != {}
    return METADATA_KEY in (part.meta or {})


def _without_failed_answers(entries: Sequence[ConversationEntry]) -> Iterator[ConversationEntry]:
    """Yield entries without the answers, and their results, that OpenCode does not send again."""
    is_skipped = False
    for entry in entries:
        if entry.message.role != "tool":
            is_skipped = entry.message.role == "assistant" and not is_replayed(entry)
        if not is_skipped:
            yield entry


class _ExportBuilder(msgspec.Struct):
    """Builds the document of an export."""

    session: NewSessionInfo
    times_ms: list[int] = msgspec.field(default_factory=list)
    """Times of the messages, in ascending order."""
    messages: list[Record] = msgspec.field(default_factory=list)
    title: str = ""
    parent_id: str = ""
    """The id of the last user message."""
    source_id: str | None = None
    """The id in the source of the last entry, if it is an answer."""
    calls: dict[str, Record] = msgspec.field(default_factory=dict)
    """The parts of the last answer, by the ids of their calls."""
    id_count: int = 0
    """The number of assigned ids."""

    def build_document(self) -> Record:
        """Return the document."""
        session = self.session
        times = self.times_ms or [_as_milliseconds(session.time)]
        info = {
            "id": session_id(session),
            "slug": f"harken-{_format_id(0, session)[-8:]}",
            "projectID": "global",
            "directory": session.folder,
            "title": session.title or self.title or _DEFAULT_TITLE,
            "version": _VERSION,
            "time": {"created": times[0], "updated": times[-1]},
        }
        return {"info": info, "messages": self.messages}

    def add(self, entry: ConversationEntry, time: int) -> None:
        """Add a message, or a result to its call in the previous answer."""
        match entry.message.role:
            case "assistant":
                self._add_answer(entry, time)
            case "tool":
                self._complete_call(
                    self.calls.get(entry.message.tool_call_id or "", {}), entry, time
                )
            case _:
                self._add_user_message(entry, time)

    def _add_user_message(self, entry: ConversationEntry, time: int) -> None:
        kind = (entry.source or {}).get("kind", PROMPT)
        text = text_of(entry.message.content)
        if kind == PROMPT and not self.title:
            self.title = truncate_title(text)
        provider, model = _split_model(self.session.model)
        info = {"role": "user", "time": {"created": self._creation_time(time)}, "agent": _AGENT}
        self._begin_message({**info, "model": {"providerID": provider, "modelID": model}})
        self.parent_id, self.source_id = get_text(get_object(self.messages[-1], "info"), "id"), None
        for part in parts_of(entry.message.content):
            if isinstance(part, TextPart):
                flags = {"synthetic": True} if kind == SYSTEM else {}
                self._add_part({"type": "text", "text": part.text, **flags, **_metadata(part)})
            else:
                self._add_part(_build_file(part))

    def _add_answer(self, entry: ConversationEntry, time: int) -> None:
        source, items = entry.source or {}, list(iter_items(entry.message))
        if not _owns(entry):
            items = _separate_texts(items)
        calls = [item for item in items if isinstance(item, ToolCall)]
        source_id = get_text(source, "id") or None
        if source_id is None or source_id != self.source_id:
            self._begin_message(self._build_answer_info(entry, time))
        self.source_id, self.calls = source_id, {}
        tokens, reason = (
            _build_tokens(get_object(source, "usage")),
            "tool-calls" if calls else "stop",
        )
        get_object(self.messages[-1], "info").update({"tokens": tokens, "finish": reason})
        self._add_part({"type": "step-start"})
        for item in items:
            match item:
                case ToolCall():
                    self.calls[item.id] = self._add_part(_build_call(item, time))
                case ThinkingPart():
                    members = {"type": "reasoning", "text": item.text, "time": {"start": time}}
                    self._add_part({**members, **_metadata(item)})
                case TextPart():
                    self._add_part({"type": "text", "text": item.text, **_metadata(item)})
        self._add_part({"type": "step-finish", "reason": reason, "cost": 0, "tokens": tokens})

    def _build_answer_info(self, entry: ConversationEntry, time: int) -> Record:
        source, folder = entry.source or {}, self.session.folder
        provider, model = _split_model(get_text(source, "model") or self.session.model)
        provider = get_text(source, "provider") or provider
        info: Record = {
            "role": "assistant",
            "time": {"created": self._creation_time(time), "completed": time},
            "parentID": self.parent_id,
            "modelID": model,
            "providerID": provider,
            "mode": _AGENT,
            "agent": _AGENT,
            "path": {"cwd": folder, "root": folder},
            "cost": 0,
        }
        if source.get("error") == ABORTED:
            info["error"] = {"name": ABORTED, "data": {"message": ""}}
        return info

    def _complete_call(self, call: Record, entry: ConversationEntry, time: int) -> None:
        """Complete the part of a call with its result."""
        result, old_state = entry.message, get_object(call, "state")
        text = text_of(result.content)
        files = [
            _build_file(part) for part in parts_of(result.content) if not isinstance(part, TextPart)
        ]
        times = {**get_object(old_state, "time"), "end": time}
        state: Record = {
            "status": "completed",
            "input": get_object(old_state, "input"),
            "time": times,
        }
        call["state"] = state
        if result.is_error and not files:
            state |= {"status": "error", "error": text}
            return
        if (entry.source or {}).get("cleared"):
            times["compacted"] = time
        text = _ERROR_PREFIX + text if result.is_error else text
        state |= {"output": text, "title": "", "metadata": {}}
        if files:
            state["attachments"] = [
                self._with_ids(file, get_text(call, "messageID")) for file in files
            ]

    def _begin_message(self, info: Record) -> None:
        info = {"id": self._create_id("msg"), "sessionID": session_id(self.session), **info}
        self.messages.append({"info": info, "parts": []})

    def _add_part(self, part: Record) -> Record:
        """Add a part to the last message and return the stored part."""
        message = self.messages[-1]
        message["parts"].append(self._with_ids(part, get_text(get_object(message, "info"), "id")))
        stored: Record = message["parts"][-1]
        return stored

    def _with_ids(self, part: Record, message: str) -> Record:
        session = session_id(self.session)
        return {"id": self._create_id("prt"), "sessionID": session, "messageID": message, **part}

    def _create_id(self, kind: str) -> str:
        self.id_count += 1
        return f"{kind}_{_format_id(self.id_count, self.session)}"

    def _creation_time(self, time: int) -> int:
        """Return the creation time of a message, no earlier than the previous one."""
        self.times_ms.append(max([time, *self.times_ms[-1:]]))
        return self.times_ms[-1]


def _separate_texts(items: Sequence[_ItemType]) -> list[_ItemType]:
    """Return items with separated texts, because OpenCode concatenates the texts of an answer."""
    separated: list[_ItemType] = []
    remaining_texts = sum(isinstance(item, TextPart) for item in items)
    for item in items:
        if not isinstance(item, TextPart):
            separated.append(item)
            continue
        remaining_texts -= 1
        previous = separated[-1] if separated else None
        text = item.text
        if isinstance(previous, TextPart):
            separated.pop()
            text = previous.text + text
        if remaining_texts and not text.endswith(_SEPARATOR):
            text += _SEPARATOR
        separated.append(TextPart(text))
    return separated


def _split_model(name: str) -> tuple[str, str]:
    """Return the provider of a model, and the provider's name of it."""
    provider, slash, model = name.partition("/")
    if slash and provider and model:
        return provider, model
    provider_ = next(
        (provider_name for prefix, provider_name in _PROVIDERS.items() if name.startswith(prefix)),
        None,
    )
    return (provider_ or _MODEL[0], name) if name else _MODEL


def _metadata(part: TextPart | ThinkingPart | ToolCall) -> Record:
    """Return OpenCode's metadata of a part."""
    return get_object(part.meta or {}, METADATA_KEY)


def _build_file(part: Part) -> Record:
    """Return a part as a file, or an empty object if it is none."""
    if isinstance(part, ImagePart):
        kind = part.media_type or "image/*"
        url = part.url if part.data is None else f"data:{kind};base64,{part.data}"
        return {"type": "file", "mime": kind, "url": url}
    value = parse_json_object(part.data) if isinstance(part, UnknownPart) else None
    is_file = value is not None and get_text(value, "mime") and get_text(value, "url")
    return {**(value or {}), "type": "file"} if is_file else {}


def _build_call(call: ToolCall, time: int) -> Record:
    state = {"status": "running", "input": parse_json_object(call.function.arguments) or {}}
    members = {"type": "tool", "callID": call.id, "tool": call.function.name}
    return {**members, "state": {**state, "time": {"start": time}}, **_metadata(call)}


def _build_tokens(usage: Record) -> Record:
    """Return counts in OpenCode's form, in which the input excludes cached tokens."""
    cache_read, cache_write = (
        get_count(usage, f"cache_{name}_tokens") or 0 for name in ("read", "write")
    )
    uncached = (get_count(usage, "input_tokens") or 0) - cache_read - cache_write
    output = get_count(usage, "output_tokens") or 0
    thoughts = min(get_count(usage, "reasoning_tokens") or 0, output)
    counts = {"input": max(uncached, 0), "output": output - thoughts, "reasoning": thoughts}
    return {**counts, "cache": {"read": cache_read, "write": cache_write}}
