"""The items of a dialog as items of a conversation: labels, notes and versions."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.ids import AgentId, MessageId
from harken.views.conversation.dialog_items import build_dialog_item, find_dialog_text
from harken.views.dialogs.dialog import DialogItem, VerdictItem, Version

VERDICT = VerdictItem(
    kind="denial",
    point="response",
    subject=MessageId("msg_1"),
    agent_id=AgentId("agent_002"),
    name="Ann",
)


def make_item(**members: Any) -> DialogItem:
    defaults = {"message_id": MessageId("msg_5"), "agent_id": AgentId("agent_001"), "name": "Ben"}
    return DialogItem(**{**defaults, "content": "Hi", "time": "", **members})


@pytest.mark.parametrize(
    ("members", "label", "note"),
    [
        ({}, "Said", None),
        ({"status": "denied", "hook_name": "Guard"}, "Draft", "denied by Guard"),
        ({"status": "pending"}, "Draft", "pending"),
        ({"status": "rewritten", "hook_name": "Guard"}, "Said", "rewritten by Guard"),
        ({"stop": "interrupted"}, "Stopped", "interrupted"),
        ({"verdict": VERDICT}, "Verdict", "denial · response of Ann"),
        ({"agent_id": None, "name": None, "trigger": "timer"}, "Said", "trigger timer"),
    ],
)
def test_a_draft_is_never_labeled_as_said(
    members: dict[str, Any], label: str, note: str | None
) -> None:
    item = build_dialog_item(make_item(**members))
    assert (item.label, item.note) == (label, note)
    assert item.author_name == members.get("trigger", "Ben")


def test_each_version_is_a_part_whose_whole_text_can_be_found() -> None:
    heard = Version(
        message_id=MessageId("msg_7"),
        agent_id=AgentId("agent_002"),
        name=None,
        content="b" * 70_000,
    )
    item = make_item(draft="SECRET", versions=[heard])
    parts = build_dialog_item(item).parts
    assert [getattr(part, "name", None) for part in parts] == [
        None,
        "Ben wrote, and nobody heard",
        "agent_002 heard",
    ]
    versions = [getattr(part, "version") for part in parts]  # noqa: B009 - all have one
    assert [find_dialog_text(item, version) for version in versions] == [
        "Hi",
        "SECRET",
        "b" * 70_000,
    ]
    assert [getattr(part, "length") for part in parts] == [2, 6, 70_000]  # noqa: B009
    assert find_dialog_text(item, "msg_8") is None
