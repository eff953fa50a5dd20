"""`harken sessions`: what is kept and what was imported, the newest first.

A list must not cost what it lists. Of a log the two ends are read, and of those that are shown the
cost of their responses; of an imported session the catalogue and the index of facts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from harken.analytics.number_text import cost
from harken.analytics.times import minute, to_datetime
from harken.cli.command_group import CommandGroup, refuse_options_before_subcommand
from harken.cli.command_tree import SESSION_COMMANDS
from harken.cli.commands.sessions.cost import ImportedCosts, cost_of_log
from harken.cli.commands.sessions.table import SessionRow, table_lines, terminal_width, when_text
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import moment_us
from harken.config.home import Home, command_prefix, has_no_event, warn_of_unstarted
from harken.config.imported_sessions import imported
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import MIN_SHORT_ID, NameResolver
from harken.core.clock import parse_rfc3339
from harken.core.commits import SHOWN
from harken.core.events import (
    AgentCreated,
    ContentPurged,
    Event,
    LlmRequest,
    SessionEnded,
    TranscriptEntry,
    decode_event,
)
from harken.core.messages import text_of
from harken.errors import LogError, NameNotFound
from harken.formats.runtimes.user_text import typed
from harken.session.log.compressed import stat_log
from harken.session.log.file import is_being_written
from harken.session.log.reader import events
from harken.terminal.text import print_json, print_text
from harken.views.message_text import size_text
from harken.views.tree import rerun_said, rerun_text

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession

HARKEN = "harken"
"""The runtime of what is logged here."""
NEWEST = 20
"""How many are shown where nobody says how many."""
PEEK = 40
"""How many events are read of each log: a list must not cost what the logs hold."""
TAIL_BYTES = 1 << 16
State: TypeAlias = Literal["being written", "ended", "recorded", "cut off?", "empty"]
"""Recorded: of another program, which does not say whether it goes on. Of a packed one, it takes
too long to tell. Empty: its start was cut off, it holds no event."""


class _SessionsGroup(CommandGroup):
    """The group of the subcommands, which says what to do with the name of a session."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand. Raises UsageError, with what takes a session, for a session's name."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            if not NameResolver(ctx.params["home"]).is_session(error.command_name):
                raise
            line = command_prefix("view", error.command_name)
            raise click.UsageError(
                f"{error.command_name!r} is a session, not a command: `{line}` shows it", ctx
            ) from None


