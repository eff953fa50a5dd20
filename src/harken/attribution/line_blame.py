"""Blame: the origin of each line of a file, through commits that only changed its layout.

Git says in which commit a line appeared, and `CommitMatcher` which edit wrote it there. A line that
the commit only moved or reformatted is followed into the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from harken.attribution.git.blame import BlameCommit, BlamedLine, blame
from harken.attribution.git.history import FileVersion
from harken.attribution.git.repository import GitRepository
from harken.attribution.line_origin import Confidence, LineOrigin
from harken.attribution.matching.commit_matcher import CommitMatch, CommitMatcher
from harken.attribution.matching.virtual_file import BaseLine, EarlierLine
from harken.attribution.text.line_ranges import join_ranges
from harken.attribution.text.line_text import hash_key, line_key
from harken.attribution.trivial_lines import doubt_duplicates, settle_trivial_lines
from harken.core import structs

_MAX_PASSES = 100
"""The number of commits through which a line is followed."""


Tell: TypeAlias = Callable[[int, int], None]
"""Receives the number of matched commits, and of all."""


def ignore_progress(_done: int, _total: int) -> None:
    """Do nothing."""


class _Pending(msgspec.Struct):
    """A line that is followed, and its state."""

    line: BlamedLine
    current: BlamedLine
    """The line in the commit that is reached."""
    confidence: Confidence = "exact"
    ratio: float = 1.0
    changed_by: BlameCommit | None = None
    """The commit in which the line was changed so that it is another one."""

    def follow(self, match: CommitMatch) -> tuple[str, int] | None:
        """Return the earlier line that it came from, as `REVISION:PATH` and a number.

        Return None if the commit added it.
        """
        origin = match.match.origin
        if not isinstance(origin, BaseLine | EarlierLine):
            return None
        self._note(match)
        source = self.current.commit.previous if isinstance(origin, BaseLine) else origin.source
        return source, origin.index + 1

    def _note(self, match: CommitMatch) -> None:
        self.ratio = min(self.ratio, match.match.ratio)
        kind = match.match.kind
        if kind == "ambiguous" and self.confidence != "similar":
            self.confidence = "uncertain"
        elif kind == "similar":
            if self.confidence != "similar":
                self.changed_by = self.current.commit
            self.confidence = "similar"
        elif kind == "reformatted" and self.confidence == "exact":
            self.confidence = "reformatted"

    def resolve(self, match: CommitMatch | None) -> LineOrigin:
        """Return the origin of the line after its last match."""
        if match is None or match.edit is None:
            # An equal line beside the added one is no origin: the commit added the line.
            blamed = self.line.commit if self.confidence == "uncertain" else self.current.commit
            return LineOrigin(self.line, self.changed_by or blamed)
        self._note(match)
        commit = self.changed_by or self.current.commit
        return LineOrigin(
            self.line, commit, match.edit, self.confidence, self.ratio, match.above, match.below
        )


class FileBlame(msgspec.Struct):
    """Computes the origins of the lines of files of a repository."""

    repository: GitRepository
    matcher: CommitMatcher
    tell: Tell = ignore_progress

    def origins(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), revision: str = ""
    ) -> list[LineOrigin]:
        """Return the origins of lines of a file. `ranges`: first and last lines, from 1.

        The origin of a trivial line at the end of a range lacks that of its neighbor, so ranges
        should be widened by `widen_ranges`. Raises ConfigError.
        """
        origins = self._blame_origins(path, ranges, revision)
        return doubt_duplicates(settle_trivial_lines(self._doubt_renames(path, origins)))

    def _doubt_renames(self, path: str, origins: Sequence[LineOrigin]) -> list[LineOrigin]:
        """Return origins, uncertain where an edit created a file that git takes for a renamed one.

        Git calls a new file renamed if it is similar to one that the same commit deleted.
        """
        if all(origin.line.commit.path == path for origin in origins):
            return list(origins)
        created = self.matcher.find_created(path)
        doubted: list[LineOrigin] = []
        for origin in origins:
            key, commit = hash_key(line_key(origin.line.text)), origin.line.commit
            edits = [] if commit.path == path else [e for e in created if key in e.row.lines]
            edits = [e for e in edits if e.row.time_us > commit.committer_time * 1_000_000]
            is_same = (
                bool(edits) and origin.edit is not None and origin.edit.row.id == edits[-1].row.id
            )
            if edits and not is_same:
                origin = structs.replace(origin, edit=edits[-1], confidence="uncertain")
            doubted.append(origin)
        return doubted

    def _blame_origins(
        self, path: str, ranges: Sequence[tuple[int, int]], revision: str
    ) -> list[LineOrigin]:
        lines = blame(self.repository, path, revision, ranges)
        origins: dict[int, LineOrigin] = {}
        pending = [_Pending(line, line) for line in lines]
        for _ in range(_MAX_PASSES):
            if not pending:
                break
            pending = self._resolve(pending, origins, is_complete=not ranges)
        for item in pending:
            origins[item.line.number] = item.resolve(None)
        return [origins[line.number] for line in lines]

    def _resolve(
        self, pending: Sequence[_Pending], origins: dict[int, LineOrigin], *, is_complete: bool
    ) -> list[_Pending]:
        """Set the origins of lines. Return the lines that come from a parent, at their place."""
        groups: dict[tuple[str, str], list[_Pending]] = {}
        for item in pending:
            commit = item.current.commit
            groups.setdefault((commit.id, commit.path), []).append(item)
        followed: dict[str, list[tuple[_Pending, int]]] = {}
        for done, items in enumerate(groups.values()):
            self.matcher.on_version = partial(self.tell, done, len(groups))
            version = FileVersion.from_blame(items[0].current.commit)
            asked_lines = None if is_complete else {item.current.original - 1 for item in items}
            matches = self.matcher.match(version, asked_lines)
            target = self.matcher.read_target(version)
            for item in items:
                index = item.current.original - 1
                # Blame and diff may disagree where git converts a file: then no edit is named.
                is_same = target[index : index + 1] == [item.current.text]
                match = matches.get(index) if is_same else None
                place = None if match is None else item.follow(match)
                if place is not None:
                    followed.setdefault(place[0], []).append((item, place[1]))
                else:
                    origins[item.line.number] = item.resolve(match)
        return [
            item
            for previous, places in followed.items()
            for item in self._blame_parent(previous, places)
        ]

    def _blame_parent(
        self, previous: str, places: Sequence[tuple[_Pending, int]]
    ) -> list[_Pending]:
        """Blame lines of a parent, and move the pending lines there."""
        revision, _, path = previous.partition(":")
        numbers = sorted({number for _, number in places})
        lines = blame(self.repository, path, revision, join_ranges(numbers))
        by_number = {line.number: line for line in lines}
        for item, number in places:
            item.current = by_number[number]
        return [item for item, _ in places]
