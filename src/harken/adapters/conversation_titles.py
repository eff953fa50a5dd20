"""Titles of conversations: the beginning of the first text of a user.

A title is derived content, which the first write of a session stores. So a list of sessions reads
the head and the title of each session, however long the sessions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from harken.adapters.conversation_kinds import ConversationKind
from harken.adapters.conversation_lines import decode_lines, read_commit_lines
from harken.core.commits import CommitId, hash_raw
from harken.core.messages import Message, text_of
from harken.errors import StoreError
from harken.formats.json_records import truncate_title
from harken.store.base import Store, WriteBatch


def find_title(messages: Iterable[Message]) -> str:
    """Return the beginning of the first text of a user on one line, or an empty text."""
    for message in messages:
        title = truncate_title(text_of(message.content)) if message.role == "user" else ""
        if title:
            return title
    return ""


def build_title_batch(branch: str, title: str) -> WriteBatch:
    """Return the batch that stores the title of a session."""
    data = title.encode("utf-8", "surrogatepass")
    ref = hash_raw(data)
    return WriteBatch(raw={ref: data}, derived={_title_key(branch): ref})


def read_titles(
    store: Store, kind: ConversationKind, heads: Mapping[str, CommitId]
) -> dict[str, str]:
    """Return the titles of sessions by branch. Those that the store lacks are found and stored.

    Raises ObjectNotFound, ObjectCorrupted, StoreError.
    """
    keys = {_title_key(branch): branch for branch in heads}
    refs = store.find_derived(keys)
    texts = store.raws(dict.fromkeys(refs.values()))
    titles = {
        keys[key]: texts[ref].decode("utf-8", "surrogatepass")
        for key, ref in refs.items()
        if texts.get(ref)
    }
    for branch in heads.keys() - titles.keys():
        titles[branch] = _find_session_title(store, kind, heads[branch])
        if titles[branch]:
            with suppress(StoreError):  # A store that cannot be written finds it each time.
                store.write(build_title_batch(branch, titles[branch]))
    return titles


def _find_session_title(store: Store, kind: ConversationKind, head: CommitId) -> str:
    for stored in reversed(store.chain(head)):
        (lines,) = read_commit_lines(store, [stored], kind.format)
        title = find_title(kind.outline(decode_lines(lines)))
        if title:
            return title
    return ""


def _title_key(branch: str) -> str:
    return f"title of {branch}"
