"""Read the text of indexed messages from the store or from the log of their session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from harken.core.commits import Hash, encode_entry
from harken.core.events import TranscriptEntry, decode_event
from harken.errors import LogError
from harken.index.message_text import MessageText, decode_shape, extract_text
from harken.session.log.reader import open_log
from harken.store.base import Store


def read_texts(
    database: apsw.Connection, store: Store | None, rows: Sequence[dict[str, Any]]
) -> list[MessageText]:
    """Return the text of each message; it is empty if the message can no longer be read.

    Each row has `hash`, `session_id` and `position`. Raises StoreError.
    """
    names = [Hash(row["hash"].hex()) for row in rows]
    texts = {} if store is None else read_stored_texts(store, names)
    return [
        texts.get(name) or _read_logged_text(database, row)
        for name, row in zip(names, rows, strict=True)
    ]


def read_stored_texts(store: Store, names: Sequence[Hash]) -> dict[Hash, MessageText]:
    """Return the texts of those messages that the store contains. Raises StoreError."""
    shapes = {
        name: decode_shape(body) for name, body in store.objects(dict.fromkeys(names)).items()
    }
    parts = store.objects(
        dict.fromkeys(part for message_shape in shapes.values() for part in message_shape.parts)
    )
    return {name: extract_text(shape, parts) for name, shape in shapes.items()}


def read_logged_entry(
    database: apsw.Connection, session_id: int, position: int
) -> TranscriptEntry | None:
    """Return the entry at a position of a session's log, or None if that line no longer exists."""
    location = database.execute(_LOCATION_SQL, (session_id, position)).fetchone()
    if location is None:
        return None
    try:
        with open_log(Path(os.fsdecode(location[0]))) as file:
            file.seek(location[1])
            event = decode_event(file.readline())
    except (LogError, OSError, ValueError, RecursionError):
        return None
    return event if isinstance(event, TranscriptEntry) else None


def _read_logged_text(database: apsw.Connection, row: dict[str, Any]) -> MessageText:
    """Return the text of a message in a log, if the line still has the indexed content."""
    event = read_logged_entry(database, row["session_id"], row["position"])
    if event is None:
        return MessageText()
    entry, objects = encode_entry(event)
    is_same = entry.message == row["hash"].hex()
    return extract_text(decode_shape(objects[entry.message]), objects) if is_same else MessageText()


_LOCATION_SQL = """
SELECT path, start FROM places JOIN sessions s ON s.id = session_id
JOIN logs ON logs.session = s.name WHERE session_id = ? AND number = ?
"""
