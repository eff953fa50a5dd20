"""The wire protocols, by name and by path.

A base URL may precede the path that a provider documents, so a path is matched by its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from harken.formats.wire import anthropic, gemini, messages_v1, openai_chat, openai_responses
from harken.formats.wire.base import Protocol

WIRE_PROTOCOLS: Mapping[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        anthropic.PROTOCOL,
        openai_chat.PROTOCOL,
        openai_responses.PROTOCOL,
        gemini.PROTOCOL,
        messages_v1.PROTOCOL,
    )
}
"""Protocols by name."""


def find_protocol(path: str) -> Protocol | None:
    """Return the protocol of a model call to this path.

    Return None if the path is for no model call.

    The path may include a query.

    >>> find_protocol("/base/v1/messages?beta=true").name
    'anthropic-messages'
    >>> find_protocol("/v1/messages/count_tokens") is None
    True
    """
    plain_path = unquote(path.partition("?")[0])
    return next(
        (protocol for protocol in WIRE_PROTOCOLS.values() if protocol.is_model_path(plain_path)),
        None,
    )
