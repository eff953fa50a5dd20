"""Runtimes count tokens differently; the index has each token in one column."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.events import Usage
from harken.index.ingest.row_writer import time_us
from harken.index.ingest.usage import (
    Costs,
    TokenCounts,
    counts_from_log,
    parse_usage,
    reported_cost,
    reported_provider,
)
from harken.llm.prices import Prices

DAY = time_us("2026-03-01T12:00:00Z")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 5,
                "cache_read_input_tokens": 90,
                "cache_creation_input_tokens": 7,
                "output_tokens": 3,
            },
            TokenCounts(5, 90, 7, 3),
        ),
        (
            {
                "input_tokens": 5,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
                "output_tokens": 3,
            },
            TokenCounts(5, None, 7, 3, None, 4),
        ),
        (
            {
                "input_tokens": 102,
                "cache_read_tokens": 90,
                "cache_write_tokens": 7,
                "output_tokens": 3,
            },
            TokenCounts(5, 90, 7, 3),
        ),
        (
            {
                "input_tokens": 95,
                "input_tokens_details": {"cached_tokens": 90},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
            },
            TokenCounts(5, 90, None, 9, 4),
        ),
        (
            {
                "prompt_tokens": 95,
                "prompt_tokens_details": {"cached_tokens": 90},
                "completion_tokens": 9,
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            TokenCounts(5, 90, None, 9, 4),
        ),
        (
            {"prompt_tokens": 95, "cached_tokens": 90, "completion_tokens": 9},
            TokenCounts(5, 90, None, 9),
        ),
        ({"input_tokens": 5}, TokenCounts(5, None, None, 0)),
        ({"output_tokens": 5}, TokenCounts(None, None, None, 5)),
        ({"input_tokens": 5, "cache_read_tokens": 9}, TokenCounts(0, 9, None, 0)),
        ({}, TokenCounts()),
        ({"input_tokens": "5", "output_tokens": True, "input_tokens_details": 3}, TokenCounts()),
        ({"input_tokens": -5, "output_tokens": 1 << 60}, TokenCounts()),
    ],
)
def test_all_shapes_of_usage_are_parsed(usage: dict[str, Any], expected: TokenCounts) -> None:
    assert parse_usage(usage) == expected


def test_log_input_tokens_include_cached_ones() -> None:
    assert counts_from_log(Usage(100, 7, 60, 10)) == TokenCounts(30, 60, 10, 7)
    assert counts_from_log(Usage()) == TokenCounts()


def test_cost_reported_by_a_runtime_is_used() -> None:
    assert reported_cost({"pi": {"usage": {"cost": {"total": 0.5}}}}) == 0.5
    assert reported_cost({"cost_usd": 2}) == 2.0
    assert reported_cost({"usage": {"prompt_tokens": 5, "cost_usd": 2.5}}) == 2.5
    for invalid in (True, -1, "1", float("nan"), 1e9, None):
        assert reported_cost({"cost_usd": invalid}) is None


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-5-20251101", "claude"),
        ("claude-opus-4-5", "anthropic"),
        ("anthropic/claude-opus-4-5", ""),
        ("claude-opus-4-5", "copilot"),
        ("claude-opus-4-5", ""),
    ],
)
def test_price_is_looked_up_by_model_for_any_provider(model: str, provider: str) -> None:
    costs = Costs(Prices())
    assert costs.cost(TokenCounts(1_000_000, None, None, 0), model, provider, DAY) == 5


def test_one_hour_cache_write_costs_twice_the_input() -> None:
    def cost(hour: int | None) -> float | None:
        took = TokenCounts(0, 0, 1_000_000, 0, None, hour)
        return Costs(Prices()).cost(took, "claude-opus-4-5", "claude", DAY)

    assert (cost(None), cost(0), cost(400_000), cost(1_000_000)) == (6.25, 6.25, 7.75, 10)
    assert cost(1 << 39) == 10  # at most the written tokens


def test_cost_is_unknown_without_price_time_or_count() -> None:
    costs = Costs(Prices())
    assert costs.cost(TokenCounts(5, None, None, 5), "nobody's", "claude", DAY) is None
    assert costs.cost(TokenCounts(5, None, None, 5), "claude-opus-4-5", "claude", None) is None
    assert (
        costs.cost(
            TokenCounts(5, None, None, 5),
            "claude-opus-4-5",
            "claude",
            time_us("0001-01-01T00:00:00Z"),
        )
        is None
    )
    assert costs.cost(TokenCounts(), "claude-opus-4-5", "claude", DAY) is None


def test_provider_is_that_of_the_runtime() -> None:
    assert reported_provider({"pi": {"provider": "anthropic"}}) == "anthropic"
    assert reported_provider({"provider": "openai"}) == "openai"
    assert reported_provider({"provider": 3, "pi": []}) == ""
