"""The tools `context` and `context_log`: commits, and the current one of the client's agent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, ClassVar

from msgspec import Meta

from harken.cli.commands.mcp_server.home_call import HomeCall
from harken.cli.commands.mcp_server.server_home import ServerHome, wait_for_context
from harken.config.store import open_configured_store
from harken.context.socket_client import VARIABLE
from harken.core.commits import CommitId
from harken.store.base import Store
from harken.terminal.text import indent
from harken.world.page import Limit, Offset, format_list_page, format_text_page
from harken.world.result import ToolError


class ShowContext(HomeCall, frozen=True, kw_only=True):
    """Show the fields of a context commit: the context of an agent at one moment.

    Without a `ctx` it is your own current commit, which a person or an agent can continue from
    later. `conversation` shows its messages, and `ask` asks the agent.
    """

    name: ClassVar[str] = "context"

    ctx: Annotated[
        str,
        Meta(
            description="A commit (ctx-..., or a unique prefix), a branch, a label, "
            "PRINCIPAL@TIME (TIME may be `now`), or a session."
        ),
    ] = ""

    def run(self, home: ServerHome) -> str:
        from harken.cli.commands.ctx.command import row
        from harken.context.history import get_commit

        with open_configured_store(home.home) as store:
            fields = row(get_commit(store, self._find(home, store)))
        values = {name: value for name, value in fields.items() if value not in ("", None, [])}
        # Later lines are indented, so that a summary does not imitate fields.
        lines = (f"{name}: {indent(str(value), '  ')}\n" for name, value in values.items())
        return format_text_page(lines, offset=0).rstrip()

    def _find(self, home: ServerHome, store: Store) -> CommitId:
        from harken.config.name_resolver import NameResolver

        if self.ctx:
            return NameResolver(home.home, store).commit(self.ctx)
        path = home.environ.get(VARIABLE, "")
        context_id = wait_for_context(path) if path else ""
        if not context_id:
            raise ToolError("no commit of yours is known: pass a ctx")
        return CommitId(context_id)


class ListContexts(HomeCall, frozen=True, kw_only=True):
    """List context commits, newest first: the history of a `ctx`, or the latest of all agents."""

    name: ClassVar[str] = "context_log"

    ctx: Annotated[str, Meta(description="A commit, branch, label, PRINCIPAL@TIME or session.")] = (
        ""
    )
    offset: Offset = 0
    limit: Limit = 20

    def run(self, home: ServerHome) -> str:
        with open_configured_store(home.home) as store:
            lines = self._iter_lines(home, store)
            page = format_list_page(lines, offset=self.offset, limit=self.limit)
        return page or "(no commits)"

    def _iter_lines(self, home: ServerHome, store: Store) -> Iterator[str]:
        from harken.cli.commands.ctx.command import iter_selected_commits, line
        from harken.config.name_resolver import NameResolver

        end = self.offset + self.limit + 1
        ctxs = [NameResolver(home.home, store).commit(self.ctx)] if self.ctx else []
        for stored in islice(iter_selected_commits(store, ctxs, end), self.offset, None):
            yield line(store, stored)


CONTEXT_CALLS = (ShowContext, ListContexts)