@click.group(
    name="sessions", cls=_SessionsGroup, entries=SESSION_COMMANDS, invoke_without_command=True
)
@click.option("--since", metavar="TIME", help="Only those written since: today, 7d, 2026-03-05.")
@click.option("--runtime", metavar="NAME", help="Only of this runtime: harken, claude, codex, ...")
@click.option("--project", metavar="FOLDER", help="Only those that worked there, or below.")
@click.option(
    "--text",
    metavar="TEXT",
    help="Only those with this in their name, title or project; `search` looks into messages.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    help=f"How many; 0: all. Without it, {NEWEST} are shown, and JSON has all.",
)
@click.option("--all", "is_all", is_flag=True, help="Show all, as --limit 0.")
@json_option
@home_option
@click.pass_context
def command(
    context: click.Context,
    /,
    limit: int | None,
    is_all: bool,
    as_json: bool,
    home: Home,
    **conditions: str | None,
) -> None:
    """List all sessions, recorded and imported ones, the newest first.

    Each with its last change, size, cost (where all of it is known), project and title.
    A subcommand checks, repairs, packs or renames the logs of sessions.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_subcommand(context)
        return
    if is_all and limit:
        raise click.UsageError("--all and --limit: name one of them")
    found = _matching(_found(home), _Conditions(home, **conditions))
    if not as_json:
        unstarted = {path.stem: path for path in home.logs() if has_no_event(path)}
        warn_of_unstarted(unstarted[s.name] for s in found if s.name in unstarted)
        found = [session for session in found if session.name not in unstarted]
    most = 0 if is_all else limit
    most = most if most is not None or as_json else NEWEST
    shown = found[: most or None]
    rows = [{**one.row, "cost_usd": one.cost()} for one in shown]
    if as_json:
        print_json(rows)
    elif not rows:
        _tell_none(home, is_filtered=any(text is not None for text in conditions.values()))
    else:
        show(rows, NameResolver(home).short_names())
        if len(found) > len(rows):
            more = command_prefix("sessions", *_as_typed(conditions), "--all")
            click.echo(f"... and {len(found) - len(rows)} more: `{more}` lists all", err=True)


def _as_typed(conditions: Mapping[str, str | None]) -> list[str]:
    """Return conditions as the options of a command line."""
    return [word for name, text in conditions.items() if text for word in (f"--{name}", text)]


@dataclass(frozen=True, kw_only=True)
class _Session:
    """A session that may be shown. What costs more to know is found out when it is asked for."""

    name: str
    runtime: str
    written: float
    """Seconds since 1970."""
    describe: Callable[[], dict[str, Any]]
    cost: Callable[[], float | None]

    @cached_property
    def row(self) -> dict[str, Any]:
        """What a list says of it, without its cost."""
        return self.describe()


class _Conditions:
    """The conditions of a command line that a session has to meet, the cheapest first."""

    def __init__(
        self,
        home: Home,
        *,
        since: str | None,
        runtime: str | None,
        project: str | None,
        text: str | None,
    ) -> None:
        """Raises ConfigError for a time that is none, NameNotFound for an unknown runtime."""
        now = datetime.now(UTC)
        self.since_s = -math.inf if since is None else moment_us(since, LocalZone(), now) / 1e6
        runtimes = [HARKEN, *sorted({one.runtime for one in imported(home)})]
        if runtime not in (None, *runtimes):
            raise NameNotFound("runtime", runtime or "", runtimes)
        self._runtime, self._project = runtime, project
        self._text = None if text is None else text.casefold()

    def hold(self, session: _Session) -> bool:
        """Whether a session meets all of them."""
        if session.written < self.since_s or self._runtime not in (None, session.runtime):
            return False
        if self._project is not None and not _is_in(session.row["project"] or "", self._project):
            return False
        if self._text is None:
            return True
        row = session.row
        texts = (row["session"], row["project"] or "", _said(row))
        return any(self._text in text.casefold() for text in texts)


def _matching(sessions: Iterable[_Session], conditions: _Conditions) -> list[_Session]:
    return [session for session in sessions if conditions.hold(session)]


def _found(home: Home) -> Iterable[_Session]:
    """Return all sessions, the newest first."""
    costs = ImportedCosts(home)
    found = [
        _Session(
            name=one.name,
            runtime=one.runtime,
            written=parse_rfc3339(one.ended) / 1e6,
            describe=partial(describe_imported, one),
            cost=partial(costs.cost_of, one, parse_rfc3339(one.ended)),
        )
        for one in imported(home)
    ]
    found += [
        _Session(
            name=path.stem,
            runtime=HARKEN,
            written=stat_log(path).written_ns / 1e9,
            describe=partial(describe, path),
            cost=partial(cost_of_log, path),
        )
        for path in home.logs()
    ]
    return sorted(found, key=lambda one: one.written, reverse=True)


def _is_in(folder: str, wanted: str) -> bool:
    """Whether a runtime worked in this folder, or below; its last name alone will do."""
    at = PurePath(folder)
    full = PurePath(os.path.abspath(Path(wanted).expanduser()))  # noqa: PTH100 - need not be there
    return bool(folder) and (at.is_relative_to(full) or wanted in at.parts)


def _tell_none(home: Home, *, is_filtered: bool) -> None:
    if is_filtered:
        click.echo("No session is like that.", err=True)
    else:
        text = f"No sessions in {home.sessions_folder}. `harken demo` makes one, "
        click.echo(f"{text}`harken import` takes in those of other runtimes.", err=True)


def describe_imported(one: ImportedSession) -> dict[str, Any]:
    """Return what a list says of an imported session: all of it stands in the catalogue."""
    return {
        "session": one.name,
        "runtime": one.runtime,
        "written": f"{one.ended[:19]}+00:00",
        "size_bytes": one.size_bytes,
        "state": "imported",
        "began": None,
        "title": one.title,
        "project": one.project,
        "tips": [{"agent": end.agent, "ctx": end.ctx} for end in one.ends],
        "subagents": [
            {"agent": sub.agent, "type": sub.agent_type, "task": sub.task} for sub in one.subagents
        ],
        "sources": one.sources,
    }


def describe(path: Path) -> dict[str, Any]:
    """Return what a list says of one log: its id, when it was last written, how far, its begin."""
    stat = stat_log(path)
    row = {
        "session": path.stem,
        "runtime": HARKEN,
        "written": datetime.fromtimestamp(stat.written_ns / 1e9, UTC).isoformat(timespec="seconds"),
        "size_bytes": stat.kept_bytes,
        "state": None,
        "began": None,
        "project": None,
        "rerun": None,
    }
    if has_no_event(path):
        return {**row, "state": "empty"}
    try:
        began = beginning(path)
        state = "packed" if stat.is_packed else state_of(path, is_recorded=began.is_recorded)
        known = {"began": began.words, "project": began.folder, "rerun": began.rerun}
        return {**row, **known, "state": state}
    except LogError as error:
        return {**row, "error": str(error)}


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a log begins."""

    words: str | None
    """The first thing that a person said; None: nothing was said near the beginning."""
    is_recorded: bool
    """Whether it is what another program said to its models."""
    rerun: dict[str, Any] | None
    """Of what it is a rerun."""
    folder: str | None = None
    """The folder in which it began to work, as the birth of the first agent says."""


