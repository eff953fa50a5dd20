"""The protocols, by name and by path.

A base URL may stand before the path that a provider documents, so a path is known by its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from harken.formats.wire import anthropic, gemini, messages_v1, openai_chat, openai_responses
from harken.formats.wire.base import Protocol

WIRES: Mapping[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        anthropic.PROTOCOL,
        openai_chat.PROTOCOL,
        openai_responses.PROTOCOL,
        gemini.PROTOCOL,
        messages_v1.PROTOCOL,
    )
}
"""By name."""


def of(path: str) -> Protocol | None:
    """Return the protocol of a request for an answer to this path; None: it is for no answer.

    The query may be there.

    >>> of("/base/v1/messages?beta=true").name
    'anthropic-messages'
    >>> of("/v1/messages/count_tokens") is None
    True
    """
    way = unquote(path.partition("?")[0])
    return next((one for one in WIRES.values() if one.asks(way)), None)
