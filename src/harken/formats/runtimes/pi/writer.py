"""The writer of sessions that Pi resumes.

Pi's messages are close to those of Harken, so an entry of another runtime is written with few
additional members, and Pi's own entries are restored. A message that a runtime wrote in the user's
name is a `custom_message`: the model reads it as a user message, and Pi shows it differently.

Source: docs/formats/pi.md, "Writing".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.clock import parse_rfc3339
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.base import INCOMPLETE_STOP_REASONS, PI_MEMBER, NewSessionInfo
from harken.formats.runtimes.new_session import (
    RecordNames,
    derive_session_info,
    format_milliseconds,
    iter_timed,
)
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.pi.messages import NO_RESULT, to_pi_messages, truncate_call_id
from harken.formats.runtimes.steps import SYSTEM
from harken.formats.runtimes.target import ID_LENGTH, TargetRules
from harken.formats.tool_calls import CallIds, sanitize_name

VERSION = 3
CUSTOM = "harken"
"""The type of messages that another runtime wrote in the user's name."""
_PROVIDERS_BY_PREFIX: Mapping[str, tuple[str, str]] = {
    "claude": ("anthropic", "anthropic-messages"),
    "gpt": ("openai", "openai-responses"),
    "gemini": ("google", "google-generative-ai"),
}
"""Provider and protocol by the prefix of the model's name. Pi continues with the last model if its
provider offers it."""
_DEFAULT_PROVIDER = ("unknown", "openai-completions")
_CHARS_PER_TOKEN = 4


