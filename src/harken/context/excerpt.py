"""Excerpts: messages as one text of bounded length, for a model that shall summarize them.

What is left out is said, with how much it was. Thinking is left out: it is not what was done.
Credentials are redacted before anything is cut: half a key would have no shape, and still be half
a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harken.core.messages import ChatMessage, ImagePart, OtherPart, text_of
from harken.core.redaction import redact

CHARACTERS = 24_000
"""How long an excerpt is at most: some 6,000 tokens."""
_OF_A_MESSAGE = 4_000
_OF_A_CALL = 500


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What messages say and do."""

    text: str
    redacted: int = 0
    """How many credentials were taken out."""


def excerpt(messages: Sequence[ChatMessage], most: int = CHARACTERS) -> Excerpt:
    """Return what messages say and do, oldest first, in about `most` characters.

    Long messages lose their middle; of many messages those in the middle are left out, since the
    first say what was wanted and the last what came of it.
    """
    first = _taken(messages, most // 4)
    rest = messages[len(first) :]
    last = _taken(rest[::-1], most - most // 4)[::-1]
    left_out = len(rest) - len(last)
    note = [Excerpt(f"[{left_out} messages are left out here]")] if left_out else []
    told = [*first, *note, *last]
    return Excerpt("\n".join(one.text for one in told), sum(one.redacted for one in told))


def _taken(messages: Iterable[ChatMessage], most: int) -> list[Excerpt]:
    """Return the first messages that are together no longer than this; no other is looked at."""
    taken: list[Excerpt] = []
    left = most
    for one in map(_written, messages):
        left -= len(one.text) + 1
        if left < 0:
            break
        taken.append(one)
    return taken


def _written(message: ChatMessage) -> Excerpt:
    who = f"{message.role} {message.name}" if message.name else message.role
    said = redact(text_of(message.content))
    redacted = len(said.found)
    lines = [f"[{who[:80]}]"]
    if said.text:
        lines.append(said.text)
    parts = message.content if isinstance(message.content, list) else []
    lines += ["(an image)" for part in parts if isinstance(part, ImagePart)]
    lines += [f"({part.kind[:40]})" for part in parts if isinstance(part, OtherPart)]
    for call in message.tool_calls or ():
        arguments = redact(call.function.arguments)
        redacted += len(arguments.found)
        lines.append(f"-> {call.function.name[:80]}({_cut(arguments.text, _OF_A_CALL)})")
    return Excerpt(_cut("\n".join(lines), _OF_A_MESSAGE), redacted)


def _cut(text: str, most: int) -> str:
    """Return a text without its middle where it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"
