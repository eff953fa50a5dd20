"""The verbs of tickets as tools: `ticket_create`, `ticket_claim`, `ticket_list`, ...

They have the verbs of `harken ticket`. A change carries the commit of the agent that calls: the
agent's context socket is queried, as a command that the agent runs queries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

from harken.context.socket_client import VARIABLE, current_context
from harken.core import structs
from harken.core.arguments import check_arguments
from harken.core.commits import CommitId
from harken.errors import HarkenError, LogError
from harken.store.base import Store
from harken.tickets.tracker import Tickets
from harken.tickets.verbs import VERBS, TicketVerb
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, in_thread, typed_tool


class TicketOpener(Protocol):
    """Opens the tickets of a store for the caller of a tool. It blocks, and runs in a thread."""

    def __call__(
        self, caller: ToolContext | None, *, reads_only: bool
    ) -> AbstractContextManager[Tickets]:
        """Return the tickets with the caller as the author. Raises HarkenError."""
        ...


@check_arguments
def ticket_tools(store: Store) -> list[Tool]:
    """Return the tools with which agents read and change the tickets of a store."""
    return make_ticket_tools(partial(open_agent_tickets, store))


def make_ticket_tools(open_tickets: TicketOpener) -> list[Tool]:
    """Return one tool for each verb, over the tickets that a function opens for the caller."""
    return [_make_tool(verb, open_tickets) for verb in VERBS]


@contextmanager
def open_agent_tickets(
    store: Store, caller: ToolContext | None, *, reads_only: bool
) -> Iterator[Tickets]:
    """Open the tickets of a store for an agent; see `open_tickets_for`."""
    assert caller is not None
    yield open_tickets_for(store, caller)


def open_tickets_for(store: Store, caller: ToolContext) -> Tickets:
    """Return the tickets as the calling agent changes them: with its principal and its commit.

    The author is the principal of the agent's commit, so that `resolve_context` finds its commits.
    Without a commit it is the name of the agent. This queries the context socket, and blocks.
    """
    socket = caller.environment({}).get(VARIABLE, "")
    context_id = current_context(socket) if socket else ""
    commits = store.commits([CommitId(context_id)]) if context_id else {}
    principal = "".join(stored.commit.principal for stored in commits.values())
    agent = caller.agent
    names = (principal, getattr(agent, "name", ""), getattr(agent, "agent_id", ""))
    return Tickets(store, next(filter(None, names), "agent"), context=lambda: context_id)


def _make_tool(verb: type[TicketVerb], open_tickets: TicketOpener) -> Tool:
    async def run(call: TicketVerb, caller: ToolContext | None) -> str:
        return str(await in_thread(partial(_run, call, open_tickets, caller)))

    made = typed_tool(verb, run, name=f"ticket_{verb.name}", reads_only=verb.reads_only)
    return structs.replace(made, changed_resource="" if verb.reads_only else "tickets")


def _run(call: TicketVerb, open_tickets: TicketOpener, caller: ToolContext | None) -> str:
    """Return the result of a call. Raises ToolError for a mistake, LogError as it is."""
    with as_tool_errors(), open_tickets(caller, reads_only=call.reads_only) as tickets:
        return call.run(tickets)


@contextmanager
def as_tool_errors() -> Iterator[None]:
    """Convert errors of tickets to results that the model reads. Errors of the log are raised."""
    try:
        yield
    except LogError:
        raise
    except (HarkenError, ValueError) as error:
        raise ToolError(str(error)) from None
