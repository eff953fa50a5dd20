"""What messages say, by their rows: from the store, or from the log of their session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from harken.core.commits import Hash, encode_entry
from harken.core.events import TranscriptEntry, decode_event
from harken.errors import LogError
from harken.index.message_text import MessageText, extract_text, shape_of
from harken.session.log.reader import open_log
from harken.store.base import Store


def said_of(
    database: apsw.Connection, store: Store | None, rows: Sequence[dict[str, Any]]
) -> list[MessageText]:
    """Return what messages say; nothing of one that cannot be read any more.

    rows: with `hash`, `session_id` and `position` of each. Raises StoreError.
    """
    names = [Hash(row["hash"].hex()) for row in rows]
    found = {} if store is None else stored_said(store, names)
    return [
        found.get(name) or _logged(database, row) for name, row in zip(names, rows, strict=True)
    ]


def stored_said(store: Store, names: Sequence[Hash]) -> dict[Hash, MessageText]:
    """Return what those of these messages say that a store has. Raises StoreError."""
    shapes = {name: shape_of(body) for name, body in store.objects(dict.fromkeys(names)).items()}
    parts = store.objects(dict.fromkeys(part for one in shapes.values() for part in one.parts))
    return {name: extract_text(shape, parts) for name, shape in shapes.items()}


def logged_entry(
    database: apsw.Connection, session_id: int, position: int
) -> TranscriptEntry | None:
    """Return what the log of a session has at a position; None: there is no such line any more."""
    place = database.execute(_PLACE, (session_id, position)).fetchone()
    if place is None:
        return None
    try:
        with open_log(Path(os.fsdecode(place[0]))) as file:
            file.seek(place[1])
            event = decode_event(file.readline())
    except (LogError, OSError, ValueError, RecursionError):
        return None
    return event if isinstance(event, TranscriptEntry) else None


def _logged(database: apsw.Connection, row: dict[str, Any]) -> MessageText:
    """Return what a line of a log says, if it is still the line that was read."""
    event = logged_entry(database, row["session_id"], row["position"])
    if event is None:
        return MessageText()
    entry, objects = encode_entry(event)
    is_same = entry.message == row["hash"].hex()
    return extract_text(shape_of(objects[entry.message]), objects) if is_same else MessageText()


_PLACE = """
SELECT path, start FROM places JOIN sessions s ON s.id = session_id
JOIN logs ON logs.session = s.name WHERE session_id = ? AND number = ?
"""
