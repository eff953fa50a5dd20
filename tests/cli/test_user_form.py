"""What is typed after a command becomes the arguments of an action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.agents.action_schemas import ACTIONS
from harken.chat.commands.arguments import ActionForm, split_named_arguments, split_positional
from harken.world.result import InvalidArguments


def arguments(action: str, typed: str) -> dict[str, object]:
    found = ActionForm.of(ACTIONS[action]).arguments(typed)
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("action", "typed", "expected"),
    [
        ("task", "Ann", {"name": "Ann"}),
        ("task", "Ann You don't know.", {"name": "Ann", "instructions": "You don't know."}),
        (
            "task",
            'Ann tools=read,glob You are Ann. prompt="Tea or \\"coffee\\"?"',
            {
                "name": "Ann",
                "tools": ["read", "glob"],
                "instructions": "You are Ann.",
                "prompt": 'Tea or "coffee"?',
            },
        ),
        ("task", '"Ann B" instructions=x', {"name": "Ann B", "instructions": "x"}),
        (
            "discuss",
            "Tea or coffee? speakers=Ann,Bob",
            {
                "prompt": "Tea or coffee?",
                "speakers": ["Ann", "Bob"],
                "rounds": 1,
                "order": "given",
            },
        ),
        (
            "discuss",
            'Tea? rounds=3 until="we agree" order=moderator:Eve',
            {"prompt": "Tea?", "rounds": 3, "until": "we agree", "order": "moderator:Eve"},
        ),
        ("discuss", "", {"rounds": 1, "order": "given"}),
        (
            "endo",
            "Ann Go on. points=response",
            {"subagent": "Ann", "prompt": "Go on.", "points": ["response"]},
        ),
        ("terminate", " Ann ", {"name": "Ann"}),
        ("talk_with", "editor/critic", {"name": "editor/critic"}),
    ],
)
def test_words_stand_in_order_and_named_ones_anywhere(
    action: str, typed: str, expected: dict[str, object]
) -> None:
    assert arguments(action, typed) == expected


@pytest.mark.parametrize(
    ("action", "typed", "why"),
    [
        ("task", "", "name missing; usage: NAME"),
        ("meta", "now", "too many arguments; usage: none"),
        ("endo", "Ann x points=sideways", "points"),
    ],
)
def test_what_does_not_fit_is_said(action: str, typed: str, why: str) -> None:
    with pytest.raises(InvalidArguments, match=why):
        arguments(action, typed)


def test_how_each_action_is_typed_fits_on_a_line() -> None:
    for action in ACTIONS.values():
        assert len(ActionForm.of(action).usage) < 80


@given(st.text(max_size=40), st.integers(min_value=0, max_value=4))
def test_nothing_that_is_typed_breaks_the_form(typed: str, most: int) -> None:
    assert len(split_positional(typed, most)) <= most
    given_, rest = split_named_arguments(["tools", "prompt"], typed)
    assert set(given_) <= {"tools", "prompt"}
    assert len(rest) <= len(typed)
