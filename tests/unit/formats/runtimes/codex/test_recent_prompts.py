"""A compaction of the first versions of Codex keeps the latest prompts, up to 20,000 tokens."""

from __future__ import annotations

import pytest

from harken.formats.runtimes.codex.resume_request import RecentPrompts, truncate_middle

LIMIT_BYTES = 20_000 * 4


def latest(*prompts: str) -> list[str]:
    recent = RecentPrompts()
    for prompt in prompts:
        recent.add(prompt)
    assert RecentPrompts.from_texts(recent.texts()).latest() == recent.latest()
    return recent.latest()


def test_short_prompts_are_all_kept_in_order() -> None:
    assert latest() == []
    assert latest("one", "two", "three") == ["one", "two", "three"]


@pytest.mark.parametrize("excess", [0, 1])
def test_prompt_that_does_not_fit_is_truncated_in_its_middle(excess: int) -> None:
    last = "x" * (LIMIT_BYTES - 400)
    first = "y" * (400 + excess)
    prompts = latest("z", first, last)
    if excess:
        assert prompts == [truncate_middle(first, 400, unit="tokens"), last]
        assert "tokens truncated" in prompts[0]
    else:
        assert prompts == [first, last]


def test_prompt_larger_than_the_limit_is_the_only_one() -> None:
    [prompt] = latest("one", "x" * (LIMIT_BYTES + 4))
    assert prompt.startswith("x")
    assert "truncated" in prompt


def test_old_prompts_that_no_compaction_can_use_are_dropped() -> None:
    recent = RecentPrompts()
    for number in range(100):
        recent.add(f"{number:02}" + "x" * 9998)
    texts = recent.texts()
    assert texts[-1].startswith("99")
    assert 2 * LIMIT_BYTES < sum(map(len, texts)) <= 2 * LIMIT_BYTES + 10_000


def test_forgotten_prompts_count_no_longer() -> None:
    recent = RecentPrompts()
    for prompt in ("one", "x" * LIMIT_BYTES, "é" * 10):
        recent.add(prompt)
    recent.forget(2)
    assert recent.texts() == recent.latest() == ["one"]
    for number in range(15):
        recent.add(f"{number:02}" + "x" * 9998)
    assert recent.texts()[0] == "one", "the forgotten bytes make no room necessary"


def test_lone_surrogates_are_replaced() -> None:
    assert latest("\ud800a") == ["?a"]
