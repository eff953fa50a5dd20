"""`LoggedString`: a string that carries the id of the logged message that it represents.

Code that passes strings between agents would otherwise lose the link to the log. With a
LoggedString no method needs an extra parameter for the message id.
"""

from __future__ import annotations

from typing import Any, Self

from harken.core.ids import MessageId
from harken.errors import StopReason

MAX_PREVIEW_CHARS = 100
"""Maximum length of a preview, in characters."""


class LoggedString(str):
    """A string with the id of the message that it represents.

    `message_id` is the string's own message, or, for a formatted version, the original's.
    In every other respect it is a `str`; slices and concatenations are plain `str`s.

    >>> hi = LoggedString("Hi", message_id="msg_015")
    >>> hi == "Hi", hi.message_id, hi.as_said_by("Jack"), hi.as_said_by("Jack").message_id
    (True, 'msg_015', '[Jack]: Hi', 'msg_015')
    """

    __slots__ = ("message_id", "stop_reason")

    message_id: MessageId | None
    stop_reason: StopReason | None
    """Why it stands in place of an answer; None for an answer."""

    def __new__(
        cls,
        content: object = "",
        message_id: str | None = None,
        stop_reason: StopReason | None = None,
    ) -> Self:
        """Create a string for the message with this id, or without a message."""
        string = super().__new__(cls, content)
        string.message_id = None if message_id is None else MessageId(message_id)
        string.stop_reason = stop_reason
        return string

    @property
    def is_answer(self) -> bool:
        """Whether an agent said it; otherwise its turn was stopped."""
        return self.stop_reason is None

    @property
    def content_id(self) -> MessageId | None:
        """The older name of `message_id`."""
        return self.message_id

    def as_said_by(self, name: str) -> LoggedString:
        """Return the form that other agents read; it still represents the original message."""
        return LoggedString(f"[{name}]: {self}", self.message_id, self.stop_reason)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the id in copies and pickles."""
        return type(self), (str(self), self.message_id, self.stop_reason)


def preview(text: str) -> str:
    r"""Return the beginning of a text on one line.

    >>> preview("Tea.\n" * 40)[-12:], len(preview("Tea.\n" * 40))
    ('. Tea. Tea.…', 100)
    """
    line = " ".join(text[: 4 * MAX_PREVIEW_CHARS].split())
    fits = len(text) <= 4 * MAX_PREVIEW_CHARS and len(line) <= MAX_PREVIEW_CHARS
    return line if fits else line[: MAX_PREVIEW_CHARS - 1] + "…"
