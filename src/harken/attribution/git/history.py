"""The versions of a file, and the hunks of each commit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harken.attribution.git.blame import BlameCommit, decode, decode_content
from harken.attribution.git.repository import HEAD, MAX_FILE_BYTES, GitRepository
from harken.attribution.text.token_alignment import match_tokens
from harken.edits.file_edit import split_lines
from harken.edits.patch_text import DiffHunk, parse_unified_diff, unquote_path

_HUNK_PATTERN = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_LOG_FORMAT = "%x01%H %at %ct%x02%P"


class Hunk(msgspec.Struct, frozen=True):
    """A hunk of a diff without context: ranges of old and of new lines, from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class FileVersion(msgspec.Struct, frozen=True):
    """A file in a commit, or in the working tree, and its version in the parent."""

    id: str
    path: str
    previous: str
    """`REVISION:PATH`, or empty if the parent has no such file."""
    author_time: int
    committer_time: int
    """Seconds since 1970."""
    is_uncommitted: bool = False
    is_deleted: bool = False
    """Whether the commit deleted the file."""

    @classmethod
    def from_blame(cls, commit: BlameCommit) -> FileVersion:
        """Return the version of a blamed commit."""
        return cls(
            commit.id,
            commit.path,
            commit.previous,
            commit.author_time,
            commit.committer_time,
            commit.is_uncommitted,
        )

    @property
    def previous_path(self) -> str:
        """The path in the parent, or the same one."""
        return self.previous.partition(":")[2] or self.path


class VersionDiff(msgspec.Struct, frozen=True):
    """The lines of a file in a commit and in its parent, and the hunks between them."""

    base: list[str] | None
    """None if the parent has no such file."""
    target: list[str]
    hunks: Sequence[Hunk]

    @property
    def added_lines(self) -> list[str]:
        """The lines that the commit added."""
        return [line for h in self.hunks for line in self.target[h.new_start : h.new_end]]


class RemovedLine(msgspec.Struct, frozen=True):
    """A line that a commit removed from a file."""

    source: str
    """The file in the parent: `REVISION:PATH`."""
    index: int
    text: str
    number: int
    """Consecutive for neighboring lines of one file."""


class PreviousTimes(msgspec.Struct, frozen=True):
    """The times of the commit that last changed a file. 0 if there is none.

    A rebase keeps the time of the author, and so does a change of the last commit.
    """

    author_us: int = 0
    committer_us: int = 0


_MAX_LINES = 1 << 24
_MAX_DIFF_BYTES = 8 * 1024 * 1024


class VersionReader:
    """Reads the versions of files, each once."""

    def __init__(self, repository: GitRepository) -> None:
        self.repository = repository
        self._diffs: dict[tuple[str, str], VersionDiff | None] = {}
        self._removed: dict[tuple[str, str], Sequence[RemovedLine]] = {}
        self._times: dict[str, PreviousTimes] = {}

    def read(self, version: FileVersion) -> VersionDiff | None:
        """Return the changes of a version, or None if it cannot be read."""
        key = (version.id, version.path)
        if key not in self._diffs:
            self._diffs[key] = self._read_diff(version)
        return self._diffs[key]

    def _read_diff(self, version: FileVersion) -> VersionDiff | None:
        base_data = self._read(version.previous) if version.previous else None
        data = self._read_content(version, version.path)
        if version.is_deleted and base_data is not None:
            base = split_lines(decode_content(base_data))
            return VersionDiff(base, [], [Hunk(0, len(base), 0, 0)])
        if data is None or (version.previous and base_data is None):
            return None
        target = split_lines(decode_content(data))
        if base_data is None:
            return VersionDiff(None, target, [Hunk(0, 0, 0, len(target))])
        names = (
            [version.previous.partition(":")[0], "--", version.path]
            if version.is_uncommitted
            else [version.previous, f"{version.id}:{version.path}"]
        )
        hunks = parse_hunks(self.repository.run("diff", "--no-renames", *names))
        return VersionDiff(split_lines(decode_content(base_data)), target, hunks)

    def read_lines(self, version: FileVersion, path: str) -> list[str] | None:
        """Return the lines of any file in the commit of a version, or None if it has no such."""
        data = self._read_content(version, path)
        return None if data is None else split_lines(decode_content(data))

    def _read_content(self, version: FileVersion, path: str) -> bytes | None:
        if version.is_uncommitted:
            return _read_working_file(self.repository.top / path)
        return self._read(f"{version.id}:{path}")

    def _read(self, name: str) -> bytes | None:
        return self.repository.read_blobs([name]).get(name)

    def list_removed_lines(self, version: FileVersion) -> Sequence[RemovedLine]:
        """Return the lines that the commit of a version removed from other files, in order.

        A large commit has none: it is the first import of a project, or generated.
        """
        key = (version.id, version.path)
        if key not in self._removed:
            self._removed[key] = self._list_removed(version)
        return self._removed[key]

    def _list_removed(self, version: FileVersion) -> list[RemovedLine]:
        command, revision = ("diff", HEAD) if version.is_uncommitted else ("diff-tree", version.id)
        output = self.repository.try_run(command, "-M", revision)
        if output is None or len(output) > _MAX_DIFF_BYTES:
            return []
        parent = HEAD if version.is_uncommitted else f"{version.id}^"
        return [
            RemovedLine(
                f"{parent}:{file.old_path}",
                hunk.old_start - 1 + index,
                hunk.old_lines[index],
                number * _MAX_LINES + hunk.old_start + index,
            )
            for number, file in enumerate(parse_unified_diff(decode(output)))
            if file.old_path and file.new_path != version.path
            for hunk in file.hunks
            for index in _find_removed(hunk)
        ]

    def find_previous_times(self, version: FileVersion) -> PreviousTimes:
        """Return the times of the commit that last changed the file before a version."""
        revision, _, path = version.previous.partition(":")
        if not path:
            return PreviousTimes()
        if version.previous not in self._times:
            output = self.repository.try_run("log", "-1", "--format=%at %ct", revision, "--", path)
            times = [int(word) * 1_000_000 for word in (output or b"").split()]
            self._times[version.previous] = PreviousTimes(*times)
        return self._times[version.previous]


