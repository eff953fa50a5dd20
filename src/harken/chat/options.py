"""`ChatOptions`: the command-line options of a new or resumed chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harken.chat.turn_limit import MAX_MODEL_CALLS
from harken.world.permissions.mode import Mode
from harken.world.shell.sandbox import SandboxMode

if TYPE_CHECKING:  # agents are slow to import, and `harken chat --help` does not need them
    from harken.agents.templates.template import Template
    from harken.context.checkpoint import CommitIdentity
    from harken.store.base import Store
    from harken.world.tool import Tool


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command-line options of a chat."""

    model: str | None = None
    old: Path | None = None
    """The log of the session to resume. None for a new one."""
    is_branch: bool = False
    """Whether `old` was just branched off another session: it is removed if it is not used."""
    folder: Path | None = None
    """The working folder of the agents. None: that of the process."""
    log: Path | None = None
    """The log of a new session. None: a new file, named `name`."""
    identity: CommitIdentity | None = None
    """The identity of commits. None: from the environment and git."""
    name: str | None = None
    """The name of a new session. None: a name from the time."""
    system_prompt: str | None = None
    permission: Mode | None = None
    """The permission mode. None: as configured."""
    max_calls: int = MAX_MODEL_CALLS
    """The maximum number of model calls of an agent in an unattended turn."""
    ctx: str | None = None
    """The commit from which a new session starts."""
    store: str | None = None
    """The address of the service to which the session commits. None: as configured."""
    allowed: Sequence[Path] = ()
    """Additional folders that agents may use."""
    claude_hooks: bool = False
    """Whether hooks that Claude Code is configured with watch the agents, however it is configured
    here."""
    sandbox: SandboxMode | None = None
    """Whether commands run in a sandbox. None: as configured."""
    memory: Path | None = None
    """The folder of the notes of the memory tool. None: agents have no such tool."""
    tickets: bool = False
    """Whether agents have the tools that read and change the tickets of the store."""
    store_tools: Callable[[Store], Sequence[Tool]] | None = None
    """Returns more tools of the agents, which use the store."""
    note: str = ""
    """A message for the user at the beginning."""
    draft: str = ""
    """The initial text of the input."""
    template: Template | None = None
    """The template of the first agent of a new session, without its prompt and its model."""
    wakes: bool = False
    """Whether the chat waits for triggers, so that they can wake agents."""
