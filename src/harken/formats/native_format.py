"""`format_of`: what any kind of files of another runtime is as a `Format`.

One idea: reading such a file gives steps, and a format gives entries: those that are read at the
end of its main conversation. And what is written of entries is a session that is named by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from harken.formats.base import Format, WholeEntry
from harken.formats.native import Native, conversation
from harken.formats.new_session import named_by_content


def format_of(native: Native, media_type: str) -> Format:
    """Return the format with the same bytes; it is written where sessions can be."""
    writes = native.writes

    def written(entries: Sequence[WholeEntry]) -> bytes | None:
        return None if writes is None else writes(entries, named_by_content(entries))

    return Format(
        name=native.name,
        media_type=media_type,
        reads=partial(conversation, native.steps),
        writes=None if writes is None else written,
    )
