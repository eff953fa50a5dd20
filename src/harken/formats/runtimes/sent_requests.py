"""`SentRequests`: the requests of a client, as far as its transcript records them.

A conversation does not determine the requests: the client adds a system prompt, tools, and messages
for one request. Some clients record these beside the conversation. A message of a request is
recorded as a hash, by which it is compared with the messages of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from harken.formats.base import ConversationEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A request as its client recorded it."""

    parameters: Mapping[str, Any]
    """Its members besides model, messages and tools. `system` is the system prompt."""
    tools: Sequence[Mapping[str, Any]]
    """Each has `name`, `description` and `parameters`."""
    message_hashes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequests:
    """The requests of a transcript."""

    by_response: Mapping[str, SentRequest]
    """The provider's id of the response -> the request."""
    hash_messages: Callable[[Sequence[ConversationEntry]], Iterable[str]]
    """Returns the client's hashes of the messages of a part of a conversation."""


SentRequestReader: TypeAlias = Callable[[Iterable[bytes]], SentRequests]
"""Reads the requests of a file, given in chunks. Invalid records are ignored."""
