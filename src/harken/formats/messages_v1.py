"""`messages-v1`: a conversation as the request bodies of both kinds of providers.

The modules of the providers handle everything that a provider refuses; here both bodies stand side
by side, and a client that continues the conversation uses one of them. The reader takes the body
that is present, and Anthropic's if both are, because it keeps more structure.

It is a rendering: data that a request cannot carry (times, sources, thoughts of other models) is
left out. It is not joined as bytes, because a request is closed at its end.

Source: docs/formats/messages-v1.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harken.core import canonical
from harken.core.messages import Message
from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format
from harken.formats.providers import anthropic, openai_chat

NAME = "messages-v1"
_READERS: Mapping[str, Callable[[Mapping[str, Any]], list[Message]]] = {
    "anthropic": anthropic.parse_request_messages,
    "openai": openai_chat.parse_request_messages,
}


def _read(data: bytes) -> list[ConversationEntry]:
    try:
        value = canonical.from_json(data)
    except ValueError as error:
        raise FormatError(NAME, f"invalid JSON ({error})") from None
    for name, parse_messages in _READERS.items():
        body = value.get(name) if isinstance(value, dict) else None
        if isinstance(body, dict) and isinstance(body.get("messages"), list):
            return [ConversationEntry(message) for message in parse_messages(body)]
    raise FormatError(NAME, f"it has no body of a request as {' or '.join(_READERS)}")


def _write(entries: Sequence[ConversationEntry]) -> bytes:
    messages = [entry.message for entry in entries]
    bodies = {
        "anthropic": anthropic.build_request_body(messages),
        "openai": openai_chat.build_request_body(messages),
    }
    return canonical.to_json_line(bodies) + b"\n"


FORMAT = Format(name=NAME, media_type="application/json", reads=_read, writes=_write)
