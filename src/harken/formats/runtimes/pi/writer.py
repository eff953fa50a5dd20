"""Conversations as sessions of Pi, which it resumes.

One idea: Pi keeps messages nearly as everybody knows them, so an entry of anybody's is a message
of Pi's with little added, and Pi's own is what it was. What a runtime said in the user's name is a
`custom_message`: the model reads it as a user's, and people see that it is none.

Source: docs/formats/pi.md, "Writing".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.core import canonical
from harken.core.clock import parse_rfc3339
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.base import BROKEN_OFF, PI_MEMBER, NewSessionInfo
from harken.formats.runtimes.new_session import RecordNames, milliseconds, named_by_content, timed
from harken.formats.runtimes.normalize import fitted
from harken.formats.runtimes.pi.messages import NO_RESULT, messages_of, short_id
from harken.formats.runtimes.steps import SYSTEM
from harken.formats.runtimes.target import ID_LENGTH, TargetRules
from harken.formats.tool_calls import CallIds, well_formed

VERSION = 3
CUSTOM = "harken"
"""The type of what another runtime said in the user's name."""
_PROVIDERS: Mapping[str, tuple[str, str]] = {
    "claude": ("anthropic", "anthropic-messages"),
    "gpt": ("openai", "openai-responses"),
    "gemini": ("google", "google-generative-ai"),
}
"""How the names of models begin -> who offers them, and in which protocol: Pi goes on with the
model that answered last where it is offered there."""
_NOBODY = ("unknown", "openai-completions")
_CHARACTERS_PER_TOKEN = 4


def writes(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Return a conversation as a session of Pi. See `harken.formats.runtimes.base.Writes`."""
    return b"".join(
        canonical.to_json_line(one) + b"\n" for one in _Writing(session).records(entries)
    )


def exported(entries: Sequence[ConversationEntry]) -> bytes:
    """Return a conversation as a session that is named by what it says."""
    return writes(entries, named_by_content(entries))


def _source(entry: ConversationEntry) -> Mapping[str, Any]:
    return entry.source or {}


def _owns(entry: ConversationEntry) -> bool:
    return PI_MEMBER in _source(entry) or "subkind" in _source(entry)


def _is_broken_off(entry: ConversationEntry) -> bool:
    """Whether an answer of Pi's is one that it does not send again."""
    return get_text(get_object({**_source(entry)}, PI_MEMBER), "stopReason") in BROKEN_OFF


@dataclass(slots=True)
class _Ids:
    """Gives calls the ids that Pi has: before `|` stands what is sent, and is told apart."""

    ids: CallIds = field(default_factory=lambda: CallIds(ID_LENGTH))

    def new(self, raw: str) -> str:
        """Return the id of the next call; the same calls in the same order get the same ids."""
        sent = short_id(raw)
        given = self.ids.new(sent)
        return raw if given == sent and "|" in raw else given


FIT = TargetRules(
    owns=_owns,
    is_aside=_is_broken_off,
    ids=_Ids,
    has_image_urls=False,
    no_result=NO_RESULT,
)
"""What Pi, and the providers behind it, accept."""


@dataclass(slots=True)
class _Writing:
    """A session that is being written."""

    session: NewSessionInfo
    names: RecordNames = field(init=False)
    tools: dict[str, str] = field(default_factory=dict)
    """Call -> the tool that is called."""
    characters: int = 0
    """How many were said so far, as it stands in the file."""
    _taken: set[str] = field(default_factory=set)
    _last: str | None = None

    def __post_init__(self) -> None:
        self.names = RecordNames(self.session)

    def records(self, entries: Sequence[ConversationEntry]) -> Iterator[Record]:
        """Yield the header, then the entries of the tree, which has one branch."""
        time = milliseconds(self.session.time)
        about = {"timestamp": time, "cwd": self.session.folder}
        yield {"type": "session", "version": VERSION, "id": self.session.id, **about}
        if self.session.title.strip():
            yield self._node("session_info", None, time, {"name": self.session.title})
        for entry, at in timed(fitted(entries, FIT), self.session):
            time = at
            kind, record = self._said(entry, time)
            own = _source(entry).get("id") if _owns(entry) else None
            yield self._node(kind, own, time, record)
        provider, slash, model = self.session.model.partition("/")
        if slash:
            chosen = {"provider": provider, "modelId": model}
            yield self._node("model_change", None, time, chosen)

    def _node(self, kind: str, own: object, time: str, record: Record) -> Record:
        id_, parent = self._name(own), self._last
        self._taken.add(id_)
        self._last = id_
        return {"type": kind, "id": id_, "parentId": parent, "timestamp": time, **record}

    def _name(self, own: object) -> str:
        if isinstance(own, str) and own == well_formed(own, ID_LENGTH) and self._is_free(own):
            return own
        name = self.names.new().hex[:8]
        while not self._is_free(name):
            name = self.names.new().hex[:8]
        return name

    def _is_free(self, name: str) -> bool:
        return bool(name) and name not in self._taken

    def _said(self, entry: ConversationEntry, time: str) -> tuple[str, Record]:
        (message,) = messages_of([entry])
        source = _source(entry)
        if message["role"] == "user" and PI_MEMBER not in source and source.get("kind") == SYSTEM:
            kind = source.get("subkind")
            custom = kind if isinstance(kind, str) and kind else CUSTOM
            shown = {"customType": custom, "content": message["content"], "display": True}
            return "custom_message", shown
        self.characters += len(canonical.to_json_line(message["content"]))
        calls = [
            one for one in get_objects(message, "content") if get_text(one, "type") == "toolCall"
        ]
        self.tools |= {get_text(call, "id"): get_text(call, "name") for call in calls}
        if PI_MEMBER not in source:
            message |= self._added(entry, message, time)
        elif message["role"] == "assistant" and not get_object(message, "usage"):
            message["usage"] = self._usage()  # without it, Pi does not begin
        return "message", {"message": message}

    def _added(self, entry: ConversationEntry, message: Record, time: str) -> Record:
        """Return what Pi has in a message beside what everybody has."""
        at = parse_rfc3339(time) // 1000
        if message["role"] == "toolResult":
            name = self.tools.get(get_text(message, "toolCallId"), "unknown")
            return {"toolName": name, "timestamp": at}
        if message["role"] != "assistant":
            return {"timestamp": at}
        calls = any(get_text(one, "type") == "toolCall" for one in message["content"])
        named = _source(entry).get("model")
        model = named if isinstance(named, str) and named else "unknown"
        known = next((of for begins, of in _PROVIDERS.items() if model.startswith(begins)), None)
        provider, api = known or _NOBODY
        return {
            "api": api,
            "provider": provider,
            "model": model,
            "usage": self._usage(),
            "stopReason": "toolUse" if calls else "stop",
            "timestamp": at,
        }

    def _usage(self) -> Record:
        """Return counts that count nothing twice, and a total from which Pi knows when to compact.

        What the answer cost stands where it came from.
        """
        counts = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        cost = {**counts, "total": 0}
        total = self.characters // _CHARACTERS_PER_TOKEN
        return {**counts, "totalTokens": total, "cost": cost}
