"""`messages-v1`: what a model reads, as the bodies of requests to the two kinds of providers.

One idea: all that a provider refuses is dealt with in the formats of the providers; here both of
their bodies stand beside each other, so that whoever continues the conversation takes one. Reading
takes the one that is there; of two, Anthropic's, which keeps more apart.

It is a rendering: what a request cannot say (times, sources, thoughts of a model that is not
asked) is left out. So it is not joined as bytes: a request is closed at its end.

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
    "anthropic": anthropic.messages_of,
    "openai": openai_chat.messages_of,
}


def _reads(data: bytes) -> list[ConversationEntry]:
    try:
        value = canonical.from_json(data)
    except ValueError as error:
        raise FormatError(NAME, f"it is no JSON ({error})") from None
    for name, read in _READERS.items():
        body = value.get(name) if isinstance(value, dict) else None
        if isinstance(body, dict) and isinstance(body.get("messages"), list):
            return [ConversationEntry(message) for message in read(body)]
    raise FormatError(NAME, f"it has no body of a request as {' or '.join(_READERS)}")


def _writes(entries: Sequence[ConversationEntry]) -> bytes:
    messages = [entry.message for entry in entries]
    bodies = {
        "anthropic": anthropic.build_request_body(messages),
        "openai": openai_chat.build_request_body(messages),
    }
    return canonical.to_json_line(bodies) + b"\n"


FORMAT = Format(name=NAME, media_type="application/json", reads=_reads, writes=_writes)
