"""The older names `MessageString` and `SessionLogger`, over LoggedString and Session.

Programs that use them keep working, and write current logs.

Source: the first logging architecture, "MessageString" and "Session logger".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from harken.core.arguments import check_arguments
from harken.core.ids import MessageId, reference_message_id
from harken.core.logged_string import LoggedString
from harken.errors import InvalidEvent
from harken.session.session import Session


class MessageString(LoggedString):
    """The older name of LoggedString: `content_id` is its `message_id`.

    `caused_by` is the call that created a piece of text, kept for programs that read it.
    """

    __slots__ = ("caused_by",)

    caused_by: str | None

    def __new__(
        cls, content: object = "", content_id: str | None = None, caused_by: str | None = None
    ) -> Self:
        """Create a string that represents the message with this id."""
        string = super().__new__(cls, content, content_id)
        string.caused_by = caused_by
        return string

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the ids in copies and pickles."""
        return type(self), (str(self), self.message_id, self.caused_by)


@check_arguments
class SessionLogger:
    """The older name of Session, with the older parameters."""

    def __init__(self, session_file: str | Path) -> None:
        """Open a log for writing, new or existing. Raises as `Session`."""
        self.session = Session(session_file)
        self.session_file = self.session.path

    def log_agent_created(
        self, agent_id: str, name: str | None = None, language_model: str | None = None
    ) -> MessageId:
        """Log a birth. The parent is the agent with an open call that names the new agent."""
        return self.session.log_agent_created(
            agent_id, self._find_cause(name), name, language_model
        )

    def log_transcript_entry(
        self, agent_id: str, message: Mapping[str, Any], content_id: str | None = None
    ) -> MessageId:
        """Log a message; `content_id` is the message that it represents."""
        return self.session.log_transcript_entry(agent_id, message, content_id)

    def log_piece_of_text(self, content: str, caused_by: str) -> MessageId:
        """Log a piece of text of the agent that made the call `caused_by`."""
        owner = self.session.state.cause_owners.get(reference_message_id(caused_by))
        if owner is None:
            raise InvalidEvent(f"caused_by {caused_by} is not a call in progress")
        return self.session.log_piece_of_text(owner, content, caused_by)

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def _find_cause(self, name: str | None) -> str | None:
        """Return the latest open call, preferably one that mentions the name, or None."""
        calls = [
            call for agent in self.session.agents.values() for call in agent.open_calls.values()
        ]
        naming = [call for call in calls if name is not None and name in call.arguments]
        return (naming or calls)[-1].reference if naming or calls else None
