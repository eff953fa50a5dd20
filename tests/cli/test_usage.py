"""Tally: what was used, and what is not known of it."""

from __future__ import annotations

from harken.chat.usage import (
    UsageTotal,
    format_cost,
    format_tokens_in_out,
    format_usage,
    sum_usage,
    sum_usage_by_agent,
)
from harken.core.events import LlmResponse, TranscriptEntry, Usage
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, ToolCall

MAIN, ANN = AgentId("agent_001"), AgentId("agent_002")


def response(
    cost_usd: float | None = None,
    usage: Usage | None = None,
    agent: AgentId = MAIN,
    stop_reason: str = "end_turn",
) -> LlmResponse:
    return LlmResponse(
        agent_id=agent,
        request=MessageId("msg_001"),
        cost_usd=cost_usd,
        usage=usage,
        stop_reason=stop_reason,
        model="m",
    )


def test_tokens_and_costs_are_added_up() -> None:
    usage = Usage(input_tokens=1000, output_tokens=50, cache_read_tokens=800)
    sums = sum_usage([response(0.25, usage), response(0.5, usage, ANN)])
    assert sums.usage() == {"input_tokens": 2000, "output_tokens": 100, "cache_read_tokens": 1600}
    assert sums.cost_usd == 0.75
    assert format_usage(sums) == "2.0k in (1.6k cached) · 100 out · $0.7500 · 2 model calls"
    assert {id_: one.cost_usd for id_, one in sum_usage_by_agent([response(1.0)]).items()} == {
        MAIN: 1.0
    }


def test_what_is_not_known_is_not_nothing() -> None:
    nothing = UsageTotal()
    assert (nothing.cost_usd, nothing.usage(), format_cost(nothing)) == (None, {}, "")
    assert format_tokens_in_out(nothing) == ""
    unknown = sum_usage([response()])
    assert (unknown.cost_usd, format_cost(unknown)) == (None, "cost unknown")
    some = sum_usage([response(2.5), response()])
    assert (some.cost_usd, format_cost(some)) == (None, "at least $2.50")


def test_a_cost_of_nothing_that_is_known_is_said() -> None:
    free = sum_usage([response(0.0)])
    assert (free.cost_usd, format_cost(free)) == (0.0, "$0.0000")


def test_a_call_that_failed_before_anything_was_counted_leaves_the_cost_known() -> None:
    assert sum_usage([response(1.0), response(stop_reason="error")]).cost_usd == 1.0
    counted = response(usage=Usage(input_tokens=5), stop_reason="error")
    assert sum_usage([response(1.0), counted]).cost_usd is None


def test_actions_and_agents_are_counted() -> None:
    calls = [ToolCall("a", FunctionCall("ls", "")), ToolCall("b", FunctionCall("cat", ""))]
    sums = sum_usage(
        [
            TranscriptEntry(agent_id=MAIN, role="assistant", tool_calls=calls),
            response(agent=ANN),
        ]
    )
    assert (sums.actions, sums.agents) == (2, {ANN})
