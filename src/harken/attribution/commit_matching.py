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
from dataclasses import dataclass, field

from harken.attribution.edit_index import EditRow
from harken.attribution.edits.file_edit import added_lines
from harken.attribution.git.history import (
    FileVersion,
    VersionDiff,
    list_earlier_versions,
    read_version_diff,
)
from harken.attribution.git.repository import GitRepository
from harken.attribution.line_text import hash_key, information, line_key
from harken.attribution.matching import MIN_RUN_INFORMATION, LineMatch, Matcher
from harken.attribution.recorded_edits import MAX_CANDIDATES, EditSource, RecordedEdit
from harken.attribution.virtual_file import EditLine, VirtualFile

_CLOCK_SLACK_S = 300
"""The clocks of an agent and of git may differ by so much."""
_MAX_ROUNDS = 8
"""How often edits that an earlier commit contains are left out, and the others matched again."""
_US = 1_000_000


@dataclass(frozen=True, slots=True)
class CommitMatch:
    """The match of an added line, and its edit if the origin is one."""

    match: LineMatch
    edit: RecordedEdit | None


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
            matches = self._replay(version, uses)
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

    def _replay(self, version: FileVersion, uses: _Uses) -> dict[int, CommitMatch]:
        """Replay the edits on the parent, and match the added lines of a version."""
        diff = self._read_diff(version)
        if diff is None:
            return {}
        edits = self._load_edits(version, diff, uses)
        file = VirtualFile.from_base(diff.base)
        for number, edit in enumerate(edits):
            for change in edit.edit.changes:
                file.apply(number, change, edit.viewed_lines)
        matches = Matcher(file, diff.target, diff.hunks).run()
        return self._select(matches, edits, diff, uses)

    def _read_diff(self, version: FileVersion) -> VersionDiff | None:
        key = (version.id, version.path)
        if key not in self._diffs:
            self._diffs[key] = read_version_diff(self.repository, version)
        return self._diffs[key]

    def _load_edits(
        self, version: FileVersion, diff: VersionDiff, uses: _Uses
    ) -> list[RecordedEdit]:
        """Return the edits to replay, oldest first: those with lines of the diff, and the last."""
        until_s = version.committer_time + _CLOCK_SLACK_S
        if version.is_uncommitted:
            until_s = int(time.time()) + _CLOCK_SLACK_S
        rows = self.source.find_rows([version.path, version.previous_path], until_s * _US)
        rows = [row for row in rows if not self._is_used_up(row, uses)]
        if len(rows) > MAX_CANDIDATES:
            added = {
                hash_key(line_key(diff.target[index]))
                for hunk in diff.hunks
                for index in range(hunk.new_start, hunk.new_end)
            }
            fitting = [row for row in rows if not added.isdisjoint(row.lines)]
            chosen_ids = {row.id for row in [*rows, *fitting][-MAX_CANDIDATES:]}
            rows = [row for row in rows if row.id in chosen_ids]
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
            selected[index] = CommitMatch(match, edit)
        for index, item in selected.items():
            if item.edit is not None and item.match.kind in ("exact", "reformatted"):
                is_late = uses.passed_by[item.edit.row.id] > 0
                is_weak = is_late and evidence[item.edit.row.id] < MIN_RUN_INFORMATION
                if is_weak or item.edit.row.is_failed is None:
                    selected[index] = CommitMatch(item.match.as_ambiguous(), item.edit)
        return selected


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
