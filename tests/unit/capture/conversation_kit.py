"""Conversations for tests of resuming in clients."""

from __future__ import annotations

from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo

NOON = "2026-01-31T12:00:00.000000Z"
ID = "0199c0de-0000-7000-8000-000000000001"


def call(id: str, name: str = "look", arguments: str = '{"where":"inside"}') -> ToolCall:
    return ToolCall(id, FunctionCall(name, arguments))


def cafe() -> list[ConversationEntry]:
    """A conversation with a thought, a call and its result, as a Harken agent has it."""
    messages = [
        Message("user", "Is the cafe open?"),
        Message("assistant", [ThinkingPart("I should look."), TextPart("I look.")], [call("c.1")]),
        Message("tool", "It is open.", tool_call_id="c.1"),
        Message("assistant", "Yes, it is open."),
        Message("user", "And do they have tea?"),
        Message("assistant", "They do."),
    ]
    return [ConversationEntry(message, NOON) for message in messages]


def new(folder: str = "/home/jill/cafe", id: str = ID) -> NewSessionInfo:
    return NewSessionInfo(id=id, folder=folder, time=NOON, title="The cafe")
