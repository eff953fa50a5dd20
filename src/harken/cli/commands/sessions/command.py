"""`harken sessions`: the logged and imported sessions, the newest first.

A session that was recorded and imported has one row, which names both sources. A list must be
cheap. Of a log only both ends are read, and of those that are shown the cost of their responses; of
an imported session the catalogue and the index of facts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click
import msgspec

from harken.analytics.number_text import format_cost as cost
from harken.analytics.times import format_minute, to_datetime
from harken.cli.command_group import CommandGroup, check_options_before_subcommand
from harken.cli.command_tree import SESSION_COMMANDS
from harken.cli.commands.sessions.cost import IndexedSessions, cost_of_log
from harken.cli.commands.sessions.table import SessionRow, table_lines, terminal_width, when_text
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import parse_time_us
from harken.config.home import Home, command_prefix, has_no_event, warn_of_unstarted
from harken.config.imported_sessions import list_imported
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import MIN_SHORT_ID, NameResolver
from harken.core.clock import parse_rfc3339
from harken.core.commits import SHORT_NAME_DIGITS
from harken.core.event_types.spec import AgentSpec
from harken.core.events import (
    AgentCreated,
    ContentPurged,
    Event,
    LlmRequest,
    SessionEnded,
    SessionStarted,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import Origin
from harken.core.messages import text_of
from harken.errors import LogError, NameNotFound
from harken.formats.runtimes.client_sessions import ClientSession, read_recorded_session
from harken.formats.runtimes.user_text import extract_typed_text
from harken.session.log.compressed import stat_log
from harken.session.log.file import is_being_written
from harken.session.log.reader import iter_events
from harken.terminal.text import print_json, print_text
from harken.views.message_text import format_size
from harken.views.tree import format_origin, format_rerun, parse_rerun

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession

HARKEN = "harken"
"""The runtime of sessions that Harken logged."""
DEFAULT_SESSIONS = 20
"""The default number of sessions."""
MAX_PEEKED_EVENTS = 40
"""The number of events that are read of each log, so that a list is cheap."""
TAIL_BYTES = 1 << 16
State: TypeAlias = Literal["being written", "ended", "recorded", "cut off?", "empty"]
"""The state of a session. `recorded`: another program's session, whose end is not known.

