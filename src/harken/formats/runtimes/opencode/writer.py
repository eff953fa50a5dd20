"""What OpenCode imports: the export of a new session, whoever had the conversation.

One idea: an answer is a message, and a result stands in the part of its call; so parts are made in
the order in which they were said, and a call's part is finished by its result. OpenCode orders
messages by time and all else by ids, and takes a session for answered where the last answer has a
later id than the prompt: so times never go back here, and ids are lower than all that it makes.

Source: docs/formats/opencode.md, "Writing".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeAlias

from harken.core.clock import parse_rfc3339
from harken.core.messages import (
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_count, get_object, get_text, title_of
from harken.formats.runtimes.base import NewSessionInfo, time_of
from harken.formats.runtimes.json_lines import to_line
from harken.formats.runtimes.new_session import milliseconds, timed
from harken.formats.runtimes.normalize import fitted
from harken.formats.runtimes.opencode.messages import ABORTED, INTERRUPTED, OWN, is_replayed
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.runtimes.target import Block, TargetRules, message_parts
from harken.formats.tool_calls import as_object, clean, in_order

_VERSION = "1.18.33"
"""Of the client that takes what is written here."""
_AGENT = "build"
_PROVIDERS = {"claude": "anthropic", "gemini": "google", "gpt-": "openai"}
"""How names of models begin, and whom OpenCode knows them from."""
_MODEL = ("opencode", "big-pickle")
"""One that OpenCode offers without an account: provider and name."""
_OWN_ID = re.compile(r"msg_[0-9a-f]{12}[0-9A-Za-z]{14}")
_UNTITLED = "A conversation"
_ERROR = "[error]: "
_BETWEEN = "\n\n"
"""Between texts of an answer."""

_Item: TypeAlias = Part | ToolCall


def writes(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Write a conversation as the document of an export."""
    fit = TargetRules(
        owns=_owns,
        takes=_takes,
        has_image_urls=False,  # it would fetch them itself, and not go on where that fails
        has_answers_in_a_row=True,
        no_result=INTERRUPTED,
    )
    export = _Export(session)
    began = next(filter(None, (time_of(one.time) for one in entries)), session.time)
    for entry, time in timed(fitted(_replayed(entries), fit), replace(session, time=began)):
        export.add(entry, _milliseconds(time))
    return to_line(export.whole())


def session_id(session: NewSessionInfo) -> str:
    """Return what OpenCode calls a session.

    >>> session_id(NewSessionInfo(id="a", folder="/w", time="2026-01-31T12:00:00Z"))
    'ses_000000000000ca978112ca1bbd'
    """
    return f"ses_{_id(0, session)}"


def _id(number: int, session: NewSessionInfo) -> str:
    """Return an id as OpenCode makes them: a number that orders, and letters of the session."""
    letters = sha256(clean(session.id).encode()).hexdigest()[:14]
    return f"{number:012x}{letters}"


def _milliseconds(time: str) -> int:
    return parse_rfc3339(milliseconds(time)) // 1000


def _owns(entry: ConversationEntry) -> bool:
    named = _OWN_ID.fullmatch(get_text(entry.source or {}, "id"))
    return bool(named) or any(OWN in (item.meta or {}) for item in in_order(entry.message))


def _takes(entry: ConversationEntry, part: Block) -> bool:
    if isinstance(part, UnknownPart):
        return part.kind == "file" and entry.message.role != "assistant" and _file(part) != {}
    return OWN in (part.meta or {})


def _replayed(entries: Sequence[ConversationEntry]) -> Iterator[ConversationEntry]:
    """Yield entries without the answers, and their results, that OpenCode does not say again."""
    is_left = False
    for entry in entries:
        if entry.message.role != "tool":
            is_left = entry.message.role == "assistant" and not is_replayed(entry)
        if not is_left:
            yield entry


