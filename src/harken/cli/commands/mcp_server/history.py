"""The tools `search`, `sessions` and `conversation`: messages of earlier sessions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from click import unstyle
from msgspec import Meta

from harken.cli.commands.mcp_server.home_call import HomeCall
from harken.cli.commands.mcp_server.server_home import ServerHome
from harken.core.commits import SHORT_NAME_DIGITS
from harken.core.messages import Role
from harken.terminal.text import one_line
from harken.world.page import Limit, Offset, TextOffset, format_list_page, format_text_page

if TYPE_CHECKING:  # The commands are slow to import, and a client waits for the start.
    from harken.index.search import SearchResults
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

COLUMNS = 120
"""The width of conversations."""
_CTX_CHARS = len("ctx-") + SHORT_NAME_DIGITS
_EXCERPT_CHARS = 500
_TITLE_CHARS = 120
_FILTERS = ("agent", "role", "kind", "tool", "since", "until", "project", "runtime")

Since = Annotated[
    str | None, Meta(description="The start of the time: 2026-03-05, today, 7d (ago).")
]
Project = Annotated[
    str | None, Meta(description="The working folder, or the last part of its path.")
]
Runtime = Annotated[str | None, Meta(description="The program: harken, claude, codex, ...")]


class Search(HomeCall, frozen=True, kw_only=True):
    """Search the messages of all recorded sessions of all coding agents, newest first.

    All words of the query must match; also: "a phrase", prefix*, -excluded, one OR other. A hit
    names a commit (ctx-...) and a session, which `conversation`, `context` and `ask` take.
    """

    name: ClassVar[str] = "search"

    query: str
    agent: Annotated[str | None, Meta(description='"main" is the main agent.')] = None
    role: Role | None = None
    kind: Literal["prompt", "response", "tool_result", "system", "summary", "error"] | None = None
    tool: Annotated[str | None, Meta(description="Calls of this tool and their results.")] = None
    since: Since = None
    until: Annotated[str | None, Meta(description="The end of the time, as `since`.")] = None
    project: Project = None
    runtime: Runtime = None
    offset: Offset = 0
    limit: Limit = 20

    def run(self, home: ServerHome) -> str:
        from harken.cli.commands.search import build_query, hit_row
        from harken.config.index import read_facts
        from harken.index.search import search

        options: dict[str, Any] = {name: getattr(self, name) for name in _FILTERS}
        options["words"] = (self.query,)

        def find(facts: SessionIndex, store: Store | None) -> tuple[SearchResults, list[str]]:
            query = build_query(facts.database, self.offset + self.limit + 1, options)
            results = search(facts, store, query)
            hits = islice(results.hits, self.offset, None)
            return results, [_format_hit(hit_row(hit)) for hit in hits]

        results, hits = read_facts(home.home, find)
        page = format_list_page(hits, offset=self.offset, limit=self.limit, total=results.total)
        return page or "(no matches; try fewer words)"


class ListSessions(HomeCall, frozen=True, kw_only=True):
    """List the recorded sessions of all coding agents, the last changed first.

    `conversation` shows a session, and `ask` asks its agent.
    """

    name: ClassVar[str] = "sessions"

    since: Since = None
    project: Project = None
    runtime: Runtime = None
    text: Annotated[str | None, Meta(description="A part of the name, title or folder.")] = None
    offset: Offset = 0
    limit: Limit = 20

    def run(self, home: ServerHome) -> str:
        from harken.cli.commands.sessions.listing import (
            SessionConditions,
            filter_sessions,
            list_sessions,
        )

        sessions = list_sessions(home.home)
        options = {name: getattr(self, name) for name in ("since", "project", "runtime", "text")}
        conditions = SessionConditions({session.runtime for session in sessions}, **options)
        matches = filter_sessions(sessions, conditions)
        lines = (_format_session(session.row) for session in islice(matches, self.offset, None))
        page = format_list_page(lines, offset=self.offset, limit=self.limit, total=len(matches))
        return page or "(no sessions)"


class ShowConversation(HomeCall, frozen=True, kw_only=True):
    """Show the conversation of a session, or up to a commit: messages, tool calls and subagents.

    Results, thinking and arguments are folded to a few lines; `full` shows all of them.
    """

    name: ClassVar[str] = "conversation"

    session: Annotated[
        str,
        Meta(
            description="A session, a commit (ctx-...), a branch, PRINCIPAL@TIME, or "
            '"latest"; a unique prefix is enough.'
        ),
    ]
    full: bool = False
    offset: TextOffset = 0

    def run(self, home: ServerHome) -> str:
        from harken.cli.commands.view.conversation_text import conversation_text
        from harken.cli.commands.view.sources import open_viewer

        viewer = open_viewer(home.home, self.session)
        texts = conversation_text(viewer, COLUMNS, colour=False, full=self.full)
        plain = map(unstyle, texts)  # Bold and dim are styles of ours; those of texts are escaped.
        return format_text_page(plain, offset=self.offset) or "(no messages)"


HISTORY_CALLS = (Search, ListSessions, ShowConversation)


def _format_hit(row: dict[str, Any]) -> str:
    label = f"{row['tool']} result" if row["tool"] else row["kind"].replace("_", " ")
    parts = (
        *((row["ctx"] or "")[:_CTX_CHARS], row["session"], (row["time"] or "")[:16]),
        *(f"{row['runtime']}/{row['agent']}", label, row["title"] or row["project"] or ""),
    )
    return f"{_join(parts)}\n    {one_line(row['text'], _EXCERPT_CHARS)}"


def _format_session(row: dict[str, Any]) -> str:
    from harken.cli.commands.sessions.listing import describe_subject

    subject = one_line(describe_subject(row), _TITLE_CHARS)
    parts = (row["session"], row["written"][:16], row["runtime"], row["project"] or "", subject)
    return _join(parts)


def _join(parts: tuple[str, ...]) -> str:
    return "  ".join(filter(None, (one_line(part, _TITLE_CHARS) for part in parts)))
