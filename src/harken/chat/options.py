"""`ChatOptions`: what a person asks for when they begin a chat, or go on with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harken.chat.turn_limit import MOST_CALLS
from harken.world.permissions.permissions import Mode
from harken.world.shell.sandbox import Wanted

if TYPE_CHECKING:  # agents take long to import, and `harken chat --help` needs none
    from harken.agents.templates.template import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """What a person asks for on the command line."""

    model: str | None = None
    old: Path | None = None
    """The log of the session to go on with; None for a new one."""
    name: str | None = None
    """The name of a new session; None: one made of the time."""
    system_prompt: str | None = None
    permission: Mode | None = None
    """None: as it is configured."""
    most_calls: int = MOST_CALLS
    """How often an agent may call its model in a turn that nobody watches."""
    ctx: str | None = None
    """The commit that a new session begins with."""
    store: str | None = None
    """The address of the service that commits go to; None: as it is configured."""
    allowed: Sequence[Path] = ()
    """Folders beside the current one that agents may use."""
    claude_hooks: bool = False
    """Whether hooks that Claude Code is configured with watch the agents, however it is configured
    here."""
    sandbox: Wanted | None = None
    """Whether commands run in a sandbox; None: as it is configured."""
    memory: Path | None = None
    """The folder of notes that agents remember with; None: they have no such tool."""
    note: str = ""
    """What the user is to be told first."""
    draft: str = ""
    """What stands in the input at the beginning."""
    template: Template | None = None
    """What the first agent of a new session is made from, besides its prompt and its model."""
    wakes: bool = False
    """Whether somebody listens to what happens outside, so that agents can be woken."""