For a compressed log the state is too slow to compute. `empty`: the log contains no event because
its start was cut off.
"""


class _SessionsGroup(CommandGroup):
    """The group of the subcommands. It explains the commands for a session's name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand.

        For a session's name, raises UsageError with the commands that take one.
        """
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
@click.option("--since", metavar="TIME", help="Filter by last change: today, 7d, 2026-03-05.")
@click.option("--runtime", metavar="NAME", help="Filter by runtime: harken, claude, codex, ...")
@click.option("--project", metavar="FOLDER", help="Filter by working folder, including subfolders.")
@click.option(
    "--text",
    metavar="TEXT",
    help="Filter by text in name, title or project. (`search` searches messages.)",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    help=f"The number of sessions; 0 shows all (default: {DEFAULT_SESSIONS}; with --json all).",
)
@click.option("--all", "is_all", is_flag=True, help="Show all; same as --limit 0.")
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
    """List recorded and imported sessions, newest first.

    The columns are last change, size, cost (if known), project and title. The subcommands check,
    repair, compress and rename logs.
    """
    if context.invoked_subcommand is not None:
        check_options_before_subcommand(context)
        return
    if is_all and limit:
        raise click.UsageError("--all and --limit cannot be combined")
    sessions = list_sessions(home)
    sessions = filter_sessions(
        sessions, SessionConditions({s.runtime for s in sessions}, **conditions)
    )
    if not as_json:
        unstarted = {path.stem: path for path in home.list_logs() if has_no_event(path)}
        warn_of_unstarted(unstarted[s.name] for s in sessions if s.name in unstarted)
        sessions = [session for session in sessions if session.name not in unstarted]
    max_rows = 0 if is_all else limit
    max_rows = max_rows if max_rows is not None or as_json else DEFAULT_SESSIONS
    visible = sessions[: max_rows or None]
    index = IndexedSessions(home)
    rows = [{**session.row, **session.describe_end(index)} for session in visible]
    if as_json:
        print_json(rows)
    elif not rows:
        _report_none(home, is_filtered=any(text is not None for text in conditions.values()))
    else:
        show(rows, NameResolver(home).short_names())
        if len(sessions) > len(rows):
            command_line = command_prefix("sessions", *_format_conditions(conditions), "--all")
            click.echo(
                f"... and {len(sessions) - len(rows)} more: `{command_line}` lists all", err=True
            )


def _format_conditions(conditions: Mapping[str, str | None]) -> list[str]:
    """Return conditions as the options of a command line."""
    return [word for name, text in conditions.items() if text for word in (f"--{name}", text)]


class ListedSession(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A session that may be listed. Expensive values are computed on access."""

    name: str
    runtime: str
    imported: ImportedSession | None = None
    logs: Sequence[Path] = ()
    """Its logs, the last written first."""

    @cached_property
    def modified_s(self) -> float:
        """The time of the last change, in seconds since 1970."""
        times = [stat_log(path).modified_ns / 1e9 for path in self.logs]
        if self.imported is not None:
            times.append(parse_rfc3339(self.imported.last_message_time) / 1e6)
        return max(times)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The row of a list, without the cost and the outcome."""
        row = {} if self.imported is None else describe_imported(self.imported)
        if not self.logs:
            return row
        log = describe(self.logs[0])
        log["size_bytes"] += sum(stat_log(path).disk_bytes for path in self.logs[1:])
        names = {"session": self.name, "runtime": self.runtime}
        if self.imported is not None:
            log["size_bytes"] += row["size_bytes"]
            log["written"] = max(log["written"], row["written"])
            log["project"] = row["project"] or log["project"]
        return {**row, **log, **names, "logs": [path.stem for path in self.logs]}

    def describe_end(self, index: IndexedSessions) -> dict[str, Any]:
        """Return the cost and the outcome, as far as they are known."""
        indexed = index.find(self.name, imported=self.imported, logs=self.logs)
        cost_usd = indexed.cost_usd
        if self.imported is None and len(self.logs) == 1:
            cost_usd = cost_of_log(self.logs[0])
        return {"outcome": indexed.outcome, "cost_usd": cost_usd}


class SessionConditions:
    """The filter of sessions from the command line, with the cheapest conditions first."""

    def __init__(
        self,
        existing_runtimes: Iterable[str],
        *,
        since: str | None,
        runtime: str | None,
        project: str | None,
        text: str | None,
    ) -> None:
        """Raises ConfigError for an invalid time, NameNotFound for an unknown runtime."""
        now = datetime.now(UTC)
        self.since_s = -math.inf if since is None else parse_time_us(since, LocalZone(), now) / 1e6
        runtimes = [HARKEN, *sorted({*existing_runtimes} - {HARKEN})]
        if runtime not in (None, *runtimes):
            raise NameNotFound("runtime", runtime or "", runtimes)
        self._runtime, self._project = runtime, project
        self._text = None if text is None else text.casefold()

    def match(self, session: ListedSession) -> bool:
        """Whether a session meets all of them."""
        if session.modified_s < self.since_s or self._runtime not in (None, session.runtime):
            return False
        if self._project is not None and not _is_in(session.row["project"] or "", self._project):
            return False
        if self._text is None:
            return True
        row = session.row
        texts = (row["session"], row["project"] or "", describe_subject(row))
        return any(self._text in text.casefold() for text in texts)


def filter_sessions(
    sessions: Iterable[ListedSession], conditions: SessionConditions
) -> list[ListedSession]:
    """Return the sessions that meet all conditions, in the given order."""
    return [session for session in sessions if conditions.match(session)]


def list_sessions(home: Home) -> list[ListedSession]:
    """Return all sessions, the newest first."""
    imported = {session.name: session for session in list_imported(home)}
    sessions: list[ListedSession] = []
    recordings: dict[ClientSession, list[Path]] = {}
    for path in home.list_logs():
        recorded = read_recorded_session(path)
        if recorded is None:
            sessions.append(ListedSession(name=path.stem, runtime=HARKEN, logs=(path,)))
        else:
            recordings.setdefault(recorded, []).append(path)
    for recorded, logs in recordings.items():
        session = imported.pop(recorded.name, None)
        runtime = recorded.runtime
        sessions.append(
            ListedSession(name=recorded.name, runtime=runtime, imported=session, logs=logs)
        )
    sessions += [
        ListedSession(name=name, runtime=session.runtime, imported=session)
        for name, session in imported.items()
    ]
    return sorted(sessions, key=lambda session: session.modified_s, reverse=True)


def _is_in(folder: str, root: str) -> bool:
    """Whether a session's folder is this one, or below it; a single part of the path is enough."""
    path = PurePath(folder)
    full = PurePath(os.path.abspath(Path(root).expanduser()))  # noqa: PTH100 - it may not exist
    return bool(folder) and (path.is_relative_to(full) or root in path.parts)


def _report_none(home: Home, *, is_filtered: bool) -> None:
    if is_filtered:
        click.echo("No session matches.", err=True)
    else:
        text = f"No sessions in {home.sessions_folder}. `harken demo` creates one, "
        click.echo(f"{text}`harken import` imports those of other runtimes.", err=True)


def describe_imported(session: ImportedSession) -> dict[str, Any]:
    """Return the row of an imported session, from the catalogue alone."""
    return {
        "session": session.name,
        "runtime": session.runtime,
        "written": f"{session.last_message_time[:19]}+00:00",
        "size_bytes": session.size_bytes,
        "state": "imported",
        "began": None,
        "title": session.title,
        "project": session.project,
        "tips": [{"agent": end.agent, "ctx": end.ctx} for end in session.branch_tips],
        "subagents": [
            {"agent": sub.agent, "type": sub.agent_type, "task": sub.task}
            for sub in session.subagents
        ],
        "sources": session.sources,
        "logs": [],
    }


