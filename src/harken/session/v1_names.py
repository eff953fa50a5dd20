"""The older names `MessageString` and `SessionLogger`, over LoggedString and Session.

Programs written for them go on working; what they log is a current log.

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
    """A LoggedString by its older name: `content_id` is its `message_id`.

    `caused_by` is the call that created a piece of text, kept for those who read it.
    """

    __slots__ = ("caused_by",)

    caused_by: str | None

    def __new__(
        cls, content: object = "", content_id: str | None = None, caused_by: str | None = None
    ) -> Self:
        """Make a string that represents the message with this id."""
        string = super().__new__(cls, content, content_id)
        string.caused_by = caused_by
        return string

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the ids in copies and pickles."""
        return type(self), (str(self), self.message_id, self.caused_by)


@check_arguments
class SessionLogger:
    """A Session by its older name, with the older parameters."""

    def __init__(self, session_file: str | Path) -> None:
        """Open a log for writing, new or old; errors as `Session`."""
        self.session = Session(session_file)
        self.session_file = self.session.path

    def log_agent_created(
        self, agent_id: str, name: str | None = None, language_model: str | None = None
    ) -> MessageId:
        """Log a birth. The parent is whoever has a call in progress that names the agent."""
        return self.session.log_agent_created(agent_id, self._cause(name), name, language_model)

    def log_transcript_entry(
        self, agent_id: str, message: Mapping[str, Any], content_id: str | None = None
    ) -> MessageId:
        """Log a message; `content_id` is what it represents."""
        return self.session.log_transcript_entry(agent_id, message, content_id)

    def log_piece_of_text(self, content: str, caused_by: str) -> MessageId:
        """Log a piece of text of the agent whose call this is."""
        owner = self.session.state.cause_owners.get(reference_message_id(caused_by))
        if owner is None:
            raise InvalidEvent(f"caused_by {caused_by} is no call in progress")
        return self.session.log_piece_of_text(owner, content, caused_by)

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def _cause(self, name: str | None) -> str | None:
        """Return the latest call in progress, one that mentions the name where there is one."""
        calls = [
            call for agent in self.session.agents.values() for call in agent.open_calls.values()
        ]
        naming = [call for call in calls if name is not None and name in call.arguments]
        return (naming or calls)[-1].reference if naming or calls else None
