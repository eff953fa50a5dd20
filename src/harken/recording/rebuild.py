"""Rebuild a request as it was on the wire, from the log alone.

The context gives the messages, their forms give the serialization of each, and the request gives
everything else. The result is equal as JSON to what was sent, whatever happened to the context
later.

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
from harken.recording.writer.logged_items import JOINED_FORM
from harken.session.segments import Loaded, resolve_context, segment_length


class RequestRebuilder:
    """Rebuild the requests of a log.

    Reading the log takes one pass. Rebuilding a request takes time proportional to its length.
    """

    def __init__(self, events: Iterable[ev.Event], loaded: Loaded | None = None) -> None:
        """Index the events of a log.

        `loaded` returns the messages of commits that agents started from.
        """
        self.requests: dict[MessageId, ev.LlmRequest] = {}
        self._entries: dict[MessageId, ev.TranscriptEntry] = {}
        self._tools: dict[MessageId, ev.ToolsDefined] = {}
        self._forms: dict[MessageId, list[tuple[int, Form]]] = {}
        """Entry -> its forms, each with the number of the request that set it."""
        self._request_index: dict[MessageId, int] = {}
        """Request -> the number of requests before it."""
        self._loaded = loaded
        for event in events:
            self._add_event(event)

    def _add_event(self, event: ev.Event) -> None:
        match event:
            case ev.TranscriptEntry():
                self._entries[event.message_id] = event
            case ev.ToolsDefined():
                self._tools[event.message_id] = event
            case ev.LlmRequest():
                self._request_index[event.message_id] = len(self.requests)
                self.requests[event.message_id] = event
                for id_, form in request_forms(event).items():
                    self._forms.setdefault(id_, []).append((_parse_number(event.message_id), form))

    def messages(self, request_id: str) -> list[ChatMessage]:
        """Return the context of a request, oldest first. Raises NameNotFound, FormatError."""
        request = self._request(request_id)
        try:
            chain = self._chain(request)
            if chain is None:
                return resolve_context(request, self.requests, self._entries, self._loaded)
            context: list[ChatMessage] = []
            for link in reversed(chain):
                context = self._next(context, link)
        except (KeyError, ValueError) as error:
            raise FormatError("wire", f"{request_id}: its context is missing: {error}") from None
        return context

    def _chain(self, request: ev.LlmRequest) -> list[ev.LlmRequest] | None:
        """Return a request and the requests its context refers to, each the base of the one before.

        Return None if a request refers to several others. It is then rebuilt by following every
        reference.
        """
        chain = [request]
        while True:
            base_ids = [
                segment.request for segment in request.context if segment.request is not None
            ]
            if not base_ids:
                return chain
            earlier = self.requests[base_ids[0]]
            if (
                len({*base_ids}) > 1
                or self._request_index[base_ids[0]] >= self._request_index[request.message_id]
            ):
                return None
            chain.append(earlier)
            request = earlier

    def _next(self, before: list[ChatMessage], request: ev.LlmRequest) -> list[ChatMessage]:
        """Return the context of a request. `before` is the context of the request it refers to."""
        first, *others = request.context or [_EMPTY_SEGMENT]
        if first.start == 0 and first.stop == len(before) and first.request is not None:
            if not others:
                return before
            if (
                len(others) == 1 and others[0].entries is not None
            ):  # Most requests only append entries.
                before.extend([self._entries[id_] for id_ in others[0].entries])
                return before
        if sum(map(segment_length, request.context)) > _parse_number(request.message_id):
            raise ValueError(f"{request.message_id} names more entries than came before it")
        context: list[ChatMessage] = []
        for segment in request.context:
            if segment.entries is not None:
                context += [self._entries[id_] for id_ in segment.entries]
            elif segment.request is not None:
                context += before[segment.start : segment.stop]
            elif segment.loaded is not None and self._loaded is not None:
                context += self._loaded(segment.loaded)[segment.start : segment.stop]
            else:
                raise KeyError(segment.loaded)
        return context

    def body(self, request_id: str) -> Body:
        """Return the body of a request, equal as JSON to the one that was sent.

        Raises NameNotFound if the request does not exist or has no wire data. Raises FormatError if
        the log is incomplete.
        """
        request = self._request(request_id)
        protocol = self._protocol(request)
        wire = request.wire or {}
        defined = None if request.tools is None else self._tools.get(request.tools)
        parsed = ParsedRequest(
            model=request.model,
            tools=() if defined is None else defined.tools,
            parameters=request.parameters or {},
            shape=wire.get("shape"),
            marks=[(path, value) for path, value in wire.get("marks") or ()],
        )
        return protocol.build_body(parsed, self._values(request, protocol))

    def _values(self, request: ev.LlmRequest, protocol: Protocol) -> list[Any]:
        """Return the pieces of a request."""
        number = _parse_number(request.message_id)
        values: list[Any] = []
        piece: list[ChatMessage] = []
        form: Form = None
        for message in self.messages(request.message_id):
            changes = (
                self._forms.get(message.message_id) if hasattr(message, "message_id") else None
            )
            current_form = None if changes is None else _form_at(changes, number)
            if current_form == JOINED_FORM and piece:
                piece.append(message)
                continue
            if piece:
                values.append(protocol.write(piece, form))
            piece, form = [message], current_form
        return [*values, protocol.write(piece, form)] if piece else values

    def _request(self, request_id: str) -> ev.LlmRequest:
        request = self.requests.get(MessageId(request_id))
        if request is None:
            raise NameNotFound("request", request_id, self.requests)
        return request

    def _protocol(self, request: ev.LlmRequest) -> Protocol:
        name = (request.wire or {}).get("protocol")
        protocol = wires.WIRE_PROTOCOLS.get(name) if isinstance(name, str) else None
        if protocol is None:
            recorded_ids = (id_ for id_, recorded in self.requests.items() if recorded.wire)
            raise NameNotFound("recorded request", request.message_id, recorded_ids)
        return protocol


def request_forms(request: ev.LlmRequest) -> Mapping[MessageId, Form]:
    """Return the forms that a request changes, by entry."""
    forms = (request.wire or {}).get("forms")
    return forms if isinstance(forms, dict) else {}


def _form_at(changes: Sequence[tuple[int, Form]], number: int) -> Form:
    """Return the form that an entry has at the request with this number."""
    index = bisect_right(changes, number, key=lambda change: change[0])
    return changes[index - 1][1] if index else None


def _parse_number(id_: str) -> int:
    return parse_id_number(id_, "msg_") or 0


_EMPTY_SEGMENT = ev.Segment(entries=[])
