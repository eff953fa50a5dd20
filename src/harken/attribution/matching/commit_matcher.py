"""`CommitMatcher`: which edits wrote the lines that a commit added to a file.

The edits of the file up to the commit are replayed on its parent, and the added lines are matched
with the result. An edit is used once: an equal line that appears in a later commit was written
again by its author. So the commits between a matching edit and the commit are matched as well, to
see whether one of them contains the edit already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from harken.attribution.git.history import (
    FileVersion,
    RemovedLine,
    VersionDiff,
    VersionReader,
    lines_removed_by,
    list_earlier_versions,
)
from harken.attribution.git.repository import HEAD
from harken.attribution.matching.edit_selector import (
    CLOCK_SLACK_S,
    US,
    Candidate,
    EditSelector,
    sort_candidates,
)
from harken.attribution.matching.matcher import (
    MIN_RUN_INFORMATION,
    LineMatch,
    Matcher,
    MatchKind,
)
from harken.attribution.matching.rivals import Rivals
from harken.attribution.matching.virtual_file import EarlierLine, EditLine, VirtualFile
from harken.attribution.records.edit_index import EditRow
from harken.attribution.records.recorded_edits import EditSource, RecordedEdit
from harken.attribution.text.line_text import information, is_informative, line_key
from harken.attribution.text.moves import MIN_MOVED_LINES, find_moves
from harken.core import structs
from harken.edits.file_edit import added_lines, split_added

_MAX_ROUNDS = 8
"""How often edits that an earlier commit contains are left out, and the others matched again."""


class CommitMatch(msgspec.Struct, frozen=True):
    """The match of an added line, and its edit if the origin is one."""

    match: LineMatch
    edit: RecordedEdit | None
    above: str = ""
    """For a line with little information: the key of the next informative line above."""
    below: str = ""


class _Uses(msgspec.Struct):
    """The lines of edits that earlier commits contain."""

    keys: dict[int, Counter[str]] = msgspec.field(default_factory=dict)
    """By the id of an edit: the keys of its lines."""
    passed_by: Counter[int] = msgspec.field(default_factory=Counter)
    """The number of later commits of the file that do not contain an edit."""
    versions: dict[tuple[str, str], FileVersion] = msgspec.field(default_factory=dict)
    """The earlier commits that were matched."""
    checked_ids: set[int] = msgspec.field(default_factory=set)
    """The edits for which earlier commits were matched."""

    def is_used_up(self, edit: RecordedEdit) -> bool:
        """Whether earlier commits contain all lines of an edit."""
        used_keys = self.keys.get(edit.row.id)
        if used_keys is None:
            return False
        keys = Counter(key for key in map(line_key, added_lines(edit.edit)) if key)
        return bool(keys) and not keys - used_keys

    def has_line(self, edit: RecordedEdit, match: LineMatch) -> bool:
        """Whether earlier commits contain the line of an edit, as often as it added it.

        The key of a line that was changed in part is not among those of the edit.
        """
        used_keys = self.keys.get(edit.row.id)
        if used_keys is None:
            return False
        keys = Counter(map(line_key, added_lines(edit.edit)))
        return used_keys[match.source_key] >= max(keys[match.source_key], 1)

    def has_equal_line(self, item: CommitMatch) -> bool:
        """Whether an earlier commit contains an equal line of another edit.

        The commit may have restored it: two edits may write a line, if it was removed meanwhile.
        """
        return item.edit is not None and any(
            id_ != item.edit.row.id and keys[item.match.source_key] > 0
            for id_, keys in self.keys.items()
        )


class CommitMatcher:
    """Matches the added lines of commits of a repository with recorded edits."""

    def __init__(self, reader: VersionReader, source: EditSource) -> None:
        self.on_version: Callable[[], None] = lambda: None
        """Called for each version that is matched, the earlier ones that it needs included."""
        self._reader = reader
        self._selector = EditSelector(source, reader)
        self._complete: dict[tuple[str, str], dict[int, CommitMatch]] = {}
        """Matches of versions for which all lines were asked."""

    def find_created(self, path: str) -> list[RecordedEdit]:
        """Return the edits that created a file: they wrote all of it, and had not read it."""
        return self._selector.find_created(path)

    def read_target(self, version: FileVersion) -> Sequence[str]:
        """Return the lines of a version, or none if it cannot be read."""
        diff = self._reader.read(version)
        return () if diff is None else diff.target

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
            rows = {
                match.edit.row.id: match.edit.row
                for index, match in matches.items()
                if match.edit is not None and (asked_lines is None or index in asked_lines)
            }
            unchecked = [row for id_, row in rows.items() if id_ not in uses.checked_ids]
            if not unchecked:
                break
            self._check_uses(version, unchecked, uses, is_complete=asked_lines is None)
        self._match_restored(version, matches, uses)
        if asked_lines is None:
            self._complete[key] = matches
        return matches

    def match_diff(self, version: FileVersion, diff: VersionDiff) -> Mapping[int, CommitMatch]:
        """Return the matches of the lines of a diff, whatever git has of the file."""
        uses = _Uses()
        candidates, _ = self._selector.select(version, uses.is_used_up)
        candidates = [structs.replace(candidate, placement="check") for candidate in candidates]
        matches = self._match(version, diff, candidates, set())
        edits = [candidate.edit for candidate in candidates]
        rivals = Rivals.of_edits(edits, self._selector.source.checkouts, version)
        return _select(matches, edits, diff, uses, rivals)

    def _check_uses(
        self, version: FileVersion, rows: Sequence[EditRow], uses: _Uses, *, is_complete: bool
    ) -> None:
        """Find the lines of edits that earlier versions contain."""
        ids = {row.id: row for row in rows}
        uses.checked_ids |= ids.keys()
        since_s = min(row.time_us for row in rows) // US - CLOCK_SLACK_S
        for earlier in list_earlier_versions(self._reader.repository, version, since_s):
            uses.versions[earlier.id, earlier.path] = earlier
            matches: Mapping[int, CommitMatch]
            matches = self.match(earlier) if is_complete else self._replay(earlier, uses, set())
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
            elif row.time_us <= version.author_time * US:
                uses.passed_by[id_] += 1

    def _match_restored(
        self, version: FileVersion, matches: dict[int, CommitMatch], uses: _Uses
    ) -> None:
        """Match runs of lines that an earlier commit removed and this one restored.

        A single line may have been typed again, and lines that are still in the file were copied.
        Lines that are in another file may have been copied from there.
        """
        diff = self._reader.read(version)
        if diff is None or not uses.keys:
            return
        earlier = [
            (v, d) for v in uses.versions.values() if (d := self._reader.read(v)) is not None
        ]
        removed = lines_removed_by(earlier)
        added = {
            index: diff.target[index]
            for hunk in diff.hunks
            for index in range(hunk.new_start, hunk.new_end)
            if (match := matches.get(index)) is None or not match.match.is_certain
        }
        present = {*map(line_key, diff.base or ())}

        def is_missing(line: RemovedLine) -> bool:
            return is_informative(line.text) and line_key(line.text) not in present

        for run in find_moves(added, [(line.number, line.text) for line in removed]):
            lines = removed[run.source : run.source + run.size]
            if sum(is_missing(line) for line in lines) >= MIN_MOVED_LINES:
                is_elsewhere = self._is_elsewhere(version, lines)
                for offset, line in enumerate(lines):
                    origin = EarlierLine(line.source, line.index)
                    kind: MatchKind = "ambiguous" if is_elsewhere else "exact"
                    restored = LineMatch(origin, kind, line_key(line.text), 0)
                    matches[run.target + offset] = CommitMatch(restored, None)

    def _is_elsewhere(self, version: FileVersion, lines: Sequence[RemovedLine]) -> bool:
        """Whether half of some lines are in the parent of a version, in any file."""
        parent = HEAD if version.is_uncommitted else f"{version.id}^"
        keys = {line_key(line.text) for line in lines if is_informative(line.text)}
        texts = [line.text for line in lines if is_informative(line.text)]
        hits = {*map(line_key, self._reader.repository.find_lines(texts, parent))}
        return 2 * len(keys & hits) >= len(keys)

    def _replay(
        self, version: FileVersion, uses: _Uses, asked_lines: set[int] | None
    ) -> dict[int, CommitMatch]:
        """Replay the edits on the parent, and match the added lines of a version."""
        self.on_version()
        diff = self._reader.read(version)
        if diff is None:
            return {}
        candidates, older = self._selector.select(version, uses.is_used_up)
        matches = self._match(version, diff, candidates, asked_lines)
        open_lines = _open_lines(diff, matches)
        if older and open_lines:
            candidates = self._selector.add_older(candidates, older, [*open_lines.values()])
            matches = self._match(version, diff, candidates, asked_lines)
            open_lines = _open_lines(diff, matches)
        if asked_lines is None or not asked_lines.isdisjoint(open_lines):
            moved = self._selector.find_moved(version, [*open_lines.values()])
            if moved:
                candidates = sort_candidates([*candidates, *moved])
                matches = self._match(version, diff, candidates, asked_lines)
        edits = [candidate.edit for candidate in candidates]
        rivals = Rivals.of_edits(edits, self._selector.source.checkouts, version)
        return _select(matches, edits, diff, uses, rivals)

    def _match(
        self,
        version: FileVersion,
        diff: VersionDiff,
        candidates: Sequence[Candidate],
        asked_lines: set[int] | None,
    ) -> dict[int, LineMatch]:
        file = VirtualFile.from_base(diff.base)
        for number, candidate in enumerate(candidates):
            for change in candidate.edit.edit.changes:
                file.apply(number, change, candidate.placement, candidate.edit.viewed_lines)

        def list_removed(indexes: Sequence[int]) -> Sequence[RemovedLine]:
            if asked_lines is not None and asked_lines.isdisjoint(indexes):
                return ()
            return self._reader.list_removed_lines(version)

        return Matcher(file, diff.target, diff.hunks, list_removed).run()


def _open_lines(diff: VersionDiff, matches: Mapping[int, LineMatch]) -> dict[int, str]:
    """Return the informative added lines that are not matched for certain."""
    return {
        index: diff.target[index]
        for hunk in diff.hunks
        for index in range(hunk.new_start, hunk.new_end)
        if is_informative(diff.target[index])
        if (match := matches.get(index)) is None or not match.is_certain
    }


def _select(
    matches: Mapping[int, LineMatch],
    edits: Sequence[RecordedEdit],
    diff: VersionDiff,
    uses: _Uses,
    rivals: Rivals,
) -> dict[int, CommitMatch]:
    """Return the matches with their edits, without lines that earlier commits contain."""
    selected: dict[int, CommitMatch] = {}
    evidence: Counter[int] = Counter()
    for index, match in matches.items():
        edit = edits[match.origin.edit] if isinstance(match.origin, EditLine) else None
        neighbors = ("", "")
        if edit is not None:
            if uses.has_line(edit, match):
                continue
            evidence[edit.row.id] += information(diff.target[index])
            neighbors = _neighbor_keys(diff.target, index)
        selected[index] = CommitMatch(match, edit, *neighbors)
    for index, item in selected.items():
        if item.edit is not None and item.match.is_certain:
            is_late = uses.passed_by[item.edit.row.id] > 0
            is_weak = is_late and evidence[item.edit.row.id] < MIN_RUN_INFORMATION
            is_doubtful = (
                item.edit.is_doubtful
                or uses.has_equal_line(item)
                or rivals.have_line(item.edit, item.match.source_key)
            )
            if is_weak or is_doubtful or _repeats_neighbor(item.edit, item.match.source_key):
                selected[index] = structs.replace(item, match=item.match.as_ambiguous())
    return selected


def _repeats_neighbor(edit: RecordedEdit, key: str) -> bool:
    """Whether an edit added a line beside an equal one: if one is removed, either may be left."""
    for change in edit.edit.changes:
        lines, is_added = split_added(change)
        equal = [line_key(line) == key for line in lines]
        for index in range(1, len(lines)):
            if equal[index - 1] and equal[index] and is_added[index - 1] != is_added[index]:
                return True
    return False


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