def describe(path: Path) -> dict[str, Any]:
    """Return the row of a log: its id, last write, state and first message."""
    stat = stat_log(path)
    row = {
        "session": path.stem,
        "runtime": HARKEN,
        "written": datetime.fromtimestamp(stat.modified_ns / 1e9, UTC).isoformat(
            timespec="seconds"
        ),
        "size_bytes": stat.disk_bytes,
        "state": None,
        "began": None,
        "project": None,
        "rerun": None,
        "origin": None,
        "logs": [path.stem],
    }
    if has_no_event(path):
        return {**row, "state": "empty"}
    try:
        began = beginning(path)
        state = "compressed" if stat.is_packed else read_state(path, is_recorded=began.is_recorded)
        details = {
            "began": began.first_message,
            "project": began.folder,
            "rerun": began.rerun,
            "origin": None if began.origin is None else msgspec.to_builtins(began.origin),
        }
        return {**row, **details, "state": state}
    except LogError as error:
        return {**row, "error": str(error)}


class Beginning(msgspec.Struct, frozen=True):
    """The beginning of a log."""

    first_message: str | None
    """The first message of a person. None if there is none near the beginning."""
    is_recorded: bool
    """Whether it was recorded from another program's model calls."""
    rerun: dict[str, Any] | None
    """The origin of a rerun."""
    folder: str | None = None
    """The working folder, as logged at the creation of the first agent."""
    origin: Origin | None = None
    """The origin of a fork."""


def beginning(path: Path) -> Beginning:
    """Return the beginning of a log. Messages that a client writes for the user are ignored."""
    texts: list[str] = []
    is_recorded, rerun, folder, origin = False, None, None, None
    for event in islice(iter_events(path), MAX_PEEKED_EVENTS):
        if isinstance(event, SessionStarted):
            origin = event.origin
        elif isinstance(event, AgentCreated):
            spec = event.spec or AgentSpec()
            is_recorded = is_recorded or spec.is_recorded
            rerun = rerun or parse_rerun(spec.rerun)
            folder = folder or spec.folder
        elif isinstance(event, TranscriptEntry) and event.role == "user":
            words = text_of(event.content)
            texts.append(words)
            prompt = extract_typed_text(words) if is_recorded else words
            if prompt and not (is_recorded and event.cause):
                return Beginning(prompt, is_recorded, rerun, folder, origin)
    return Beginning(texts[0] if texts else None, is_recorded, rerun, folder, origin)


def read_state(path: Path, *, is_recorded: bool = False) -> State:
    """Return the state of a log from its lock and its last line. Only its tail is read.

    A program may close a session without ending it, so "cut off?" is a guess. A recorded session is
    cut off only if a call has no answer.
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
        except (ValueError, RecursionError):  # a torn line, or a longer one than was read
            break
        if not isinstance(event, ContentPurged):  # a purge says nothing about the state
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
    table = [_format_row(row, names[row["session"]], now) for row in rows]
    for line in table_lines(table, width):
        print_text(line)


def _format_row(row: Mapping[str, Any], name: str, now: datetime | None) -> SessionRow:
    """Return the texts of a row. Times are relative to `now`, or in full if it is None."""
    written_at = to_datetime(parse_rfc3339(row["written"])).astimezone(LocalZone())
    state = row["state"] or ""
    if row.get("tips"):
        tip = row["tips"][0]["ctx"][: len("ctx-") + SHORT_NAME_DIGITS]
        state = f"{state}, imported" if row["logs"] else tip
    title = describe_subject(row)
    if "error" in row:
        title = f"(unreadable: run `harken sessions check {row['logs'][0]}`)"
    return SessionRow(
        name=name,
        modified=format_minute(written_at, LocalZone())
        if now is None
        else when_text(written_at, now),
        size=format_size(row["size_bytes"]),
        cost=cost(row["cost_usd"], 0),
        project=PurePath(row["project"] or "").name,
        state=state,
        title=title,
        is_unfinished=row["state"] in ("being written", "cut off?"),
    )


def describe_subject(row: Mapping[str, Any]) -> str:
    """Return the title of a session, its origin if it is a fork, or its first message."""
    rerun = row.get("rerun")
    if rerun:
        runtime, colon, native = rerun.get("session", "?").partition(":")
        return format_rerun({**rerun, "session": runtime + colon + native[:MIN_SHORT_ID]})
    title = str(row.get("title") or row["began"] or "(no messages)")
    origin = row.get("origin")
    if origin:
        text = format_origin(msgspec.convert(origin, Origin))
        return text if origin.get("changes") else f"{text}: {title}"
    return title
