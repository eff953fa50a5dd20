"""The lines of conversations: the items of commits, one line of JSON for each.

Commits in other formats are rendered, so that a session may begin with any commit of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from harken.context.commit_content import entries_or_note, read_contents
from harken.formats.frameworks.item_lines import decode_item, split_lines
from harken.formats.registry import FORMATS
from harken.store.base import Store, StoredCommit

_logger = logging.getLogger("harken")


def read_commit_lines(
    store: Store, commits: Sequence[StoredCommit], format_: str
) -> list[list[bytes]]:
    """Return the lines of each commit in a format. Raises ObjectNotFound, ObjectCorrupted."""
    own = [stored.commit.artifact for stored in commits if stored.commit.format == format_]
    data = store.raws(own)
    return [
        split_lines(data[stored.commit.artifact])
        if stored.commit.artifact in data
        else _render(store, stored, format_)
        for stored in commits
    ]


def _render(store: Store, stored: StoredCommit, format_: str) -> list[bytes]:
    """Return the lines of a commit in another format."""
    writes = FORMATS.find(format_).writes
    contents = read_contents(store, [stored])
    entries = [entry for content in contents for entry in entries_or_note(content)]
    return split_lines((writes and writes(entries)) or b"")


def decode_lines(lines: Sequence[bytes]) -> list[Any]:
    """Return the items of lines, without those that are no JSON, for example after a purge."""
    try:
        items: list[Any] = decode_item(b"[%b]" % b",".join(lines))
    except ValueError:
        items = []
        for line in lines:
            try:
                items.append(decode_item(line))
            except ValueError as error:
                _logger.warning("an item of a session is left out: it is no JSON: %s", error)
    return items
