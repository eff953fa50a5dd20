"""The usage of model calls, of a turn, of an agent, of a session.

Unknown is not zero: a cost is None if the cost of any call is not known, and so are tokens that no
provider counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from harken.core.events import Event, LlmResponse, TranscriptEntry
from harken.core.ids import AgentId
from harken.views.message_text import format_count as count

CHARACTERS_A_TOKEN = 4
"""A rough estimate for text that no provider has counted."""
_NEVER_SENT = frozenset({"error", "cancelled", "interrupted"})


class UsageTotal(msgspec.Struct):
    """The usage of the added events."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    priced_usd: float = 0.0
    priced: int = 0
    """The number of calls with a known cost."""
    unpriced: int = 0
    """The number of calls that may have an unknown cost."""
    model_calls: int = 0
    actions: int = 0
    """The number of tool calls and structural actions."""
    agents: set[AgentId] = msgspec.field(default_factory=set)
    """The agents that called a model."""

    def add(self, event: Event) -> None:
        """Count an event."""
        match event:
            case LlmResponse() if event.stop_reason != "edited":
                self._add_response(event)
            case TranscriptEntry(role="assistant"):
                self.actions += len(event.tool_calls or ())
            case _:
                pass

    def _add_response(self, response: LlmResponse) -> None:
        self.model_calls += 1
        if response.agent_id is not None:
            self.agents.add(response.agent_id)
        if response.usage is not None:
            for name in response.usage.__struct_fields__:
                count = getattr(response.usage, name)
                if count is not None:
                    setattr(self, name, (getattr(self, name) or 0) + count)
        if response.cost_usd is not None:
            self.priced_usd += response.cost_usd
            self.priced += 1
        elif response.usage is not None or response.stop_reason not in _NEVER_SENT:
            self.unpriced += 1

    @property
    def cost_usd(self) -> float | None:
        """The cost of all calls, or None if the cost of any of them is not known."""
        return self.priced_usd if self.priced and not self.unpriced else None

    def usage(self) -> dict[str, Any]:
        """Return the known tokens, by the names of the log."""
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        counts = {name: getattr(self, name) for name in names}
        return {name: count for name, count in counts.items() if count is not None}


def sum_usage(events: Iterable[Event]) -> UsageTotal:
    """Return the usage of these events."""
    total = UsageTotal()
    for event in events:
        total.add(event)
    return total


def sum_usage_by_agent(events: Iterable[Event]) -> dict[AgentId, UsageTotal]:
    """Return the usage of each agent that called a model."""
    each: dict[AgentId, UsageTotal] = {}
    for event in events:
        if isinstance(event, LlmResponse) and event.agent_id is not None:
            each.setdefault(event.agent_id, UsageTotal()).add(event)
    return each


def format_cost(sums: UsageTotal) -> str:
    """Format a cost; "cost unknown" if it is not known, "at least" if a part of it is not.

    >>> format_cost(UsageTotal(priced_usd=0.0123, priced=1)), format_cost(UsageTotal(unpriced=1))
    ('$0.0123', 'cost unknown')
    """
    if not sums.priced:
        return "cost unknown" if sums.unpriced else ""
    prefix = "at least " if sums.unpriced else ""
    return (
        f"{prefix}${sums.priced_usd:.2f}"
        if sums.priced_usd >= 1
        else f"{prefix}${sums.priced_usd:.4f}"
    )


def format_tokens(count: int) -> str:
    """Format a number of tokens.

    >>> format_tokens(950), format_tokens(12_345), format_tokens(2_000_000)
    ('950', '12.3k', '2.0M')
    """
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1e6:.1f}M"


def format_usage(sums: UsageTotal) -> str:
    """Format tokens, cost and calls on one line."""
    parts = [format_tokens_in_out(sums), format_cost(sums) or "no cost"]
    parts.append(count(sums.model_calls, "model call"))
    return " · ".join(filter(None, parts))


def format_tokens_in_out(sums: UsageTotal) -> str:
    """Format input and output tokens. Return an empty text if they were not counted."""
    if sums.input_tokens is None and sums.output_tokens is None:
        return ""
    cached = f" ({format_tokens(sums.cache_read_tokens)} cached)" if sums.cache_read_tokens else ""
    return (
        f"{format_tokens(sums.input_tokens or 0)} in{cached}"
        f" · {format_tokens(sums.output_tokens or 0)} out"
    )
