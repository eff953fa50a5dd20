"""`EditSource`: the recorded edits of the files of one repository, with their texts.

A path in a transcript may be of another machine, another checkout or another working folder. It is
compared with the path of a file in the repository by its last components, and never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from harken.attribution.records.checkouts import Checkouts
from harken.attribution.records.edit_index import EditIndex, EditRow
from harken.context.commit_content import read_artifact
from harken.context.message_reader import read_entry_messages, read_messages_at
from harken.core.commits import ArtifactRef, CommitId, DeltaEntry
from harken.core.messages import Message, text_of
from harken.edits.file_edit import FileEdit, is_absolute
from harken.edits.file_view import parse_viewed_lines
from harken.edits.tools import find_edits
from harken.errors import HarkenError, StoreError
from harken.store.base import Store

_Place: TypeAlias = tuple[CommitId, int]
"""A commit, and the position of a message in its delta."""


class RecordedEdit(msgspec.Struct, frozen=True):
    """An edit with its text."""

    row: EditRow
    call_id: str
    """The id of the tool call, as the runtime or the provider gave it."""
    edit: FileEdit
    viewed_lines: tuple[str, ...]
    """The lines of the file that the agent had read before it wrote all of it."""
    is_doubtful: bool = False
    """Whether the edit may have failed, or changed a file of another project."""


class EditSource(msgspec.Struct):
    """Finds edits of files of a repository."""

    index: EditIndex
    store: Store
    checkouts: Checkouts

    def find_rows(self, paths: Iterable[str], until_us: int) -> list[EditRow]:
        """Return the edits of files up to a time, oldest first. Paths are below the top folder."""
        ids = self._find_path_ids(paths)
        for _ in range(_MAX_MOVES):  # The file may have been moved several times.
            earlier = {path_id for path_id, _ in self.index.moves_to(ids)} - ids
            if not earlier:
                break
            ids |= earlier
        rows = self.index.edits_of(sorted(ids), until_us)
        return [row for row in rows if not self.checkouts.is_foreign(row)]

    def find_rows_with(self, lines: Iterable[int], until_us: int, limit: int) -> list[EditRow]:
        """Return the edits with one of some lines in any file, as `EditIndex.edits_with`."""
        rows = self.index.edits_with(lines, until_us, limit)
        return [row for row in rows if not self.checkouts.is_foreign(row)]

    def find_rows_of(self, path: str, until_us: int) -> list[EditRow]:
        """Return the edits of exactly one path, as `EditIndex.edits_of_path`."""
        rows = self.index.edits_of_path(path, until_us)
        return [row for row in rows if not self.checkouts.is_foreign(row)]

    @property
    def top(self) -> Path:
        """The top folder of the repository."""
        return self.checkouts.repository.top

    def _find_path_ids(self, paths: Iterable[str]) -> set[int]:
        return {
            id_
            for path in dict.fromkeys(paths)
            for id_, edit_path in self.index.find_paths(path.rpartition("/")[2])
            if self.is_same_file(edit_path, path)
        }

    def is_same_file(self, edit_path: str, path: str) -> bool:
        """Whether the path of an edit means a file of the repository.

        An absolute path below the top folder must be the same. Another path must end with the same
        components, and not mean a file in a deeper folder.
        """
        if edit_path.startswith(f"{self.top}/"):
            return edit_path == f"{self.top}/{path}"
        if edit_path == path:
            return True
        if edit_path.endswith(f"/{path}"):
            return not self._has_deeper_file(edit_path, path)
        is_below = not is_absolute(edit_path) and path.endswith(f"/{edit_path}")
        return is_below and not self.checkouts.repository.was_tracked(edit_path)

    def _has_deeper_file(self, edit_path: str, path: str) -> bool:
        """Whether a longer part of the path of an edit is a file of git."""
        parts = edit_path.strip("/").split("/")
        size = path.count("/") + 1
        return any(
            self.checkouts.repository.is_tracked("/".join(parts[-longer:]))
            for longer in range(size + 1, min(len(parts), size + _MAX_DEEPER) + 1)
        )

    def load(self, rows: Sequence[EditRow]) -> list[RecordedEdit]:
        """Return edits with their texts, without those that the store does not have any more."""
        places = {(row.commit, row.position) for row in rows}
        places |= {
            (row.seen_commit, row.seen_position)
            for row in rows
            if row.seen_commit is not None and row.seen_position is not None
        }
        messages = self._read_messages(places)
        edits: list[RecordedEdit] = []
        for row in rows:
            message = messages.get((row.commit, row.position))
            calls = [] if message is None else message.tool_calls or []
            if row.call >= len(calls):
                continue
            call, function = calls[row.call], calls[row.call].function
            files = find_edits(function.name, function.arguments)
            if row.file < len(files):
                viewed_lines = _viewed_lines(row, messages)
                is_doubtful = row.is_failed is None or self.checkouts.is_doubtful(row)
                edits.append(RecordedEdit(row, call.id, files[row.file], viewed_lines, is_doubtful))
        return edits

    def _read_messages(self, places: set[tuple[CommitId, int]]) -> dict[_Place, Message]:
        try:
            commits = self.store.commits({ctx for ctx, _ in places})
            artifacts = {ctx: stored.commit.artifact for ctx, stored in commits.items()}
            indexes: dict[ArtifactRef, set[int]] = {}
            for ctx, position in places:
                if ctx in artifacts:
                    indexes.setdefault(artifacts[ctx], set()).add(position)
            direct = read_messages_at(self.store, indexes)
            deltas = self.store.deltas(indexes.keys() - direct.keys())
        except StoreError:
            return {}
        messages: dict[_Place, Message] = {}
        entries: dict[_Place, DeltaEntry] = {}
        for ctx, position in places:
            if ctx not in commits:
                continue
            commit = commits[ctx].commit
            if commit.artifact in direct:
                if position in direct[commit.artifact]:
                    messages[ctx, position] = direct[commit.artifact][position]
                continue
            if commit.artifact in deltas:
                if position < len(deltas[commit.artifact]):
                    entries[ctx, position] = deltas[commit.artifact][position]
                continue
            try:
                parsed = read_artifact(self.store, commit.artifact, commit.format)
            except HarkenError:
                continue
            if position < len(parsed):
                messages[ctx, position] = parsed[position].message
        return messages | self._read_entries(entries)

    def _read_entries(self, entries: dict[_Place, DeltaEntry]) -> dict[_Place, Message]:
        try:
            messages = read_entry_messages(self.store, [*entries.values()])
            return dict(zip(entries, messages, strict=True))
        except StoreError:
            if len(entries) <= 1:
                return {}
        items = [*entries.items()]
        half = len(items) // 2
        return self._read_entries(dict(items[:half])) | self._read_entries(dict(items[half:]))


_MAX_MOVES, _MAX_DEEPER = 10, 8


def _viewed_lines(row: EditRow, messages: dict[_Place, Message]) -> tuple[str, ...]:
    if row.seen_commit is None or row.seen_position is None:
        return ()
    message = messages.get((row.seen_commit, row.seen_position))
    if message is None or message.role != "tool" or message.is_error:
        return ()
    return parse_viewed_lines(text_of(message.content))
