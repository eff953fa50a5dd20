"""`ModelCalls`: the events from which the context of any model call is rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from harken.core import structs
from harken.core.events import (
    ContextLoaded,
    Event,
    Json,
    LlmRequest,
    LlmResponse,
    Segment,
    ToolsDefined,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage, Message
from harken.errors import HarkenError
from harken.session.fold import Resolver
from harken.session.segments import iter_leaf_segments, precedes, resolve_context

Key: TypeAlias = tuple[MessageId, int]
"""An entry id and -1, or the id of a `context_loaded` event and an index into its messages."""


def placeholders(event: ContextLoaded) -> list[Message]:
    """Return placeholders for the messages of a commit, for use without a store."""
    text = f"[message {{}} of {event.ctx}, which is in a store that is not open]"
    return [Message("system", text.format(n)) for n in range(event.count)]


_MAX_RECENT_KEYS = 1_000_000
"""The number of keys of recent requests that are kept."""


class ModelCalls(msgspec.Struct):
    """The model calls of a session, and the events that they refer to."""

    resolver: Resolver = placeholders
    """Returns the messages of commits that agents started from."""
    requests: dict[MessageId, LlmRequest] = msgspec.field(default_factory=dict)
    responses: dict[MessageId, LlmResponse] = msgspec.field(default_factory=dict)
    """By the id of their request."""
    entries: dict[MessageId, ChatMessage] = msgspec.field(default_factory=dict)
    loads: dict[MessageId, ContextLoaded] = msgspec.field(default_factory=dict)
    tools: dict[MessageId, list[dict[str, Json]]] = msgspec.field(default_factory=dict)
    request_by_result: dict[MessageId, MessageId] = msgspec.field(default_factory=dict)
    """Id of a response, or of its entry -> id of the request."""
    previous: dict[MessageId, MessageId] = msgspec.field(default_factory=dict)
    """Request -> the previous request of the same agent."""
    _loaded: dict[MessageId, Sequence[ChatMessage]] = msgspec.field(default_factory=dict)
    _recent_keys: dict[MessageId, Sequence[Key]] = msgspec.field(default_factory=dict)
    _recent_key_count: int = 0
    _last: dict[AgentId | None, MessageId] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event], resolver: Resolver = placeholders) -> ModelCalls:
        """Collect the model calls of events, oldest first."""
        calls = cls(resolver)
        for event in events:
            calls.add(event)
        return calls

    def add(self, event: Event) -> None:
        """Add the next event."""
        match event:
            case TranscriptEntry():
                self.entries[event.message_id] = event
            case LlmRequest():
                self.requests[event.message_id] = event
                if event.agent_id in self._last:
                    self.previous[event.message_id] = self._last[event.agent_id]
                self._last[event.agent_id] = event.message_id
            case LlmResponse():
                self.responses[event.request] = event
                self.request_by_result[event.message_id] = event.request
                if event.entry is not None:
                    self.request_by_result[event.entry] = event.request
            case ContextLoaded():
                self.loads[event.message_id] = event
            case ToolsDefined():
                self.tools[event.message_id] = event.tools
            case _:
                pass

    def previous_request(self, request: LlmRequest) -> LlmRequest | None:
        """Return the previous request of the same agent."""
        return self.requests.get(self.previous.get(request.message_id, MessageId("")))

    def schemas(self, request: LlmRequest) -> list[dict[str, Json]] | None:
        """Return the full tool schemas of a request, or None if it had no tools."""
        return None if request.tools is None else self.tools.get(request.tools)

    def messages(
        self, request: LlmRequest, segments: Sequence[Segment] | None = None
    ) -> list[ChatMessage]:
        """Return the messages of a request, or of some of its segments.

        Raises HarkenError if the log lacks a message or event that they refer to.
        """
        with _convert_errors(request):
            return resolve_context(
                _with_segments(request, segments), self.requests, self.entries, self._load
            )

    def keys(self, request: LlmRequest) -> Sequence[Key]:
        """Return the keys of the messages of a request, in the order of `messages`.

        Those of recent requests are kept, since the next one of an agent begins with them.
        """
        keys = self._recent_keys.get(request.message_id)
        if keys is None:
            with _convert_errors(request):
                keys = self._extend_recent_keys(request)
                if keys is None:
                    leaves = iter_leaf_segments(request, self.requests)
                    keys = [key for leaf in leaves for key in _iter_keys(leaf)]
            self._keep_keys(request.message_id, keys)
        return keys

    def message(self, request: LlmRequest, key: Key) -> ChatMessage:
        """Return the message of a request with a key. Raises as `messages`."""
        id_, index = key
        with _convert_errors(request):
            if index < 0:
                return self.entries[id_]
            messages = self._load(id_)
            if index >= len(messages):
                raise KeyError(id_)
            return messages[index]

    def _extend_recent_keys(self, request: LlmRequest) -> list[Key] | None:
        """Return the keys of a request that begins as recent ones. Return None for another."""
        keys: list[Key] = []
        max_keys = parse_id_number(request.message_id, "msg_") or request.count
        for segment in request.context:
            if segment.request is None:
                keys.extend(_iter_keys(segment))
                continue
            earlier = self._recent_keys.get(segment.request)
            if earlier is None or not precedes(self.requests[segment.request], request):
                return None
            keys.extend(earlier[max(segment.start or 0, 0) : max(segment.stop or 0, 0)])
            if len(keys) > max_keys:  # A damaged log may name the same range many times.
                return None
        return keys

    def _keep_keys(self, request_id: MessageId, keys: Sequence[Key]) -> None:
        """Keep the keys of a request, and drop the oldest ones if there are too many."""
        recent = self._recent_keys
        recent[request_id] = keys
        self._recent_key_count += len(keys)
        while self._recent_key_count > _MAX_RECENT_KEYS and len(recent) > 1:
            self._recent_key_count -= len(recent.pop(next(iter(recent))))

    def _load(self, id_: MessageId) -> Sequence[ChatMessage]:
        if id_ not in self._loaded:
            self._loaded[id_] = self.resolver(self.loads[id_])
        return self._loaded[id_]


def _iter_keys(leaf: Segment) -> Iterator[Key]:
    """Yield the keys of a segment of entries or loaded messages."""
    if leaf.loaded is not None:
        yield from ((leaf.loaded, index) for index in range(leaf.start or 0, leaf.stop or 0))
    else:
        yield from ((id_, -1) for id_ in leaf.entries or ())


@contextmanager
def _convert_errors(request: LlmRequest) -> Iterator[None]:
    """Convert lookup errors to HarkenError with the id of the request."""
    try:
        yield
    except KeyError as error:
        raise HarkenError(f"{request.message_id} saw {error}, which this log lacks") from None
    except ValueError as error:
        raise HarkenError(str(error)) from None


def _with_segments(request: LlmRequest, segments: Sequence[Segment] | None) -> LlmRequest:
    if segments is None:
        return request
    return structs.replace(request, context=list(segments))
