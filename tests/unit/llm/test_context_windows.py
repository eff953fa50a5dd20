"""Context windows of models: dated data with sources and no guesses."""

from __future__ import annotations

from harken.llm.context_windows import ContextWindows, load_built_in_windows
from harken.llm.prices import load_built_in_prices as prices


def test_known_models_and_their_snapshots_have_a_window() -> None:
    windows = ContextWindows()
    assert windows.tokens("anthropic/claude-opus-5-5") == 1_000_000
    assert windows.tokens("anthropic/claude-opus-4-5-20251101") == 200_000
    assert windows.tokens("openai/gpt-5-mini") == 272_000


def test_unknown_model_has_no_window() -> None:
    for name in ("ollama/llama3.2", "scripted:x.yaml", "anthropic/claude-opus-9", ""):
        assert ContextWindows().tokens(name) is None


def test_configured_window_takes_precedence() -> None:
    windows = ContextWindows({"ollama/*": 8192, "ollama/big": 131_072, "openai/gpt-5": 1000})
    assert windows.tokens("ollama/llama3.2") == 8192
    assert windows.tokens("ollama/big") == 131_072
    assert windows.tokens("openai/gpt-5") == 1000


def test_each_model_in_the_table_has_a_price() -> None:
    """This finds misspelled names."""
    priced = {price.model for price in prices()}
    assert set(load_built_in_windows()) - priced == {"gemini/gemini-3-flash-preview"}
