"""Select the recorded edits that may have written the lines which a commit added to a file.

There are three sets. Edits between the previous version and the commit are replayed. Older ones are
usually in the previous version; they are used if they have an added line that the first set does
not explain. Edits of other files are used if their lines are nowhere else: then the file was
renamed, or the lines were moved, before the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from harken.attribution.git.history import (
    FileVersion,
    PreviousTimes,
    VersionReader,
    list_earlier_versions,
)
from harken.attribution.matching.virtual_file import Placement
from harken.attribution.records.edit_index import EditRow
from harken.attribution.records.recorded_edits import EditSource, RecordedEdit
from harken.attribution.text.line_text import hash_key, information, is_informative, line_key
from harken.edits.file_edit import Content, is_absolute

MAX_CANDIDATES = 400
"""The maximum number of edits that are replayed for one commit of a file."""
CLOCK_SLACK_S = 2
"""The times of git are whole seconds, and the clocks of an agent and of git may differ a little."""
US = 1_000_000
_MIN_ANCHOR_INFORMATION = 12
_MIN_MOVED_LINES = 3
_MAX_ANCHORS, _MAX_OTHER_PATHS, _MAX_SUFFIXES = 200, 4, 6


class Candidate(msgspec.Struct, frozen=True):
    """An edit and the way in which it is used."""

    edit: RecordedEdit
    placement: Placement


class EditSelector(msgspec.Struct):
    """Selects edits for versions of files of a repository."""

    source: EditSource
    reader: VersionReader
    _edits: dict[int, RecordedEdit | None] = msgspec.field(default_factory=dict)

    def select(
        self, version: FileVersion, is_used_up: Callable[[RecordedEdit], bool]
    ) -> tuple[list[Candidate], list[EditRow]]:
        """Return the edits to replay, oldest first, and the rows of older ones."""
        until_us = (commit_time(version) + CLOCK_SLACK_S) * US
        rows = self.source.find_rows([version.path, version.previous_path], until_us)
        rows = [row for row in rows if not self._is_used_up(row, is_used_up)]
        previous = self.reader.find_previous_times(version)
        recent = [row for row in rows if row.time_us > previous.author_us]
        older = rows[: len(rows) - len(recent)]
        recent = recent[-MAX_CANDIDATES:]
        return self._load(recent, lambda row: _placement(row, previous)), older

    def _is_used_up(self, row: EditRow, is_used_up: Callable[[RecordedEdit], bool]) -> bool:
        edit = self._edits.get(row.id)
        return edit is not None and is_used_up(edit)

    def add_older(
        self, candidates: Sequence[Candidate], rows: Sequence[EditRow], lines: Sequence[str]
    ) -> list[Candidate]:
        """Return candidates with those of older rows that have one of some lines, in order."""
        keys = {hash_key(line_key(line)) for line in lines if is_informative(line)}
        hits = [row for row in rows if not keys.isdisjoint(row.lines)]
        older = self._load(hits[-MAX_CANDIDATES:], lambda _row: "check")
        return sort_candidates([*candidates, *older])

    def find_moved(self, version: FileVersion, lines: Sequence[str]) -> list[Candidate]:
        """Return the edits of other files whose lines are only in this version."""
        anchors = {
            hash_key(line_key(x)) for x in lines if information(x) >= _MIN_ANCHOR_INFORMATION
        }
        if len(anchors) < _MIN_MOVED_LINES:
            return []
        until_us = (commit_time(version) + CLOCK_SLACK_S) * US
        keys = {hash_key(line_key(line)) for line in lines if is_informative(line)}
        hits: dict[str, set[int]] = {}
        for row in self.source.find_rows_with(anchors, until_us, _MAX_ANCHORS):
            if not self._is_own(row.path, version):
                hits.setdefault(row.path, set()).update(keys & row.lines)
        paths = sorted(hits, key=lambda path: -len(hits[path]))[:_MAX_OTHER_PATHS]
        candidates: list[Candidate] = []
        for path in paths:
            if len(hits[path]) >= _MIN_MOVED_LINES:
                candidates += self._moved_from(version, path, hits[path], until_us)
        return candidates

    def find_created(self, path: str) -> list[RecordedEdit]:
        """Return the edits that created a file: they wrote all of it, and had not read it."""
        rows = self.source.find_rows([path], (int(time.time()) + CLOCK_SLACK_S) * US)
        edits = [candidate.edit for candidate in self._load(rows, lambda _row: "text")]
        return [
            edit
            for edit in edits
            if any(isinstance(change, Content) for change in edit.edit.changes)
            and not edit.viewed_lines
        ]

    def _is_own(self, path: str, version: FileVersion) -> bool:
        return any(
            self.source.is_same_file(path, own_path)
            for own_path in (version.path, version.previous_path)
        )

    def _moved_from(
        self, version: FileVersion, path: str, keys: set[int], until_us: int
    ) -> list[Candidate]:
        """Return the edits of another path, unless their lines are or were there in git."""
        rows = self.source.find_rows_of(path, until_us)
        hits = [row for row in rows if not keys.isdisjoint(row.lines)]
        if not hits:
            return []
        since_s = hits[0].time_us // US - CLOCK_SLACK_S
        exists = False
        for name in _repository_names(path, str(self.source.top)):
            content = self.reader.read_lines(version, name)
            exists = exists or content is not None
            if _has_hits(content or (), keys) or self._was_added(version, name, keys, since_s):
                return []
        placement: Placement = "text" if exists or version.previous else "replay"
        return self._load(rows[-MAX_CANDIDATES:], lambda _row: placement)

    def _was_added(self, version: FileVersion, name: str, keys: set[int], since_s: int) -> bool:
        """Whether an earlier commit added such lines to a file."""
        other = FileVersion(version.id, name, "", 0, 0, version.is_uncommitted)
        for earlier in list_earlier_versions(self.reader.repository, other, since_s):
            diff = self.reader.read(earlier)
            if diff is not None and _has_hits(diff.added_lines, keys):
                return True
        return False

    def _load(
        self, rows: Sequence[EditRow], placement: Callable[[EditRow], Placement]
    ) -> list[Candidate]:
        """Return the edits of rows, in order. The store may not have all any more."""
        missing = [row for row in rows if row.id not in self._edits]
        self._edits |= dict.fromkeys(row.id for row in missing)
        self._edits |= {edit.row.id: edit for edit in self.source.load(missing)}
        return [
            Candidate(edit, placement(row))
            for row in rows
            if (edit := self._edits[row.id]) is not None
        ]


def _placement(row: EditRow, previous: PreviousTimes) -> Placement:
    return "check" if row.time_us <= previous.committer_us else "replay"


def sort_candidates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in order of time, at most so many as are replayed."""
    ordered = sorted(candidates, key=lambda item: (item.edit.row.time_us, item.edit.row.id))
    return ordered[-MAX_CANDIDATES:]


def commit_time(version: FileVersion) -> int:
    """Return the time of the commit of a version, in seconds. The working tree has the time now."""
    return int(time.time()) if version.is_uncommitted else version.committer_time


def _has_hits(lines: Sequence[str], keys: set[int]) -> bool:
    """Whether a third of some keys are those of lines, so that the lines are no coincidence."""
    hits = keys & {hash_key(line_key(line)) for line in lines}
    return 3 * len(hits) >= len(keys)


def _repository_names(path: str, top: str) -> list[str]:
    """Return the paths in the repository that a path of an edit may mean."""
    if path.startswith(f"{top}/"):
        return [path[len(top) + 1 :]]
    if not is_absolute(path):
        return [path]
    parts = path.strip("/").split("/")
    return ["/".join(parts[-size:]) for size in range(1, min(len(parts), _MAX_SUFFIXES) + 1)]
