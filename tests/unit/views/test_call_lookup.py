"""Find the message of a call by the id of the call and the commit that contains it."""

from __future__ import annotations

from harken.core.events import ContextCommitted, Event, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, ToolCall
from harken.views.conversation.call_lookup import find_call
from harken.views.links import Links

ANN, BEN = AgentId("agent_001"), AgentId("agent_002")
TIME = "2026-01-01T00:00:00Z"


def call(id_: str, agent: AgentId) -> TranscriptEntry:
    """Return a message with a call, whose id is the same as that of other calls."""
    tool_call = ToolCall("c1", FunctionCall("write", '{"path": "a.py"}'))
    return TranscriptEntry(
        message_id=MessageId(id_),
        time=TIME,
        agent_id=agent,
        role="assistant",
        tool_calls=[tool_call],
    )


def commit(id_: str, agent: AgentId, ctx: str) -> ContextCommitted:
    """Return the commit of the context of an agent."""
    return ContextCommitted(message_id=MessageId(id_), time=TIME, agent_id=agent, ctx=ctx)


def test_the_commit_tells_which_of_equal_ids_is_meant() -> None:
    events: list[Event] = [
        call("msg_001", ANN),
        call("msg_002", BEN),
        commit("msg_003", ANN, "ctx-1"),
        call("msg_004", ANN),
        commit("msg_005", ANN, "ctx-2"),
        commit("msg_006", BEN, "ctx-3"),
    ]
    links = Links.of(events)
    expected = {"ctx-1": "msg_001", "ctx-2": "msg_004", "ctx-3": "msg_002", "ctx-4": "msg_001"}
    assert {ctx: find_call(links, "c1", ctx) for ctx in expected} == expected
    assert find_call(links, "c2") is None
