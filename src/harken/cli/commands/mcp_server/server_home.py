"""The home of an MCP server for its tools: each call opens and closes the files that it needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import click
import msgspec

from harken.cli.command_context import command_context
from harken.config.home import Home
from harken.config.store import open_configured_store, open_or_create_store
from harken.context.socket_client import current_context
from harken.tickets.tracker import Tickets
from harken.world.result import ToolError
from harken.world.tool import ToolContext, in_thread

CONTEXT_TIMEOUT_S = 3.0
"""The time to wait for the first commit of a recorded client."""
_CONTEXT_POLL_S = 0.1


class ServerHome(msgspec.Struct, frozen=True, kw_only=True):
    """A home, and the identity of the changes that clients make in it."""

    home: Home
    environ: Mapping[str, str]
    """The variables with the identity and the context socket of the client."""
    principal: str | None
    """The author of all changes. None: the identity of the environment, the context or git."""
    context: click.Context
    """The command that serves: texts name other commands with its options."""

    async def run(self, function: Callable[[], str]) -> str:
        """Return the result of a function that blocks. Raises ToolError, HarkenError, OSError."""

        def run_in_context() -> str:
            with self.command_context():
                return function()

        return str(await in_thread(run_in_context))

    @contextmanager
    def command_context(self) -> Iterator[None]:
        """Run a part of this thread in the context of the command. Raises ToolError."""
        try:
            with command_context(self.context):
                yield
        except click.ClickException as error:
            raise ToolError(error.format_message()) from None

    @contextmanager
    def open_tickets(self, caller: ToolContext | None, *, reads_only: bool) -> Iterator[Tickets]:
        """Open the tickets of the store. A call that changes them creates the store."""
        from harken.cli.commands.ticket.ticket_command import open_tickets

        del caller  # The client is no agent of ours.
        with self.command_context():
            if reads_only:  # It needs neither an author nor a commit.
                with open_configured_store(self.home) as store:
                    yield Tickets(store, "reader")
                return
            self.home.create_folders()
            with open_or_create_store(self.home) as store:
                yield open_tickets(store, self.environ, self.principal, wait_for_context)


def wait_for_context(path: str) -> str:
    """Return the commit of the turn that calls a tool, or an empty text if there is none in time.

    A call of a running server needs no start of a program, so it may arrive before the client has
    written the turn to its session file, and the recording has no commit yet.
    """
    deadline_s = time.monotonic() + CONTEXT_TIMEOUT_S
    while not (context_id := current_context(path)) and time.monotonic() < deadline_s:
        time.sleep(_CONTEXT_POLL_S)
    return context_id