def beginning(path: Path) -> Beginning:
    """Return how a log begins; what a client says in a person's name is passed over."""
    said: list[str] = []
    is_recorded, rerun, folder = False, None, None
    for event in islice(events(path), PEEK):
        if isinstance(event, AgentCreated):
            spec = event.spec or {}
            is_recorded = is_recorded or "recorded" in spec
            rerun = rerun or rerun_said(spec.get("rerun"))
            folder = folder or _text_of(spec.get("folder"))
        elif isinstance(event, TranscriptEntry) and event.role == "user":
            words = text_of(event.content)
            said.append(words)
            prompt = typed(words) if is_recorded else words
            if prompt and not (is_recorded and event.cause):
                return Beginning(prompt, is_recorded, rerun, folder)
    return Beginning(said[0] if said else None, is_recorded, rerun, folder)


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def state_of(path: Path, *, is_recorded: bool = False) -> State:
    """Tell from a log's lock and its last line whether it is at its end; its tail alone is read.

    A program may close a session without ending it, so that it was cut off is a guess. Of one that
    is recorded only a call without an answer says so.
    """
    if is_being_written(path):
        return "being written"
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    event: Event | None = None
    *lines, torn = tail.split(b"\n")
    for line in reversed([] if torn else lines):
        try:
            event = decode_event(line)
        except (ValueError, RecursionError):  # torn, or longer than what was read
            break
        if not isinstance(event, ContentPurged):  # which says nothing about the run
            break
    if isinstance(event, SessionEnded):
        return "ended"
    is_whole = event is not None and not isinstance(event, LlmRequest | TranscriptEntry)
    return "recorded" if is_recorded and is_whole else "cut off?"


def show(rows: list[dict[str, Any]], names: Mapping[str, str]) -> None:
    """Print a table as wide as the terminal; times are local ones, as in the names of sessions.

    names: the short name of each session.
    """
    width = terminal_width()
    now = None if width is None else datetime.now(UTC).astimezone(LocalZone())
    table = [_as_shown(row, names[row["session"]], now) for row in rows]
    for line in table_lines(table, width):
        print_text(line)


def _as_shown(row: Mapping[str, Any], name: str, now: datetime | None) -> SessionRow:
    """Return the texts of a row. now: where times are short; None for output to a program."""
    written = to_datetime(parse_rfc3339(row["written"])).astimezone(LocalZone())
    state = row["state"] or ""
    if row.get("tips"):
        state = row["tips"][0]["ctx"][: len("ctx-") + SHOWN]
    title = _said(row)
    if "error" in row:
        title = f"(cannot be read: `harken sessions check {row['session']}` says why)"
    return SessionRow(
        name=name,
        written=minute(written, LocalZone()) if now is None else when_text(written, now),
        size=size_text(row["size_bytes"]),
        cost=cost(row["cost_usd"], 0),
        project=PurePath(row["project"] or "").name,
        state=state,
        title=title,
        is_unfinished=row["state"] in ("being written", "cut off?"),
    )


def _said(row: Mapping[str, Any]) -> str:
    """Return what a session is about: its title, of what it is a rerun, or how it began."""
    rerun = row.get("rerun")
    if rerun:
        runtime, colon, native = rerun.get("session", "?").partition(":")
        return rerun_text({**rerun, "session": runtime + colon + native[:MIN_SHORT_ID]})
    return str(row.get("title") or row["began"] or "(nothing was said)")
