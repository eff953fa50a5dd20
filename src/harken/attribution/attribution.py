"""`Attribution`: questions about the lines of one repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harken.attribution.changes import list_added_ranges, match_diff, resolve_commit
from harken.attribution.explanation import EditWriter, Explainer
from harken.attribution.git.blame import decode_content
from harken.attribution.git.history import VersionReader
from harken.attribution.git.repository import GitRepository
from harken.attribution.line_blame import FileBlame, Tell, ignore_progress
from harken.attribution.line_origin import LineOrigin
from harken.attribution.matching.commit_matcher import CommitMatcher
from harken.attribution.records.checkouts import Checkouts
from harken.attribution.records.edit_index import EditIndex
from harken.attribution.records.recorded_edits import EditSource
from harken.attribution.source_files import SourceFiles
from harken.attribution.text.line_ranges import join_ranges
from harken.attribution.trivial_lines import widen_ranges
from harken.edits.file_edit import split_lines
from harken.edits.patch_text import FileDiff, parse_unified_diff
from harken.errors import ConfigError
from harken.index.session_index import SessionIndex
from harken.store.base import Store


class Attribution:
    """Attributes lines of a repository to recorded edits."""

    def __init__(
        self,
        repository: GitRepository,
        index: EditIndex,
        facts: SessionIndex,
        store: Store,
        *,
        tell: Tell = ignore_progress,
    ) -> None:
        """`tell`: called often while lines are attributed; it may raise to end that."""
        self.repository, self.files = repository, SourceFiles(repository)
        self.explainer = Explainer(facts.database, store)
        checkouts = Checkouts(repository, index, self.explainer.find_project)
        self.source = EditSource(index, store, checkouts)
        self._matcher = CommitMatcher(VersionReader(repository), self.source)
        self._blame = FileBlame(repository, self._matcher, tell)

    def origins(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), revision: str = ""
    ) -> list[LineOrigin]:
        """Return the origins of lines of a file, all without `ranges`. Raises ConfigError."""
        if not ranges:
            return self._blame.origins(path, (), revision)
        lines = split_lines(decode_content(self.files.read_file(path, revision)))
        origins = self._blame.origins(path, widen_ranges(ranges, lines), revision)
        return [
            origin
            for origin in origins
            if any(first <= origin.line.number <= last for first, last in ranges)
        ]

    def commit_origins(self, name: str) -> Iterator[tuple[str, list[LineOrigin]]]:
        """Yield the files of a git commit, and the origins of the lines that it added.

        Binary files are left out. Raises ConfigError.
        """
        commit = resolve_commit(self.repository, name)
        for file in list_added_ranges(self.repository, commit):
            try:
                yield file.path, self.origins(file.path, file.ranges, commit)
            except ConfigError:  # The file is a submodule, binary or too large.
                continue

    def diff_origins(self, text: str) -> Iterator[tuple[str, list[LineOrigin]]]:
        """Yield the files of a unified diff, and the origins of the lines that it adds.

        A file that is in the working tree as after the diff is blamed; of any other file only the
        text of the diff is known. Raises ConfigError for a text without a diff.
        """
        files = parse_unified_diff(text)
        if not files:
            raise ConfigError("the input is not a unified diff; try `git diff | harken why -`")
        for file in files:
            if file.new_path:
                yield file.new_path, self._diff_origins(file)

    def _diff_origins(self, file: FileDiff) -> list[LineOrigin]:
        numbers = [hunk.new_start + index for hunk in file.hunks for index in hunk.added]
        if not numbers:
            return []
        try:
            path = self.files.resolve_top_path(file.new_path)
            lines = split_lines(decode_content(self.files.read_file(path)))
        except ConfigError:
            return [*match_diff(self._matcher, file)]
        is_applied = all(
            lines[hunk.new_start - 1 : hunk.new_start - 1 + len(hunk.new_lines)] == hunk.new_lines
            for hunk in file.hunks
        )
        if not is_applied:
            return [*match_diff(self._matcher, file)]
        return self.origins(path, join_ranges(numbers))

    def find_writers(self, origins: Iterable[LineOrigin]) -> dict[int, EditWriter]:
        """Return the agents that made the edits of lines, by the id of the edit's row."""
        edits = {origin.edit.row.id: origin.edit for origin in origins if origin.edit is not None}
        return {id_: self.explainer.find_writer(edit) for id_, edit in edits.items()}
