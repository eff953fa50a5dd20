"""The sessions that edited a file, and the lines of today's files that a tool call wrote."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from harken.attribution.answers.blamed_lines import BlamedFileLine
from harken.attribution.attribution import Attribution
from harken.attribution.explanation import EditSession
from harken.attribution.git.tracked_files import find_current_names
from harken.attribution.line_origin import Confidence
from harken.attribution.records.edit_index import EditRow
from harken.attribution.text.line_ranges import join_ranges
from harken.edits.file_edit import is_absolute
from harken.errors import ConfigError

_CLOCK_SLACK_S = 86_400
_GLOBAL_ID_CHARS = 16
"""A shorter id of a call is unique in its session only."""


class FileSession(msgspec.Struct, frozen=True):
    """A session that edited a file."""

    session: EditSession
    edits: int
    lines: int
    """The lines of the file that its agents wrote."""
    first_us: int
    last_us: int

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        return {
            "session": self.session.name,
            "runtime": self.session.runtime,
            "title": self.session.title,
            "edits": self.edits,
            "lines": self.lines,
            "first": _format_time(self.first_us),
            "last": _format_time(self.last_us),
        }


class CallLines(msgspec.Struct, frozen=True):
    """The lines of a file that are attributed to a tool call."""

    path: str
    """The file as it is named today."""
    lines: Sequence[int]
    """Those that the agent wrote."""
    changed: Sequence[int]
    """Those that a person made from lines of the call."""
    uncertain: Sequence[int]

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs, with ranges of lines."""
        return {
            "path": self.path,
            "count": len(self.lines),
            "lines": join_ranges(self.lines),
            "changed": join_ranges(self.changed),
            "uncertain": join_ranges(self.uncertain),
        }


class CallOfSession(msgspec.Struct, frozen=True):
    """A tool call, by the name of its session in the index and its id."""

    session: str
    call: str

    def is_call_of(self, attribution: Attribution, row: BlamedFileLine) -> bool:
        """Whether a line is attributed to the call."""
        edit = row.origin.edit
        if edit is None or edit.call_id != self.call:
            return False
        if len(self.call) >= _GLOBAL_ID_CHARS:  # A fork repeats the calls of another session.
            return True
        return attribution.explainer.find_session(edit.row).name == self.session


def list_file_sessions(
    attribution: Attribution, path: str, rows: Iterable[BlamedFileLine]
) -> list[FileSession]:
    """Return the sessions that edited a file under any of its names, the last one first.

    `rows`: the lines of the file.
    """
    names, lines = {path}, Counter[str]()
    sessions: dict[str, EditSession] = {}
    for row in rows:
        names |= {row.origin.line.commit.path, row.origin.commit.path}
        if row.origin.is_agent and row.origin.edit is not None:
            lines[_session_of(attribution, row.origin.edit.row, sessions).name] += 1
    until_us = (int(time.time()) + _CLOCK_SLACK_S) * 1_000_000
    edits: dict[str, list[EditRow]] = {}
    for edit in attribution.source.find_rows(sorted(names - {""}), until_us):
        edits.setdefault(_session_of(attribution, edit, sessions).name, []).append(edit)
    by_name = {session.name: session for session in sessions.values()}
    rows_by_session = [
        FileSession(
            by_name[name],
            len(edits_of_session),
            lines[name],
            min(edit.time_us for edit in edits_of_session),
            max(edit.time_us for edit in edits_of_session),
        )
        for name, edits_of_session in edits.items()
    ]
    return sorted(rows_by_session, key=lambda session: -session.last_us)


def _session_of(
    attribution: Attribution, edit: EditRow, sessions: dict[str, EditSession]
) -> EditSession:
    """Return the session of an edit. That of a commit is looked up once."""
    if edit.commit not in sessions:
        sessions[edit.commit] = attribution.explainer.find_session(edit)
    return sessions[edit.commit]


def find_call_lines(
    attribution: Attribution,
    call: CallOfSession,
    edited_paths: Sequence[str],
    blame: Callable[[str], Sequence[BlamedFileLine]],
) -> list[CallLines]:
    """Return the lines of today's files that a call wrote, by file.

    `edited_paths`: as in the call. `blame`: returns the lines of a tracked file. A file without
    such lines is listed with none. Raises ConfigError, StoreError.
    """
    lines_by_file: list[CallLines] = []
    for path in _find_files(attribution, edited_paths):
        try:
            rows = [row for row in blame(path) if call.is_call_of(attribution, row)]
        except ConfigError:  # It is no text file any more.
            continue
        changed_lines = [*_numbers(rows, ("similar",))]
        uncertain_lines = [*_numbers(rows, ("uncertain",))]
        own_lines = [*_numbers(rows, ("exact", "reformatted"))]
        lines_by_file.append(CallLines(path, own_lines, changed_lines, uncertain_lines))
    return lines_by_file


def _numbers(rows: Iterable[BlamedFileLine], confidences: Sequence[Confidence]) -> Iterable[int]:
    return (row.origin.line.number for row in rows if row.origin.confidence in confidences)


def _find_files(attribution: Attribution, edited_paths: Sequence[str]) -> list[str]:
    """Return the tracked files that the paths of edits mean, under their names of today."""
    repository, source = attribution.repository, attribution.source
    files: dict[str, None] = {}
    for path in edited_paths:
        name = path.rpartition("/")[2]
        matches = [
            tracked
            for tracked in repository.tracked_paths
            if tracked.rpartition("/")[2] == name and source.is_same_file(path, tracked)
        ]
        if not matches:
            matches = [*find_current_names(repository, _possible_names(path)).values()]
        files |= dict.fromkeys(sorted(matches))
    return [*files]


def _possible_names(path: str) -> list[str]:
    """Return the paths in a repository that a path of an edit may mean, the longest first."""
    if not is_absolute(path):
        return [path]
    parts = path.strip("/").split("/")
    return ["/".join(parts[start:]) for start in range(1, len(parts))]


def _format_time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat()
