"""A context: the exact messages that one model call saw, and what was new in it.

Rebuilt from the request's segments, whatever happened to the conversation before or since. The
rolling hash that was logged with the call is computed again: `verified` says whether it fits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

import msgspec

from harken.core.events import Event, Json, LlmRequest
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.core.record import SparseRecord
from harken.errors import NameNotFound
from harken.session.fold import Resolver
from harken.views.model_calls import Key, ModelCalls, placeholders


class ContextMessage(SparseRecord, frozen=True, kw_only=True):
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


class ContextView(SparseRecord, frozen=True, kw_only=True):
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


def context(
    events: Iterable[Event], message_id: str, *, resolver: Resolver = placeholders
) -> ContextView:
    """Return what a model call saw. `message_id`: its request, its response or its answer.

    `resolver` gives the messages of commits that agents started from. Raises NameNotFound, which
    lists the requests; HarkenError where the log lacks what a request names.
    """
    calls = ModelCalls.of(events, resolver)
    id_ = MessageId(message_id)
    request = calls.requests.get(calls.answered.get(id_, id_))
    if request is None:
        raise NameNotFound("model call", message_id, calls.requests)
    before = calls.before(request)
    now, then = calls.messages(request), [] if before is None else calls.messages(before)
    keys_now, keys_then = calls.keys(request), [] if before is None else calls.keys(before)
    kept, broken_by = _prefix(request, before, keys_now, keys_then)
    seen = set(keys_now)
    return ContextView(
        request=request.message_id,
        agent_id=request.agent_id,
        time=request.time,
        model=request.model,
        parameters=request.parameters,
        tools=calls.schemas(request),
        messages=rows_of(keys_now, now, known=set(keys_then)),
        previous=None if before is None else before.message_id,
        dropped=[
            row
            for key, row in zip(keys_then, rows_of(keys_then, then, known=set()), strict=True)
            if key not in seen
        ],
        kept=kept,
        broken_by=broken_by,
        verified=_hash(now) == request.context_hash,
    )


def _prefix(
    request: LlmRequest, before: LlmRequest | None, now: list[Key], then: list[Key]
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


def rows_of(
    keys: Sequence[Key], messages: Sequence[ChatMessage], *, known: Collection[Key]
) -> list[ContextMessage]:
    """Return the messages of a context as rows; those are new whose key is not `known`."""
    return [
        ContextMessage(
            position=n,
            message_id=key[0] if key[1] < 0 else None,
            loaded=key[0] if key[1] >= 0 else None,
            new=key not in known,
            message=without_entry_fields(message),
        )
        for n, (key, message) in enumerate(zip(keys, messages, strict=True))
    ]


def without_entry_fields(message: ChatMessage) -> Message:
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
