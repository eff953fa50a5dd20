"""Room: how full a context is, and which part of it may give way to a summary.

Providers count exactly, but only what they were sent; what is new since is estimated. No part of a
turn is torn: where a call stays, so does its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from harken.context.checkpoint import tokens_in
from harken.core.events import TranscriptEntry
from harken.core.messages import (
    ChatMessage,
    ContentPart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    UnknownPart,
)
from harken.core.verdict import is_question
from harken.llm.base import ToolSchema
from harken.session.state import ContextTokens

IMAGE_TOKENS = 1600
"""What a large image takes, about."""
_CHARACTERS_A_TOKEN = 4
_DROPPED = "[{:,} messages were left out here, since all of them did not fit]"
_SHORTENED = "\n[... {:,} characters were left out here, since all of it did not fit ...]\n"


def estimate_tokens(messages: Iterable[ChatMessage]) -> int:
    """Estimate how many tokens messages take."""
    return sum(tokens_in([message]) + _beside_text(message) for message in messages)


def count_context_tokens(
    context: Sequence[ChatMessage], counted: ContextTokens | None, tools: Sequence[ToolSchema]
) -> int:
    """Return how many tokens a request with this context takes: counted as far as it was."""
    if counted is not None:
        return counted.tokens + estimate_tokens(context[counted.messages :])
    schemas = sum(len(str(dict(tool))) for tool in tools) // _CHARACTERS_A_TOKEN
    return estimate_tokens(context) + schemas


@dataclass(frozen=True, slots=True)
class ContextSplit:
    """How a context is divided: instructions, then what is summed up, then what stays."""

    begins: int
    """Where what is summed up begins: before it are the agent's instructions."""
    stays: int
    """Where what stays as it is begins."""
    request: int | None = None
    """What the user asked for last, where it is summed up and not done yet: it stays, too."""

    @property
    def is_worth_it(self) -> bool:
        """Whether a summary would stand for more than one message."""
        return self.stays - self.begins > 1


def split_context(context: Sequence[ChatMessage], *, pending: bool, most: int) -> ContextSplit:
    """Divide a context whose calls all have their results.

    pending: the agent has not answered yet. Then what it was asked stays, and its last step with
    the results, where these take no more than `most` tokens.
    """
    begins, end = sum(1 for _ in takewhile(_is_system, context)), len(context)
    if not pending:
        return ContextSplit(begins, end)
    asked = next((at for at in reversed(range(begins, end)) if _is_asked(context[at])), None)
    acted = next((at for at in reversed(range(begins, end)) if _has_acted(context[at])), begins)
    if asked is not None and asked > acted:
        first = _first_of_row(context, asked)
        return ContextSplit(begins, max(first, begins))
    stays = acted if estimate_tokens(context[acted:]) <= most else end
    return ContextSplit(begins, max(stays, begins), asked)


def trim_to_tokens(messages: Sequence[ChatMessage], begins: int, most: int) -> list[ChatMessage]:
    """Return messages that take about `most` tokens, for one who need not see all of them.

    Long texts are cut in their middle, images go; where that is not enough, so do the oldest
    messages after the first, a call never without its result.
    """
    longest = max(most // 4, 200) * _CHARACTERS_A_TOKEN
    short = [*messages[:begins], *(_shortened(message, longest) for message in messages[begins:])]
    steps = list(_steps(short[begins:]))
    first, later = steps[:1], steps[1:]  # what all began with, or an earlier summary
    left, dropped = estimate_tokens(short), 0
    while left > most and len(later) > 1:
        gone = later.pop(0)
        left, dropped = left - estimate_tokens(gone), dropped + len(gone)
    note = [Message("user", _DROPPED.format(dropped))] if dropped else []
    return [*short[:begins], *_joined(first), *note, *_joined(later)]


def _is_system(message: ChatMessage) -> bool:
    return message.role == "system"


def _is_asked(message: ChatMessage) -> bool:
    """Whether somebody asked for something: what else has a cause is a note, or what hooks say."""
    if isinstance(message, TranscriptEntry) and is_question(message):
        return True
    return message.role == "user" and getattr(message, "cause", None) is None


def _has_acted(message: ChatMessage) -> bool:
    return message.role == "assistant"


def _first_of_row(context: Sequence[ChatMessage], at: int) -> int:
    """Return the first of the messages in a row that the agent heard, of which this is one."""
    while at > 0 and context[at - 1].role == "user" and _is_asked(context[at - 1]):
        at -= 1
    return at


def _steps(messages: Sequence[ChatMessage]) -> Iterator[list[ChatMessage]]:
    """Yield each message alone, but one that makes calls with their results."""
    step: list[ChatMessage] = []
    for message in messages:
        if step and message.role != "tool":
            yield step
            step = []
        step.append(message)
    if step:
        yield step


def _joined(steps: Iterable[Sequence[ChatMessage]]) -> Iterator[ChatMessage]:
    return (message for step in steps for message in step)


def _beside_text(message: ChatMessage) -> int:
    """Estimate what is no text: images, thinking, native blocks."""
    parts = message.content if isinstance(message.content, list) else []
    return sum(_tokens_of(part) for part in parts)


def _tokens_of(part: ContentPart) -> int:
    if isinstance(part, ImagePart):
        return IMAGE_TOKENS
    if isinstance(part, ThinkingPart):
        return len(part.text) // _CHARACTERS_A_TOKEN
    return len(part.data) // _CHARACTERS_A_TOKEN if isinstance(part, UnknownPart) else 0


def _shortened(message: ChatMessage, longest: int) -> ChatMessage:
    """Return a message without images and with its texts cut; itself where nothing has to go."""
    content = message.content
    if message.role == "assistant" or content is None:
        return message
    if isinstance(content, str):
        short: str | list[ContentPart] = _cut(content, longest)
    else:
        short = [_short_part(part, longest) for part in content]
    if short == content:
        return message
    names = Message.__struct_fields__
    plain = Message(**{name: getattr(message, name) for name in names})
    return msgspec.structs.replace(plain, content=short)


def _short_part(part: ContentPart, longest: int) -> ContentPart:
    if isinstance(part, ImagePart):
        return TextPart("[an image was left out here, since all of it did not fit]")
    return TextPart(_cut(part.text, longest), part.meta) if isinstance(part, TextPart) else part


def _cut(text: str, longest: int) -> str:
    half = longest // 2
    if len(text) <= longest:
        return text
    return text[:half] + _SHORTENED.format(len(text) - 2 * half) + text[-half:]
