"""The origins of the lines that a commit or a diff adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harken.attribution.git.blame import UNCOMMITTED, BlameCommit, BlamedLine, decode
from harken.attribution.git.history import FileVersion, Hunk, VersionDiff, parse_file_hunks
from harken.attribution.git.repository import GitRepository
from harken.attribution.line_origin import LineOrigin
from harken.attribution.matching.commit_matcher import CommitMatcher
from harken.edits.patch_text import FileDiff
from harken.errors import ConfigError


class AddedRanges(msgspec.Struct, frozen=True):
    """The ranges of lines that a commit adds to a file, from 1."""

    path: str
    ranges: Sequence[tuple[int, int]]


def resolve_commit(repository: GitRepository, name: str) -> str:
    """Return the id of a git commit. Raises ConfigError if there is none."""
    commit = find_commit(repository, name)
    if commit is None:
        raise ConfigError(
            f"{name}: no file and no commit; name a line (FILE:LINE), a git commit, or - for a diff"
        )
    return commit


def find_commit(repository: GitRepository, name: str) -> str | None:
    """Return the id of a git commit, or None."""
    output = repository.try_run(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
    )
    return None if output is None else output.decode("ascii").strip()


def list_added_ranges(repository: GitRepository, commit: str) -> list[AddedRanges]:
    """Return the lines that a commit adds to each file, compared with its first parent."""
    parents = repository.run("rev-list", "-1", "--parents", commit).split()[1:]
    ends = [parents[0].decode("ascii"), commit] if parents else ["--root", commit]
    output = repository.run("diff-tree", "-M", *ends)
    return [
        AddedRanges(path, [(h.new_start + 1, h.new_end) for h in hunks if h.new_end > h.new_start])
        for path, hunks in parse_file_hunks(decode(output))
        if any(hunk.new_end > hunk.new_start for hunk in hunks)
    ]


def match_diff(matcher: CommitMatcher, file: FileDiff) -> Iterator[LineOrigin]:
    """Yield the origins of the lines that a diff adds to a file which is not in the repository.

    Only the text of the diff is known, so it is compared with all edits of the file.
    """
    base = [line for hunk in file.hunks for line in hunk.old_lines]
    target = [line for hunk in file.hunks for line in hunk.new_lines]
    hunks: list[Hunk] = []
    numbers: dict[int, int] = {}
    old_start = new_start = 0
    for hunk in file.hunks:
        for number in range(len(hunk.new_lines)):
            numbers[new_start + number] = hunk.new_start + number
        old_end, new_end = old_start + len(hunk.old_lines), new_start + len(hunk.new_lines)
        hunks.append(Hunk(old_start, old_end, new_start, new_end))
        old_start, new_start = old_end, new_end
    version = FileVersion(UNCOMMITTED, file.new_path, "", 0, 0, is_uncommitted=True)
    diff = VersionDiff(base if file.old_path else None, target, hunks)
    matches = matcher.match_diff(version, diff)
    commit = BlameCommit(UNCOMMITTED, file.new_path, "", "", "", 0, 0, "")
    new_start = 0
    for hunk in file.hunks:
        for index in hunk.added:
            position = new_start + index
            line = BlamedLine(numbers[position], position + 1, target[position], commit)
            match = matches.get(position)
            if match is None or match.edit is None:
                yield LineOrigin(line, commit)
            else:
                kind = match.match.kind
                confidence = "uncertain" if kind == "ambiguous" else kind
                yield LineOrigin(line, commit, match.edit, confidence, match.match.ratio)
        new_start += len(hunk.new_lines)
