"""`harken search`: find text in sessions of any runtime, with commits to continue from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click

from harken.analytics.times import format_minute, to_datetime
from harken.cli.options.home import home_option, json_option
from harken.cli.options.scope import ScopeOptions, scope_options
from harken.config.home import Home, command_prefix
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.core.commits import SHORT_NAME_DIGITS
from harken.core.messages import Role
from harken.errors import NameNotFound
from harken.formats.runtimes.client_sessions import shorten_name
from harken.index.message_text import to_utf8
from harken.index.schema import HARKEN_RUNTIME
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

    def find(facts: SessionIndex, store: Store | None) -> _Answer:
        query = build_query(facts.database, None if every else options["limit"], options)
        results = search(facts, store, query)
        hits = list(results.hits)
        return _Answer(results, hits, _find_short_names(facts.database, hits))

    results, hits, short_names = read_facts(home, find)
    if as_json:
        rows = [hit_row(hit) for hit in hits]
        print_json({"total": results.total, "is_more": results.is_more, "hits": rows})
    else:
        _show(results, hits, short_names)


class _Answer(NamedTuple):
    """The results of a search, and the short names of their sessions."""

    results: SearchResults
    hits: Sequence[SearchHit]
    short_names: Mapping[str, str]


def _find_short_names(database: apsw.Connection, hits: Iterable[SearchHit]) -> dict[str, str]:
    """Return the short names of the sessions of hits, as those of `NameResolver`.

    The index has all sessions that have messages, so only the neighbors of these are read.
    """
    short_names: dict[str, str] = {}
    for name in {hit.session for hit in hits if hit.runtime != HARKEN_RUNTIME}:
        neighbors = [row[0] for row in database.execute(_NEIGHBORS_SQL, [name])]
        short_names[name] = shorten_name(name, neighbors)
    return short_names


_NEIGHBORS_SQL = """
    SELECT max(name) FROM sessions WHERE name < ?1 HAVING max(name) IS NOT NULL
    UNION ALL SELECT min(name) FROM sessions WHERE name > ?1 HAVING min(name) IS NOT NULL
"""


def build_query(
    database: apsw.Connection, limit: int | None, options: dict[str, Any]
) -> SearchQuery:
    """Return the query of the options of the command.

    Raises ConfigError, and NameNotFound for unknown names.
    """
    from harken.index.search import SearchQuery

    named: dict[str, str | None] = {}
    for kind, existing, names in (
        ("agent", _AGENT_SQL, _AGENTS_SQL),
        ("tool", _TOOL_SQL, _TOOLS_SQL),
    ):
        name = None if options[kind] is None else to_utf8(options[kind])
        # The names are listed only for an error: they are those of all tool calls.
        if name is not None and database.execute(existing, [name]).fetchone() is None:
            raise NameNotFound(kind, name, [row[0] for row in database.execute(names)])
        named[kind] = name
    scope_values = {name: options[name] for name in ("since", "until", "project", "runtime")}
    scope = ScopeOptions(zone=LocalZone(), **scope_values).scope(database)
    return SearchQuery(
        text=" ".join(options["words"]),
        agent=named["agent"],
        role=options["role"],
        kind=options["kind"],
        tool=named["tool"],
        projects=scope.projects,
        runtime=scope.runtime,
        since_us=scope.since_us,
        until_us=scope.until_us,
        limit=limit,
    )


_AGENTS_SQL = """
    SELECT CASE name WHEN '' THEN 'main' ELSE name END FROM agents
    UNION SELECT name FROM main_names ORDER BY 1
"""
_AGENT_SQL = """
    SELECT 1 FROM agents WHERE ?1 <> '' AND name = iif(?1 = 'main', '', ?1)
    UNION ALL SELECT 1 FROM main_names WHERE name = ?1 LIMIT 1
"""
_TOOL_SQL = "SELECT 1 FROM tool_calls WHERE name = ? LIMIT 1"
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
