"""Read the text of indexed messages from the store, a commit, or the log of their session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from harken.context.commit_content import read_commit_messages
from harken.core.commits import CommitId, Hash, encode_entry
from harken.core.events import TranscriptEntry, decode_event
from harken.errors import LogError, ObjectNotFound
from harken.index.message_text import MessageText, decode_shape, extract_text
from harken.session.log.reader import open_log
from harken.store.base import Store


def read_texts(
    database: apsw.Connection, store: Store | None, rows: Sequence[dict[str, Any]]
) -> list[MessageText]:
    """Return the text of each message; it is empty if the message can no longer be read.

    Each row has `hash`, `session_id`, `position`, and `ctx` if a commit in the format of another
    program may have the message. Raises StoreError.
    """
    names = [Hash(row["hash"].hex()) for row in rows]
    commits = [CommitId(f"ctx-{row['ctx'].hex()}") if row.get("ctx") else None for row in rows]
    texts = {} if store is None else read_committed_texts(store, names, commits)
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


def read_committed_texts(
    store: Store, names: Sequence[Hash], commits: Sequence[CommitId | None]
) -> dict[Hash, MessageText]:
    """Return the texts of those messages that the store contains, also in bytes of commits.

    commits: the commit of each message, or None. Raises StoreError.
    """
    texts = read_stored_texts(store, names)
    missing = dict.fromkeys(
        ctx for name, ctx in zip(names, commits, strict=True) if ctx and name not in texts
    )
    wanted = set(names)
    for name, text in _read_commit_texts(store, list(missing)).items():
        if name in wanted:
            texts[name] = text
    return texts


def _read_commit_texts(store: Store, names: Sequence[CommitId]) -> dict[Hash, MessageText]:
    """Return the texts of the messages of commits that the store has as bytes."""
    commits = store.commits(names) if names else {}
    texts: dict[Hash, MessageText] = {}
    for stored in commits.values():
        with suppress(ObjectNotFound):
            for message in read_commit_messages(store, [stored]):
                entry, objects = encode_entry(message)
                texts[entry.message] = extract_text(decode_shape(objects[entry.message]), objects)
    return texts


def read_logged_entry(
    database: apsw.Connection, session_id: int, position: int, message: Hash
) -> TranscriptEntry | None:
    """Return the entry at a position of a session's log, if it has this hash.

    Return None if no log of the session has it any more.
    """
    for path, start in database.execute(_LOCATION_SQL, (session_id, position)):
        try:
            with open_log(Path(os.fsdecode(path))) as file:
                file.seek(start)
                event = decode_event(file.readline())
        except (LogError, OSError, ValueError, RecursionError):
            continue
        if isinstance(event, TranscriptEntry) and encode_entry(event)[0].message == message:
            return event
    return None


def _read_logged_text(database: apsw.Connection, row: dict[str, Any]) -> MessageText:
    """Return the text of a message in a log, if the line still has the indexed content."""
    message = Hash(row["hash"].hex())
    event = read_logged_entry(database, row["session_id"], row["position"], message)
    if event is None:
        return MessageText()
    entry, objects = encode_entry(event)
    return extract_text(decode_shape(objects[entry.message]), objects)


_LOCATION_SQL = """
SELECT path, start FROM logs JOIN places ON places.log_id = logs.id
WHERE session_id = ? AND number = ?
"""
