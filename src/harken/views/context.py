"""A context: the exact messages that one model call saw, and what was new in it.

Rebuilt from the request's segments, whatever happened to the conversation before or since. The
rolling hash that was logged with the call is computed again: `verified` says whether it fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

import msgspec

from harken.core.events import (
    ContextLoaded,
    Event,
    Json,
    LlmRequest,
    LlmResponse,
    ToolsDefined,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.errors import HarkenError, UnknownName
from harken.session.fold import Resolver
from harken.session.segments import context_of, leaves
from harken.views.row import Row


class ContextMessage(Row, frozen=True, kw_only=True):
    """One message of a context."""

    position: int
    """From 0."""
    message_id: MessageId | None = None
    """The entry that it is."""
    loaded: MessageId | None = None
    """The `context_loaded` that brought it in, where it is no entry of this session."""
    new: bool = False
    """Whether the agent's request before this one did not hold it."""
    message: Message


class ContextView(Row, frozen=True, kw_only=True):
    """What one model call saw."""

    request: MessageId
    agent_id: AgentId | None
    time: str
    model: str
    parameters: dict[str, Json] | None = None
    tools: list[dict[str, Json]] | None = None
    """The schemas of the tools that it could call, in full."""
    messages: list[ContextMessage]
    previous: MessageId | None = None
    """The agent's request before this one."""
    dropped: list[ContextMessage] = msgspec.field(default_factory=list)
    """What the previous request held and this one does not; positions are those it had there."""
    kept: int = 0
    """How many of the first messages are those of the previous request, in its order: as far as a
    provider can take it from its cache."""
    broken_by: str | None = None
    """What differs before the end of the previous request: `model`, `tools`, or `messages`."""
    verified: bool
    """Whether these messages have the hash that was logged with the call."""


@dataclass(slots=True)
class _Calls:
    """All that is needed to rebuild any context of a log."""

    requests: dict[MessageId, LlmRequest] = field(default_factory=dict)
    entries: dict[MessageId, ChatMessage] = field(default_factory=dict)
    loads: dict[MessageId, ContextLoaded] = field(default_factory=dict)
    tools: dict[MessageId, list[dict[str, Json]]] = field(default_factory=dict)
    answered: dict[MessageId, MessageId] = field(default_factory=dict)
    """A response, or the entry that it became -> its request."""
    previous: dict[MessageId, MessageId] = field(default_factory=dict)


_Key: TypeAlias = tuple[MessageId, int]
"""An entry and -1, or a `context_loaded` and the position in what it brought in."""


def placeholders(event: ContextLoaded) -> list[Message]:
    """Stand in for the messages of a commit where no store is at hand: one says so for each."""
    text = f"[message {{}} of {event.ctx}, which is in a store that is not open]"
    return [Message("system", text.format(n)) for n in range(event.count)]


def context(
    events: Iterable[Event], message_id: str, *, resolver: Resolver = placeholders
) -> ContextView:
    """Return what a model call saw. `message_id`: its request, its response or its answer.

    `resolver` gives the messages of commits that agents started from. Raises UnknownName, which
    lists the requests; HarkenError where the log lacks what a request names.
    """
    calls = _collect(events)
    id_ = MessageId(message_id)
    request = calls.requests.get(calls.answered.get(id_, id_))
    if request is None:
        raise UnknownName("model call", message_id, calls.requests)
    before = calls.requests.get(calls.previous.get(request.message_id, MessageId("")))
    now = _messages(calls, request, resolver)
    then = [] if before is None else _messages(calls, before, resolver)
    keys_now, keys_then = _keys(calls, request), [] if before is None else _keys(calls, before)
    kept, broken_by = _prefix(request, before, keys_now, keys_then)
    seen = set(keys_now)
    return ContextView(
        request=request.message_id,
        agent_id=request.agent_id,
        time=request.time,
        model=request.model,
        parameters=request.parameters,
        tools=None if request.tools is None else calls.tools.get(request.tools),
        messages=_rows(keys_now, now, known=set(keys_then)),
        previous=None if before is None else before.message_id,
        dropped=[
            row
            for key, row in zip(keys_then, _rows(keys_then, then, known=set()), strict=True)
            if key not in seen
        ],
        kept=kept,
        broken_by=broken_by,
        verified=_hash(now) == request.context_hash,
    )


def _prefix(
    request: LlmRequest, before: LlmRequest | None, now: list[_Key], then: list[_Key]
) -> tuple[int, str | None]:
    """Return how much of the previous request this one begins with, and why it is not all.

    Tools stand before all messages in what a provider reads, and a cache is one model's.
    """
    if before is None:
        return 0, None
    if request.model != before.model:
        return 0, "model"
    if request.tools != before.tools:
        return 0, "tools"
    same = takewhile(lambda pair: pair[0] == pair[1], zip(now, then, strict=False))
    kept = sum(1 for _ in same)
    return kept, None if kept == len(then) else "messages"


def _collect(events: Iterable[Event]) -> _Calls:
    calls = _Calls()
    last: dict[AgentId | None, MessageId] = {}
    for event in events:
        match event:
            case TranscriptEntry():
                calls.entries[event.message_id] = event
            case LlmRequest():
                calls.requests[event.message_id] = event
                if event.agent_id in last:
                    calls.previous[event.message_id] = last[event.agent_id]
                last[event.agent_id] = event.message_id
            case LlmResponse():
                calls.answered[event.message_id] = event.request
                if event.entry is not None:
                    calls.answered[event.entry] = event.request
            case ContextLoaded():
                calls.loads[event.message_id] = event
            case ToolsDefined():
                calls.tools[event.message_id] = event.tools
            case _:
                pass
    return calls


def _messages(calls: _Calls, request: LlmRequest, resolver: Resolver) -> list[ChatMessage]:
    def loaded(id_: MessageId) -> Sequence[ChatMessage]:
        return resolver(calls.loads[id_])

    try:
        return context_of(request, calls.requests, calls.entries, loaded)
    except KeyError as error:
        raise HarkenError(f"{request.message_id} saw {error}, which this log lacks") from None
    except ValueError as error:
        raise HarkenError(str(error)) from None


def _keys(calls: _Calls, request: LlmRequest) -> list[_Key]:
    keys: list[_Key] = []
    for leaf in leaves(request, calls.requests):
        if leaf.loaded is not None:
            keys.extend((leaf.loaded, n) for n in range(leaf.start or 0, leaf.stop or 0))
        else:
            keys.extend((id_, -1) for id_ in leaf.entries or ())
    return keys


def _rows(
    keys: list[_Key], messages: list[ChatMessage], *, known: set[_Key]
) -> list[ContextMessage]:
    return [
        ContextMessage(
            position=n,
            message_id=key[0] if key[1] < 0 else None,
            loaded=key[0] if key[1] >= 0 else None,
            new=key not in known,
            message=_plain(message),
        )
        for n, (key, message) in enumerate(zip(keys, messages, strict=True))
    ]


def _plain(message: ChatMessage) -> Message:
    """Return the message alone, without what its entry says beside it."""
    return Message(
        role=message.role,
        content=message.content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        is_error=message.is_error,
    )


def _hash(messages: Iterable[ChatMessage]) -> str:
    rolling = ""
    for message in messages:
        rolling = extend_context_hash(rolling, message)
    return rolling
