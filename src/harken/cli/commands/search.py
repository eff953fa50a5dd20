"""`harken search`: find text in sessions of any runtime, with commits to continue from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import click

from harken.analytics.times import format_minute, to_datetime
from harken.cli.options.home import home_option, json_option
from harken.cli.options.scope import ScopeOptions, scope_options
from harken.config.home import Home, command_prefix
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import NameResolver
from harken.core.commits import SHORT_NAME_DIGITS
from harken.core.messages import Role
from harken.errors import NameNotFound
from harken.terminal.ansi import AnsiStyler
from harken.terminal.commit_graph import detect_terminal_style
from harken.terminal.styled_text import Line
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from harken.index.search import SearchHit, SearchQuery, SearchResults
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

KINDS = ("prompt", "response", "tool_result", "system", "summary", "error")
_CTX_CHARS = len("ctx-") + SHORT_NAME_DIGITS


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option("--agent", metavar="NAME", help='Filter by agent; "main" is the main agent.')
@click.option("--role", type=click.Choice(get_args(Role)), help="Filter by role.")
@click.option("--kind", type=click.Choice(KINDS), help="Filter by kind of message.")
@click.option("--tool", metavar="NAME", help="Filter by tool: its calls and their results.")
@scope_options
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="The maximum number of results.",
)
@click.option("--all", "every", is_flag=True, help="Show all.")
@json_option
@home_option
def command(home: Home, every: bool, as_json: bool, **options: Any) -> None:
    """Search the messages of all sessions of all runtimes, newest first.

    All words of a QUERY must match; also: "a phrase", prefix*, -excluded, one OR other. New
    messages are indexed first.
    """
    from harken.index.query import parse_query
    from harken.index.search import search

    parse_query(" ".join(options["words"]))  # An empty query is an error before the facts are read.

    def find(facts: SessionIndex, store: Store | None) -> tuple[SearchResults, list[SearchHit]]:
        query = build_query(facts.database, None if every else options["limit"], options)
        results = search(facts, store, query)
        return results, list(results.hits)

    results, hits = read_facts(home, find)
    if as_json:
        rows = [hit_row(hit) for hit in hits]
        print_json({"total": results.total, "is_more": results.is_more, "hits": rows})
    else:
        _show(results, hits, NameResolver(home).short_names())


def build_query(
    database: apsw.Connection, limit: int | None, options: dict[str, Any]
) -> SearchQuery:
    """Return the query of the options of the command.

    Raises ConfigError, and NameNotFound for unknown names.
    """
    from harken.index.search import SearchQuery

    for name, query in (("agent", _AGENTS_SQL), ("tool", _TOOLS_SQL)):
        _check(database, name, options[name], query)
    scope_values = {name: options[name] for name in ("since", "until", "project", "runtime")}
    scope = ScopeOptions(zone=LocalZone(), **scope_values).scope(database)
    return SearchQuery(
        text=" ".join(options["words"]),
        agent=options["agent"],
        role=options["role"],
        kind=options["kind"],
        tool=options["tool"],
        projects=scope.projects,
        runtime=scope.runtime,
        since_us=scope.since_us,
        until_us=scope.until_us,
        limit=limit,
    )


def _check(database: apsw.Connection, kind: str, name: str | None, query: str) -> None:
    """Raise NameNotFound, with the existing names, if a name does not exist."""
    if name is not None:
        names = [row[0] for row in database.execute(query)]
        if name not in names:
            raise NameNotFound(kind, name, names)


_AGENTS_SQL = """
    SELECT CASE name WHEN '' THEN 'main' ELSE name END FROM agents
    UNION SELECT name FROM main_names ORDER BY 1
"""
_TOOLS_SQL = "SELECT name FROM tool_calls GROUP BY name ORDER BY count(*) DESC"


def _show(
    results: SearchResults, hits: Sequence[SearchHit], short_names: Mapping[str, str]
) -> None:
    """Print hits, and the number of all messages that match."""
    look = detect_terminal_style()
    ink = AnsiStyler(color=look.color)
    for hit in hits:
        for line in (
            look.fit(_heading(hit, short_names.get(hit.session, hit.session))),
            _excerpt(hit),
        ):
            click.echo(ink.draw(line) if look.styled else "".join(text for _, text in line))
    if not hits:
        click.echo("No matches; try fewer words.", err=True)
        return
    prefix = "more than " if results.is_more else ""
    print_text(f"{len(hits):,} of {prefix}{results.total:,}, newest first.{_next_step(hits[0])}")


def _heading(hit: SearchHit, session: str) -> Line:
    """Return the commit, time, agent and session of a hit. The names can be pasted back."""
    agent = f"/{one_line(hit.agent, 24)}" if hit.agent else ""
    label = one_line(f"{hit.tool} result" if hit.tool else hit.kind.replace("_", " "), 40)
    where = hit.title or hit.project
    return [
        ("yellow", "" if hit.ctx is None else f"{hit.ctx[:_CTX_CHARS]}  "),
        ("yellow", one_line(session, 80)),
        ("dim", f"  {format_minute(to_datetime(hit.time_us), LocalZone()):16}  "),
        ("cyan", one_line(hit.runtime, 16) + agent),
        ("magenta", f"  {label}"),
        ("", f"  {one_line(where, 80)}"),
    ]


def _excerpt(hit: SearchHit) -> Line:
    pieces = [
        ("bold green" if is_match else "", escape_control_characters(text))
        for text, is_match in hit.excerpt.pieces
    ]
    return [("", "    "), *pieces]


def _next_step(hit: SearchHit) -> str:
    """Return the next command for a hit."""
    if hit.ctx is None:
        return f" Resume with `{command_prefix('chat', '--resume', hit.session)}`"
    name = hit.ctx[:_CTX_CHARS]
    look, go_on = command_prefix("ctx", "cat", name), command_prefix("chat", "--from-commit", name)
    return f" Show the first with `{look}`, resume it with `{go_on}`"


def hit_row(hit: SearchHit) -> dict[str, Any]:
    """Return a hit as the object that `--json` prints."""
    after = None if hit.time_us is None else timedelta(microseconds=hit.time_us)
    return {
        "ctx": hit.ctx,
        "time": None if after is None else (_1970 + after).isoformat(),
        "session": hit.session,
        "title": hit.title,
        "project": hit.project,
        "runtime": hit.runtime,
        "agent": hit.agent or "main",
        "role": hit.role,
        "kind": hit.kind,
        "tool": hit.tool,
        "text": hit.excerpt.text,
        "marks": hit.excerpt.match_spans,
    }


_1970 = datetime(1970, 1, 1, tzinfo=UTC)
