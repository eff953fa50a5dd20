"""The hook that says how much of a budget is used, and denies what is expensive near its end."""

from pathlib import Path
from typing import Any

import pytest

from harken import Budget
from harken.agents.budget import spent_by
from tests.agent_kit import call, call_message, check_log, open_stage, script_model
from tests.unit.agents.built_in.built_in import (
    change,
    comments,
    denials,
    hooked,
    look,
    put,
    resumed,
)
from tests.unit.agents.test_budget import costing

NAME = "budget-guard"


def costly(count: int, tokens: int = 100, start: int = 0, **more: Any) -> list[Any]:
    return [
        costing(call_message(call("look", f"l{n}")), tokens=tokens, **more)
        for n in range(start, start + count)
    ]


def test_each_share_is_said_once(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": [*costly(10), "Done."]}, tokens=1000)
    one.ask("Go.")
    every = "tokens are used by main and everybody below it"
    assert comments(one, NAME) == [
        f"50 % of 1,000 {every}. Be sparing.",
        f"80 % of 1,000 {every}. Be sparing.",
        f"100 % of 1,000 {every}. Come to an end: say what is done, and what is not.",
    ]
    check_log(one.log)


@pytest.mark.parametrize(
    ("options", "cost", "says"),
    [
        ({"cost_usd": 0.5}, {"usd": 0.3}, "60 % of 0.5 USD are used by main"),
        ({"model_calls": 2}, {}, "50 % of 2 model calls are used by main"),
        ({"tokens": 1000, "comment_at": [0.1]}, {}, "10 % of 1,000 tokens are used by main"),
    ],
)
def test_costs_and_calls_count_as_tokens_do(
    tmp_path: Path, options: dict[str, Any], cost: dict[str, Any], says: str
) -> None:
    one = hooked(tmp_path, NAME, {"main": [*costly(1, **cost), "Done."]}, **options)
    one.ask("Go.")
    [said] = comments(one, NAME)
    assert said.startswith(says)


def test_the_budgets_of_the_agent_and_of_those_above_count(tmp_path: Path) -> None:
    asks = costing(call_message(call("task", "t", name="Ann", prompt="Go.")), tokens=100)
    model = script_model(main=[asks, "Done."], Ann=[*costly(4), "Seen."])
    one = open_stage(tmp_path, model, tools=[look], budget=Budget(tokens=1000))
    put(one, NAME)
    one.ask("Go.")
    [said] = comments(one, NAME, "Ann")
    assert said.startswith("50 % of 1,000 tokens are used by main and everybody below it.")
    assert len(comments(one, NAME)) == 1


@pytest.mark.req("S4-29")
def test_a_copy_guards_the_limit_of_the_agent_above(tmp_path: Path) -> None:
    asks = costing(call_message(call("task", "t", name="Ann", prompt="Go.")), tokens=600)
    parts: dict[str, Any] = {"main": [asks, "Done."], "Ann": [*costly(3), "Seen."]}
    one = hooked(tmp_path, NAME, parts, tokens=1000)
    one.ask("Go.")
    said = comments(one, NAME, "Ann")
    assert [text[:4] for text in said] == ["60 %", "80 %"]
    assert all("used by main and everybody below it" in text for text in said)


def test_what_is_expensive_is_denied_near_the_end_and_only_that(tmp_path: Path) -> None:
    task = costing(
        call_message(call("task", "t", name="Ann"), call("change", "c", what="x")), tokens=20
    )
    lines = [*costly(9), task, "Done."]
    one = hooked(tmp_path, NAME, {"main": lines}, tokens=1000)
    one.ask("Go.")
    assert denials(one, NAME) == [
        "92 % of 1,000 tokens are used by main and everybody below it: no task with what is left"
    ]
    assert one.result("c")["content"] == "changed x"
    assert one.root.subagents == {}


def test_who_wants_it_has_other_things_denied_or_nothing(tmp_path: Path) -> None:
    acts = call_message(call("task", "t", name="Ann"), call("change", "c", what="x"))
    for folder, options, denied in (
        ("a", {"expensive": ["ch*"]}, "c"),
        ("b", {"deny_at": None}, ""),
        ("c", {"expensive": []}, ""),
    ):
        (tmp_path / folder).mkdir()
        parts: dict[str, Any] = {"main": [*costly(10), acts, "Done."]}
        one = hooked(tmp_path / folder, NAME, parts, tokens=1000, **options)
        one.ask("Go.")
        failed = [row["tool_call_id"] for row in one.select_lines(role="tool") if "is_error" in row]
        assert failed == ([denied] if denied else [])


@pytest.mark.req("S4-27")
def test_a_resume_repeats_nothing_and_misses_nothing(tmp_path: Path) -> None:
    turns = [one for n in range(9) for one in (*costly(1, start=n), "Well.")]
    one = hooked(tmp_path, NAME, {"main": turns}, tokens=1000)
    for _ in range(9):
        one.ask("Go on.")
        one = resumed(one)
    assert [text[:4] for text in comments(one, NAME)] == ["50 %", "80 %"]


def test_a_higher_limit_is_reached_anew(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path,
        script_model(main=[*costly(6), "Done.", *costly(6, start=6), "Done."]),
        tools=[look, change],
        budget=Budget(tokens=1000),
    )
    put(one, NAME, comment_at=[0.5])
    one.ask("Go.")
    assert len(comments(one, NAME)) == 1
    one.ask("Go on.")
    assert len(comments(one, NAME)) == 1


def test_what_was_spent_is_counted_as_the_log_grows_and_anew_after_a_move(tmp_path: Path) -> None:
    asks = costing(call_message(call("task", "t", name="Ann", prompt="Go.")), tokens=50, usd=0.5)
    parts: dict[str, Any] = {
        "main": [asks, "Done.", "Bye."],
        "Ann": [*costly(2, usd=0.25), "Seen."],
    }
    one = hooked(tmp_path, NAME, parts)
    ann = spent_by(one.session, one.root.agent_id)
    assert (ann.tokens, ann.model_calls) == (0, 0)
    one.ask("Go.")
    for _ in range(2):
        total = spent_by(one.session, one.root.agent_id)
        below = spent_by(one.session, one.root.subagents["Ann"].agent_id)
        assert (total.tokens, total.model_calls, total.cost_usd) == (250, 5, 1.0)
        assert (below.tokens, below.model_calls, below.cost_usd) == (200, 3, 0.5)
        one = resumed(one)
    from harken.agents.tree.actions import end_subtree

    end_subtree(one.session, one.root.subagents["Ann"].agent_id, one.root.state.birth)
    assert spent_by(one.session, one.root.agent_id).tokens == 250