@dataclass(slots=True)
class _Export:
    """An export on its way."""

    session: NewSessionInfo
    times_ms: list[int] = field(default_factory=list)
    """When messages came; never back."""
    messages: list[Record] = field(default_factory=list)
    title: str = ""
    asked: str = ""
    """The last message of a user."""
    answering: str | None = None
    """What the source of the last entry names, if it is an answer."""
    calls: dict[str, Record] = field(default_factory=dict)
    """Parts of the last answer, by the ids of their calls."""
    made: int = 0
    """How many ids there are."""

    def whole(self) -> Record:
        """Return the document."""
        session = self.session
        times = self.times_ms or [_milliseconds(session.time)]
        info = {
            "id": session_id(session),
            "slug": f"harken-{_id(0, session)[-8:]}",
            "projectID": "global",
            "directory": session.folder,
            "title": session.title or self.title or _UNTITLED,
            "version": _VERSION,
            "time": {"created": times[0], "updated": times[-1]},
        }
        return {"info": info, "messages": self.messages}

    def add(self, entry: ConversationEntry, time: int) -> None:
        """Add what was said, or a result to the call of the answer before it."""
        match entry.message.role:
            case "assistant":
                self._answer(entry, time)
            case "tool":
                self._end(self.calls.get(entry.message.tool_call_id or "", {}), entry, time)
            case _:
                self._ask(entry, time)

    def _ask(self, entry: ConversationEntry, time: int) -> None:
        kind = (entry.source or {}).get("kind", PROMPT)
        said = text_of(entry.message.content)
        if kind == PROMPT and not self.title:
            self.title = title_of(said)
        provider, model = _model_of(self.session.model)
        info = {"role": "user", "time": {"created": self._created(time)}, "agent": _AGENT}
        self._begin({**info, "model": {"providerID": provider, "modelID": model}})
        self.asked, self.answering = get_text(get_object(self.messages[-1], "info"), "id"), None
        for part in message_parts(entry.message):
            if isinstance(part, TextPart):
                hidden = {"synthetic": True} if kind == SYSTEM else {}
                self._part({"type": "text", "text": part.text, **hidden, **_own(part)})
            else:
                self._part(_file(part))

    def _answer(self, entry: ConversationEntry, time: int) -> None:
        source, items = entry.source or {}, list(in_order(entry.message))
        if not _owns(entry):
            items = _apart(items)
        calls = [item for item in items if isinstance(item, ToolCall)]
        named = get_text(source, "id") or None
        if named is None or named != self.answering:
            self._begin(self._answer_info(entry, time))
        self.answering, self.calls = named, {}
        tokens, reason = _tokens(get_object(source, "usage")), "tool-calls" if calls else "stop"
        get_object(self.messages[-1], "info").update({"tokens": tokens, "finish": reason})
        self._part({"type": "step-start"})
        for item in items:
            match item:
                case ToolCall():
                    self.calls[item.id] = self._part(_called(item, time))
                case ThinkingPart():
                    told = {"type": "reasoning", "text": item.text, "time": {"start": time}}
                    self._part({**told, **_own(item)})
                case TextPart():
                    self._part({"type": "text", "text": item.text, **_own(item)})
        self._part({"type": "step-finish", "reason": reason, "cost": 0, "tokens": tokens})

    def _answer_info(self, entry: ConversationEntry, time: int) -> Record:
        source, folder = entry.source or {}, self.session.folder
        provider, model = _model_of(get_text(source, "model") or self.session.model)
        provider = get_text(source, "provider") or provider
        info: Record = {
            "role": "assistant",
            "time": {"created": self._created(time), "completed": time},
            "parentID": self.asked,
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

    def _end(self, call: Record, entry: ConversationEntry, time: int) -> None:
        """Finish the part of a call by its result."""
        result, begun = entry.message, get_object(call, "state")
        shown = text_of(result.content)
        files = [_file(part) for part in message_parts(result) if not isinstance(part, TextPart)]
        times = {**get_object(begun, "time"), "end": time}
        state: Record = {"status": "completed", "input": get_object(begun, "input"), "time": times}
        call["state"] = state
        if result.is_error and not files:
            state |= {"status": "error", "error": shown}
            return
        if (entry.source or {}).get("cleared"):
            times["compacted"] = time
        shown = _ERROR + shown if result.is_error else shown
        state |= {"output": shown, "title": "", "metadata": {}}
        if files:
            state["attachments"] = [
                self._placed(file, get_text(call, "messageID")) for file in files
            ]

    def _begin(self, info: Record) -> None:
        info = {"id": self._new("msg"), "sessionID": session_id(self.session), **info}
        self.messages.append({"info": info, "parts": []})

    def _part(self, part: Record) -> Record:
        """Add a part to the last message; return it as it stands there."""
        message = self.messages[-1]
        message["parts"].append(self._placed(part, get_text(get_object(message, "info"), "id")))
        placed: Record = message["parts"][-1]
        return placed

    def _placed(self, part: Record, message: str) -> Record:
        session = session_id(self.session)
        return {"id": self._new("prt"), "sessionID": session, "messageID": message, **part}

    def _new(self, kind: str) -> str:
        self.made += 1
        return f"{kind}_{_id(self.made, self.session)}"

    def _created(self, time: int) -> int:
        """Return when a message came: no earlier than the one before it."""
        self.times_ms.append(max([time, *self.times_ms[-1:]]))
        return self.times_ms[-1]


def _apart(items: Sequence[_Item]) -> list[_Item]:
    """Return parts and calls with their texts apart: OpenCode joins all texts of an answer."""
    found: list[_Item] = []
    left = sum(isinstance(item, TextPart) for item in items)
    for item in items:
        if not isinstance(item, TextPart):
            found.append(item)
            continue
        left -= 1
        before = found[-1] if found else None
        said = item.text
        if isinstance(before, TextPart):
            found.pop()
            said = before.text + said
        if left and not said.endswith(_BETWEEN):
            said += _BETWEEN
        found.append(TextPart(said))
    return found


def _model_of(name: str) -> tuple[str, str]:
    """Return the provider of a model, and what that calls it."""
    provider, slash, model = name.partition("/")
    if slash and provider and model:
        return provider, model
    known = next((one for start, one in _PROVIDERS.items() if name.startswith(start)), None)
    return (known or _MODEL[0], name) if name else _MODEL


def _own(part: TextPart | ThinkingPart | ToolCall) -> Record:
    """Return what only OpenCode knows of a part."""
    return get_object(part.meta or {}, OWN)


def _file(part: Part) -> Record:
    """Return a part as a file; empty: it is none."""
    if isinstance(part, ImagePart):
        kind = part.media_type or "image/*"
        url = part.url if part.data is None else f"data:{kind};base64,{part.data}"
        return {"type": "file", "mime": kind, "url": url}
    value = as_object(part.data) if isinstance(part, UnknownPart) else None
    is_one = value is not None and get_text(value, "mime") and get_text(value, "url")
    return {**(value or {}), "type": "file"} if is_one else {}


def _called(call: ToolCall, time: int) -> Record:
    state = {"status": "running", "input": as_object(call.function.arguments) or {}}
    told = {"type": "tool", "callID": call.id, "tool": call.function.name}
    return {**told, "state": {**state, "time": {"start": time}}, **_own(call)}


def _tokens(usage: Record) -> Record:
    """Return counts as OpenCode has them: what was cached is no part of the input."""
    read, stored = (get_count(usage, f"cache_{name}_tokens") or 0 for name in ("read", "write"))
    left = (get_count(usage, "input_tokens") or 0) - read - stored
    output = get_count(usage, "output_tokens") or 0
    thoughts = min(get_count(usage, "reasoning_tokens") or 0, output)
    told = {"input": max(left, 0), "output": output - thoughts, "reasoning": thoughts}
    return {**told, "cache": {"read": read, "write": stored}}
