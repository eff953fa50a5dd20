"""Costs of calls: worked examples, and None if a cost is unknown."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, date, datetime

import msgspec
import pytest

from harken.core.events import Usage
from harken.llm.prices import LongPrompt, Price, Prices, load_built_in_prices
from harken.llm.providers import BUILT_IN

TODAY = date(2026, 11, 21)


def cost(model: str, counts: dict[str, int], day: date = TODAY) -> float | None:
    price = Prices().price(model, day)
    assert price is not None
    return price.cost(Usage(**counts))


@pytest.mark.parametrize(
    ("model", "counts", "usd"),
    [
        # 1,000 fresh tokens at $4, 500 of output at $20
        ("anthropic/claude-opus-5-5", {"input_tokens": 1000, "output_tokens": 500}, 0.014),
        # 12,000 of prompt: 1,000 fresh at $4, 9,000 read at $0.20, 2,000 written at $5; 100 at $20
        (
            "anthropic/claude-opus-5-5",
            {
                "input_tokens": 12_000,
                "output_tokens": 100,
                "cache_read_tokens": 9_000,
                "cache_write_tokens": 2_000,
            },
            0.004 + 0.0018 + 0.01 + 0.002,
        ),
        # 100,000 is short: $0.10 and $0.50
        ("anthropic/claude-haiku-5-5", {"input_tokens": 100_000, "output_tokens": 0}, 0.01),
        # One token more is long, also for the output: $0.50 and $2.50
        (
            "anthropic/claude-haiku-5-5",
            {"input_tokens": 100_001, "output_tokens": 1000},
            0.0500005 + 0.0025,
        ),
        # Cached tokens count for the length: 100,001 of prompt, all but one read at $0.05
        (
            "anthropic/claude-haiku-5-5",
            {"input_tokens": 100_001, "output_tokens": 0, "cache_read_tokens": 100_000},
            0.005 + 0.0000005,
        ),
        # 4,096 of 5,000 read at $0.10, 904 at $2, 200 at $10
        (
            "openai/gpt-6.2-sol",
            {"input_tokens": 5000, "output_tokens": 200, "cache_read_tokens": 4096},
            0.0004096 + 0.001808 + 0.002,
        ),
        # 272,000 is short, at $2; 272,001 long, at $4
        ("openai/gpt-6.2-sol", {"input_tokens": 272_000, "output_tokens": 0}, 0.544),
        ("openai/gpt-6.2-sol", {"input_tokens": 272_001, "output_tokens": 0}, 1.088004),
        # xAI: a prompt that reaches 200,000 is long
        ("xai/grok-4.7", {"input_tokens": 199_999, "output_tokens": 0}, 0.399998),
        ("xai/grok-4.7", {"input_tokens": 200_000, "output_tokens": 0}, 0.8),
        ("gemini/gemini-3.8-flash", {"input_tokens": 0, "output_tokens": 0}, 0.0),
    ],
)
def test_cost_is_computed_from_tokens(model: str, counts: dict[str, int], usd: float) -> None:
    assert cost(model, counts) == pytest.approx(usd, rel=1e-12, abs=1e-15)


def test_price_is_that_of_the_day_of_the_call() -> None:
    def read_from_cache(day: date) -> float | None:
        counts = {"input_tokens": 1_000_000, "output_tokens": 0, "cache_read_tokens": 1_000_000}
        return cost("anthropic/claude-sonnet-5-5", counts, day)

    assert read_from_cache(date(2026, 9, 28)) == pytest.approx(0.20)
    assert read_from_cache(date(2026, 10, 6)) == pytest.approx(0.20)
    assert read_from_cache(date(2026, 10, 7)) == pytest.approx(0.10)
    assert read_from_cache(date(2036, 1, 1)) == pytest.approx(0.10)
    assert Prices().price("anthropic/claude-sonnet-5-5", date(2026, 9, 27)) is None


def cost_at(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


def test_day_starts_at_midnight_utc() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    last = Prices().costs("gemini", lambda: cost_at(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)))
    first = Prices().costs("gemini", lambda: cost_at(datetime(2027, 1, 1, tzinfo=UTC)))
    assert last(usage, "gemini-3.8-flash") == pytest.approx(0.75)
    assert first(usage, "gemini-3.8-flash") == pytest.approx(1.50)


@pytest.mark.parametrize(
    "counts",
    [
        {},
        {"input_tokens": 5},
        {"output_tokens": 5},
        {
            "input_tokens": 5,
            "output_tokens": 5,
            "cache_read_tokens": 6,
        },  # More cached tokens than input.
    ],
)
def test_unknown_count_leaves_the_cost_unknown(counts: dict[str, int]) -> None:
    assert cost("anthropic/claude-opus-5-5", counts) is None


def test_tokens_of_a_kind_without_a_rate_leave_the_cost_unknown() -> None:
    model = "gemini/gemini-3.1-pro-preview"  # The source has no cache price.
    counts = {"input_tokens": 1000, "output_tokens": 0}
    assert cost(model, counts) == pytest.approx(0.002)
    assert cost(model, {**counts, "cache_read_tokens": 0}) is not None
    assert cost(model, {**counts, "cache_read_tokens": 1}) is None


@pytest.mark.parametrize(
    "model",
    ["ollama/llama3.2", "anthropic/claude-opus-6", "openai/gpt-5-pro", "gpt-5", "scripted:x", ""],
)
def test_unknown_model_has_cost_none_and_not_zero(model: str) -> None:
    assert Prices().price(model, TODAY) is None
    provider, _, name = model.partition("/")
    assert Prices().costs(provider)(Usage(input_tokens=1, output_tokens=1), name) is None


@pytest.mark.parametrize("name", ["gpt-5-2025-08-07", "gpt-5"])
def test_dated_snapshot_has_the_price_of_its_model(name: str) -> None:
    price = Prices().price(f"openai/{name}", TODAY)
    assert price is not None
    assert price.model == "openai/gpt-5"


def test_snapshot_may_have_its_own_price() -> None:
    prices = [Price(model="x/m", input=1, output=1), Price(model="x/m-20260101", input=2, output=2)]
    price = Prices(prices).price("x/m-20260101", TODAY)
    assert price is prices[1]
    assert Prices(prices).price("x/m-20260202", TODAY) is prices[0]
    assert Prices(prices).price("x/m-2026", TODAY) is None


def test_custom_prices_override_those_of_the_package() -> None:
    cheap = Price(model="anthropic/claude-opus-5-5", input=1, output=1)
    assert Prices([cheap]).price("anthropic/claude-opus-5-5", TODAY) is cheap
    assert Prices([cheap]).price("anthropic/claude-opus-5-5-20260922", TODAY) is cheap
    assert Prices([cheap]).price("anthropic/claude-opus-5", TODAY) is not None


def test_longest_matching_pattern_sets_the_price() -> None:
    custom = [
        Price(model="ollama/*", input=0, output=0),
        Price(model="ollama/big*", input=1, output=1),
        Price(model="ollama/big-one", input=2, output=2),
    ]
    result = [
        Prices(custom).price(f"ollama/{name}", TODAY) for name in ("llama", "bigger", "big-one")
    ]
    assert result == custom
    assert Prices(custom).costs("ollama")(Usage(input_tokens=5, output_tokens=5), "llama") == 0


def test_price_in_force_on_the_day_is_used() -> None:
    custom = [
        Price(model="x/m", input=2, output=2, effective_from=date(2026, 2, 1)),
        Price(model="x/m", input=1, output=1, effective_from=date(2026, 1, 1)),
    ]
    days = [date(2025, 12, 31), date(2026, 1, 31), date(2026, 2, 1)]
    result = [Prices(custom).price("x/m", day) for day in days]
    assert result == [None, custom[1], custom[0]]


def test_provider_lists_its_models_newest_first() -> None:
    names = [price.model for price in Prices().list_prices("anthropic", TODAY)]
    assert names[0] == "anthropic/claude-haiku-5-5"
    assert names.index("anthropic/claude-sonnet-5-5") < names.index("anthropic/claude-opus-4-5")
    assert len(names) == len(set(names))
    assert Prices([Price(model="x/*", input=0, output=0)]).list_prices("x", TODAY) == []


@pytest.mark.parametrize(
    "price", load_built_in_prices(), ids=lambda price: f"{price.model}@{price.effective_from}"
)
def test_each_price_has_a_source_a_day_and_plausible_rates(price: Price) -> None:
    assert price.source.startswith("https://")
    assert price.read is not None
    assert price.effective_from >= date(2025, 1, 1)
    assert price.model.partition("/")[0] in BUILT_IN
    assert 0 < price.input < price.output
    assert price.cache_read is None or 0 < price.cache_read < price.input
    assert price.cache_write is None or price.input < price.cache_write <= 2 * price.input
    if isinstance(long := price.long_prompt, LongPrompt):
        assert long.input > price.input
        assert long.output > price.output
        assert (long.cache_read is None) == (price.cache_read is None)
        assert (long.cache_write is None) == (price.cache_write is None)


def test_prices_are_unique() -> None:
    days = [(price.model, price.effective_from) for price in load_built_in_prices()]
    assert len(days) == len(set(days))


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf"), "2", True, 1e9])
def test_rate_is_a_number_of_dollars(rate: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"input": rate, "output": 1}, Price)


def test_price_table_is_loaded_lazily_and_fast() -> None:
    code = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda name, a: opened.append(str(a[0])) if name == 'open' else None)\n"
        "from harken.llm.prices import Prices; Prices()\n"
        "sys.exit(any(name.endswith('prices.toml') for name in opened))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    start_s = time.perf_counter()
    load_built_in_prices.cache_clear()
    assert load_built_in_prices()
    assert time.perf_counter() - start_s < 5


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("anthropic/claude-opus-4-20250514", 15),
        ("anthropic/claude-opus-4-1-20250805", 15),
        ("anthropic/claude-sonnet-4-20250514", 3),
        ("openai/gpt-5-codex", 1.25),
        ("openai/gpt-5.3-codex", 1.75),
    ],
)
def test_models_of_older_sessions_have_a_price(name: str, rate: float) -> None:
    price = Prices().price(name, TODAY)
    assert price is not None
    assert price.input == rate


def test_model_without_published_price_has_none() -> None:
    assert Prices().price("openai/gpt-5.3-codex-spark", TODAY) is None
