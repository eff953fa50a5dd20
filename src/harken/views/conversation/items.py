"""The rows of a conversation: items, and the parts that they consist of.

Long texts are cut; each part has the length of the whole text. `position` is that of the part among
the parts and calls of its message, by which a reader requests the whole text, in a `TextVersion`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Self, TypeAlias

from harken.core.events import Closed, Purpose
from harken.core.ids import AgentId, MessageId
from harken.core.record import Record
from harken.views.dialogs.labels import Label
from harken.views.message_diff import TextSpan

MAX_TEXT_CHARS = 64 * 1024
"""The number of characters after which a text is cut."""
MAX_CALL_CHARS = 4 * 1024
"""The number of characters after which a text of a call is cut: calls are shown folded."""
_MAX_ITEM_CHARS = 1_000_000
"""The number of characters after which the texts of an item with many parts are cut shorter."""


class Cuts(NamedTuple):
    """The lengths after which the texts of an item are cut."""

    text: int = MAX_TEXT_CHARS
    call: int = MAX_CALL_CHARS

    @classmethod
    def for_parts(cls, count: int) -> Self:
        """Return the lengths for an item with this number of parts."""
        share = _MAX_ITEM_CHARS // max(1, count)
        return cls(min(MAX_TEXT_CHARS, max(64, share)), min(MAX_CALL_CHARS, max(64, share // 6)))


TextVersion: TypeAlias = Literal["written", "heard", "result", "diff", "other"]
"""`written`: as its agent wrote it; `heard`: as a hook rewrote it, so that others received it or it
ran. Of a call also its `result`, its `diff`, and the `other` arguments beside the diff."""


class TextItem(Record, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """Readable text, or a thought."""

    text: str
    length: int
    position: int | None = None
    """None for the text of a verdict of code, or of a stopped turn: it is the whole message."""
    version: str | None = None
    """In a dialog, which text of the item it is. None in a conversation."""


class ImageItem(Record, frozen=True, kw_only=True, tag_field="kind", tag="image"):
    """An image of the log, or one that the log refers to by its address."""

    hash: str | None
    """The identity of the image data. None if the log has an address only."""
    media_type: str | None
    size: int | None
    """The size of the data in bytes."""
    is_shown: bool
    """Whether the data is in the log, and of a type that browsers show without risk."""
    url: str | None = None


class CallResult(Record, frozen=True, kw_only=True):
    """The result of a tool call."""

    message_id: MessageId
    time: str
    text: str
    length: int
    is_error: bool
    closed: Closed | None
    """Why the call has no result of its own, such as `denied`."""
    images: list[ImageItem]


class RewrittenCall(Record, frozen=True, kw_only=True):
    """The tool and arguments with which a hook replaced a call."""

    message_id: MessageId
    name: str
    arguments: str
    length: int
    spans: list[TextSpan]
    """The changes of the arguments, word by word."""
    is_partial: bool
    """Whether the spans lack changes, or were not compared word by word."""


class CallItem(Record, frozen=True, kw_only=True, tag_field="kind", tag="call"):
    """A tool call with its result."""

    id: str
    name: str
    subject: str
    """The arguments on one line, or what stands for all of them; of a rewritten call, what ran."""
    arguments: str
    length: int
    position: int
    result: CallResult | None
    diff: str | None
    """A unified diff, if the arguments tell how a file changes; of a rewritten call, what ran."""
    diff_length: int | None
    is_diff_partial: bool
    """Whether a replacement was not compared line by line."""
    other_arguments: str | None
    """The members of the arguments that the diff does not represent, verbatim, as an object."""
    other_length: int | None
    files: list[str]
    """The files that the call edits, as far as its arguments tell: the paths are untrusted."""
    agents: list[AgentId]
    """The agents that the call created."""
    rewritten: RewrittenCall | None


class RewrittenItem(Record, frozen=True, kw_only=True, tag_field="kind", tag="rewritten"):
    """The text with which a hook replaced an answer, and that others received."""

    text: str
    length: int
    spans: list[TextSpan]
    """The changes of the text, word by word."""
    is_partial: bool
    """Whether the spans lack changes, or were not compared word by word."""
    hook: AgentId | None
    hook_name: str | None


class OtherItem(Record, frozen=True, kw_only=True, tag_field="kind", tag="other"):
    """A part of a kind that Harken does not model, as JSON text; in a dialog, another version."""

    name: str
    text: str
    length: int
    position: int | None = None
    """None in a dialog."""
    version: str | None = None
    """In a dialog, which text of the item it is. None in a conversation."""


ConversationPart: TypeAlias = TextItem | ImageItem | CallItem | RewrittenItem | OtherItem


class ConversationItem(Record, frozen=True, kw_only=True):
    """The parts of a message that have one label."""

    message_id: MessageId
    time: str
    label: Label
    note: str | None
    """Details of the label, such as the outcome of a draft."""
    purpose: Purpose | None
    """Why Harken wrote the message for the agent. None if an agent or the user wrote it."""
    original: MessageId | None
    """The message that this one represents. None if it is an original."""
    author: AgentId | None
    author_name: str | None
    parts: list[ConversationPart]


def cut_text(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return the beginning of a text that is too long to be sent as a whole."""
    return text if len(text) <= limit else text[:limit]
