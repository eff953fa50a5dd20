"""A request as it was on the wire, from the log alone.

One idea: the context says which messages, their forms how each is written, and the request all
else. So what was sent comes back equal as JSON, whatever became of the context later.

Source: docs/formats/session-log.md, "Segments" and "The wire".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harken.core import events as ev
from harken.core.ids import MessageId, parse_id_number
from harken.core.messages import ChatMessage
from harken.errors import FormatError, NameNotFound
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Body, Form, ParsedRequest, Protocol
from harken.recording.agent_recorder import JOINED
from harken.session.segments import Loaded, context_of, length


def rebuild_body(events: Iterable[ev.Event], request_id: str, loaded: Loaded | None = None) -> Body:
    """Return the body of a recorded request, from the events of its log."""
    return RequestRebuilder(events, loaded).body(request_id)


class RequestRebuilder:
    """The requests of a log. Reading it takes one pass, a request the time of its own length."""

    def __init__(self, events: Iterable[ev.Event], loaded: Loaded | None = None) -> None:
        """Take what the log has; loaded: gives the messages of commits that agents began with."""
        self.requests: dict[MessageId, ev.LlmRequest] = {}
        self._entries: dict[MessageId, ev.TranscriptEntry] = {}
        self._tools: dict[MessageId, ev.ToolsDefined] = {}
        self._forms: dict[MessageId, list[tuple[int, Form]]] = {}
        """Entry -> its forms, each with the number of the request from which on it has it."""
        self._place: dict[MessageId, int] = {}
        """Request -> how many came before it."""
        self._loaded = loaded
        for event in events:
            self._take(event)

    def _take(self, event: ev.Event) -> None:
        match event:
            case ev.TranscriptEntry():
                self._entries[event.message_id] = event
            case ev.ToolsDefined():
                self._tools[event.message_id] = event
            case ev.LlmRequest():
                self._place[event.message_id] = len(self.requests)
                self.requests[event.message_id] = event
                for id_, form in forms_in(event).items():
                    self._forms.setdefault(id_, []).append((_number(event.message_id), form))

    def messages(self, request_id: str) -> list[ChatMessage]:
        """Return what a request saw, oldest first. Raises NameNotFound, FormatError."""
        request = self._request(request_id)
        try:
            chain = self._chain(request)
            if chain is None:
                return context_of(request, self.requests, self._entries, self._loaded)
            context: list[ChatMessage] = []
            for one in reversed(chain):
                context = self._next(context, one)
        except (KeyError, ValueError) as error:
            raise FormatError("wire", f"{request_id}: its context is not here: {error}") from None
        return context

    def _chain(self, request: ev.LlmRequest) -> list[ev.LlmRequest] | None:
        """Return a request and those that its context is made of, each the base of the one before.

        None where one names several: it is rebuilt by following all names.
        """
        chain = [request]
        while True:
            named = [one.request for one in request.context if one.request is not None]
            if not named:
                return chain
            earlier = self.requests[named[0]]
            if len({*named}) > 1 or self._place[named[0]] >= self._place[request.message_id]:
                return None
            chain.append(earlier)
            request = earlier

    def _next(self, before: list[ChatMessage], request: ev.LlmRequest) -> list[ChatMessage]:
        """Return the context of a request, given that of the one that it names."""
        first, *more = request.context or [_NOTHING]
        if first.start == 0 and first.stop == len(before) and first.request is not None:
            if not more:
                return before
            if len(more) == 1 and more[0].entries is not None:  # as mostly: it goes on
                before.extend([self._entries[id_] for id_ in more[0].entries])
                return before
        if sum(map(length, request.context)) > _number(request.message_id):
            raise ValueError(f"{request.message_id} names more entries than came before it")
        context: list[ChatMessage] = []
        for one in request.context:
            if one.entries is not None:
                context += [self._entries[id_] for id_ in one.entries]
            elif one.request is not None:
                context += before[one.start : one.stop]
            elif one.loaded is not None and self._loaded is not None:
                context += self._loaded(one.loaded)[one.start : one.stop]
            else:
                raise KeyError(one.loaded)
        return context

    def body(self, request_id: str) -> Body:
        """Return the body of a request, equal as JSON to the one that was sent.

        Raises NameNotFound for a request that is not there, or that says of no wire how it was
        sent; FormatError where the log is not whole.
        """
        request = self._request(request_id)
        protocol = self._protocol(request)
        wire = request.wire or {}
        defined = None if request.tools is None else self._tools.get(request.tools)
        asked = ParsedRequest(
            model=request.model,
            tools=() if defined is None else defined.tools,
            parameters=request.parameters or {},
            shape=wire.get("shape"),
            marks=[(path, value) for path, value in wire.get("marks") or ()],
        )
        return protocol.put_together(asked, self._values(request, protocol))

    def _values(self, request: ev.LlmRequest, protocol: Protocol) -> list[Any]:
        """Return the pieces of a request."""
        number = _number(request.message_id)
        values: list[Any] = []
        piece: list[ChatMessage] = []
        form: Form = None
        for message in self.messages(request.message_id):
            changes = (
                self._forms.get(message.message_id) if hasattr(message, "message_id") else None
            )
            own = None if changes is None else _at(changes, number)
            if own == JOINED and piece:
                piece.append(message)
                continue
            if piece:
                values.append(protocol.write(piece, form))
            piece, form = [message], own
        return [*values, protocol.write(piece, form)] if piece else values

    def _request(self, request_id: str) -> ev.LlmRequest:
        request = self.requests.get(MessageId(request_id))
        if request is None:
            raise NameNotFound("request", request_id, self.requests)
        return request

    def _protocol(self, request: ev.LlmRequest) -> Protocol:
        name = (request.wire or {}).get("protocol")
        protocol = wires.WIRES.get(name) if isinstance(name, str) else None
        if protocol is None:
            known = (id_ for id_, one in self.requests.items() if one.wire)
            raise NameNotFound("recorded request", request.message_id, known)
        return protocol


def forms_in(request: ev.LlmRequest) -> Mapping[MessageId, Form]:
    """Return the forms that a request changes, by entry."""
    forms = (request.wire or {}).get("forms")
    return forms if isinstance(forms, dict) else {}


def _at(changes: Sequence[tuple[int, Form]], number: int) -> Form:
    """Return the form that an entry has at the request with this number."""
    at = bisect_right(changes, number, key=lambda change: change[0])
    return changes[at - 1][1] if at else None


def _number(id_: str) -> int:
    return parse_id_number(id_, "msg_") or 0


_NOTHING = ev.Segment(entries=[])
_NOBODY = MessageId("")
"""The id of a message that is no entry."""
