from __future__ import annotations

import pytest

from harken.core.ids import MessageId
from harken.core.messages import Message, TextPart, ThinkingPart
from harken.errors import AmbiguousName, ConfigError, NameNotFound
from harken.experiments.change import Change, find_message, replace_text
from harken.views.context import ContextMessage
from tests.agent_kit import call, call_message

MESSAGES = [
    Message("system", "Be."),
    Message("user", "Add."),
    call_message(call("add"), text="Adding."),
    Message("tool", "4", tool_call_id="c1", name="add"),
]
ROWS = [
    ContextMessage(position=n, message_id=MessageId(f"msg_{n + 3:03d}"), message=message)
    for n, message in enumerate(MESSAGES)
]


def test_default_changes_nothing() -> None:
    assert Change().context(ROWS) == MESSAGES
    assert Change().describe() == []


@pytest.mark.parametrize("reference", ["msg_004", "4", "#1", "-3"])
def test_messages_are_named_by_id_number_or_position(reference: str) -> None:
    assert find_message(ROWS, reference) == 1
    edited = Change(edit=[(reference, "Subtract.")]).context(ROWS)
    assert edited == [MESSAGES[0], Message("user", "Subtract."), *MESSAGES[2:]]


def test_positions_are_those_of_the_recorded_context() -> None:
    change = Change(edit=[("#3", "5")], drop=["#0"], system="Be kind.")
    messages = change.context(ROWS)
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[0].content == "Be kind."
    assert messages[-1].content == "5"
    assert messages[-1].tool_call_id == "c1"


@pytest.mark.parametrize("reference", ["msg_099", "#9", "-9", "x", "", "#", "#" + "9" * 5000])
def test_missing_message_error_lists_existing_ones(reference: str) -> None:
    with pytest.raises(NameNotFound, match=r"#3 \(msg_006\)"):
        find_message(ROWS, reference)


@pytest.mark.parametrize(
    ("change", "error_text"),
    [
        (Change(edit=[("#1", "a"), ("msg_004", "b")]), "message #1 is edited, and edited"),
        (Change(edit=[("#1", "a")], drop=["-3"]), "message #1 is dropped, and edited by '#1'"),
    ],
)
def test_two_changes_of_one_message_are_refused(change: Change, error_text: str) -> None:
    with pytest.raises(ConfigError, match=error_text):
        change.context(ROWS)


def test_repeated_message_needs_its_position() -> None:
    twice = [
        *ROWS,
        ContextMessage(position=4, message_id=MessageId("msg_003"), message=MESSAGES[0]),
    ]
    with pytest.raises(AmbiguousName, match="#0, #4"):
        find_message(twice, "3")


def test_only_the_text_changes() -> None:
    thinking = ThinkingPart("hm", {"signature": "s"})
    message = Message(
        "assistant", [thinking, TextPart("a"), TextPart("b")], call_message(call("x")).tool_calls
    )
    assert replace_text(message, "c").content == [thinking, TextPart("c")]
    assert replace_text(message, "c").tool_calls == message.tool_calls
    assert replace_text(message, "").content == [thinking]
    assert replace_text(Message("assistant", [thinking]), "c").content == [thinking, TextPart("c")]
    assert replace_text(MESSAGES[3], "").content == ""
    assert replace_text(MESSAGES[1], "").content is None


def test_system_prompt_can_be_removed_or_added() -> None:
    assert Change(system="").context(ROWS) == MESSAGES[1:]
    assert Change(system="New.").context(ROWS[1:])[0] == Message("system", "New.")


def test_parameters_are_merged_and_none_removes_one() -> None:
    change = Change(parameters={"seed": 3, "top_p": None})
    assert change.merge_parameters({"top_p": 0.5, "max_tokens": 9}) == {"max_tokens": 9, "seed": 3}
