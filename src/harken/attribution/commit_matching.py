"""`CommitMatcher`: which edits wrote the lines that a commit added to a file.

The edits of the file up to the commit are replayed on its parent, and the added lines are matched
with the result. An edit is used once: an equal line that appears in a later commit was written
again by its author. So the commits between a matching edit and the commit are matched as well, to
see whether one of them contains the edit already.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harken.attribution.edit_index import EditRow
from harken.attribution.edits.file_edit import added_lines
from harken.attribution.git.history import (
    FileVersion,
    PreviousTimes,
    RemovedLine,
    VersionDiff,
    find_times,
    list_earlier_versions,
    list_removed_lines,
    read_version_diff,
)
from harken.attribution.git.repository import GitRepository
from harken.attribution.line_text import hash_key, information, is_informative, line_key
from harken.attribution.matching import LineMatch, Matcher
from harken.attribution.moves import MIN_RUN_INFORMATION
from harken.attribution.recorded_edits import MAX_CANDIDATES, EditSource, RecordedEdit
from harken.attribution.virtual_file import EditLine, VirtualFile

_CLOCK_SLACK_S = 300
"""The clocks of an agent and of git may differ by so much: then an edit seems to be later than its
commit, and is recognized by its text only."""
_MAX_ROUNDS = 8
"""How often edits that an earlier commit contains are left out, and the others matched again."""
_US = 1_000_000


@dataclass(frozen=True, slots=True)
class CommitMatch:
    """The match of an added line, and its edit if the origin is one."""

    match: LineMatch
    edit: RecordedEdit | None
    above: str = ""
    """For a line with little information: the key of the next informative line above."""
    below: str = ""


@dataclass(slots=True)
class _Uses:
    """The lines of edits that earlier commits contain."""

    keys: dict[int, Counter[str]] = field(default_factory=dict)
    """By the id of an edit: the keys of its lines."""
    passed_by: Counter[int] = field(default_factory=Counter)
    """The number of later commits of the file that do not contain an edit."""
    checked_ids: set[int] = field(default_factory=set)
    """The edits for which earlier commits were matched."""


@dataclass(slots=True)
class CommitMatcher:
    """Matches the added lines of commits of a repository with recorded edits."""

    repository: GitRepository
    source: EditSource
    _complete: dict[tuple[str, str], dict[int, CommitMatch]] = field(default_factory=dict)
    """Matches of versions for which all lines were asked."""
    _diffs: dict[tuple[str, str], VersionDiff | None] = field(default_factory=dict)
    _edits: dict[int, RecordedEdit | None] = field(default_factory=dict)
    _removed: dict[tuple[str, str], Sequence[RemovedLine]] = field(default_factory=dict)
    _previous_times: dict[str, PreviousTimes] = field(default_factory=dict)

    def match(
        self, version: FileVersion, asked_lines: set[int] | None = None
    ) -> Mapping[int, CommitMatch]:
        """Return the matches of the added lines of a version, by their index.

        `asked_lines`: the lines whose matches are verified, or None for all.
        """
        key = (version.id, version.path)
        if key in self._complete:
            return self._complete[key]
        uses = _Uses()
        matches: dict[int, CommitMatch] = {}
        for _ in range(_MAX_ROUNDS):
            matches = self._replay(version, uses, asked_lines)
            found_ids = {
                match.edit.row.id: match.edit.row
                for index, match in matches.items()
                if match.edit is not None and (asked_lines is None or index in asked_lines)
            }
            unchecked = [row for id_, row in found_ids.items() if id_ not in uses.checked_ids]
            if not unchecked:
                break
            self._check_uses(version, unchecked, uses, is_complete=asked_lines is None)
        if asked_lines is None:
            self._complete[key] = matches
        return matches

    def _check_uses(
        self, version: FileVersion, rows: Sequence[EditRow], uses: _Uses, *, is_complete: bool
    ) -> None:
        """Find the lines of edits that earlier versions contain."""
        ids = {row.id: row for row in rows}
        uses.checked_ids |= ids.keys()
        since_s = min(row.time_us for row in rows) // _US - _CLOCK_SLACK_S
        for earlier in list_earlier_versions(self.repository, version, since_s):
            matches: Mapping[int, CommitMatch]
            matches = self.match(earlier) if is_complete else self._replay(earlier, uses)
            self._note_uses(earlier, matches, ids, uses)

    def _note_uses(
        self,
        version: FileVersion,
        matches: Mapping[int, CommitMatch],
        ids: Mapping[int, EditRow],
        uses: _Uses,
    ) -> None:
        sources: dict[int, dict[int, str]] = {}
        for match in matches.values():
            if match.edit is not None and match.edit.row.id in ids:
                keys = sources.setdefault(match.edit.row.id, {})
                keys[match.match.source] = match.match.source_key
        for id_, row in ids.items():
            if id_ in sources:
                uses.keys.setdefault(id_, Counter()).update(sources[id_].values())
            elif row.time_us <= version.author_time * _US:
                uses.passed_by[id_] += 1

    def _replay(
        self, version: FileVersion, uses: _Uses, asked_lines: set[int] | None = None
    ) -> dict[int, CommitMatch]:
        """Replay the edits on the parent, and match the added lines of a version.

        Edits that are older than the previous version are usually in it. They are used only if they
        have a line that no edit between the versions explains.
        """
        diff = self._read_diff(version)
        if diff is None:
            return {}
        until_s = _time_of(version)
        rows = self.source.find_rows(
            [version.path, version.previous_path], (until_s + _CLOCK_SLACK_S) * _US
        )
        rows = [row for row in rows if not self._is_used_up(row, uses)]
        previous = self._find_previous_times(version)
        span = range(previous.author_us + 1, (until_s + 1) * _US)
        recent = [row for row in rows if row.time_us in span]
        matches = self._match(
            version, self._load(recent[-MAX_CANDIDATES:]), previous, uses, asked_lines
        )
        others = [row for row in rows if row.time_us not in span]
        others = self._find_hits(diff, matches, others)
        if others:
            chosen_rows = sorted([*others, *recent][-MAX_CANDIDATES:], key=_sort_key)
            matches = self._match(version, self._load(chosen_rows), previous, uses, asked_lines)
        return matches

    def _find_hits(
        self, diff: VersionDiff, matches: Mapping[int, CommitMatch], rows: Sequence[EditRow]
    ) -> list[EditRow]:
        """Return the edits with an added line that is not matched for certain."""
        keys = {
            hash_key(line_key(diff.target[index]))
            for hunk in diff.hunks
            for index in range(hunk.new_start, hunk.new_end)
            if (match := matches.get(index)) is None or not match.match.is_certain
            if is_informative(diff.target[index])
        }
        return [row for row in rows if not keys.isdisjoint(row.lines)]

    def _match(
        self,
        version: FileVersion,
        edits: Sequence[RecordedEdit],
        previous: PreviousTimes,
        uses: _Uses,
        asked_lines: set[int] | None,
    ) -> dict[int, CommitMatch]:
        diff, until_s = self._read_diff(version), _time_of(version)
        assert diff is not None
        file = VirtualFile.from_base(diff.base)
        for number, edit in enumerate(edits):
            is_late = edit.row.time_us >= (until_s + 1) * _US
            may_be_in_base = is_late or edit.row.time_us <= previous.committer_us
            for change in edit.edit.changes:
                file.apply(number, change, edit.viewed_lines, may_be_in_base=may_be_in_base)

        def list_removed(indexes: Sequence[int]) -> Sequence[RemovedLine]:
            if asked_lines is not None and asked_lines.isdisjoint(indexes):
                return ()
            return self._list_removed(version)

        matches = Matcher(file, diff.target, diff.hunks, list_removed).run()
        return self._select(matches, edits, diff, uses)

    def _read_diff(self, version: FileVersion) -> VersionDiff | None:
        key = (version.id, version.path)
        if key not in self._diffs:
            self._diffs[key] = read_version_diff(self.repository, version)
        return self._diffs[key]

    def _list_removed(self, version: FileVersion) -> Sequence[RemovedLine]:
        key = (version.id, version.path)
        if key not in self._removed:
            self._removed[key] = list_removed_lines(self.repository, version)
        return self._removed[key]

    def _find_previous_times(self, version: FileVersion) -> PreviousTimes:
        if version.previous not in self._previous_times:
            times = find_times(self.repository, version.previous)
            self._previous_times[version.previous] = times
        return self._previous_times[version.previous]

    def _load(self, rows: Sequence[EditRow]) -> list[RecordedEdit]:
        """Return the edits of rows, in order of time. The store may not have all any more."""
        missing = [row for row in rows if row.id not in self._edits]
        self._edits |= dict.fromkeys(row.id for row in missing)
        self._edits |= {edit.row.id: edit for edit in self.source.load(missing)}
        loaded = (self._edits[row.id] for row in rows)
        return [edit for edit in loaded if edit is not None]

    def _is_used_up(self, row: EditRow, uses: _Uses) -> bool:
        """Whether earlier commits contain all lines of an edit."""
        edit = self._edits.get(row.id)
        return edit is not None and not _count_free(edit, uses)

    def _select(
        self,
        matches: Mapping[int, LineMatch],
        edits: Sequence[RecordedEdit],
        diff: VersionDiff,
        uses: _Uses,
    ) -> dict[int, CommitMatch]:
        """Return the matches with their edits, without lines that earlier commits contain."""
        selected: dict[int, CommitMatch] = {}
        evidence: Counter[int] = Counter()
        for index, match in matches.items():
            edit = edits[match.origin.edit] if isinstance(match.origin, EditLine) else None
            if edit is not None:
                used_keys = uses.keys.get(edit.row.id)
                if used_keys is not None and used_keys[match.source_key] >= _count_lines(
                    edit, match
                ):
                    continue
                evidence[edit.row.id] += information(diff.target[index])
            neighbors = _neighbor_keys(diff.target, index) if edit is not None else ("", "")
            selected[index] = CommitMatch(match, edit, *neighbors)
        for index, item in selected.items():
            if item.edit is not None and item.match.kind in ("exact", "reformatted"):
                is_late = uses.passed_by[item.edit.row.id] > 0
                is_weak = is_late and evidence[item.edit.row.id] < MIN_RUN_INFORMATION
                if is_weak or item.edit.row.is_failed is None:
                    selected[index] = replace(item, match=item.match.as_ambiguous())
        return selected


def _neighbor_keys(lines: Sequence[str], index: int) -> tuple[str, str]:
    """Return the keys of the informative lines beside a line that is none."""
    if is_informative(lines[index]):
        return "", ""
    keys: list[str] = []
    for step in (-1, 1):
        neighbor = index + step
        while 0 <= neighbor < len(lines) and not is_informative(lines[neighbor]):
            neighbor += step
        keys.append(line_key(lines[neighbor]) if 0 <= neighbor < len(lines) else "")
    return keys[0], keys[1]


def _time_of(version: FileVersion) -> int:
    return int(time.time()) if version.is_uncommitted else version.committer_time


def _sort_key(row: EditRow) -> tuple[int, int]:
    return row.time_us, row.id


def _count_lines(edit: RecordedEdit, match: LineMatch) -> int:
    """Return how many lines with the key of a match an edit added, at least one.

    The key of a line that was changed in part is not among those of the edit.
    """
    keys = Counter(map(line_key, added_lines(edit.edit)))
    return max(keys[match.source_key], 1)


def _count_free(edit: RecordedEdit, uses: _Uses) -> int:
    """Return the number of lines of an edit that no earlier commit contains."""
    used_keys = uses.keys.get(edit.row.id)
    keys = Counter(key for key in map(line_key, added_lines(edit.edit)) if key)
    return 1 if used_keys is None or not keys else (keys - used_keys).total()
