"""The logged and imported sessions of a home, for lists that must be cheap.

A session that was recorded and imported has one row, which names both sources. Of a log only both
ends are read, and of those that are shown the cost of their responses; of an imported session the
catalogue and the index of facts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from harken.cli.commands.sessions.cost import IndexedSessions, cost_of_log
from harken.cli.options.time import parse_time_us
from harken.config.home import Home, has_no_event
from harken.config.imported_sessions import list_imported
from harken.config.local_zone import LocalZone
from harken.core.clock import parse_rfc3339
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
from harken.formats.runtimes.client_sessions import (
    MIN_SHORT_ID,
    ClientSession,
    read_recorded_session,
)
from harken.formats.runtimes.user_text import extract_typed_text
from harken.session.log.compressed import LogStat, stat_log
from harken.session.log.file import is_being_written
from harken.session.log.reader import iter_events
from harken.views.tree import format_origin, format_rerun, parse_rerun

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession

HARKEN = "harken"
"""The runtime of sessions that Harken logged."""
MAX_PEEKED_EVENTS = 40
"""The number of events that are read of each log, so that a list is cheap."""
TAIL_BYTES = 1 << 16
BEING_WRITTEN: Literal["being written"] = "being written"
State: TypeAlias = Literal["being written", "ended", "recorded", "cut off?", "empty"]
"""The state of a session. `recorded`: another program's session, whose end is not known.

For a compressed log the state is too slow to compute. `empty`: the log contains no event because
its start was cut off.
"""


class ListedSession(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A session that may be listed. Expensive values are computed on access."""

    name: str
    runtime: str
    imported: ImportedSession | None = None
    logs: Sequence[Path] = ()
    """Its logs, the last written first."""
    log_stats: Sequence[LogStat] = ()
    """Their stats when they were listed."""

    @cached_property
    def modified_s(self) -> float:
        """The time of the last change, in seconds since 1970."""
        times = [stat.modified_ns / 1e9 for stat in self.log_stats]
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
        if self._project is not None and not is_in_folder(
            session.row["project"] or "", self._project
        ):
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


def list_sessions(
    home: Home,
    identify_log: Callable[[Path, LogStat], ClientSession | None] = (
        lambda path, _: read_recorded_session(path)
    ),
) -> list[ListedSession]:
    """Return all sessions, the newest first.

    `identify_log` returns the session of another runtime that a log records; by default the log is
    read.
    """
    imported = {session.name: session for session in list_imported(home)}
    sessions: list[ListedSession] = []
    recordings: dict[ClientSession, list[Path]] = {}
    stats = home.stat_logs()
    for path, stat in stats.items():
        recorded = identify_log(path, stat)
        if recorded is None:
            sessions.append(
                ListedSession(name=path.stem, runtime=HARKEN, logs=(path,), log_stats=(stat,))
            )
        else:
            recordings.setdefault(recorded, []).append(path)
    for recorded, logs in recordings.items():
        session = imported.pop(recorded.name, None)
        sessions.append(
            ListedSession(
                name=recorded.name,
                runtime=recorded.runtime,
                imported=session,
                logs=logs,
                log_stats=[stats[path] for path in logs],
            )
        )
    sessions += [
        ListedSession(name=name, runtime=session.runtime, imported=session)
        for name, session in imported.items()
    ]
    return sorted(sessions, key=lambda session: session.modified_s, reverse=True)


def is_in_folder(folder: str, root: str) -> bool:
    """Whether a session's folder is this one, or below it; a single part of the path is enough."""
    path = PurePath(folder)
    full = PurePath(os.path.abspath(Path(root).expanduser()))  # noqa: PTH100 - it may not exist
    # A transcript may name its folder by a relative path, or by one of another system.
    is_same = folder == root or path.is_relative_to(full)
    return bool(folder) and (is_same or root in path.parts)


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
        return BEING_WRITTEN
    event = read_last_event(path)
    if isinstance(event, SessionEnded):
        return "ended"
    is_whole = event is not None and not isinstance(event, LlmRequest | TranscriptEntry)
    return "recorded" if is_recorded and is_whole else "cut off?"


def read_last_event(path: Path) -> Event | None:
    """Return the last event of a plain log that is no purge, from its tail.

    Return None if its last line is incomplete or too long.
    """
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
    return event


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
