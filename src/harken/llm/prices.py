"""Prices: what a model call cost, from a table of dated data.

The price is that of the day of the call. What is not known costs None, never 0: a model that is
not in the table, a count that the provider did not give, tokens of a kind without a rate.
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

from harken.core.clock import Clock, system_clock
from harken.core.events import Usage

Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
"""USD per million tokens."""
Cost: TypeAlias = Callable[[Usage, str], float | None]
"""Says what a call of a model cost, in USD, by its provider's name for it; None: not known."""

_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tokens of each kind cost."""

    input: Rate
    """Tokens of the prompt that were neither read from a cache nor written to one."""
    output: Rate
    cache_read: Rate | None = None
    """None: not known, so a call that read from a cache has no known cost."""
    cache_write: Rate | None = None


class LongPrompt(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a whole call with a long prompt."""

    from_tokens: Annotated[int, msgspec.Meta(ge=1)]
    """So many tokens of prompt, those of caches included, make it a long one."""


class Price(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What calls of a model cost from some day on."""

    model: str = ""
    """Its full name, or the beginning of one and a `*`."""
    effective_from: date = date.min
    long_prompt: LongPrompt | None = None
    source: str = ""
    read: date | None = None
    """When it was read there."""

    def cost(self, usage: Usage) -> float | None:
        """Return what a call with this usage cost, in USD; None where that is not known.

        Shape of `usage`: docs/formats/session-log.md, `llm_response`. A count of cached tokens
        that is missing is none: who bills for a cache also says what it did.
        """
        prompt, written = usage.input_tokens, usage.output_tokens
        read, stored = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        if prompt is None or written is None or read + stored > prompt:
            return None
        rates = self.rates(prompt)
        kinds = [
            (prompt - read - stored, rates.input),
            (written, rates.output),
            (read, rates.cache_read),
            (stored, rates.cache_write),
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
    """A table of prices: those that somebody gives, before those that come with the package."""

    def __init__(self, own: Iterable[Price] = ()) -> None:
        """Put these prices first. The package's are read when one is asked for."""
        self.own = tuple(own)

    def price(self, model: str, day: date) -> Price | None:
        """Return the price of a model on a day (UTC); None where none is known.

        A dated snapshot (`...-20251101`) has the price of its model, unless it has one itself.
        """
        return _find(self.own, model, day) or _find(built_in(), model, day)

    def of_provider(self, provider: str, day: date) -> list[Price]:
        """Return the prices of a provider's models on a day, the newest first."""
        names = {one.model for one in [*self.own, *built_in()]}
        mine = [self.price(name, day) for name in sorted(names) if name.startswith(f"{provider}/")]
        known = [price for price in mine if price is not None and not price.model.endswith("*")]
        return sorted(known, key=lambda price: price.effective_from, reverse=True)

    def costs(self, provider: str, clock: Clock = system_clock) -> Cost:
        """Return what says the cost of a call of this provider that ended just now."""

        def cost(usage: Usage, model: str) -> float | None:
            day = datetime.fromtimestamp(clock() // 1_000_000, UTC).date()
            price = self.price(f"{provider}/{model}", day)
            return None if price is None else price.cost(usage)

        return cost


def _find(prices: Sequence[Price], model: str, day: date) -> Price | None:
    """Return the price in force: that of the name itself, else of its model, else of a pattern."""
    ranked = [
        (rank, price.effective_from, at, price)
        for at, price in enumerate(prices)
        if (rank := fits(price.model, model)) is not None and price.effective_from <= day
    ]
    return max(ranked, key=lambda one: one[:3])[3] if ranked else None


def fits(pattern: str, model: str) -> int | None:
    """Return how well a pattern fits a model's name, higher is better; None: not at all.

    A pattern is a name, also for dated snapshots of it, or the beginning of names and a `*`.
    """
    if pattern == model:
        return 1_000_001
    if pattern == _SNAPSHOT.sub("", model):
        return 1_000_000
    return len(pattern) if pattern.endswith("*") and model.startswith(pattern[:-1]) else None


class _List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices that were read at one place."""

    source: str
    read: date
    prices: list[Price]


@cache
def built_in() -> tuple[Price, ...]:
    """Return the prices that come with the package; the file is read once."""
    text = Path(__file__).with_name("prices.toml").read_text("utf-8")
    lists = msgspec.convert(tomllib.loads(text)["list"], list[_List])
    return tuple(
        msgspec.structs.replace(price, source=one.source, read=one.read)
        for one in lists
        for price in one.prices
    )
