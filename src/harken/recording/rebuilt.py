"""A request as it was on the wire, from the log alone.

One idea: the context says which messages, their forms how each is written, and the request all
else. So what was sent comes back equal as JSON, whatever became of the context later.

Source: docs/formats/session-log.md, "Segments" and "The wire".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from harken.core import events as ev
from harken.core.ids import MessageId, number_of
from harken.core.messages import ChatMessage
from harken.errors import FormatError, UnknownName
from harken.formats.wire import wires
from harken.formats.wire.base import Asked, Body, Form, Protocol
from harken.recording.voice import JOINED
from harken.session.segments import Loaded, context_of


def body_of(events: Iterable[ev.Event], request_id: str, loaded: Loaded | None = None) -> Body:
    """Return the body of a recorded request, from the events of its log. As `Rebuilder.body`."""
    return Rebuilder(events, loaded).body(request_id)


class Rebuilder:
    """The requests of a log. Reading it takes one pass, a request the time of its own length."""

    def __init__(self, events: Iterable[ev.Event], loaded: Loaded | None = None) -> None:
        """Take what the log has; loaded: gives the messages of commits that agents began with."""
        self.requests: dict[MessageId, ev.LlmRequest] = {}
        self._entries: dict[MessageId, ev.TranscriptEntry] = {}
        self._tools: dict[MessageId, ev.ToolsDefined] = {}
        self._forms: dict[MessageId, list[tuple[int, Form]]] = {}
        """Entry -> its forms, each with the number of the request from which on it has it."""
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
                self.requests[event.message_id] = event
                for id_, form in forms_in(event).items():
                    self._forms.setdefault(id_, []).append((_number(event.message_id), form))

    def messages(self, request_id: str) -> list[ChatMessage]:
        """Return what a request saw, oldest first. Raises UnknownName, FormatError."""
        request = self._request(request_id)
        try:
            return context_of(request, self.requests, self._entries, self._loaded)
        except (KeyError, ValueError) as error:
            raise FormatError("wire", f"{request_id}: its context is not here: {error}") from None

    def body(self, request_id: str) -> Body:
        """Return the body of a request, equal as JSON to the one that was sent.

        Raises UnknownName for a request that is not there, or that says of no wire how it was
        sent; FormatError where the log is not whole.
        """
        request = self._request(request_id)
        protocol = self._protocol(request)
        wire = request.wire or {}
        defined = None if request.tools is None else self._tools.get(request.tools)
        asked = Asked(
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
            own = self._form(message, number)
            if piece and own == JOINED:
                piece.append(message)
                continue
            if piece:
                values.append(protocol.write(piece, form))
            piece, form = [message], own
        return [*values, protocol.write(piece, form)] if piece else values

    def _form(self, message: ChatMessage, number: int) -> Form:
        """Return the form that a message has at the request with this number."""
        changes = self._forms.get(getattr(message, "message_id", MessageId("")))
        if not changes:
            return None
        at = bisect_right(changes, number, key=lambda change: change[0])
        return changes[at - 1][1] if at else None

    def _request(self, request_id: str) -> ev.LlmRequest:
        request = self.requests.get(MessageId(request_id))
        if request is None:
            raise UnknownName("request", request_id, self.requests)
        return request

    def _protocol(self, request: ev.LlmRequest) -> Protocol:
        name = (request.wire or {}).get("protocol")
        protocol = wires.WIRES.get(name) if isinstance(name, str) else None
        if protocol is None:
            known = (id_ for id_, one in self.requests.items() if one.wire)
            raise UnknownName("recorded request", request.message_id, known)
        return protocol


def forms_in(request: ev.LlmRequest) -> Mapping[MessageId, Form]:
    """Return the forms that a request changes, by entry."""
    forms = (request.wire or {}).get("forms")
    return forms if isinstance(forms, dict) else {}


def _number(id_: str) -> int:
    return number_of(id_, "msg_") or 0
