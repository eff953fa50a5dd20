"""The requests of a client, as far as its transcript records them.

A conversation does not determine the requests: the client adds a system prompt, tools, and messages
for one request. Some clients record these beside the conversation: `SentRequests`. A message of a
request is recorded as a hash, by which it is compared with the messages of the conversation. Others
state settings that determine a part of a request: `StatedRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec

from harken.core.events import RequestPart
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object

_MEMBER = "sent"
"""The member of the source of an answer with its stated request."""


class SentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as its client recorded it."""

    parameters: Mapping[str, Any]
    """Its members besides model, messages and tools. `system` is the system prompt."""
    tools: Sequence[Mapping[str, Any]]
    """Each has `name`, `description` and `parameters`."""
    message_hashes: Sequence[str]


class SentRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a transcript."""

    by_response: Mapping[str, SentRequest]
    """The provider's id of the response -> the request."""
    hash_messages: Callable[[Sequence[ConversationEntry]], Iterable[str]]
    """Returns the client's hashes of the messages of a part of a conversation."""


SentRequestReader: TypeAlias = Callable[[Iterable[bytes]], SentRequests]
"""Reads the requests of a file, given in chunks. Invalid records are ignored."""


class StatedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that a transcript determines, in the source of its answer."""

    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The known parameters. There may be others, unless `parameters` is known."""
    known: Sequence[RequestPart] = ()
    """The parts of the request that the conversation and `parameters` have completely."""

    def to_source(self) -> Record:
        """Return the members of the source of an answer. Empty if nothing is known."""
        members: Record = {}
        if self.parameters:
            members["parameters"] = dict(self.parameters)
        if self.known:
            members["known"] = list(self.known)
        return {_MEMBER: members} if members else {}

    @classmethod
    def from_source(cls, source: Mapping[str, Any] | None) -> StatedRequest | None:
        """Return the stated request of an answer, or None. Members of a wrong type are ignored."""
        members = get_object(dict(source or {}), _MEMBER)
        if not members:
            return None
        value = members.get("known")
        names = value if isinstance(value, list) else []
        known_parts = [part for part in get_args(RequestPart) if part in names]
        return cls(parameters=get_object(members, "parameters"), known=known_parts)
