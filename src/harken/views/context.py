"""The exact messages in the context of one model call, and the new ones among them.

The context is rebuilt from the segments of the request, regardless of later edits. Its rolling hash
is computed and compared with the logged one: see `verified`. A request that was not recorded as it
was made is never verified: `evidence` tells how it is known, and `missing` the parts that are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

import msgspec

from harken.core.events import Event, Evidence, Json, LlmRequest, RequestPart
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.core.record import SparseRecord
from harken.errors import NameNotFound
from harken.session.fold import Resolver
from harken.views.model_calls import Key, ModelCalls, placeholders


class ContextMessage(SparseRecord, frozen=True, kw_only=True):
    """A message of a context."""

    position: int
    """Starts at 0."""
    message_id: MessageId | None = None
    """The entry of the message."""
    loaded: MessageId | None = None
    """The `context_loaded` event that loaded it, if it is not an entry of this session."""
    new: bool = False
    """Whether the agent's previous request did not contain it."""
    message: Message


class ContextView(SparseRecord, frozen=True, kw_only=True):
    """The context of one model call."""

    request: MessageId
    agent_id: AgentId | None
    time: str
    model: str
    parameters: dict[str, Json] | None = None
    tools: list[dict[str, Json]] | None = None
    """The full schemas of the tools in the request. None as well if they are missing."""
    messages: list[ContextMessage]
    previous: MessageId | None = None
    """The previous request of the agent."""
    dropped: list[ContextMessage] = msgspec.field(default_factory=list)
    """Messages of the previous request that are not in this one, with their positions there."""
    kept: int = 0
    """Number of common leading messages with the previous request, which a cache may have."""
    broken_by: str | None = None
    """The first difference from the previous request: `model`, `tools`, or `messages`."""
    evidence: Evidence
    """How the request is known."""
    missing: list[RequestPart] = msgspec.field(default_factory=list)
    """The parts of the request that are unknown."""
    verified: bool
    """Whether the request was recorded, and the messages have the hash that was logged with it."""
    is_damaged: bool = False
    """Whether the messages do not have the logged hash."""


def context(
    events: Iterable[Event], message_id: str, *, resolver: Resolver = placeholders
) -> ContextView:
    """Return the context of a model call. `message_id` is its request, response or answer.

    `resolver` returns the messages of commits that agents started from. Raises NameNotFound, which
    lists the requests, and HarkenError if the log lacks part of the context.
    """
    calls = ModelCalls.of(events, resolver)
    id_ = MessageId(message_id)
    request = calls.requests.get(calls.request_by_result.get(id_, id_))
    if request is None:
        raise NameNotFound("model call", message_id, calls.requests)
    previous = calls.previous_request(request)
    messages, previous_messages = (
        calls.messages(request),
        [] if previous is None else calls.messages(previous),
    )
    keys = calls.keys(request)
    previous_keys: Sequence[Key] = [] if previous is None else calls.keys(previous)
    kept, broken_by = _compare_prefix(request, previous, keys, previous_keys)
    key_set = set(keys)
    is_intact = _context_hash(messages) == request.context_hash
    return ContextView(
        request=request.message_id,
        agent_id=request.agent_id,
        time=request.time,
        model=request.model,
        parameters=request.parameters,
        tools=calls.schemas(request),
        messages=build_context_rows(keys, messages, known=set(previous_keys)),
        previous=None if previous is None else previous.message_id,
        dropped=[
            row
            for key, row in zip(
                previous_keys,
                build_context_rows(previous_keys, previous_messages, known=set()),
                strict=True,
            )
            if key not in key_set
        ],
        kept=kept,
        broken_by=broken_by,
        evidence=request.known_by,
        missing=request.missing or [],
        verified=is_intact and request.known_by == "recorded",
        is_damaged=not is_intact,
    )


def _compare_prefix(
    request: LlmRequest,
    previous: LlmRequest | None,
    keys: Sequence[Key],
    previous_keys: Sequence[Key],
) -> tuple[int, str | None]:
    """Return the number of common leading messages, and the reason for the first difference.

    In what a provider reads, tools precede all messages, and a cache belongs to one model.
    """
    if previous is None:
        return 0, None
    if request.model != previous.model:
        return 0, "model"
    if request.tools != previous.tools:
        return 0, "tools"
    common = takewhile(lambda pair: pair[0] == pair[1], zip(keys, previous_keys, strict=False))
    kept = sum(1 for _ in common)
    return kept, None if kept == len(previous_keys) else "messages"


def build_context_rows(
    keys: Sequence[Key],
    messages: Sequence[ChatMessage],
    *,
    known: Collection[Key],
    start: int = 0,
) -> list[ContextMessage]:
    """Return the messages of a context as rows. A message is new if its key is not in `known`.

    start: the position of the first message.
    """
    return [
        ContextMessage(
            position=position,
            message_id=key[0] if key[1] < 0 else None,
            loaded=key[0] if key[1] >= 0 else None,
            new=key not in known,
            message=without_entry_fields(message),
        )
        for position, (key, message) in enumerate(zip(keys, messages, strict=True), start)
    ]


def without_entry_fields(message: ChatMessage) -> Message:
    """Return a message without the other fields of its entry."""
    return Message(
        role=message.role,
        content=message.content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        is_error=message.is_error,
    )


def _context_hash(messages: Iterable[ChatMessage]) -> str:
    hash_ = ""
    for message in messages:
        hash_ = extend_context_hash(hash_, message)
    return hash_
