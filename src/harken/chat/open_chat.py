"""`OpenChat`: a chat that is ready to begin, with its open resources."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field

from harken.agents.agent import Agent
from harken.agents.command_hooks.hook import CommandHook
from harken.agents.runtime import AgentRuntime
from harken.agents.turn.conversation import Conversation
from harken.chat.hook_errors import HookErrorLog
from harken.config.settings import Settings
from harken.session.session import Session
from harken.store.base import Store
from harken.world.shell.shell import Shell


@dataclass(frozen=True, slots=True)
class OpenChat:
    """A chat that is ready to begin. The caller that opened it closes `session`."""

    agent: Agent
    session: Session
    runtime: AgentRuntime
    settings: Settings
    store: Store | None = None
    """The store to which the session commits. None if it cannot be used."""
    shell: Shell | None = None
    """The shell for commands of the user, outside the sandbox."""
    notes: tuple[str, ...] = ()
    """Messages for the user at the beginning, one per line."""
    hook_errors: HookErrorLog | None = None
    """The file with the tracebacks of failed hooks."""
    conversation: Conversation = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conversation", Conversation(self.agent))

    def end(self, *, by_user: bool = False) -> None:
        """Commit pending events, log the end of the session, and close session and store.

        by_user: whether the user typed a command that ends it.
        """
        reason = "prompt_input_exit" if by_user else "other"
        for hook in self.primary.hooks:
            if isinstance(hook, CommandHook):
                asyncio.run(hook.run_session_end(reason))
        if self.runtime.checkpoints is not None:
            self.runtime.checkpoints.finish(self.session, self.runtime.notify)
        self.session.end("chat")

    def close(self) -> None:
        """Close session, sockets and store. A second call does nothing.

        All of them are closed, also if the log fails. Raises LogError then.
        """
        with ExitStack() as resources:  # It calls the last one first.
            if self.store is not None:
                resources.callback(self.store.close)
            checkpoints = self.runtime.checkpoints
            if checkpoints is not None and checkpoints.sockets is not None:
                resources.callback(checkpoints.sockets.close)
            if self.hook_errors is not None:
                resources.callback(self.hook_errors.close)
            resources.callback(self.session.close)

    def __enter__(self) -> Session:
        return self.session

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with now."""
        return self.conversation.primary
