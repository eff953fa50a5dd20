"""Token usage and cost of responses, normalized over the formats of all runtimes.

Anthropic reports tokens read from a cache separately from the input; all other providers include
them in the input. The index stores each token in exactly one column: uncached input, read from a
cache, written to a cache, or output.

Source: docs/formats/facts.md, "Requests".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from harken.core.events import Usage
from harken.llm.prices import Price, Prices, load_built_in_prices

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TOKENS = 1 << 40
"""A larger token count is rejected as invalid."""
_MAX_USD = 1e6
_PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gemini"}
"""Default provider of runtimes that mostly use only that provider."""
_HOUR_CACHE_FACTOR = 2.0
"""Price of writing to a one-hour cache, as a multiple of the input price.

Only Anthropic reports the lifetime.

Source: https://platform.claude.com/docs/en/about-claude/pricing, "Prompt caching".
"""
_PROVIDER_ALIASES = {"google": "gemini", "github-copilot": ""}
"""Provider names of runtimes, and their names in the price list."""


class TokenCounts(msgspec.Struct, frozen=True, gc=False):
    """Token counts of a response. A count is None if it was not reported."""

    input: int | None = None
    """Uncached input: neither read from a cache nor written to a cache."""
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    """Part of the output."""
    cache_hour: int | None = None
    """Part of `cache_write`: tokens written to a one-hour cache, which costs more."""

    @property
    def is_nonzero(self) -> bool:
        """Whether any token was counted."""
        return any((self.input, self.cache_read, self.cache_write, self.output))

    @property
    def is_reported(self) -> bool:
        """Whether the usage is known, if only in part."""
        return self.input is not None or self.output is not None

    def usage(self) -> Usage:
        """Return the usage as logs and price lists count it: the input includes cached tokens."""
        input_tokens = None
        if self.input is not None:
            input_tokens = self.input + (self.cache_read or 0) + (self.cache_write or 0)
        return Usage(input_tokens, self.output, self.cache_read, self.cache_write)


def parse_usage(usage: Mapping[str, Any]) -> TokenCounts:
    """Parse a usage object in the format of any runtime. Invalid counts are ignored.

    >>> parse_usage({"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 2}).input
    5
    >>> parse_usage({"input_tokens": 95, "cache_read_tokens": 90, "output_tokens": 2}).input
    5
    """
    input_tokens = _get_count(usage, "input_tokens", "prompt_tokens")
    output = _get_count(usage, "output_tokens", "completion_tokens")
    details = _get_dict(usage, "output_tokens_details", "completion_tokens_details")
    reasoning = _get_count(usage, "reasoning_tokens") or _get_count(details, "reasoning_tokens")
    if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
        cache_read, cache_write = (
            _get_count(usage, f"cache_{n}_input_tokens") for n in ("read", "creation")
        )
        cache_hour = _get_count(_get_dict(usage, "cache_creation"), "ephemeral_1h_input_tokens")
        return TokenCounts(input_tokens, cache_read, cache_write, output, reasoning, cache_hour)
    details = _get_dict(usage, "input_tokens_details", "prompt_tokens_details")
    cache_read = _get_count(usage, "cache_read_tokens", "cached_input_tokens", "cached_tokens")
    if cache_read is None:
        cache_read = _get_count(details, "cached_tokens")
    cache_write = _get_count(usage, "cache_write_tokens")
    if input_tokens is not None:  # Then a missing count means 0.
        input_tokens, output = (
            max(input_tokens - (cache_read or 0) - (cache_write or 0), 0),
            output or 0,
        )
    return TokenCounts(input_tokens, cache_read, cache_write, output, reasoning)


def counts_from_log(usage: Usage) -> TokenCounts:
    """Convert the usage of a logged response."""
    cache_read, cache_write = usage.cache_read_tokens, usage.cache_write_tokens
    input_tokens = usage.input_tokens
    if input_tokens is not None:
        input_tokens = max(input_tokens - (cache_read or 0) - (cache_write or 0), 0)
    return TokenCounts(input_tokens, cache_read, cache_write, usage.output_tokens)


def reported_cost(source: Mapping[str, Any]) -> float | None:
    """Return the cost of a response in USD as the runtime reports it, or None if it does not.

    >>> reported_cost({"pi": {"usage": {"cost": {"total": 0.25}}}}), reported_cost({})
    (0.25, None)
    """
    pi_cost = _get_dict(_get_dict(_get_dict(source, "pi"), "usage"), "cost").get("total")
    cost = source.get("cost_usd", _get_dict(source, "usage").get("cost_usd", pi_cost))
    is_valid = (
        isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MAX_USD
    )
    return float(cost) if is_valid else None


class Costs(msgspec.Struct):
    """Compute the cost of responses from a price list."""

    prices: Prices
    _prices_by_key: dict[tuple[str, str, date], Price | None] = msgspec.field(default_factory=dict)

    def cost(
        self, counts: TokenCounts, model: str, provider: str, time_us: int | None
    ) -> float | None:
        """Return the cost in USD, or None if the time or the price is unknown.

        `provider` is the runtime's name for the provider, or the runtime; if empty, any provider of
        that model is used.
        """
        if time_us is None or not model:
            return None
        day = (_1970 + timedelta(microseconds=time_us)).date()
        key = (model, provider, day)
        if key not in self._prices_by_key:
            self._prices_by_key[key] = self._find_price(model, provider, day)
        price = self._prices_by_key[key]
        return None if price is None else _compute_cost(price, counts)

    def _find_price(self, model: str, provider: str, day: date) -> Price | None:
        provider = _PROVIDERS.get(provider, _PROVIDER_ALIASES.get(provider, provider))
        names = [f"{provider}/{model}", model]
        names += [f"{known_provider}/{model}" for known_provider in _list_providers(self.prices)]
        prices = (self.prices.price(name, day) for name in names if "/" in name)
        return next((price for price in prices if price is not None), None)


def reported_provider(source: Mapping[str, Any]) -> str:
    """Return the name of the provider that the source record reports, or an empty string."""
    provider = _get_dict(source, "pi").get("provider", source.get("provider"))
    return provider if isinstance(provider, str) else ""


def _compute_cost(price: Price, counts: TokenCounts) -> float | None:
    """Compute the cost; a one-hour cache write is charged at its own rate."""
    usage = counts.usage()
    cost = price.cost(usage)
    hour_tokens = min(counts.cache_hour or 0, counts.cache_write or 0)
    if cost is None or not hour_tokens:
        return cost
    rates = price.rates(usage.input_tokens or 0)
    return cost + hour_tokens * (_HOUR_CACHE_FACTOR * rates.input - (rates.cache_write or 0)) / 1e6


def _list_providers(prices: Prices) -> list[str]:
    return sorted(
        {price.model.partition("/")[0] for price in [*prices.user_prices, *load_built_in_prices()]}
    )


def _get_dict(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        member = value.get(name)
        if isinstance(member, dict):
            return member
    return _EMPTY


def _get_count(value: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        count = value.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MAX_TOKENS:
            return count
    return None


_EMPTY: Mapping[str, Any] = {}
