"""What a server sends unasked is bounded, and its lists of tools are mended."""

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
def test_what_is_left_of_a_list_of_tools_is_of_the_protocol(tools: list[Any]) -> None:
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
def test_what_is_no_list_of_tools_stays_as_it_is(answer: Any) -> None:
    result = {"content": answer, "tools": 5}
    assert repair_tool_list(result) == []
    assert result == {"content": answer, "tools": 5}


def passed(*messages: types.JSONRPCMessage) -> tuple[list[Any], list[str]]:
    """Return what passes of messages that come all at once, and what is told."""
    told: list[str] = []

    async def scene() -> list[Any]:
        sending, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](10_000)
        for message in messages:
            sending.send_nowait(SessionMessage(message))
        sending.close()
        async with MessageFilter(incoming, told.append) as sieve:
            return [item async for item in sieve]

    return asyncio.run(scene()), told


def test_answers_always_pass_and_of_the_rest_so_many() -> None:
    note = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/message")
    answer = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={})
    found, told = passed(*[note] * 5000, *[answer] * 3000)
    answers = [one for one in found if isinstance(one.message, types.JSONRPCResponse)]
    assert len(answers) == 3000
    assert 2000 <= len(found) - len(answers) < 4000
    assert told == ["it sends too many notices: the others are omitted"]


def test_of_tools_that_are_left_out_so_many_are_told() -> None:
    lists = [{"tools": [{"name": f"{n}.{m}"} for m in range(15)]} for n in range(3)]
    answers = [types.JSONRPCResponse(jsonrpc="2.0", id=1, result=one) for one in lists]
    found, told = passed(*answers)
    assert [one.message.result for one in found] == 3 * [{"tools": []}]
    assert len(set(told)) == 21
    assert told[-1] == "more of its tools are omitted"


def test_of_a_server_s_own_requests_fewer_pass() -> None:
    ping = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
    found, _ = passed(*[ping] * 500)
    assert 50 <= len(found) < 100
