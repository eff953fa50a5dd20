"""The task of a started agent, and the protocol of the code that runs it as a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from harken.core.commits import TicketId
from harken.store.base import Store
from harken.world.tool import Tool


class AgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """A session to run: its agent, context, prompt and tools."""

    session: str
    """The name of the session. If a log has it, that session is resumed."""
    template: str
    principal: str
    context_id: str
    """The commit from which a new session starts. Empty: a fresh start."""
    prompt: str
    """The message to a new session. Empty: the commit has it already."""
    ticket: TicketId
    thread_id: str
    tools: Callable[[Store], Sequence[Tool]]
    """Returns the tools that the agent has in addition to all others."""
    tool_names: Sequence[str]
    on_locked: Callable[[], None]
    """Called when this process has the session, before the agent runs."""


class AgentOutcome(msgspec.Struct, frozen=True):
    """The end of a session."""

    answer: str
    context_id: str
    """The last commit of the agent."""
    is_answer: bool = True
    """Whether the agent answered. Otherwise the text says why its turn ended."""


class AgentRunner(Protocol):
    """Code that runs an agent for a task."""

    def is_running(self, name: str) -> bool:
        """Whether a process of this home runs a session now."""
        ...

    def check_template(self, name: str, *, session: str = "") -> None:
        """Raise NameNotFound or ConfigError if a template or its model cannot be used here.

        A session of this home that has begun needs no template.
        """
        ...

    def run(self, task: AgentTask) -> AgentOutcome:
        """Run a task, or continue its session, until the agent has answered.

        A session that has answered is not asked again. Raises LogLocked if another process runs it;
        ModelError also if it has made too many model calls; StoreError, ConfigError. A later call
        continues the session.
        """
        ...
