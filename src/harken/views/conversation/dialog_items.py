"""The items of a dialog in the form of a conversation: labels, notes, and a part for each version.

Each text has its version: `shown`, `draft` for what the author wrote and no other agent heard, or
the id of the message that another agent heard.
"""

from __future__ import annotations

from collections.abc import Iterator

from harken.views.conversation.items import ConversationItem, Cuts, OtherItem, TextItem, cut_text
from harken.views.dialogs.dialog import DialogItem
from harken.views.dialogs.labels import (
    HEARD_BY,
    UNHEARD_DRAFT,
    decide_dialog_label,
    describe_dialog_item,
)


def build_dialog_item(item: DialogItem) -> ConversationItem:
    """Return an item of a dialog with its texts cut."""
    author = item.name or item.trigger or item.agent_id
    cuts = Cuts.for_parts(2 + len(item.versions))
    shown = TextItem(
        text=cut_text(item.content, cuts.text), length=len(item.content), version="shown"
    )
    return ConversationItem(
        message_id=item.message_id,
        time=item.time,
        label=decide_dialog_label(item),
        note=describe_dialog_item(item),
        purpose=None,
        original=None,
        author=item.agent_id,
        author_name=author,
        parts=[shown, *_iter_versions(item, author, cuts)],
    )


def find_dialog_text(item: DialogItem, version: str) -> str | None:
    """Return a whole text of an item. Return None if it has no such version."""
    texts = {"shown": item.content, "draft": item.draft}
    for row in item.versions:
        texts.setdefault(row.message_id, row.content)
    return texts.get(version)


def iter_dialog_texts(item: DialogItem) -> Iterator[str]:
    """Yield the whole texts of an item."""
    yield item.content
    if item.draft:
        yield item.draft
    for version in item.versions:
        yield version.content


def _iter_versions(item: DialogItem, author: str | None, cuts: Cuts) -> Iterator[OtherItem]:
    if item.draft:
        yield _build_version(UNHEARD_DRAFT.format(author), item.draft, "draft", cuts)
    for version in item.versions:
        heading = HEARD_BY.format(version.name or version.agent_id)
        yield _build_version(heading, version.content, version.message_id, cuts)


def _build_version(name: str, text: str, version: str, cuts: Cuts) -> OtherItem:
    return OtherItem(
        name=cut_text(name, 1000), text=cut_text(text, cuts.text), length=len(text), version=version
    )
