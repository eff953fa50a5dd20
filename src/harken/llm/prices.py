"""Costs of model calls, from a table of dated prices.

The price is that of the day of the call. An unknown cost is None, never 0: for a model that is not
in the table, a count that the provider did not send, or tokens of a kind without a rate.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from harken.core import structs
from harken.core.clock import Clock, system_clock
from harken.core.events import Usage

Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
"""USD per million tokens."""
Cost: TypeAlias = Callable[[Usage, str], float | None]
"""Returns the cost of a call in USD by its usage and the provider's name of the model. None if it
is unknown."""

_SNAPSHOT_PATTERN = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices by kind of token."""

    input: Rate
    """Tokens of the prompt that were neither read from a cache nor written to one."""
    output: Rate
    cache_read: Rate | None = None
    """None if unknown, so a call that read from a cache has no known cost."""
    cache_write: Rate | None = None


class LongPrompt(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a call with a long prompt, for all of its tokens."""

    from_tokens: Annotated[int, msgspec.Meta(ge=1)]
    """The minimum prompt in tokens, including cached ones."""


class Price(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a model from a day on."""

    model: str = ""
    """The full name, or a prefix and a `*`."""
    effective_from: date = date.min
    long_prompt: LongPrompt | None = None
    source: str = ""
    read: date | None = None
    """The day on which the source was read."""

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of a call with this usage, in USD. Return None if it is unknown.

        Shape of `usage`: docs/formats/session-log.md, `llm_response`. A missing count of cached
        tokens is taken as 0, because a provider that bills for a cache also reports its use.
        """
        prompt, output = usage.input_tokens, usage.output_tokens
        cache_read, cache_write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        if prompt is None or output is None or cache_read + cache_write > prompt:
            return None
        rates = self.rates(prompt)
        kinds = [
            (prompt - cache_read - cache_write, rates.input),
            (output, rates.output),
            (cache_read, rates.cache_read),
            (cache_write, rates.cache_write),
        ]
        total = 0.0
        for tokens, rate in kinds:
            if tokens and rate is None:
                return None
            total += tokens * (rate or 0)
        return total / 1e6

    def rates(self, prompt_tokens: int) -> Rates:
        """Return the rates for a prompt of this size."""
        long = self.long_prompt
        return self if long is None or prompt_tokens < long.from_tokens else long


class Prices:
    """A table of prices: user-defined ones before those of the package."""

    def __init__(self, own: Iterable[Price] = ()) -> None:
        """Put these prices first. The package's table is read on first use."""
        self.user_prices = tuple(own)

    def price(self, model: str, day: date) -> Price | None:
        """Return the price of a model on a day (UTC). Return None if it is unknown.

        A dated snapshot (`...-20251101`) has the price of its model, unless it has its own.
        """
        return _find_price(self.user_prices, model, day) or _find_price(
            load_built_in_prices(), model, day
        )

    def list_prices(self, provider: str, day: date) -> list[Price]:
        """Return the prices of a provider's models on a day, the newest first."""
        names = {
            listed_price.model for listed_price in [*self.user_prices, *load_built_in_prices()]
        }
        candidates = [
            self.price(name, day) for name in sorted(names) if name.startswith(f"{provider}/")
        ]
        exact = [
            price for price in candidates if price is not None and not price.model.endswith("*")
        ]
        return sorted(exact, key=lambda price: price.effective_from, reverse=True)

    def costs(self, provider: str, clock: Clock = system_clock) -> Cost:
        """Return a function for the cost of a call of this provider that just ended."""

        def cost(usage: Usage, model: str) -> float | None:
            day = datetime.fromtimestamp(clock() // 1_000_000, UTC).date()
            price = self.price(f"{provider}/{model}", day)
            return None if price is None else price.cost(usage)

        return cost


def _find_price(prices: Sequence[Price], model: str, day: date) -> Price | None:
    """Return the price in force.

    The name itself takes precedence over its model, and that over a pattern.
    """
    ranked = [
        (rank, price.effective_from, index, price)
        for index, price in enumerate(prices)
        if (rank := rank_match(price.model, model)) is not None and price.effective_from <= day
    ]
    return max(ranked, key=lambda match: match[:3])[3] if ranked else None


def rank_match(pattern: str, model: str) -> int | None:
    """Return the rank of a pattern for a model's name, higher is better. Return None for no match.

    A pattern is a name, which also matches its dated snapshots, or a prefix and a `*`.
    """
    if pattern == model:
        return 1_000_001
    if pattern == _SNAPSHOT_PATTERN.sub("", model):
        return 1_000_000
    return len(pattern) if pattern.endswith("*") and model.startswith(pattern[:-1]) else None


class _PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices from one source, read on one day."""

    source: str
    read: date
    prices: list[Price]


@cache
def load_built_in_prices() -> tuple[Price, ...]:
    """Return the prices of the package. The file is read once."""
    text = Path(__file__).with_name("prices.toml").read_text("utf-8")
    lists = msgspec.convert(tomllib.loads(text)["list"], list[_PriceList])
    return tuple(
        structs.replace(price, source=list_.source, read=list_.read)
        for list_ in lists
        for price in list_.prices
    )
