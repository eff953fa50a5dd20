"""`format_of`: what any kind of files of another runtime is as a `Format`.

One idea: reading such a file gives steps, and a format gives entries: those that are read at the
end of its main conversation. And what is written of entries is a session that is named by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.formats.base import Format, WholeEntry
from harken.formats.native import Native, Reading, Source, Step
from harken.formats.new_session import named_by_content


def format_of(native: Native, media_type: str) -> Format:
    """Return the format with the same bytes; it is written where sessions can be."""
    writes = native.writes

    def read(data: bytes) -> list[WholeEntry]:
        return _at_tip(native, data)

    def written(entries: Sequence[WholeEntry]) -> bytes | None:
        return None if writes is None else writes(entries, named_by_content(entries))

    is_written = writes is not None
    return Format(
        name=native.name,
        media_type=media_type,
        reads=read,
        writes=written if is_written else None,
    )


def _at_tip(native: Native, data: bytes) -> list[WholeEntry]:
    """Return what is read at the end of the main conversation. Raises FormatError."""
    reading = Reading()
    by_id: dict[str, Step] = {}
    for step in native.steps(Source("", lambda: [data]), reading):
        by_id[step.id] = step
    found: list[Step] = []
    at = next(iter(reading.tips.values()), None)
    while at is not None:
        found.append(by_id[at])
        at = by_id[at].parent if by_id[at].type == "delta" else None
    return [entry for step in reversed(found) for entry in step.entries]
