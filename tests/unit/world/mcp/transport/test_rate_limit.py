"""Unsolicited messages of a server are rate-limited, and its tool lists are repaired."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import mcp_types as types
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from harken.core import canonical
from harken.world.mcp.transport.rate_limit import MessageFilter, repair_tool_list

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
SCHEMA = JSON | st.fixed_dictionaries({"type": st.just("object")}, optional={"properties": JSON})
TOOL = JSON | st.fixed_dictionaries(
    {"name": JSON | st.just("x"), "inputSchema": SCHEMA}, optional={"outputSchema": SCHEMA}
)


@given(st.lists(TOOL, max_size=6))
def test_repaired_tool_list_is_valid(tools: list[Any]) -> None:
    answer = {"tools": [*tools, {"name": "good", "inputSchema": {"type": "object"}}]}
    count = len(answer["tools"])
    notes = repair_tool_list(answer)
    assert len(answer["tools"]) + len(notes) == count
    assert answer["tools"][-1]["name"] == "good"
    for tool in answer["tools"]:
        assert isinstance(tool["name"], str)
        assert tool["inputSchema"]["type"] == "object"
        assert canonical.to_json_line(tool["inputSchema"])


@given(JSON)
def test_other_result_is_not_changed(answer: Any) -> None:
    result = {"content": answer, "tools": 5}
    assert repair_tool_list(result) == []
    assert result == {"content": answer, "tools": 5}


def filter_messages(*messages: types.JSONRPCMessage) -> tuple[list[Any], list[str]]:
    """Return the messages of one burst that pass, and the notices."""
    notices: list[str] = []

    async def scene() -> list[Any]:
        sending, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](10_000)
        for message in messages:
            sending.send_nowait(SessionMessage(message))
        sending.close()
        async with MessageFilter(incoming, notices.append) as sieve:
            return [item async for item in sieve]

    return asyncio.run(scene()), notices


def test_responses_always_pass_and_other_messages_are_limited() -> None:
    note = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/message")
    answer = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={})
    passed_messages, notices = filter_messages(*[note] * 5000, *[answer] * 3000)
    answers = [item for item in passed_messages if isinstance(item.message, types.JSONRPCResponse)]
    assert len(answers) == 3000
    assert 2000 <= len(passed_messages) - len(answers) < 4000
    assert notices == ["it sends too many notices: the others are omitted"]


def test_number_of_notices_about_omitted_tools_is_limited() -> None:
    lists = [{"tools": [{"name": f"{n}.{m}"} for m in range(15)]} for n in range(3)]
    answers = [types.JSONRPCResponse(jsonrpc="2.0", id=1, result=tools) for tools in lists]
    passed_messages, notices = filter_messages(*answers)
    assert [tools.message.result for tools in passed_messages] == 3 * [{"tools": []}]
    assert len(set(notices)) == 21
    assert notices[-1] == "more of its tools are omitted"


def test_requests_of_a_server_have_a_lower_limit() -> None:
    ping = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
    passed_messages, _ = filter_messages(*[ping] * 500)
    assert 50 <= len(passed_messages) < 100
