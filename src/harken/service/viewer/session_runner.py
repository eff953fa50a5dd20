"""`SessionRunner`: the protocol through which the routes run sessions in the server.

The command implements it; this package knows neither agents nor models. A run is the session as
long as this server writes it: it is asked for its row, and nothing else keeps its state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol, TypeAlias

import msgspec

from harken.core.event_types.spec import PermissionMode
from harken.core.record import Record

RunState: TypeAlias = Literal["running", "ending", "failed"]


class QuestionRow(Record, frozen=True, kw_only=True):
    """A question to the user: of an agent, or for the approval of an action."""

    id: str
    kind: Literal["approval", "question"]
    agent: str
    """The name of the agent."""
    time: str
    text: str = ""
    """The question of an agent."""
    options: list[str] = msgspec.field(default_factory=list)
    """Suggested answers."""
    tool: str = ""
    subject: str = ""
    preview: str = ""
    """The effect of the action: a diff, the command, or the arguments."""
    is_diff: bool = False
    rules: list[str] = msgspec.field(default_factory=list)
    """Rules that would allow it from now on, the narrowest first."""
    is_required: bool = False
    note: str = ""


class AgentRun(Record, frozen=True, kw_only=True):
    """The turns that the user began with an agent, and the answer that it writes now."""

    agent: str
    is_running: bool = False
    queued: list[str] = msgspec.field(default_factory=list)
    """Messages that the agent gets when its turn ends."""
    returned: list[str] = msgspec.field(default_factory=list)
    """Messages that it did not get, since the turn before was stopped or failed."""
    error: str | None = None
    """Why the last turn has no answer."""
    can_continue: bool = False
    """Whether its last turn was cut off, so that a message without a text continues it."""
    text: str = ""
    """The received part of an answer that is not in the log yet."""
    thinking: str = ""


class RunRow(Record, frozen=True, kw_only=True):
    """A session that this server runs, or that failed here."""

    name: str
    state: RunState
    error: str | None
    """Why it failed."""
    began: str
    folder: str
    permission: str
    primary: str
    agents: list[AgentRun]
    questions: list[QuestionRow]
    notices: list[str]
    """The last notices for the user that no event contains."""
    is_unused: bool = False
    """Of a run that ended: whether it was a new session without messages, which was removed."""


class TemplateChoice(Record, frozen=True, kw_only=True):
    """A template for the first agent of a new session."""

    name: str
    description: str
    model: str | None


class RunChoices(Record, frozen=True, kw_only=True):
    """The choices of a run in a folder."""

    folder: str
    model: str | None
    """The configured model. None if the first one that can be used is chosen."""
    models: list[str]
    """Models that can be used now."""
    templates: list[TemplateChoice]
    permission: str
    """The configured permission mode."""
    permissions: list[str]
    obstacle: str | None
    """Why no session can be run here. None if one can."""


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session to continue, or the options of a new one."""

    session: str | None = None
    """The session to continue. None: a new one."""
    model: str | None = None
    template: str | None = None
    folder: str | None = None
    """The working folder. None: that of the session, else that of the server."""
    permission: PermissionMode | None = None
    name: str | None = None
    """The name of a new session."""


class MessageRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to an agent."""

    id: str
    """Chosen by the page: a request that is repeated sends no second message."""
    agent: str | None = None
    """None: the primary agent."""
    text: str | None = None
    """None: the agent continues a turn that was cut off."""


class InterruptRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The turns to stop."""

    agent: str | None = None
    """None: the turns of all agents."""


class EndRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a run. It has no options."""


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a question."""

    decision: Literal["allow", "always", "deny", "answer"]
    rule: str | None = None
    """With `always`: one of the offered rules."""
    text: str = ""
    """The answer to a question of an agent, or why an action is denied."""


class SessionRunner(Protocol):
    """Runs sessions of a home. Methods are called by several threads at a time."""

    def choices(self, folder: str | None, session: str | None) -> RunChoices:
        """Return the choices of a run. Raises NameNotFound, HarkenError."""

    def list_runs(self) -> list[RunRow]:
        """Return the runs, oldest first, without texts of answers."""

    def start(self, request: StartRequest) -> RunRow:
        """Run a session. Return the run that it has already.

        Raises NameNotFound, RequestRefused if another program writes it or too many are run,
        HarkenError for options that cannot be used.
        """

    def find_version(self, name: str) -> object:
        """Return a value that changes with the row of a run. Return None if there is no run."""

    def find(self, name: str, *, agents: Collection[str] = (), upto: int = 0) -> RunRow | None:
        """Return the run of a session. Return None if there is none.

        agents: those whose answers the row has. upto: the number of the last event that the reader
        has; an answer that is logged up to there is not in the row.
        """

    def send(self, name: str, request: MessageRequest) -> RunRow:
        """Send a message to an agent. Raises NameNotFound, RequestRefused."""

    def interrupt(self, name: str, request: InterruptRequest) -> RunRow:
        """Stop turns. Raises NameNotFound."""

    def decide(self, name: str, question: str, request: DecisionRequest) -> RunRow:
        """Answer a question. Raises NameNotFound, RequestRefused if it was answered already."""

    def end(self, name: str) -> RunRow:
        """End a run and its session. Raises NameNotFound."""