def _find_removed(hunk: DiffHunk) -> list[int]:
    """Return the indexes of the old lines of a hunk that were removed, and not changed."""
    removed = [hunk.old_lines[index] for index in hunk.removed]
    added = [hunk.new_lines[index] for index in hunk.added]
    changed = {match.old for match in match_tokens(removed, added).values()}
    return [index for number, index in enumerate(hunk.removed) if number not in changed]


def lines_removed_by(versions: Sequence[tuple[FileVersion, VersionDiff]]) -> list[RemovedLine]:
    """Return the lines that versions of a file removed from it."""
    return [
        RemovedLine(version.previous, index, diff.base[index], number * _MAX_LINES + index)
        for number, (version, diff) in enumerate(versions)
        if diff.base is not None
        for hunk in diff.hunks
        for index in range(hunk.old_start, hunk.old_end)
    ]


def _read_working_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else None
    except OSError:
        return None


def parse_file_hunks(diff: str) -> list[tuple[str, list[Hunk]]]:
    """Return the new path and the hunks of each file of a diff without context."""
    return [
        (
            file.new_path,
            [
                Hunk(
                    hunk.old_start - bool(hunk.old_lines),
                    hunk.old_start - bool(hunk.old_lines) + len(hunk.old_lines),
                    hunk.new_start - bool(hunk.new_lines),
                    hunk.new_start - bool(hunk.new_lines) + len(hunk.new_lines),
                )
                for hunk in file.hunks
            ],
        )
        for file in parse_unified_diff(diff)
        if file.new_path
    ]


def parse_hunks(diff: bytes) -> list[Hunk]:
    """Return the hunks of a diff of one file without context."""
    hunks: list[Hunk] = []
    for match in _HUNK_PATTERN.finditer(diff):
        old, old_size, new, new_size = (int(group) if group else 1 for group in match.groups())
        old_start, new_start = old - bool(old_size), new - bool(new_size)
        hunks.append(Hunk(old_start, old_start + old_size, new_start, new_start + new_size))
    return hunks


def list_earlier_versions(
    repository: GitRepository, version: FileVersion, since_s: int
) -> list[FileVersion]:
    """Return the versions of a file in ancestors of a commit, made since a time, oldest first."""
    start = HEAD if version.is_uncommitted else version.id
    path = version.previous_path if version.is_uncommitted else version.path
    output = repository.try_run(
        "log",
        "--follow",
        "-M",
        "--name-status",
        f"--since=@{max(since_s, 0)}",
        f"--format={_LOG_FORMAT}",
        start,
        "--",
        path,
    )
    versions = _parse_log(decode(output or b""))
    return [earlier for earlier in reversed(versions) if earlier.id != version.id]


def _parse_log(output: str) -> list[FileVersion]:
    versions: list[FileVersion] = []
    for record in output.split("\x01")[1:]:
        header, *lines = record.split("\n")
        ids, _, parents = header.partition("\x02")
        id_, author_time, committer_time = ids.split(" ")
        statuses = [line.split("\t") for line in lines if "\t" in line]
        if not statuses:  # A merge that changes nothing itself.
            continue
        status, *paths = statuses[0]
        paths = [unquote_path(path) if path.startswith('"') else path for path in paths]
        parent = parents.split(" ")[0]
        has_previous = bool(parent) and not status.startswith("A")
        versions.append(
            FileVersion(
                id_,
                paths[-1],
                f"{parent}:{paths[0]}" if has_previous else "",
                int(author_time),
                int(committer_time),
                is_deleted=status.startswith("D"),
            )
        )
    return versions
