"""Logged items: the items of an agent, read from the entries of its log.

An item is one or more entries. A form in the log says which entries belong to the item before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from harken.core import events as ev
from harken.core.ids import MessageId
from harken.core.messages import ChatMessage, message_hash
from harken.formats.wire.base import Form
from harken.recording.writer.item import LoggedItem

JOINED_FORM = {"joined": True}
"""The form of an entry that belongs to the same item as the entry before it."""
KeyFunction: TypeAlias = Callable[[Sequence[ChatMessage], Form], tuple[str, str]]
"""A function from the entries of an item and its form to its key and likeness."""


def group_items(
    entries: Sequence[ev.TranscriptEntry], forms: Mapping[MessageId, Form]
) -> list[list[ev.TranscriptEntry]]:
    """Group entries into items: each entry with the entries that are joined to it."""
    items: list[list[ev.TranscriptEntry]] = []
    for entry in entries:
        if items and forms.get(entry.message_id) == JOINED_FORM:
            items[-1].append(entry)
        else:
            items.append([entry])
    return items


def load_item(
    entries: Sequence[ev.TranscriptEntry],
    forms: Mapping[MessageId, Form],
    make_key: KeyFunction,
    shared_items: dict[tuple[MessageId, ...], LoggedItem],
    *,
    is_answer: bool,
) -> LoggedItem:
    """Return the item of these entries, shared by all agents that have them."""
    ids = tuple(entry.message_id for entry in entries)
    item = shared_items.get(ids)
    if item is None:
        form = forms.get(entries[0].message_id)
        key, likeness = make_key(entries, form)
        hashes = tuple(message_hash(entry) for entry in entries)
        item = LoggedItem(key, ids, hashes, entries[0].role, form, likeness=likeness)
        item.is_joined = not is_answer
        shared_items[ids] = item
    if not is_answer:  # The client sent the answer back in a request.
        item.is_joined, item.likeness = True, ""
    return item
