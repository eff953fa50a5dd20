"""How much models read at once: dated data with a source, and nothing that is guessed."""

from __future__ import annotations

from harken.llm.context_windows import ContextWindows, load_built_in_windows
from harken.llm.prices import load_built_in_prices as prices


def test_known_models_have_a_window_and_so_have_their_snapshots() -> None:
    windows = ContextWindows()
    assert windows.tokens("anthropic/claude-opus-5-5") == 1_000_000
    assert windows.tokens("anthropic/claude-opus-4-5-20251101") == 200_000
    assert windows.tokens("openai/gpt-5-mini") == 272_000


def test_what_is_not_in_the_table_is_not_known() -> None:
    for name in ("ollama/llama3.2", "scripted:x.yaml", "anthropic/claude-opus-9", ""):
        assert ContextWindows().tokens(name) is None


def test_what_a_person_says_comes_first() -> None:
    windows = ContextWindows({"ollama/*": 8192, "ollama/big": 131_072, "openai/gpt-5": 1000})
    assert windows.tokens("ollama/llama3.2") == 8192
    assert windows.tokens("ollama/big") == 131_072
    assert windows.tokens("openai/gpt-5") == 1000


def test_every_model_in_the_table_is_one_that_is_priced() -> None:
    """So a slip in a name is found."""
    priced = {price.model for price in prices()}
    assert set(load_built_in_windows()) - priced == {"gemini/gemini-3-flash-preview"}
