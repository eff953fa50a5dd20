"""The size of a context, and its split into the part to summarize and the part to keep.

Providers count exactly, but only contexts that they were sent; newer messages are estimated. A step
is never split: a call and its result stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import msgspec

from harken.agents import texts
from harken.context.checkpoint import estimate_message_tokens
from harken.core import structs
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
"""The approximate size of a large image."""
_CHARS_PER_TOKEN = 4


def estimate_tokens(messages: Iterable[ChatMessage]) -> int:
    """Estimate the size of messages in tokens."""
    return sum(
        estimate_message_tokens([message]) + _estimate_non_text(message) for message in messages
    )


def count_context_tokens(
    context: Sequence[ChatMessage], counted: ContextTokens | None, tools: Sequence[ToolSchema]
) -> int:
    """Return the size of a request in tokens: counted by the provider, the rest estimated."""
    if counted is not None:
        return counted.tokens + estimate_tokens(context[counted.messages :])
    schemas = sum(len(str(dict(tool))) for tool in tools) // _CHARS_PER_TOKEN
    return estimate_tokens(context) + schemas


class ContextSplit(msgspec.Struct, frozen=True):
    """A split of a context: instructions, then messages to summarize, then messages to keep."""

    summary_start: int
    """The index of the first message to summarize, after the agent's instructions."""
    retained_start: int
    """The index of the first message to keep."""
    request: int | None = None
    """The index of the last user request if it would be summarized unfinished: it is kept, too."""

    @property
    def is_worth_it(self) -> bool:
        """Whether a summary would replace several messages."""
        return self.retained_start - self.summary_start > 1


def split_context(context: Sequence[ChatMessage], *, pending: bool, most: int) -> ContextSplit:
    """Split a context in which every call has its result.

    pending: the agent has yet to answer. Then the last request is kept, and also the last step with
    its results, if it takes at most `most` tokens.
    """
    begins, end = sum(1 for _ in takewhile(_is_system, context)), len(context)
    if not pending:
        return ContextSplit(begins, end)
    last_request = next(
        (index for index in reversed(range(begins, end)) if _is_request(context[index])), None
    )
    last_action = next(
        (index for index in reversed(range(begins, end)) if _has_acted(context[index])), begins
    )
    if last_request is not None and last_request > last_action:
        first = _find_first_request(context, last_request)
        return ContextSplit(begins, max(first, begins))
    stays = last_action if estimate_tokens(context[last_action:]) <= most else end
    return ContextSplit(begins, max(stays, begins), last_request)


def trim_to_tokens(messages: Sequence[ChatMessage], begins: int, most: int) -> list[ChatMessage]:
    """Trim messages to about `most` tokens, for a reader that does not need all of them.

    Long texts lose their middle and images are removed. If that is not enough, the oldest messages
    after the first are removed, calls together with their results.
    """
    max_chars = max(most // 4, 200) * _CHARS_PER_TOKEN
    short = [
        *messages[:begins],
        *(_shorten_message(message, max_chars) for message in messages[begins:]),
    ]
    steps = list(_iter_steps(short[begins:]))
    first, later = steps[:1], steps[1:]  # the first request, or an earlier summary
    remaining_tokens, dropped = estimate_tokens(short), 0
    while remaining_tokens > most and len(later) > 1:
        removed = later.pop(0)
        remaining_tokens, dropped = (
            remaining_tokens - estimate_tokens(removed),
            dropped + len(removed),
        )
    note = [Message("user", texts.MESSAGES_OMITTED.format(dropped))] if dropped else []
    return [*short[:begins], *_flatten(first), *note, *_flatten(later)]


def _is_system(message: ChatMessage) -> bool:
    return message.role == "system"


def _is_request(message: ChatMessage) -> bool:
    """Whether a message requests an answer: others with a cause are notes or hooks' comments."""
    if isinstance(message, TranscriptEntry) and is_question(message):
        return True
    return message.role == "user" and getattr(message, "cause", None) is None


def _has_acted(message: ChatMessage) -> bool:
    return message.role == "assistant"


def _find_first_request(context: Sequence[ChatMessage], index: int) -> int:
    """Return the index of the first of consecutive requests that end at an index."""
    while index > 0 and context[index - 1].role == "user" and _is_request(context[index - 1]):
        index -= 1
    return index


def _iter_steps(messages: Sequence[ChatMessage]) -> Iterator[list[ChatMessage]]:
    """Yield steps: a message with calls together with its results, every other message alone."""
    step: list[ChatMessage] = []
    for message in messages:
        if step and message.role != "tool":
            yield step
            step = []
        step.append(message)
    if step:
        yield step


def _flatten(steps: Iterable[Sequence[ChatMessage]]) -> Iterator[ChatMessage]:
    return (message for step in steps for message in step)


def _estimate_non_text(message: ChatMessage) -> int:
    """Estimate the size of parts that are no text: images, thinking, native blocks."""
    parts = message.content if isinstance(message.content, list) else []
    return sum(_estimate_part(part) for part in parts)


def _estimate_part(part: ContentPart) -> int:
    if isinstance(part, ImagePart):
        return IMAGE_TOKENS
    if isinstance(part, ThinkingPart):
        return len(part.text) // _CHARS_PER_TOKEN
    return len(part.data) // _CHARS_PER_TOKEN if isinstance(part, UnknownPart) else 0


def _shorten_message(message: ChatMessage, max_chars: int) -> ChatMessage:
    """Return a message without images and with truncated texts, or itself if nothing changes."""
    content = message.content
    if message.role == "assistant" or content is None:
        return message
    if isinstance(content, str):
        shortened: str | list[ContentPart] = _truncate_middle(content, max_chars)
    else:
        shortened = [_shorten_part(part, max_chars) for part in content]
    if shortened == content:
        return message
    names = Message.__struct_fields__
    copy = Message(**{name: getattr(message, name) for name in names})
    return structs.replace(copy, content=shortened)


def _shorten_part(part: ContentPart, max_chars: int) -> ContentPart:
    if isinstance(part, ImagePart):
        return TextPart(texts.IMAGE_OMITTED)
    return (
        structs.replace(part, text=_truncate_middle(part.text, max_chars))
        if isinstance(part, TextPart)
        else part
    )


def _truncate_middle(text: str, max_chars: int) -> str:
    half = max_chars // 2
    if len(text) <= max_chars:
        return text
    return text[:half] + texts.CHARACTERS_OMITTED.format(len(text) - 2 * half) + text[-half:]