def write_session(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Return a conversation as a session of Pi. See `SessionWriter`."""
    return b"".join(
        canonical.to_json_line(record) + b"\n"
        for record in _SessionBuilder(session).records(entries)
    )


def write_export(entries: Sequence[ConversationEntry]) -> bytes:
    """Return a conversation as a session with an id derived from its content."""
    return write_session(entries, derive_session_info(entries))


def _source_of(entry: ConversationEntry) -> Mapping[str, Any]:
    return entry.source or {}


def _owns(entry: ConversationEntry) -> bool:
    return PI_MEMBER in _source_of(entry) or "subkind" in _source_of(entry)


def _is_broken_off(entry: ConversationEntry) -> bool:
    """Whether Pi does not send an answer again."""
    return (
        get_text(get_object({**_source_of(entry)}, PI_MEMBER), "stopReason")
        in INCOMPLETE_STOP_REASONS
    )


class _Ids(msgspec.Struct):
    """Assigns call ids in Pi's form: the part before `|` is sent, and must be unique."""

    ids: CallIds = msgspec.field(default_factory=lambda: CallIds(ID_LENGTH))

    def new(self, raw: str) -> str:
        """Return the id of the next call. The same calls in the same order get the same ids."""
        short = truncate_call_id(raw)
        assigned = self.ids.new(short)
        return raw if assigned == short and "|" in raw else assigned


FIT = TargetRules(
    owns=_owns,
    is_aside=_is_broken_off,
    ids=_Ids,
    has_image_urls=False,
    no_result=NO_RESULT,
)
"""The rules of Pi and of its providers."""


@dataclass(slots=True)
class _SessionBuilder:
    """Builds the records of a session."""

    session: NewSessionInfo
    names: RecordNames = field(init=False)
    tools: dict[str, str] = field(default_factory=dict)
    """The tool of each call, by call id."""
    characters: int = 0
    """The number of characters of the content so far, as serialized."""
    _used_ids: set[str] = field(default_factory=set)
    _last_id: str | None = None

    def __post_init__(self) -> None:
        self.names = RecordNames(self.session)

    def records(self, entries: Sequence[ConversationEntry]) -> Iterator[Record]:
        """Yield the header, then the entries of the tree, which has one branch."""
        time = format_milliseconds(self.session.time)
        members = {"timestamp": time, "cwd": self.session.folder}
        yield {"type": "session", "version": VERSION, "id": self.session.id, **members}
        if self.session.title.strip():
            yield self._build_node("session_info", None, time, {"name": self.session.title})
        for entry, entry_time in iter_timed(normalize_entries(entries, FIT), self.session):
            time = entry_time
            kind, record = self._build_record(entry, time)
            original_id = _source_of(entry).get("id") if _owns(entry) else None
            yield self._build_node(kind, original_id, time, record)
        provider, slash, model = self.session.model.partition("/")
        if slash:
            choice = {"provider": provider, "modelId": model}
            yield self._build_node("model_change", None, time, choice)

    def _build_node(self, kind: str, original_id: object, time: str, record: Record) -> Record:
        id_, parent = self._choose_id(original_id), self._last_id
        self._used_ids.add(id_)
        self._last_id = id_
        return {"type": kind, "id": id_, "parentId": parent, "timestamp": time, **record}

    def _choose_id(self, original_id: object) -> str:
        if (
            isinstance(original_id, str)
            and original_id == sanitize_name(original_id, ID_LENGTH)
            and self._is_free(original_id)
        ):
            return original_id
        name = self.names.new().hex[:8]
        while not self._is_free(name):
            name = self.names.new().hex[:8]
        return name

    def _is_free(self, name: str) -> bool:
        return bool(name) and name not in self._used_ids

    def _build_record(self, entry: ConversationEntry, time: str) -> tuple[str, Record]:
        (message,) = to_pi_messages([entry])
        source = _source_of(entry)
        if message["role"] == "user" and PI_MEMBER not in source and source.get("kind") == SYSTEM:
            kind = source.get("subkind")
            custom_type = kind if isinstance(kind, str) and kind else CUSTOM
            custom_message = {
                "customType": custom_type,
                "content": message["content"],
                "display": True,
            }
            return "custom_message", custom_message
        self.characters += len(canonical.to_json_line(message["content"]))
        calls = [
            block
            for block in get_objects(message, "content")
            if get_text(block, "type") == "toolCall"
        ]
        self.tools |= {get_text(call, "id"): get_text(call, "name") for call in calls}
        if PI_MEMBER not in source:
            message |= self._extra_members(entry, message, time)
        elif message["role"] == "assistant" and not get_object(message, "usage"):
            message["usage"] = self._estimate_usage()  # Pi does not start without it.
        return "message", {"message": message}

    def _extra_members(self, entry: ConversationEntry, message: Record, time: str) -> Record:
        """Return the members that Pi has in addition to the common ones."""
        timestamp_ms = parse_rfc3339(time) // 1000
        if message["role"] == "toolResult":
            name = self.tools.get(get_text(message, "toolCallId"), "unknown")
            return {"toolName": name, "timestamp": timestamp_ms}
        if message["role"] != "assistant":
            return {"timestamp": timestamp_ms}
        has_calls = any(get_text(block, "type") == "toolCall" for block in message["content"])
        model_name = _source_of(entry).get("model")
        model = model_name if isinstance(model_name, str) and model_name else "unknown"
        provider_entry = next(
            (entry_ for prefix, entry_ in _PROVIDERS_BY_PREFIX.items() if model.startswith(prefix)),
            None,
        )
        provider, api = provider_entry or _DEFAULT_PROVIDER
        return {
            "api": api,
            "provider": provider,
            "model": model,
            "usage": self._estimate_usage(),
            "stopReason": "toolUse" if has_calls else "stop",
            "timestamp": timestamp_ms,
        }

    def _estimate_usage(self) -> Record:
        """Return zero counts, which repeat no previous usage, and an estimated total.

        Pi decides by the total when to compact. The original cost stays with its original record.

        The original cost stays with its original record.
        """
        counts = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        cost = {**counts, "total": 0}
        total = self.characters // _CHARS_PER_TOKEN
        return {**counts, "totalTokens": total, "cost": cost}
