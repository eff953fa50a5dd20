"""`Rivals`: edits of one file that agents made in different checkouts of a repository.

Two agents may have written the same line, each in a checkout of its own. Git does not say from
which of them a commit has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.attribution.git.history import FileVersion
from harken.attribution.records.checkouts import Checkouts
from harken.attribution.records.recorded_edits import RecordedEdit
from harken.attribution.text.line_text import hash_key, line_key


class Rivals(msgspec.Struct, frozen=True):
    """Edits of a file and the checkouts in which they were made."""

    roots: dict[int, str]
    """The top folders of the checkouts that are known, by the ids of edits."""
    edits: Sequence[RecordedEdit]
    """The edits of known checkouts. None if there is one checkout only."""

    @classmethod
    def of_edits(
        cls, edits: Sequence[RecordedEdit], checkouts: Checkouts, version: FileVersion
    ) -> Rivals:
        """Return the rivals among the edits of a version of a file."""
        roots = {
            edit.row.id: root
            for edit in edits
            if (root := checkouts.find_root(edit.row, version.path, version.previous_path))
        }
        has_several = len({*roots.values()}) > 1
        return cls(roots, [e for e in edits if e.row.id in roots] if has_several else [])

    def have_line(self, edit: RecordedEdit, key: str) -> bool:
        """Whether an agent in another checkout wrote a line without having read it."""
        root = self.roots.get(edit.row.id)
        if root is None or not self.edits:
            return False
        line = hash_key(key)
        return any(
            line in other.row.lines
            and self.roots[other.row.id] != root
            and other.row.session != edit.row.session
            and key not in map(line_key, other.viewed_lines)
            for other in self.edits
        )
