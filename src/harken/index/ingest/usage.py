"""Usage: what an answer took, however the runtime that it came from counts.

One idea: Anthropic counts what was read from a cache beside the input, all others in it. The facts
have each token in one column: read anew, read from a cache, written into one, put out.

Source: docs/formats/facts.md, "Requests".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from harken.core.events import Usage
from harken.llm.prices import Price, Prices, built_in

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 1 << 40
"""More tokens than this nobody counted."""
_MOST_USD = 1e6
_PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gemini"}
"""Runtimes that mostly have one provider."""
_HOUR = 2.0
"""What is written into a cache for an hour costs so many times the input. Anthropic alone says for
how long; source: https://platform.claude.com/docs/en/about-claude/pricing, "Prompt caching"."""
_NAMES = {"google": "gemini", "github-copilot": ""}
"""How a runtime calls a provider, and how the list of prices does."""


class TokenCounts(msgspec.Struct, frozen=True, gc=False):
    """What an answer took; None: nobody said."""

    input: int | None = None
    """Read anew: neither from a cache nor written into one."""
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    """Of the output."""
    cache_hour: int | None = None
    """Of what was written into a cache: to be kept for an hour, which costs more."""

    @property
    def is_some(self) -> bool:
        """Whether it took anything."""
        return any((self.input, self.cache_read, self.cache_write, self.output))

    def usage(self) -> Usage:
        """Return it as a log has it, and as prices want it: the input is all of it."""
        whole = None
        if self.input is not None:
            whole = self.input + (self.cache_read or 0) + (self.cache_write or 0)
        return Usage(whole, self.output, self.cache_read, self.cache_write)


def spent(usage: Mapping[str, Any]) -> TokenCounts:
    """Return what a usage says, in any of the shapes that runtimes have. It may say anything.

    >>> spent({"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 2}).input
    5
    >>> spent({"input_tokens": 95, "cache_read_tokens": 90, "output_tokens": 2}).input
    5
    """
    given = _count(usage, "input_tokens", "prompt_tokens")
    output = _count(usage, "output_tokens", "completion_tokens")
    details = _inner(usage, "output_tokens_details", "completion_tokens_details")
    reasoning = _count(usage, "reasoning_tokens") or _count(details, "reasoning_tokens")
    if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
        read, written = (_count(usage, f"cache_{n}_input_tokens") for n in ("read", "creation"))
        hour = _count(_inner(usage, "cache_creation"), "ephemeral_1h_input_tokens")
        return TokenCounts(given, read, written, output, reasoning, hour)
    details = _inner(usage, "input_tokens_details", "prompt_tokens_details")
    read = _count(usage, "cache_read_tokens", "cached_input_tokens", "cached_tokens")
    if read is None:
        read = _count(details, "cached_tokens")
    written = _count(usage, "cache_write_tokens")
    if given is not None:  # then what is not said is none
        given, output = max(given - (read or 0) - (written or 0), 0), output or 0
    return TokenCounts(given, read, written, output, reasoning)


def of_log(usage: Usage) -> TokenCounts:
    """Return what a response in a log took."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    given = usage.input_tokens
    if given is not None:
        given = max(given - (read or 0) - (written or 0), 0)
    return TokenCounts(given, read, written, usage.output_tokens)


def told_cost(source: Mapping[str, Any]) -> float | None:
    """Return what a runtime says that an answer cost, in USD; None: it does not say.

    >>> told_cost({"pi": {"usage": {"cost": {"total": 0.25}}}}), told_cost({})
    (0.25, None)
    """
    in_pi = _inner(_inner(_inner(source, "pi"), "usage"), "cost").get("total")
    cost = source.get("cost_usd", _inner(source, "usage").get("cost_usd", in_pi))
    is_one = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MOST_USD
    return float(cost) if is_one else None


@dataclass(slots=True)
class Costs:
    """What answers cost by a list of prices."""

    prices: Prices
    _found: dict[tuple[str, str, date], Price | None] = field(default_factory=dict)

    def cost(
        self, took: TokenCounts, model: str, provider: str, time_us: int | None
    ) -> float | None:
        """Return the cost in USD; None where tokens, time or price are not known.

        provider: as the runtime calls it, or the runtime; empty: whoever has such a model.
        """
        if time_us is None or not model:
            return None
        day = (_1970 + timedelta(microseconds=time_us)).date()
        key = (model, provider, day)
        if key not in self._found:
            self._found[key] = self._price(model, provider, day)
        price = self._found[key]
        return None if price is None else _by(price, took)

    def _price(self, model: str, provider: str, day: date) -> Price | None:
        provider = _PROVIDERS.get(provider, _NAMES.get(provider, provider))
        names = [f"{provider}/{model}", model]
        names += [f"{one}/{model}" for one in _providers(self.prices)]
        prices = (self.prices.price(name, day) for name in names if "/" in name)
        return next((price for price in prices if price is not None), None)


def provider_of(source: Mapping[str, Any]) -> str:
    """Return who answered, where the runtime says it."""
    own = _inner(source, "pi").get("provider", source.get("provider"))
    return own if isinstance(own, str) else ""


def _by(price: Price, took: TokenCounts) -> float | None:
    """Return the cost by a price, whose rate for writing into a cache is that of a short time."""
    usage = took.usage()
    cost = price.cost(usage)
    hour = min(took.cache_hour or 0, took.cache_write or 0)
    if cost is None or not hour:
        return cost
    rates = price.rates(usage.input_tokens or 0)
    return cost + hour * (_HOUR * rates.input - (rates.cache_write or 0)) / 1e6


def _providers(prices: Prices) -> list[str]:
    return sorted({one.model.partition("/")[0] for one in [*prices.own, *built_in()]})


def _inner(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = value.get(name)
        if isinstance(found, dict):
            return found
    return _NOTHING


def _count(value: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        one = value.get(name)
        if isinstance(one, int) and not isinstance(one, bool) and 0 <= one < _MOST:
            return one
    return None


_NOTHING: Mapping[str, Any] = {}
